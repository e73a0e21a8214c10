"""Comparing: methods x seeds, spread over an executor, resumable as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from geodesic.errors import GeodesicError, InvalidInput
from geodesic.records import FolderLock, RunConfig, begun, finished, read_config, read_json, write_json
from geodesic.records.checkpoint import Json
from geodesic.runs.config import configure, slug
from geodesic.runs.executors import Executor, Job, Listen, LocalProcesses, Update
from geodesic.runs.executors.base import SAVE_EVERY, pack, run_name
from geodesic.tasks import Task, load
from geodesic.tasks.methods import build

FAILURES = "failures.json"  # of the last call, while it goes on and after it: name of the run -> why
SAME = ("task", "steps", "threshold", "solved", "measure", "backend", "learner", "learner_options")


@dataclass
class Outcome:
    """What became of a comparison."""

    folder: Path
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # name of the run -> why, in one line


def plan_comparison(
    task: str | Task,
    methods: Sequence[str],
    seeds: Sequence[int],
    steps: int | None,
    out: Path,
    threshold: float | None = None,
    learner: object = None,
    backend: str = "jax",
) -> list[RunConfig]:
    """All runs, checked before any work starts; an earlier comparison in `out` must be of the same kind."""
    if not seeds:
        raise InvalidInput("expected at least one seed, got none")
    task = load(task)
    labels = list(methods) or list(task.compare)
    configs = [
        configure(task, label, seed, steps, None, threshold, learner, backend).replace(label=label)
        for label in labels
        for seed in seeds
    ]
    for config in configs[:: len(seeds)]:
        build(task, config.method, config.options, config.metric, config.threshold)
    _check(configs, out, task)
    return configs


def _check(configs: Sequence[RunConfig], out: Path, task: Task | None) -> None:
    """Every run can be done, and every folder is new or holds the same run."""
    from geodesic.runs.config import task_of
    from geodesic.runs.run import trainer_of

    trainer_of(configs, task_of(configs[0], task)).shapes()
    _same_kind(configs[0], out)
    taken: dict[Path, str] = {}
    for config in configs:
        folder = run_folder(out, config)
        if folder in taken:
            raise InvalidInput(f"expected methods with names of their own, got {taken[folder]!r} and {config.label!r}")
        taken[folder] = config.label
        same_run(config, folder)


def same_run(config: RunConfig, folder: Path) -> None:
    """A folder that was begun must hold the same run."""
    if begun(folder) and read_config(folder).to_json() != config.to_json():
        raise InvalidInput(f"{folder} holds another run (see its config.json); try another out= or --out")


def _same_kind(config: RunConfig, out: Path) -> None:
    """A folder that is not new or empty must hold a comparison of the same kind."""
    note = out / "comparison.json"
    try:
        if not note.exists():
            if out.exists() and any(not path.name.startswith(".") for path in out.iterdir()):
                raise InvalidInput(f"expected a new or empty folder or an earlier comparison, got {out}")
            return
    except OSError as error:
        raise InvalidInput(f"expected a folder for the comparison, got {out}: {error.strerror}") from error
    earlier, described = read_json(note), _described(config)
    differing = [name for name in SAME if earlier.get(name) != described[name]]
    if differing:
        raise InvalidInput(f"{out} holds another comparison ({', '.join(differing)} differ); try another --out")


def _described(config: RunConfig) -> Json:
    values = config.to_json()
    return {name: values[name] for name in SAME}


def compare(
    configs: Sequence[RunConfig],
    out: Path,
    task: Task | None = None,
    executor: Executor | None = None,
    at_once: int | None = None,
    listen: Listen = lambda job, update: None,
    save_every: float = SAVE_EVERY,
    report: Callable[[Outcome], None] = lambda outcome: None,
) -> Outcome:
    """Do all runs that are not finished yet, as the only one in this folder.

    at_once: runs in one program (default: as the executor thinks best). save_every: seconds between checkpoints.
    report: what is to be made of the outcome while the folder is still held, such as figures.
    """
    out = out.absolute()
    chosen = executor or LocalProcesses()
    with FolderLock(out) as lock:
        _check(configs, out, task)
        try:
            write_json(out / "comparison.json", {**_described(configs[0]), "runs": [run_name(c) for c in configs]})
            (out / FAILURES).unlink(missing_ok=True)
        except GeodesicError as error:
            raise InvalidInput(str(error)) from error
        jobs = _jobs(configs, out, task, at_once or chosen.at_once(len(configs)), save_every)

        failures: dict[str, str] = {}

        def hear(job: Job, update: Update) -> None:
            lock.check()
            if update.failed:  # for who watches from elsewhere
                failures.update(update.failed)
                write_json(out / FAILURES, failures)
            listen(job, update)

        failed = chosen.run(jobs, hear) if jobs else {}
        outcome = Outcome(out, sum(finished(run_folder(out, config)) for config in configs), failed)
        report(outcome)
    return outcome


def _jobs(configs: Sequence[RunConfig], out: Path, task: Task | None, size: int, save_every: float) -> list[Job]:
    """Runs in the order they were asked for, so that those that began together go on together.

    All jobs of a folder share a token: who holds the comparison may take over what an earlier call left behind.
    """
    packed = None if task is None else pack(task)
    owner = f"comparison {out.resolve()}"
    groups = [configs[i : i + size] for i in range(0, len(configs), size)]
    jobs = [Job(tuple(g), tuple(run_folder(out, config) for config in g), packed, owner, save_every) for g in groups]
    return [job for job in jobs if not all(map(finished, job.folders))]


def run_folder(out: Path, config: RunConfig) -> Path:
    return out / "runs" / slug(config.label) / f"seed-{config.seed}"
