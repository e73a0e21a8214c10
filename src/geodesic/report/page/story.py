"""What the page says in words: what was run, with which commands, and how each run went."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from geodesic.analysis.statistics import Row, asymptotic
from geodesic.errors import GeodesicError, count, listed, printable
from geodesic.records.config import BACKENDS
from geodesic.records.files import read_json
from geodesic.records.reader import RunResult, by_label
from geodesic.report.text import format_known

EXPLORED = "exploring"
END, RUNNING = "end of the run", "still running"
RUN_COLUMNS = (
    "method", "seed", "steps", "stages", "why they ended", "α", "final score", "final success", "steps/s", "state",
)  # fmt: skip

Cell = tuple[str, object]  # the text, and the value to sort by


def sentences(runs: Sequence[RunResult]) -> list[str]:
    """Say what a reader should know before the first figure."""
    first, groups = runs[0], by_label(runs)
    counts = sorted({len(group) for group in groups.values()})
    each = count(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    subject = f"{count(len(groups), 'method')} with {each} each"
    if len(runs) == 1:
        subject = f"One run of {first.label}, seed {first.seed}"
    found = [f"{subject} on {first.task}, {first.steps:,} environment steps."]
    done = sum(run.finished for run in runs)
    found.append("Every run is finished." if done == len(runs) else f"{done} of {count(len(runs), 'run')} finished.")
    if first.contexts:
        found.append(f"A context is {listed([name.replace('_', ' ') for name in first.contexts])}.")
    if math.isfinite(first.threshold):
        level = f"A stage is mastered above a mean {first.score_name} of {first.threshold:g}"
        solved = f", the target solved above {first.solved:g}" if math.isfinite(first.solved) else ""
        found.append(f"{level}{solved}.")
    if first.config.learner is not None:
        name = first.config.learner
        found.append(f"The learner is {name.upper() if name.isalpha() else name} (backend {first.config.backend}).")
    return found


def commands(folder: Path, runs: Sequence[RunResult]) -> list[str]:
    """Return the commands that repeat the runs, if commands can; safe to paste, whatever the task is called."""
    first = runs[0].config
    if first.objects or first.backend not in BACKENDS:
        return []
    if not (folder / "comparison.json").exists():
        return [printable(shlex.join(["geodesic", "run", "--config", str(runs[0].folder / "config.json")]))]
    groups = by_label(runs)
    seeds = sorted({run.seed for run in runs})
    line = ["geodesic", "compare", first.task, "--methods", ",".join(groups), "--steps", str(runs[0].steps)]
    line += ["--seeds", str(seeds[-1] - seeds[0] + 1)]
    line += ["--first-seed", str(seeds[0])] if seeds[0] else []
    line += ["--backend", first.backend] if first.backend != "jax" else []
    return [printable(shlex.join([*line, "--out", str(folder)]))]


def summary_row(row: Row, texts: Sequence[str]) -> list[Cell]:
    """Pair the texts of a line of the table with the values to sort by."""
    chances = [math.nan if chance is None else chance.value for chance in (row.first_faster, row.faster, row.better)]
    times = (row.first_raw.value, row.first.value, row.time.value)
    finals = (row.final_mean, row.final_success, row.final_iqm.value)
    return list(zip(texts, (row.label, row.finished, row.reached, *times, *finals, *chances)))


def run_row(run: RunResult) -> list[Cell]:
    """Return the cells of a run for `RUN_COLUMNS`."""
    columns = run.evaluations.scores, run.evaluations.successes
    final, success = (asymptotic(column) if len(column) else math.nan for column in columns)
    reached = run.reached_step
    alpha = float(run.stages.alphas[-1]) if len(run.stages.alphas) else math.nan
    speed = _speed(run)
    counted = Counter(reason for reason in endings(run) if reason not in (END, RUNNING))
    reasons = ", ".join(f"{times} {reason}" for reason, times in counted.items()) or "one stage only"
    return [
        (run.label, run.label),
        (str(run.seed), run.seed),
        (f"{reached:,}", reached),
        (str(len(run.stages.steps)), len(run.stages.steps)),
        (reasons, reasons),
        (format_known(alpha, ".2f", "-"), alpha),
        (format_known(final, ".4g", "-"), final),
        (format_known(success, ".0%", "-"), success),
        (format_known(speed, ",.0f", "-"), speed),
        ("finished", 1) if run.finished else ("unfinished", 0),
    ]


def endings(run: RunResult) -> list[str]:
    """Return why each stage ended; for a stage that explored for a metric, that it did."""
    last = END if run.finished else RUNNING
    ended = [*map(_kind, run.stages.events[1:]), last] if run.stages.events else []
    return [EXPLORED if explores else reason for explores, reason in zip(run.stages.explores, ended)]


def _kind(event: str) -> str:
    """The kind of an event, whatever its numbers: "iteration 12" is an iteration."""
    return re.sub(r"( of)? \d+\b", "", re.sub(r"\b\d+ of \d+\b", "some", event))


def configurations(runs: Sequence[RunResult]) -> dict[str, str]:
    """Return the configuration that all runs share, and what each label adds, as JSON by title."""
    every = [run.config.to_json() for run in runs]
    shared = {name: value for name, value in every[0].items() if all(config[name] == value for config in every)}
    left_out = {*shared, "seed", "label"}
    own = {
        label: {name: value for name, value in group[0].config.to_json().items() if name not in left_out}
        for label, group in by_label(runs).items()
    }
    found: Mapping[str, Any] = {"Configuration that all runs share": shared, **own}
    return {title: json.dumps(values, indent=2) for title, values in found.items() if values or title not in own}


def _speed(run: RunResult) -> float:
    """Environment steps a second; runs that trained together share the time."""
    try:
        seconds = read_json(run.folder / "summary.json").get("seconds")
    except (FileNotFoundError, GeodesicError):
        return math.nan
    return run.steps / seconds if isinstance(seconds, (int, float)) and seconds > 0 else math.nan
