"""The commands, one function each; everything they do is a call into the library."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from geodesic.errors import InvalidInput, RunFailed

if TYPE_CHECKING:
    from rich.console import Console

    from geodesic.records import RunConfig
    from geodesic.runs.executors import Executor, Job, Update
    from geodesic.runs.run import Batch
    from geodesic.tasks import Task

Command = Callable[[argparse.Namespace, "Console"], None]


def list_all(options: argparse.Namespace, console: Console) -> None:
    from geodesic import curricula, learners, tasks
    from geodesic.runs.config import BACKENDS, METRICS

    tables = {
        "tasks": tasks.names(),
        "methods": {name: (method.__doc__ or "").split("\n")[0] for name, method in curricula.REGISTRY.items()},
        "learners": {name: line for name, (_, line) in learners.REGISTRY.items()},
        "backends": BACKENDS,
        "metrics": METRICS,
    }
    for title, rows in tables.items():
        console.print(title, style="bold")
        for name, text in rows.items():
            console.print(f"  {name:<13} {text}")


def check_one(options: argparse.Namespace, console: Console) -> None:
    from geodesic.tasks import check_task, load

    task = load(options.task)
    check_task(task)
    console.print(f"{task} is fine")


def plan_curriculum(options: argparse.Namespace, console: Console) -> None:
    from geodesic.report.figures import write_plan_figures
    from geodesic.runs.config import slug
    from geodesic.runs.plan import plan
    from geodesic.tasks import load

    task = load(options.task)
    made = plan(task, _alphas(options.alphas), options.metric)
    out = options.out or Path("runs") / slug(task.name) / "plan"
    written = write_plan_figures(out, task, made.alphas, made.paths, made.distances, made.metric)
    for line in [*made.lines(), *(f"  wrote {path}" for path in written)]:
        console.print(line)


def run_one(options: argparse.Namespace, console: Console) -> None:
    from geodesic.runs.stopping import Stopping

    _check_save_every(options)
    _track(options)
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


def compare_all(options: argparse.Namespace, console: Console) -> None:
    from geodesic import curricula
    from geodesic.report.text import read_record, record
    from geodesic.runs.config import slug
    from geodesic.tasks import load

    labels = list(curricula.REGISTRY) if options.methods == "all" else options.methods.split(",")
    labels = list(dict.fromkeys(label for label in labels if label))
    if options.record is not None:
        read_record(options.record)  # refuses what is no text before the work, not after it
    name = "compare" if options.backend == "jax" else f"compare-{options.backend}"
    executor = _executor(options)
    with _workers_ahead(executor, options, labels, name):
        task = load(options.task)
        out = options.out or Path("runs") / slug(task.name) / name
        text = _compare(console, task, labels, out, options, executor)
    if options.record is not None:
        record(options.record, f"compare {task.name}", text)
        console.print(f"  wrote {options.record}")


def run_demo(options: argparse.Namespace, console: Console) -> None:
    from geodesic.cli.options import parser
    from geodesic.report.figures import write_run_figures
    from geodesic.tasks import load

    figures = argparse.Namespace(task="maze", alphas="0,.25,.5,.75,1", metric=None, out=options.out / "figures")
    plan_curriculum(figures, console)
    settings = parser().parse_args(["compare", "maze", "--at-once", "3"])
    settings.quiet, settings.line = options.quiet, options.line
    methods = ["gradient", "target-only"]
    _compare(console, load("maze"), methods, options.out / "maze", settings, _executor(settings))
    for path in write_run_figures(options.out / "maze" / "runs" / "gradient" / "seed-0"):
        console.print(f"  wrote {path}")
    from geodesic.report.page import write_report

    console.print(f"  wrote {write_report(options.out / 'maze')}, which is the page to look at")


def report(options: argparse.Namespace, console: Console) -> None:
    """The figures are drawn in a process of their own, while the page is made."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from geodesic.report.figures import write_comparison_figures, write_run_figures
    from geodesic.report.page import check_extra, write_report

    check_extra()
    draw = write_run_figures if (options.folder / "config.json").exists() else write_comparison_figures
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        drawn = pool.submit(draw, options.folder, None, ("pdf", "svg"))
        page = write_report(options.folder, film=not options.no_film, figures=drawn.result)
    for path in drawn.result():
        console.print(f"  wrote {path} and the same as PDF and SVG")
    console.print(f"  wrote {page}")


def _compare(
    console: Console, task: Task, labels: list[str], out: Path, options: argparse.Namespace, executor: Executor
) -> str:
    """Run and show a comparison; its table in Markdown."""
    from geodesic.checks import as_integer
    from geodesic.records import finished
    from geodesic.report.progress import Display, JobBars
    from geodesic.runs.compare import Outcome, compare, plan_comparison, run_folder
    from geodesic.runs.stopping import Stopping
    from geodesic.runs.tail import check_share

    if options.cvar is not None:
        check_share(options.cvar)
    seeds = range(options.first_seed, options.first_seed + as_integer(options.seeds, "--seeds", 0, 10**6))
    rest = (options.threshold, options.learner, options.backend)
    text = ""
    with Stopping() as stop, ExitStack() as shown:
        configs = plan_comparison(task, labels, seeds, options.steps, out, *rest)
        bars = JobBars(shown.enter_context(Display(console, options.quiet)), sum(config.steps for config in configs))

        def report(outcome: Outcome) -> None:
            nonlocal text
            shown.close()
            text = _report(console, task, configs[0], out, outcome.failed, options.cvar)

        imports = Thread(target=_import_reports, daemon=True)

        def hear(job: Job, update: Update) -> None:
            bars(job, update)
            if not imports.ident:  # training has begun: this process has little to do, and holds nobody up
                imports.start()

        try:
            compare(configs, out, task, executor, options.at_once, hear, options.save_every, report)
            if stop.asked:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            done = sum(finished(run_folder(out, config)) for config in configs)
            raise KeyboardInterrupt(
                f"stopped; {done} of {len(configs)} runs are finished and what the others did is kept in {out}; "
                f"go on with: {options.line}"
            ) from None
    return text


def _workers_ahead(
    executor: Executor, options: argparse.Namespace, labels: list[str], name: str
) -> AbstractContextManager[None]:
    """Workers that import while the task is loaded and its runs are checked; not where all may be done already."""
    from geodesic.runs.config import slug
    from geodesic.runs.executors import LocalProcesses

    likely = options.out or Path("runs") / slug(options.task) / name
    if not isinstance(executor, LocalProcesses) or os.path.exists(likely / "comparison.json"):
        return nullcontext()
    return executor.ahead(max(options.seeds, 0) * max(len(labels), 1) // (options.at_once or 1))


def _executor(options: argparse.Namespace) -> Executor:
    """Who does the runs, with all that it hands on to its workers."""
    from geodesic.runs.executors import LocalProcesses, RayTasks

    _track(options)
    for name in ("workers", "at_once"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise InvalidInput(f"expected --{name.replace('_', '-')} of at least 1, got {getattr(options, name)}")
    _check_save_every(options)
    ray = options.executor == "ray"
    for name in ("workers",) if ray else ("address", "cpus", "gpus"):
        if getattr(options, name) is not None:
            raise InvalidInput(f"expected --{name} with --executor {'local' if ray else 'ray'} only")
    if not ray:
        return LocalProcesses(options.workers)
    return RayTasks(options.address, 1 if options.cpus is None else options.cpus, options.gpus or 0)


def _track(options: argparse.Namespace) -> None:
    """Through the environment, which workers inherit."""
    from geodesic.records.trackers import VARIABLE, chosen

    chosen(options.track)  # refuses unknown names before any work
    if options.track is not None:
        os.environ[VARIABLE] = options.track


def _check_save_every(options: argparse.Namespace) -> None:
    if not options.save_every >= 0:
        raise InvalidInput(f"expected --save-every of at least 0 seconds, got {options.save_every}")


def _report(
    console: Console, task: Task, config: RunConfig, out: Path, failed: dict[str, str], cvar: float | None
) -> str:
    """Show what a comparison found, and what failed; nothing that goes wrong here hides the latter."""
    failures = [f"{name}: {why}" for name, why in failed.items()]
    try:
        text = _show(console, task, config, out, cvar)
    except Exception as error:
        if failures:
            raise RunFailed("; ".join([*failures, f"and no table: {error}"])) from error
        raise
    if failures:
        raise RunFailed("; ".join(failures))
    return text


def _import_reports() -> None:
    from geodesic.analysis import statistics
    from geodesic.report import exports, figures, tables, text

    _ = statistics, exports, figures, tables, text


def _show(console: Console, task: Task, config: RunConfig, out: Path, cvar: float | None) -> str:
    from geodesic.analysis.statistics import summarise
    from geodesic.records import load_comparison
    from geodesic.report.exports import write_exports
    from geodesic.report.figures import draw_comparison
    from geodesic.report.tables import format_table, infeasible_table, tail_table
    from geodesic.report.text import at_source, sparklines
    from geodesic.runs.tail import worst_contexts

    runs = load_comparison(out)
    rows = summarise(runs, config.solved, "gradient")
    console.print(f"{task.name}, {config.steps} steps, solved above {config.solved:g}")
    tails = [worst_contexts(run.folder, cvar, task) for run in runs if run.finished and cvar]
    stayed = "\n".join(at_source(runs))
    texts = format_table(rows), infeasible_table(runs), tail_table(tails), stayed, "\n".join(sparklines(runs))
    for line in "\n\n".join(text for text in texts if text).splitlines():
        console.print(line)
    for path in [out, *write_exports(out, rows, runs), *draw_comparison(runs, out, task)]:
        console.print(f"  wrote {path}")
    tables = format_table(rows, True), infeasible_table(runs, True), tail_table(tails, True), stayed
    return "\n\n".join(part for part in tables if part)


def watch_runs(options: argparse.Namespace, console: Console) -> None:
    from geodesic.checks import as_positive
    from geodesic.report.watch import watch

    every = as_positive(options.every, "--every")
    try:
        watch(options.folder, console, every, options.once)
    except KeyboardInterrupt:
        return  # whoever watches may leave; the runs go on


def theory(options: argparse.Namespace, console: Console) -> None:
    import numpy as np

    from geodesic.analysis.theory import check

    findings = check(np.random.default_rng(0))
    for finding in findings:
        console.print(finding)
    failed = [finding.claim for finding in findings if not finding.holds]
    if failed:
        raise RunFailed(f"expected every claim to hold, got {len(failed)} that fail: {'; '.join(failed)}")
    console.print(f"Verdict: all {len(findings)} claims hold.")


def _alphas(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"expected --alphas as numbers separated by commas, got {text!r}") from None
