"""Comparing: methods x seeds, spread over an executor, resumable as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from geodesic import curricula
from geodesic.checks import as_string
from geodesic.curricula.base import Threshold
from geodesic.errors import GeodesicError, InvalidInput, short_repr
from geodesic.records import FolderLock, RunConfig, finished, read_json, run_exists, write_json
from geodesic.records.checkpoint import Json
from geodesic.records.files import inside
from geodesic.runs.config import slug
from geodesic.runs.executors import Executor, Job, LocalProcesses
from geodesic.runs.executors.base import SAVE_EVERY, run_name
from geodesic.tasks import Task, load
from geodesic.tasks.check import quick_check
from geodesic.tasks.methods import Method, expand
from geodesic.training.configure import configure, curriculum_of, method_label, objects_of, task_of
from geodesic.training.objects import Objects, pack
from geodesic.training.session import check_same_run

FAILURES = "failures.json"  # of the last call, written while it runs: name of the run -> reason
SEPARATOR = re.compile(r",(?![^\[]*\])")  # of methods: a comma outside brackets
Methods = str | Sequence[Method] | Mapping[str, Method]
SAME = ("task", "steps", "threshold", "solved", "score", "backend", "learner", "learner_options")


@dataclass
class Outcome:
    """The result of a comparison: how many runs are finished, and why the others failed."""

    done: int
    failed: dict[str, str]  # name of the run -> reason, in one line


def expand_methods(methods: Methods) -> dict[str, Method]:
    """The methods of a comparison by label: "all", a list separated by commas or in Python, or labels with methods.

    A grid in a list, such as "gradient:step=0.1|0.2", expands to its methods.
    """
    if isinstance(methods, str):
        named = list(curricula.REGISTRY) if methods == "all" else SEPARATOR.split(methods)
        methods = list(dict.fromkeys(each for name in named if name for each in expand(name)))
    if isinstance(methods, Mapping):
        return {as_string(label, "the label of a method"): method for label, method in methods.items()}
    if not isinstance(methods, Sequence):
        raise InvalidInput(f"expected methods as a list or as a dictionary by label, got {short_repr(methods)}")
    listed = [each for method in methods for each in (expand(method) if isinstance(method, str) else [method])]
    found: dict[str, Method] = {}
    for method in listed:
        label = method_label(method)
        if label in found:
            raise InvalidInput(
                f"expected methods with different names, got two of {label!r}; try a dictionary: "
                "methods={'first': ..., 'second': ...}"
            )
        found[label] = method
    return found


def plan_comparison(
    task: str | Task,
    methods: Methods,
    seeds: Sequence[int],
    steps: int | None,
    out: Path,
    threshold: Threshold | None = None,
    learner: object = None,
    backend: str = "jax",
) -> list[RunConfig]:
    """Configure all runs before any work starts; an earlier comparison in `out` must be of the same kind."""
    if not seeds:
        raise InvalidInput("expected at least one seed, got none")
    task = load(task)
    configs: list[RunConfig] = []
    for label, method in expand_methods(methods or task.training.compare).items():
        first = configure(task, method, seeds[0], steps, None, threshold, learner, backend).replace(label=label)
        curriculum_of(task, first, objects_of(task, method, None, learner))
        configs += [first.replace(seed=seed) for seed in seeds]
    _check(configs, out, task, objects_of(task, None, None, learner))
    if not all(run_exists(run_folder(out, config)) for config in configs):
        quick_check(task)
    return configs


def _check(configs: Sequence[RunConfig], out: Path, task: Task | None, objects: Objects) -> None:
    """Check that every run can be done, and that every folder is new or holds the same run."""
    from geodesic.runs.run import trainer_of

    trainer_of(configs, task_of(configs[0], task), objects).shapes()
    _check_folder(configs[0], out)
    taken: dict[Path, str] = {}
    for config in configs:
        folder = run_folder(out, config)
        if folder in taken:
            raise InvalidInput(f"expected methods with different names, got {taken[folder]!r} and {config.label!r}")
        taken[folder] = config.label
        check_same_run(config, folder)


def _check_folder(config: RunConfig, out: Path) -> None:
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
    save_every: float = SAVE_EVERY,
    objects: Sequence[Objects] | None = None,
    report: Callable[[Outcome], None] = lambda outcome: None,
) -> Outcome:
    """Do all runs that are not finished yet, as the only writer in this folder.

    at_once: runs in one program (default: the executor's choice). save_every: seconds between checkpoints. objects: for
    each run, what was passed as objects. report: is called with the outcome while the folder is still locked, to draw
    figures for example.
    """
    out = out.absolute()
    chosen = executor or LocalProcesses()
    given = objects or [objects_of(task, "") if task is not None else Objects()] * len(configs)
    with FolderLock(out) as lock:
        _check(configs, out, task, given[0])
        try:
            write_json(out / "comparison.json", {**_described(configs[0]), "runs": [run_name(c) for c in configs]})
            (out / FAILURES).unlink(missing_ok=True)
        except GeodesicError as error:
            raise InvalidInput(str(error)) from error
        failed: dict[str, str] = {}
        size = at_once or chosen.at_once(len(configs))
        jobs = [job for part in _programs(configs, task, given) for job in _jobs(*part, out, size, save_every)]
        for result in chosen.run(jobs) if jobs else ():
            lock.check()
            if result is not None and result.failed:  # for `geodesic watch`
                failed.update(result.failed)
                write_json(out / FAILURES, failed)
        outcome = Outcome(sum(finished(run_folder(out, config)) for config in configs), failed)
        report(outcome)
    return outcome


def _programs(
    configs: Sequence[RunConfig], task: Task | None, objects: Sequence[Objects]
) -> list[tuple[list[RunConfig], list[Objects]]]:
    """The runs and their objects in two parts: a program that reports value losses is another one."""
    task = task_of(configs[0], task)
    needing: dict[str, bool] = {}
    for config, own in zip(configs, objects):
        if config.label not in needing:
            needing[config.label] = curriculum_of(task, config, own).needs_value_losses
    parts = []
    for needed in sorted(set(needing.values())):
        places = [place for place, config in enumerate(configs) if needing[config.label] == needed]
        parts.append(([configs[place] for place in places], [objects[place] for place in places]))
    return parts


def _jobs(
    configs: Sequence[RunConfig], objects: Sequence[Objects], out: Path, size: int, save_every: float
) -> list[Job]:
    """Runs in the given order, so that those that started together resume together.

    All jobs of a folder share an owner token: whoever holds the comparison may take over what an earlier call left.
    """
    owner = f"comparison {out.resolve()}"
    jobs = []
    for first in range(0, len(configs), size):
        group, own = configs[first : first + size], objects[first : first + size]
        folders = tuple(run_folder(out, config) for config in group)
        if not all(map(finished, folders)):
            jobs.append(Job(tuple(group), folders, pack(own), owner, save_every))
    return jobs


def run_folder(out: Path, config: RunConfig) -> Path:
    """runs/LABEL/seed-N in the folder of the comparison; no link may lead out of it."""
    return inside(out, "runs", slug(config.label), f"seed-{config.seed}")
