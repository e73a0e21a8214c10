"""The page's sections as HTML. Whatever comes from a folder is escaped: it may be a stranger's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from geodesic.analysis.statistics import Row
from geodesic.records.reader import RunResult, by_label
from geodesic.report.curves import FEW_BANDS
from geodesic.report.page import story
from geodesic.report.scene import Scene
from geodesic.report.style import goal_key
from geodesic.report.tables import notes, table_cells

MANY_RUNS = 12  # their table is folded

Cell = tuple[str, object]  # what is shown, and what it is sorted by


def head(folder: Path, runs: Sequence[RunResult]) -> str:
    """What was run."""
    said = " ".join(story.words(runs))
    commands = [_copied(command, f"command-{k}") for k, command in enumerate(story.commands(folder, runs))]
    return f"<h1>{escape(runs[0].task)}</h1><p>{escape(said)}</p>{''.join(commands)}"


def legend(runs: Sequence[RunResult], dashes: Sequence[Sequence[float]]) -> str:
    """A box to tick for each method, and for each seed where there are several."""
    groups = by_label(runs)
    methods = [_method(place, label, dashes[place]) for place, label in enumerate(groups)]
    seeds = sorted({run.seed for run in runs})
    ticks = [f'<label class="chip"><input type="checkbox" checked data-seed="{seed}">{seed}</label>' for seed in seeds]
    rest = f'<fieldset class="seeds"><legend>Seeds</legend>{"".join(ticks)}</fieldset>' if len(seeds) > 1 else ""
    hint = '<span class="hint">Tick to show; point at one, or tab to it, to bring it forward.</span>'
    return f'<fieldset class="methods"><legend>Methods</legend>{"".join(methods)}{hint}</fieldset>{rest}'


def _method(place: int, label: str, dash: Sequence[float]) -> str:
    line = (
        f'<line x1="0" y1="6" x2="28" y2="6" stroke="currentColor" stroke-width="3" stroke-dasharray="{_words(dash)}"/>'
    )
    swatch = f'<svg class="swatch c{place}" width="28" height="12" aria-hidden="true">{line}</svg>'
    return f'<label class="chip"><input type="checkbox" checked data-method="{place}">{swatch}{escape(label)}</label>'


def _words(dash: Sequence[float]) -> str:
    return "none" if dash[-1] == 0 else " ".join(f"{part:g}" for part in dash)


def summary(rows: Sequence[Row]) -> str:
    header, *lines = table_cells(rows)
    cells = [list(zip(line, _values(row))) for row, line in zip(rows, lines)]
    told = "".join(f"<p class='note'>{escape(note)}</p>" for note in notes(rows))
    button = '<button type="button" id="download">Download the table (CSV)</button>'
    help_ = "<p class='note'>A heading sorts by its column; again, the other way round.</p>"
    return _section("summary", "Summary", _table(header, cells, "summary-table") + help_ + told + button)


def _values(row: Row) -> list[object]:
    """What each cell of the table is sorted by."""
    chances = [math.nan if chance is None else chance.value for chance in (row.faster, row.better)]
    times = (row.first_raw.value, row.first.value, row.time.value)
    return [
        row.label,
        row.finished,
        row.reached,
        *times,
        row.final_mean,
        row.final_iqm.value,
        row.final_success,
        *chances,
    ]


def learning(axes: Mapping[str, str], labels: int, near: bool, training: bool) -> str:
    """near: whether curves come near the level that counts as solved; else it would press them flat, and is hidden."""
    words = {"iqm": "interquartile mean", "mean": "mean"}
    choices = [
        f'<option value="{view}">{escape(axis.removesuffix(" on the target"))}: {words[view.split(" ")[0]]}</option>'
        for view, axis in axes.items()
    ]
    many = labels > FEW_BANDS
    bands = {"all": "of all", "one": "of the one in focus", "none": "none"}
    offered = [
        f'<option value="{name}"{" selected" * ((name == "one") == many and name != "none")}>{text}</option>'
        for name, text in bands.items()
    ]
    controls = (
        f'<div class="controls"><label>Show <select id="view">{"".join(choices)}</select></label>'
        f'<label>Bands <select id="bands">{"".join(offered)}</select></label>'
        '<label><input type="checkbox" id="points"> points before smoothing</label>'
        '<label><input type="checkbox" id="each"> each seed</label>'
        f'<label><input type="checkbox" id="level"{" checked" * near}> the level that counts as solved</label></div>'
    )
    more = '<h3>Training episodes</h3><div class="chart" id="training"></div>' if training else ""
    said = '<p class="note" id="band-note"></p>'
    return _section(
        "learning", "Learning curves", f'{controls}<div class="chart" id="learning-chart"></div>{said}{more}'
    )


def curriculum(curricula: Mapping[str, Mapping[str, Any]], pictures: int, key: str) -> str:
    """A panel for each method, one slider for all of them."""
    seeds = sorted({int(seed) for own in curricula.values() for seed in own})
    if not seeds or not pictures:
        return ""
    chosen = "".join(f'<option value="{seed}">{seed}</option>' for seed in seeds)
    places = '<div class="picture"></div>' * pictures
    panels = [
        f'<figure class="panel" data-method="{place}"><figcaption><b>{escape(label)}</b> <span class="now"></span>'
        f"</figcaption>{places}</figure>"
        for place, (label, own) in enumerate(curricula.items())
        if own
    ]
    controls = (
        '<div class="controls player"><button type="button" id="play" aria-pressed="false">Play</button>'
        '<input type="range" id="step" min="0" max="200" value="0" aria-label="environment step">'
        '<output id="step-now" for="step">step 0</output>'
        f'<label>Seed <select id="seed">{chosen}</select></label></div>'
    )
    note = f'<p class="note">{escape(key)}</p>'
    return _section("curriculum", "Curriculum", f'{controls}<div class="grid">{"".join(panels)}</div>{note}')


def key_of(scene: Scene | None) -> str:
    """What the marks of the curriculum's panels mean."""
    if scene is None:
        return ""
    drawing = scene.drawing
    told = ["What episodes are drawn from, step by step."]
    if scene.cells is not None:
        told.append("Shade: probability of a cell; dark cells are walls.")
    elif scene.dim == 1:
        told.append("Bars: share of the mass; outline: the target." if scene.target else "Bars: share of the mass.")
    else:
        told.append("Dots: contexts, larger where more mass is; crosses: the target.")
        told.append("Boxes: walls." if drawing.walls else "")
        told.append("Where atoms move on their own, colour tells their progress, from dark (source) to light (target).")
    if drawing.goals and scene.dim > 1:
        stars = goal_key(drawing.goals, drawing.star)
        told.append(f"{stars[:1].upper()}{stars[1:]}.")
    return " ".join(part for part in told if part)


def films(pictures: Mapping[str, tuple[str, str]], why: str) -> str:
    """A film of each method's agent; why there is none, else."""
    shown = [
        f'<figure class="film" data-label="{escape(label)}"><figcaption><b>{escape(label)}</b> {escape(caption)}'
        f'</figcaption><img src="{source}" alt="film of the agent of {escape(label)} on the target"></figure>'
        for label, (source, caption) in pictures.items()
    ]
    note = f"<p class='note'>{escape(why)}</p>" if why else ""
    stop = '<button type="button" id="pause" aria-pressed="false">Stop the films</button>' if shown else ""
    if not shown and not note:
        return ""
    said = (
        "<p class='note'>Each agent as it was last saved, one episode in a context of the target.</p>" if shown else ""
    )
    return _section("films", "Films", f'{stop}<div class="grid">{"".join(shown)}</div>{said}{note}')


def timelines(labels: Sequence[str], reasons: Sequence[str], colours: Mapping[str, str]) -> str:
    if not reasons:
        return ""
    key = "".join(
        f'<span class="reason"><i style="background:{colour}"></i>{escape(reason)}</span>'
        for colour, reason in zip((colours[f"r{k}"] for k in range(len(reasons))), reasons)
    )
    charts = "".join(
        f'<figure data-method="{place}"><figcaption><b>{escape(label)}</b></figcaption>'
        f'<div class="chart" id="timeline-{place}"></div></figure>'
        for place, label in enumerate(labels)
    )
    note = "<p class='note'>A bar is a stage; its colour tells why it ended, its α how far it was on the way.</p>"
    return _section("stages", "Stages", f'<p>{key}</p><div class="grid wide">{charts}</div>{note}')


def details(folder: Path, runs: Sequence[RunResult]) -> str:
    """Each run in a line, configurations, versions and the figures beside the page."""
    table = _table(story.RUN_COLUMNS, story.run_rows(runs), "run-table")
    if len(runs) > MANY_RUNS:
        table = _folded(f"Each of the {len(runs)} runs", table)
    shared, own = _configurations(runs)
    differing = "".join(_folded(label, _json(values)) for label, values in own.items() if values)
    versions = runs[0].config.get("versions")
    said = "".join(f"<tr><th scope='row'>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in _items(versions))
    drawn = sorted(path.name for path in (folder / "figures").glob("*.*") if not path.name.startswith("."))
    links = ", ".join(f'<a href="figures/{escape(name)}">{escape(name)}</a>' for name in drawn)
    parts = [
        table,
        _folded("Configuration that all runs share", _json(shared)),
        differing,
        _folded("Versions", f"<table class='plain'><tbody>{said}</tbody></table>") if said else "",
        f"<p>Figures beside this page: {links}</p>" if links else "",
    ]
    return _section("details", "Details", "".join(parts))


def _configurations(runs: Sequence[RunResult]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What all runs have in common, and what else each label has."""
    first = {label: group[0].config for label, group in by_label(runs).items()}
    every = [run.config for run in runs]
    names = [name for name in every[0] if name != "versions"]
    same = {name: every[0][name] for name in names if all(config.get(name) == every[0][name] for config in every)}
    left_out = {*same, "versions", "seed", "label"}
    return same, {
        label: {name: value for name, value in config.items() if name not in left_out}
        for label, config in first.items()
    }


def _items(values: object) -> list[tuple[str, object]]:
    return [(str(key), value) for key, value in values.items()] if isinstance(values, dict) else []


def _section(name: str, title: str, content: str) -> str:
    return f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>{content}</section>'


def _table(header: Sequence[str], lines: Sequence[Sequence[Cell]], name: str) -> str:
    top = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{_narrow(text)}</button></th>' for text in header
    )
    body = "".join(f"<tr>{''.join(_cell(k, *cell) for k, cell in enumerate(line))}</tr>" for line in lines)
    table = f'<table class="sortable" id="{name}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _cell(place: int, text: str, value: object) -> str:
    known = not (isinstance(value, float) and math.isnan(value))
    tag = 'th scope="row"' if place == 0 else "td"
    return f'<{tag} data-value="{escape(str(value)) if known else ""}">{_narrow(text)}</{tag.split()[0]}>'


def _narrow(text: str) -> str:
    """A long label may end its line after an option: gradient:metric=embedding:step=0.2."""
    return escape(text).replace(":", ":<wbr>")


def _copied(command: str, name: str) -> str:
    return (
        f'<p class="command"><code id="{name}">{escape(command)}</code>'
        f'<button type="button" data-copy="{name}">Copy</button></p>'
    )


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def _json(values: Mapping[str, Any]) -> str:
    return f"<pre>{escape(json.dumps(values, indent=2))}</pre>"
