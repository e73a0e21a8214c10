"""The page itself: text, tables, charts, films and the library that draws them, in one file."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from geodesic.analysis.measures import WINDOW
from geodesic.analysis.statistics import Row, summarise
from geodesic.checks import as_path
from geodesic.errors import GeodesicError, MissingExtra, RunFailed, told
from geodesic.records.files import write_atomically
from geodesic.records.reader import RunResult, by_label, load_comparison, load_run
from geodesic.report.exports import table_csv
from geodesic.report.page import parts
from geodesic.report.scene import scene_of, task_of
from geodesic.tasks.task import Task

PAGE = "report.html"


def write_report(
    folder: str | Path,
    task: Task | None = None,
    film: bool = True,
    figures: Callable[[], object] = lambda: None,
) -> Path:
    """The page of the run or the comparison in this folder, as report.html in it; without a task, the one it names.

    film: whether each method's first agent is filmed, where its task can be rendered. figures: is called before those
    beside the page are listed, and may wait until they are drawn.
    """
    path = as_path(folder)
    runs = [load_run(path)] if (path / "config.json").exists() else load_comparison(path)
    text = page(path, runs, task, film, figures).encode()
    write_atomically(path / PAGE, lambda file: file.write(text))
    return path / PAGE


def page(folder: Path, runs: Sequence[RunResult], task: Task | None, film: bool, figures: Callable[[], object]) -> str:
    """The page as text."""
    bundle = _bundle()
    from geodesic.report.page import data
    from geodesic.report.page.pictures import described, pictures

    known = _known(runs, task)
    reasons = data.reasons_of(runs)
    charts, bands = data.specs(runs, reasons)
    shown = [run for run in runs if run.curriculum]
    scene = scene_of(shown, known) if shown else None
    drawn = pictures(scene) if scene is not None else []
    labels = list(by_label(runs))
    rows = summarise(runs, runs[0].solved, "gradient")
    content: dict[str, Any] = {
        "labels": labels,
        "dashes": data.dashes(runs),
        "steps": runs[0].steps,
        "themes": data.themes(runs, reasons),
        "charts": charts,
        "bands": bands,
        "axes": data.views(runs),
        "window": WINDOW,
        "pictures": [described(picture) for picture in drawn],
        "curricula": {
            label: {str(run.seed): data.frames_of(run, drawn) for run in group if run.curriculum and drawn}
            for label, group in by_label(runs).items()
        },
        "table": table_csv(rows),
        "name": f"{runs[0].task}.csv",
    }
    filmed = _films(runs, known) if film else ""
    figures()
    return _whole(folder, runs, rows, content, bundle, filmed, parts.key_of(scene), reasons)


def _whole(
    folder: Path,
    runs: Sequence[RunResult],
    rows: Sequence[Row],
    content: dict[str, Any],
    bundle: str,
    filmed: str,
    key: str,
    reasons: Sequence[str],
) -> str:
    labels, themes = content["labels"], content["themes"]
    sections = [
        parts.summary(rows),
        parts.learning(content["axes"], len(labels), _near(runs), "training" in content["charts"]),
        parts.curriculum(content["curricula"], len(content["pictures"]), key),
        filmed,
        parts.timelines(labels, reasons, themes["light"]),
        parts.details(folder, runs),
    ]
    here = files("geodesic.report.page")
    return Template((here / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{runs[0].task}: {', '.join(labels)}"),
        head=parts.head(folder, runs),
        legend=parts.legend(runs, content["dashes"]),
        sections="\n".join(section for section in sections if section),
        style=(here / "page.css").read_text(encoding="utf-8"),
        script=(here / "page.js").read_text(encoding="utf-8"),
        data=json.dumps(content, separators=(",", ":"), allow_nan=False, default=float).replace("<", "\\u003c"),
        bundle=bundle.replace("</script", "<\\/script"),
    )


def _near(runs: Sequence[RunResult]) -> bool:
    """Whether evaluations come at least half of the way to the level that counts as solved."""
    scores = np.concatenate([np.zeros(0), *(run.evaluations.scores for run in runs)])
    known = scores[np.isfinite(scores)]
    return not len(known) or bool(known.max() >= (known.min() + runs[0].solved) / 2)


def _films(runs: Sequence[RunResult], task: Task | None) -> str:
    if task is None:
        return parts.films({}, f"{runs[0].task} was an object that only its owner has")
    from geodesic.report.page.film import films

    found, why = films(list(runs), task)
    pictures = {
        label: ("data:image/gif;base64," + base64.b64encode(film.content).decode(), film.caption)
        for label, film in found.items()
    }
    return parts.films(pictures, why)


def _known(runs: Sequence[RunResult], task: Task | None) -> Task | None:
    """The task, where it can be found."""
    try:
        return task if task is not None else task_of(runs[0])
    except GeodesicError:
        return None


def check_extra() -> None:
    """Before any work: whether what draws the page is there."""
    if not all(map(find_spec, ("altair", "vl_convert"))):
        raise MissingExtra("altair", "report")


def _bundle() -> str:
    """Vega, Vega-Lite and vega-embed, as the library that made the charts expects them."""
    check_extra()
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    try:
        text: str = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]
    except RuntimeError as error:  # each of its releases has the Vega-Lite of its day
        raise RunFailed(
            f"expected vl-convert-python to have Vega-Lite {version}, which altair writes, got {told(error)}; "
            "try pip install --upgrade vl-convert-python"
        ) from error
    return text
