"""One page for a run or a comparison: text, tables, charts, films and the library that draws them, in one file."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from geodesic.analysis.statistics import drawn_window, summarise
from geodesic.analysis.verdict import verdict_of
from geodesic.checks import as_path
from geodesic.errors import GeodesicError, InvalidInput, MissingExtra, RunWarning, format_error
from geodesic.records.files import clear_leftovers, write_atomically
from geodesic.records.origin import check_origin
from geodesic.records.reader import RunResult, by_label, load_comparison, load_run
from geodesic.report.curves import FEW_BANDS, STATISTICS, LearningCurves, Statistic, columns_of
from geodesic.report.page import charts, story
from geodesic.report.scene import scene_of, task_of
from geodesic.report.style import DARK, goal_key, styles_of
from geodesic.report.tables import COLUMNS, SHORT, notes, table_cells, table_csv
from geodesic.report.text import smoothing
from geodesic.runs.helper import Helper
from geodesic.tasks.task import Task

if TYPE_CHECKING:
    from geodesic.report.page.film import Film

PAGE = "report.html"
LIGHT_THEME = {
    "page": "#ffffff", "ink": "#1d2026", "faint": "#b4b8c0", "wall": "#3a3a45", "goal": "#f0e442",
    "heat0": "#f3f7fb", "heat1": "#08519c", "onbar": "#101010",
}  # fmt: skip
DARK_THEME = {
    "page": "#14171c", "ink": "#e6e8eb", "faint": "#5a606b", "wall": "#9a9fab", "goal": "#f0e442",
    "heat0": "#1b2230", "heat1": "#8fd0ff", "onbar": "#101010",
}  # fmt: skip
REASONS = {
    "mastered": "#2fb58c", "step cap": "#f0a830", story.EXPLORED: "#a8adb8", story.END: "#6bbcf0",
    story.RUNNING: "#e8dc5a",
}  # fmt: skip
OTHERS_FROM = 1.5  # a method's own reasons are between "step cap" and the exploring stages
OTHER_REASONS = ("#d993ba", "#8fa8ff", "#c0b070", "#d98f6c")


def write_report(
    folder: str | Path,
    task: Task | None = None,
    film: bool = True,
    figures: Callable[[], object] = lambda: None,
    trust: bool = False,
) -> Path:
    """Write the page of a run or a comparison into its folder.

    Args:
        folder: The folder of the run or the comparison.
        task: The task; by default the one that the runs name.
        film: Whether to film the first agent of each method, if the task can be rendered.
        figures: Called before the page lists the figures in the folder; it may wait until they are drawn.
        trust: Whether code that the runs name may be run although this user did not write them; otherwise a warning
            says that the page is made without what it draws.

    Returns:
        The path of the page, report.html in the folder.

    Raises:
        MissingExtra: If a library of the extra `report` is not installed.
        InvalidInput: If there are no runs in the folder, or the task does not fit them.
    """
    check_extra()
    path = as_path(folder)
    runs = [load_run(path)] if (path / "config.json").exists() else load_comparison(path)
    if task is None:
        _warn_of_code(runs[0], trust)
    data, words = _page(runs, task, trust)
    if film:
        words["films"], words["no_film"] = _films(runs, task, path, trust)
    figures()
    drawn = sorted(file.name for file in (path / "figures").glob("*.*") if not file.name.startswith("."))
    text = render(
        "page",
        **data | words,
        bundle=_bundle().replace("</script", "<\\/script"),  # Vega, Vega-Lite and vega-embed, which draw the charts
        runs=runs,
        verdict=verdict_of(runs),
        story=story,
        commands=story.commands(path, runs),
        figures=drawn,
        data=json.dumps(data, separators=(",", ":"), allow_nan=False, default=float).replace("<", "\\u003c"),
    )
    clear_leftovers(path, PAGE)
    write_atomically(path / PAGE, lambda file: file.write(text.encode()))
    return path / PAGE


def _warn_of_code(run: RunResult, trust: bool) -> None:
    """Say so if a page is made without the task, which is somebody else's code."""
    try:
        check_origin(run.folder / "config.json", run.config, trust, fields=("task",))
    except InvalidInput as error:
        warnings.warn(f"no walls, goals and films: {error}", RunWarning, stacklevel=3)


def _page(runs: Sequence[RunResult], task: Task | None, trust: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the page's script reads, and what its template does."""
    groups = by_label(runs)
    reasons = reasons_of(runs)
    columns = columns_of(runs)
    views = {
        f"{statistic} {column}": LearningCurves.of(runs, statistic, column)
        for column in columns
        for statistic in get_args(Statistic)
    }
    staged = [run for run in runs if run.curriculum]
    scene = scene_of(staged, task, trust) if staged else None
    panels = charts.page_panels(scene) if scene is not None else []
    rows = summarise(runs, runs[0].solved)
    header, *lines = table_cells(rows)
    mixtures = [charts.mixture(group) for group in groups.values()]
    distances = [charts.distances(group) for group in groups.values()]
    data = {
        "labels": list(groups),
        "dashes": charts.dashes(runs),
        "steps": runs[0].steps,
        "themes": themes(runs, reasons),
        "views": {view: _described(view, curves) for view, curves in views.items()},
        "smoothing": smoothing(drawn_window(runs)),
        "curves": charts.curve_table(views),
        "seed_curves": charts.seed_table(runs, columns),
        "finals": charts.finals(runs),
        "solved": runs[0].solved if np.isfinite(runs[0].solved) else None,
        "level": f"solved above {runs[0].solved:g}" if np.isfinite(runs[0].solved) else "",
        "reasons": reasons,
        "timelines": [charts.timeline(group) for group in groups.values()] if reasons else [],
        "mixtures": mixtures,
        "distances": distances,
        "panels": [charts.background(panel) for panel in panels],
        "curricula": {
            label: {run.seed: charts.frames(run, panels) for run in group if run.curriculum}
            for label, group in groups.items()
        },
        "table": table_csv(rows),
        "name": f"{runs[0].task}.csv",
    }
    words = {
        "training": charts.training(runs[0]) if len(runs) == 1 else "",
        "staged": staged,
        "run_rows": [story.run_row(run) for run in runs],
        "scene": scene,
        "stars": "" if scene is None else goal_key(scene.plot.goals, scene.plot.star),
        "header": [(name, COLUMNS[name], name in SHORT) for name in header],
        "rows": [story.summary_row(row, line) for row, line in zip(rows, lines)],
        "notes": notes(rows),
        "shown_bands": "one" if len(rows) > FEW_BANDS else "all",
        "near_level": _near_level(runs),
    }
    return data, words


def _described(view: str, curves: LearningCurves) -> dict[str, str]:
    name = f"{curves.axis.removesuffix(' on the target')}: {STATISTICS[view.split(' ')[0]][1]}"
    return {"name": name, "axis": curves.axis, "caption": curves.caption}


def themes(runs: Sequence[RunResult], reasons: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return every colour by its name, for a light and for a dark page.

    Args:
        runs: The runs; the k-th label's colour is ck.
        reasons: Why stages ended; the k-th reason's colour is rk.

    Returns:
        The themes "light" and "dark".
    """
    found = styles_of(runs)
    own = {f"c{k}": found[label].colour for k, label in enumerate(by_label(runs))}
    others = iter(OTHER_REASONS * len(reasons))
    bars = {f"r{k}": REASONS.get(reason) or next(others) for k, reason in enumerate(reasons)}
    bright = {name: DARK.get(colour, colour) for name, colour in own.items()}
    return {"light": {**LIGHT_THEME, **own, **bars}, "dark": {**DARK_THEME, **bright, **bars}}


def reasons_of(runs: Sequence[RunResult]) -> list[str]:
    """Return why stages ended, in the order of the legend: ours first, then a method's own, then ends of runs."""
    found = dict.fromkeys(reason for run in runs for reason in story.endings(run))
    places = {reason: place for place, reason in enumerate(REASONS)}
    return sorted(found, key=lambda reason: places.get(reason, OTHERS_FROM))


def _near_level(runs: Sequence[RunResult]) -> bool:
    """Whether evaluations come at least half of the way to the solved level; a farther one would flatten the curves."""
    scores = np.concatenate([np.zeros(0), *(run.evaluations.scores for run in runs)])
    known = scores[np.isfinite(scores)]
    return not len(known) or bool(known.max() >= (known.min() + runs[0].solved) / 2)


def _films(runs: Sequence[RunResult], task: Task | None, folder: Path, trust: bool) -> tuple[dict[str, Film], str]:
    """A film of each method's agent, and why some are missing."""
    from geodesic.report.page.film import films

    try:
        return films(list(runs), task_of(runs[0], trust) if task is None else task, folder, trust)
    except GeodesicError as error:
        return {}, format_error(error, 500)


def render(template: str, /, **words: Any) -> str:
    """Fill a template; everything is escaped unless the template says that it is safe.

    Args:
        template: The name of the template, without its ending; the page gets the script of the same name.
        **words: What the template reads.

    Returns:
        The page.
    """
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup, escape

    here = files("geodesic.report.page")
    parts = {"style": "page.css", "tables": "tables.js", "script": f"{template}.js"}
    texts = {part: (here / file).read_text(encoding="utf-8") for part, file in parts.items()}
    loader = PackageLoader("geodesic.report", "page")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True)
    # A long label may be broken after an option: gradient:metric=embedding:step=0.2.
    environment.filters["breakable"] = lambda text: escape(text).replace(":", Markup(":<wbr>"))
    return environment.get_template(f"{template}.html").render(**words, **texts)


@cache
def _bundle() -> str:
    """The library that draws the charts. V8, which puts it together, crashes where memory is short."""
    import vl_convert

    with Helper("preparing the charts", vl_convert.javascript_bundle, quiet=True) as bundle:
        return str(bundle.result())


def check_extra() -> None:
    """Check before any work that the libraries of the extra `report` are installed.

    Raises:
        MissingExtra: If one is not.
    """
    for name in ("jinja2", "vl_convert"):
        if not find_spec(name):
            raise MissingExtra(name, "report")
