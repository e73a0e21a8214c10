"""Comparing: methods x seeds, spread over an executor, resumable as a whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path

from geodesic.errors import CheckpointError, GeodesicError, InvalidInput
from geodesic.records import RunConfig, finished, write_json
from geodesic.records.checkpoint import Json
from geodesic.runs.config import configure, slug
from geodesic.runs.executors import Executor, Job, Listen, LocalProcesses, Update
from geodesic.runs.executors.base import pack
from geodesic.tasks import Task, load
from geodesic.tasks.methods import build

SAME = ("task", "steps", "threshold", "solved", "measure", "learner", "learner_options")


@dataclass
class Outcome:
    """What became of a comparison."""

    folder: Path
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)


def plan_comparison(
    task: str | Task,
    methods: Sequence[str],
    seeds: Sequence[int],
    steps: int | None,
    out: Path,
    threshold: float | None = None,
    learner: object = None,
) -> list[RunConfig]:
    """All runs, checked before any work starts; an earlier comparison in `out` must be of the same kind."""
    if not seeds:
        raise InvalidInput("expected at least one seed, got none")
    task = load(task)
    labels = list(methods) or list(task.compare)
    configs = [
        configure(task, label, seed, steps, threshold=threshold, learner=learner).replace(label=label)
        for label in labels
        for seed in seeds
    ]
    for config in configs[:: len(seeds)]:
        build(task, config.method, config.options, config.metric, config.threshold)
    _describe({name: getattr(configs[0], name) for name in SAME}, out)
    return configs


def _describe(described: Json, out: Path) -> None:
    note = out / "comparison.json"
    if note.exists():
        earlier = _read(note)
        differing = [name for name in SAME if earlier.get(name) != described[name]]
        if differing:
            raise InvalidInput(f"{out} holds another comparison ({', '.join(differing)} differ); try another --out")
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidInput(f"expected a new or empty folder or an earlier comparison, got {out}")
    try:
        write_json(note, described)
    except GeodesicError as error:
        raise InvalidInput(str(error)) from error


def _read(note: Path) -> Json:
    try:
        earlier = json.loads(note.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"damaged file {note}: {error}") from error
    if not isinstance(earlier, dict):
        raise CheckpointError(f"damaged file {note}: expected a JSON object")
    return earlier


def compare(
    configs: Sequence[RunConfig],
    out: Path,
    task: Task | None = None,
    executor: Executor | None = None,
    at_once: int | None = None,
    listen: Listen = lambda job, update: None,
) -> Outcome:
    """Do all runs that are not finished yet. `at_once`: runs in one program (default 1 on a CPU, all on a GPU)."""
    pending = [config for config in configs if not finished(run_folder(out, config))]
    outcome = Outcome(out, done=len(configs) - len(pending))
    if not pending:
        return outcome
    accelerated = has_accelerator()
    size = at_once or (len(pending) if accelerated else 1)
    packed = None if task is None else pack(task)
    groups = [pending[i : i + size] for i in range(0, len(pending), size)]
    jobs = [Job(tuple(group), tuple(run_folder(out, config) for config in group), packed) for group in groups]
    chosen = executor or LocalProcesses(1 if accelerated else os.cpu_count())

    def count(job: Job, update: Update) -> None:
        if update.ended and not update.error:
            outcome.done += len(job.configs)
        listen(job, update)

    outcome.failed = chosen.run(jobs, count)
    return outcome


def run_folder(out: Path, config: RunConfig) -> Path:
    return out / "runs" / slug(config.label) / f"seed-{config.seed}"


def has_accelerator() -> bool:
    """Asked in a process of its own: one that looks at a GPU takes its memory from the workers."""
    if not entry_points(group="jax_plugins"):
        return False
    ask = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    return subprocess.run(ask, capture_output=True, text=True).stdout.strip() not in ("", "cpu")
