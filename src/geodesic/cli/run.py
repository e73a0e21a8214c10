"""`geodesic run`: one agent, one method; begun, read from a file, or taken up again."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from geodesic.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from geodesic.records import RunConfig
    from geodesic.runs.run import Batch


def run_one(options: argparse.Namespace, console: Console) -> None:
    from geodesic.runs.stopping import Stopping

    prepare(options)
    folder: Path | None = None
    try:
        with Stopping() as stop:
            folder, begin = _resumed(options) if options.resume is not None else _started(options)
            if options.resume is None or not _lacks_only_figures(folder, options.steps):
                _train(begin, options, console)
        if stop.asked:
            raise KeyboardInterrupt
        _draw(folder, console)
    except KeyboardInterrupt:
        if folder is None or not (folder / "config.json").exists():
            raise
        again = ["geodesic", "run", "--resume", str(folder)] if options.resume is None else shlex.split(options.line)
        raise KeyboardInterrupt(f"stopped; kept in {folder}; go on with: {shlex.join(again)}") from None


def _train(begin: Callable[[], Batch], options: argparse.Namespace, console: Console) -> None:
    from geodesic.report.progress import Display, standing

    with Display(console, options.quiet) as display:
        batch = begin()
        (lesson,) = batch.lessons
        config = lesson.config
        line = display.add(f"{config.name} {config.label}", config.steps)
        batch.checkpoint_seconds = options.save_every
        batch.watch = lambda _, now: display.update(line, now.step, standing(now.stage, now.alpha, now.target_score))
        batch.train()
    console.print(
        f"{config.label} on {config.name}, seed {config.seed}: target {config.measure} {lesson.target_score:.2f}, "
        f"stage {lesson.state.stage}, alpha {lesson.state.alpha:.2f} after {batch.step} steps",
    )


def _draw(folder: Path, console: Console) -> None:
    from geodesic.report.figures import write_run_figures

    for path in [folder, *write_run_figures(folder)]:
        console.print(f"  wrote {path}")


def _lacks_only_figures(folder: Path, steps: int | None) -> bool:
    """Whether a run came to its end, and was killed before its figures were drawn."""
    from geodesic.records import finished, read_config
    from geodesic.report.figures import drawn

    return finished(folder) and steps in (None, read_config(folder).steps) and not drawn(folder)


def _started(options: argparse.Namespace) -> tuple[Path, Callable[[], Batch]]:
    from geodesic.runs import run
    from geodesic.runs.config import configure, default_folder, task_of

    if options.config is not None:
        config = _from_file(options)
    elif options.task is None:
        raise InvalidInput("expected a task: geodesic run TASK (or --resume DIR, or --config FILE)")
    else:
        method, seed = options.method or "gradient", options.seed or 0
        rest = (options.steps, options.metric, options.threshold, options.learner, options.backend or "jax")
        config = configure(options.task, method, seed, *rest)
    task = task_of(config)
    folder = options.out or default_folder(config, task)
    return folder, lambda: run.start([config], [folder], task)


def _from_file(options: argparse.Namespace) -> RunConfig:
    from geodesic.checks import as_count, as_seed
    from geodesic.runs.config import read_file

    config = read_file(options.config)
    _refuse_others(options, config, ("task", "method", "metric", "threshold", "learner", "backend"))
    seed = config.seed if options.seed is None else options.seed
    steps = config.steps if options.steps is None else options.steps
    return config.replace(seed=as_seed(seed), steps=as_count(steps, "steps"))


def _resumed(options: argparse.Namespace) -> tuple[Path, Callable[[], Batch]]:
    from geodesic.records import read_config
    from geodesic.runs import run

    if options.config is not None or options.out is not None:
        raise InvalidInput("expected --resume DIR without --config and --out: the run is in its folder")
    names = ("task", "method", "metric", "threshold", "seed", "learner", "backend")
    _refuse_others(options, read_config(options.resume), names)
    return options.resume, lambda: run.extend(options.resume, options.steps)


def _refuse_others(options: argparse.Namespace, config: RunConfig, names: Sequence[str]) -> None:
    """What is said beside a configuration must agree with it."""
    for name in names:
        said = getattr(options, name)
        if said is not None and said != _recorded(config, name, said):
            raise InvalidInput(f"expected the run's own {name} {_recorded(config, name, said)!r}, got {said!r}")


def _recorded(config: RunConfig, name: str, said: object) -> object:
    """A value of the configuration in the form in which a user says it."""
    from geodesic.runs.config import learner_of, task_of
    from geodesic.tasks import load
    from geodesic.tasks.methods import parse, resolve

    if name == "task":
        return said if load(str(said)).reference == config.task else config.task
    if name == "method":
        own = config.method == parse(str(said))[0]
        same = own and resolve(task_of(config), str(said), config.metric)[:2] == (config.method, config.options)
        return said if same else config.label
    if name == "learner":
        task = task_of(config)
        if learner_of(task, said) == (config.learner, config.learner_options):
            return said
        usual = learner_of(task, config.learner)[1]
        changed = {key: value for key, value in config.learner_options.items() if usual.get(key) != value}
        return ":".join([str(config.learner), *(f"{key}={value}" for key, value in changed.items())])
    return getattr(config, name)


def prepare(options: argparse.Namespace) -> None:
    """What every training takes from the command line; trackers through the environment, which workers inherit."""
    from geodesic.records.trackers import VARIABLE, chosen

    if not options.save_every >= 0:
        raise InvalidInput(f"expected --save-every of at least 0 seconds, got {options.save_every}")
    chosen(options.track)  # refuses unknown names before any work
    if options.track is not None:
        os.environ[VARIABLE] = options.track
