"""What was run, in words and as commands, and how each run went."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geodesic.analysis.measures import asymptotic
from geodesic.errors import GeodesicError
from geodesic.records.files import read_json
from geodesic.records.reader import RunResult, by_label
from geodesic.report.text import at_source, measured

EXPLORED = "exploring for the metric"
END, UNDER_WAY = "end of the run", "under way"
RUN_COLUMNS = (
    "method", "seed", "steps", "stages", "why they ended", "α", "final score", "final success", "steps/s", "state",
)  # fmt: skip


def words(runs: Sequence[RunResult]) -> list[str]:
    """What a reader should know before the first figure, a sentence each."""
    first, groups = runs[0], by_label(runs)
    seeds = sorted({len(group) for group in groups.values()})
    each = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    what = f"{_count(len(groups), 'method')} with {each} seed{'s' * (each != '1')} each"
    if len(runs) == 1:
        what = f"One run of {first.label}, seed {first.seed}"
    told = [f"{what} on {first.task}, {first.steps:,} environment steps."]
    done = sum(run.finished for run in runs)
    told.append("Every run is finished." if done == len(runs) else f"{done} of {_count(len(runs), 'run')} finished.")
    if first.contexts:
        told.append(f"A context is {_listed([name.replace('_', ' ') for name in first.contexts])}.")
    if math.isfinite(first.threshold):
        level = f"A stage is mastered above a mean {measured(first)} of {first.threshold:g}"
        solved = f", the target solved above {first.solved:g}" if math.isfinite(first.solved) else ""
        told.append(f"{level}{solved}.")
    learner = first.config.get("learner")
    if isinstance(learner, str):
        told.append(f"The learner is {learner.upper()} (backend {first.config.get('backend', 'unknown')}).")
    return [*told, *(f"{line}." for line in at_source(runs))]


def commands(folder: Path, runs: Sequence[RunResult]) -> list[str]:
    """What repeats the runs, where a command can."""
    first = runs[0].config
    if first.get("portable") is not True or first.get("backend") not in ("jax", "sb3", "sbx"):
        return []
    if not (folder / "comparison.json").exists():
        return [shlex.join(["geodesic", "run", "--config", str(run.folder / "config.json")]) for run in runs[:1]]
    groups = by_label(runs)
    seeds = sorted({run.seed for run in runs})
    line = ["geodesic", "compare", str(first["task"]), "--methods", ",".join(groups), "--steps", str(runs[0].steps)]
    line += ["--seeds", str(seeds[-1] - seeds[0] + 1)]
    line += ["--first-seed", str(seeds[0])] if seeds[0] else []
    line += ["--backend", str(first["backend"])] if first["backend"] != "jax" else []
    return [shlex.join([*line, "--out", str(folder)])]


def run_rows(runs: Sequence[RunResult]) -> list[list[tuple[str, object]]]:
    """For each run, what is shown and what it is sorted by, as `RUN_COLUMNS` has them."""
    return [_run_row(run) for run in runs]


def _run_row(run: RunResult) -> list[tuple[str, object]]:
    scores, successes = run.evaluations.scores, run.evaluations.successes
    final = asymptotic(scores) if len(scores) else math.nan
    success = asymptotic(successes) if len(successes) else math.nan
    reached = reached_step(run)
    alpha = float(run.stages.alphas[-1]) if len(run.stages.alphas) else math.nan
    speed = _speed(run)
    return [
        (run.label, run.label),
        (str(run.seed), run.seed),
        (f"{reached:,}", reached),
        (str(len(run.stages.steps)), len(run.stages.steps)),
        (_why(run), _why(run)),
        (_number(alpha, ".2f"), alpha),
        (_number(final, ".4g"), final),
        (_number(success, ".0%"), success),
        (_number(speed, ",.0f"), speed),
        ("finished", 1) if run.finished else ("unfinished", 0),
    ]


def reached_step(run: RunResult) -> int:
    """The last step that the folder tells of; a run whose budget is off the grid of segments ends a little later."""
    if run.finished:
        return run.steps
    ends = [table[-1] for table in (run.episodes.steps, run.evaluations.steps, run.stages.steps) if len(table)]
    return min(int(max(ends, default=0)), run.steps)


def timeline_rows(runs: Sequence[RunResult]) -> list[tuple[str, int, int, int, float, str]]:
    """(seed, stage, start, end, alpha, why it ended) of each stage."""
    rows = []
    for run in runs:
        steps = run.stages.steps.tolist()
        ends = [*steps[1:], max([reached_step(run), *steps])]
        parts = zip(run.stages.stages.tolist(), steps, ends, run.stages.alphas.tolist(), endings(run))
        rows += [(str(run.seed), *part) for part in parts]
    return rows


def endings(run: RunResult) -> list[str]:
    """Why each stage ended; a stage that explored for a metric says so instead."""
    last = END if run.finished else UNDER_WAY
    ended = [*map(_kind, run.stages.events[1:]), last] if run.stages.events else []
    return [EXPLORED if explores else why for explores, why in zip(run.stages.explores, ended)]


def _kind(event: str) -> str:
    """What kind of event it was, whatever its numbers: "iteration 12" is an iteration."""
    return re.sub(r"( of)? \d+\b", "", re.sub(r"\b\d+ of \d+\b", "some", event))


def summary_of(run: RunResult) -> dict[str, Any]:
    try:
        return read_json(run.folder / "summary.json")
    except (FileNotFoundError, GeodesicError):
        return {}


def _speed(run: RunResult) -> float:
    """Environment steps a second; runs that trained at once share the time."""
    seconds = summary_of(run).get("seconds")
    return run.steps / seconds if isinstance(seconds, (int, float)) and seconds > 0 else math.nan


def _why(run: RunResult) -> str:
    counted = Counter(why for why in endings(run) if why not in (END, UNDER_WAY))
    return ", ".join(f"{count} {why}" for why, count in counted.items()) or "one stage only"


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "-"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
