"""What the page's charts draw, gathered from runs: curves, seeds, stages and the frames of their curricula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from geodesic.analysis.curves import Column, Curve, iqm_curve, mean_curve
from geodesic.analysis.measures import WINDOW, rolling_mean
from geodesic.contexts import FloatArray
from geodesic.records.reader import RunResult, by_label
from geodesic.report.page import charts, story
from geodesic.report.page.pictures import Picture, written
from geodesic.report.style import DARK, LineStyle, evenly, looks
from geodesic.report.text import MEASURES, measured

Json = dict[str, Any]

EVALUATIONS = 200  # of a curve
SEED_ROWS = 20_000  # of all seeds' lines together
FRAMES = 24  # stages of a run that are animated
EPISODES = 2_000  # of a single run
STATISTICS = {"iqm": iqm_curve, "mean": mean_curve}
IN_WORDS = {"iqm": "interquartile mean", "mean": "mean"}

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
    story.UNDER_WAY: "#e8dc5a",
}  # fmt: skip
OTHER_REASONS = ("#d993ba", "#8fa8ff", "#c0b070", "#d98f6c")


def themes(runs: Sequence[RunResult], reasons: Sequence[str]) -> Json:
    """Every colour by its name, for light and for dark surroundings."""
    found = looks(runs)
    own = {f"c{k}": _hex(found[label].colour) for k, label in enumerate(by_label(runs))}
    others = iter(OTHER_REASONS * len(reasons))
    why = {f"r{k}": REASONS.get(reason) or next(others) for k, reason in enumerate(reasons)}
    bright = {name: DARK.get(colour, colour) for name, colour in own.items()}
    return {"light": {**LIGHT_THEME, **own, **why}, "dark": {**DARK_THEME, **bright, **why}}


def dashes(runs: Sequence[RunResult]) -> list[list[float]]:
    """A pattern of dashes and gaps for each label."""
    found = looks(runs)
    return [_pattern(found[label].line) for label in by_label(runs)]


def _pattern(line: LineStyle) -> list[float]:
    return [1.0, 0.0] if isinstance(line, str) else [2.0 * part for part in line[1]]


def views(runs: Sequence[RunResult]) -> dict[str, str]:
    """The statistics that can be looked at, and what their axis says."""
    known = runs[0].measure != "success" and any(np.isfinite(run.evaluations.successes).any() for run in runs)
    columns: list[Column] = ["scores", "successes"] if known else ["scores"]
    words = {"scores": measured(runs[0]), "successes": MEASURES["success"]}
    return {f"{name} {column}": f"{words[column]} on the target" for column in columns for name in STATISTICS}


def curve_rows(runs: Sequence[RunResult]) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
    """(label, view, step, middle, low, high, raw), and what the band of each view is."""
    rows: list[tuple[Any, ...]] = []
    bands: dict[str, str] = {}
    for view in views(runs):
        name, column = view.split(" ")
        for label, group in by_label(runs).items():
            curve: Curve = STATISTICS[name](group, column)  # type: ignore[arg-type]
            bands[view] = f"{IN_WORDS[name]} over seeds; band: {curve.band}"
            for k in evenly(range(len(curve.steps)), EVALUATIONS):
                values = (curve.middle[k], curve.low[k], curve.high[k], curve.raw[k])
                rows.append((label, view, int(curve.steps[k]), *map(float, values)))
    return rows, bands


def seed_rows(runs: Sequence[RunResult]) -> list[tuple[Any, ...]]:
    """(label, seed, column, step, raw, smooth) of each run's evaluations."""
    kinds = list(dict.fromkeys(view.split(" ")[1] for view in views(runs)))
    most = max(10, SEED_ROWS // (len(runs) * len(kinds)))
    rows = []
    for run in runs:
        table = run.evaluations
        for column in kinds:
            raw: FloatArray = getattr(table, column)
            smooth = rolling_mean(raw, WINDOW)
            for k in evenly(range(len(raw)), most):
                rows.append((run.label, str(run.seed), column, int(table.steps[k]), float(raw[k]), float(smooth[k])))
    return rows


def episode_rows(run: RunResult, window: int) -> list[tuple[int, float, float]]:
    """(step, score, smooth) of a run's training episodes."""
    smooth = rolling_mean(run.episodes.scores, window)
    parts = list(zip(run.episodes.steps.tolist(), run.episodes.scores.tolist(), smooth.tolist()))
    return evenly(parts, EPISODES)


def reasons_of(runs: Sequence[RunResult]) -> list[str]:
    """Why stages ended, in the order in which they are listed: ours first, whatever else a method says, then ends."""
    seen = dict.fromkeys(why for run in runs for why in story.endings(run))
    first = [why for why in ("mastered", "step cap") if why in seen]
    last = [why for why in (story.EXPLORED, story.END, story.UNDER_WAY) if why in seen]
    return [*first, *(why for why in seen if why not in REASONS), *last]


def frames_of(run: RunResult, pictures: Sequence[Picture]) -> list[Json]:
    """The stages of a run, evenly chosen where there are many: step, stage, alpha, whether it explored, rows."""
    explored = run.explored
    return [
        {
            "s": stage.step,
            "k": stage.stage,
            "a": round(stage.alpha, 4) if math.isfinite(stage.alpha) else None,
            "e": stage.stage in explored,
            "m": [written(picture, stage) for picture in pictures],
        }
        for stage in evenly(run.curriculum, FRAMES)
    ]


def specs(runs: Sequence[RunResult], reasons: Sequence[str]) -> tuple[Json, dict[str, str]]:
    """The charts by the id of their place, and what the bands are."""
    rows, bands = curve_rows(runs)
    labels = list(by_label(runs))
    learning = charts.learning(rows, seed_rows(runs), labels, dashes(runs), next(iter(views(runs))), runs[0].solved)
    found: Json = {"learning": charts.plain(learning)}
    if len(runs) == 1:
        words = f"{measured(runs[0])} in training"
        found["training"] = charts.plain(charts.episodes(episode_rows(runs[0], 20), runs[0].threshold, words))
    for place, group in enumerate(by_label(runs).values()):
        found[f"timeline-{place}"] = charts.plain(charts.timeline(story.timeline_rows(group), reasons))
    return found, bands


def _hex(colour: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)
