"""The commands, one function each; all they do is call the library. The demo is a comparison."""

from __future__ import annotations

import argparse
import math
import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from textwrap import fill
from threading import Timer
from typing import TYPE_CHECKING, TypeVar

from geodesic import curricula, learners, metrics, tasks
from geodesic.checks import as_count, as_integer, as_positive
from geodesic.errors import InvalidInput, MissingExtra, RunFailed, count
from geodesic.records import RunConfig, check_origin, finished, load_comparison, load_run, read_config, trackers
from geodesic.records.config import BACKENDS
from geodesic.runs.benchmark import SEEDS, is_benchmark, plan_benchmark, run_benchmark
from geodesic.runs.compare import Methods, Outcome, compare, expand_methods, plan_comparison, run_folder
from geodesic.runs.config import default_folder, read_file, slug
from geodesic.runs.executors import Executor, LocalProcesses, RayTasks
from geodesic.runs.plan import plan
from geodesic.runs.stopping import Stopping
from geodesic.tasks import suites
from geodesic.tasks.check import quick_check
from geodesic.tasks.methods import resolve
from geodesic.training.configure import configure, learner_of, task_of

if TYPE_CHECKING:
    from rich.console import Console

    from geodesic.runs.run import Batch

    Planned = tuple[Path, RunConfig, Callable[[], Batch]]  # a run's folder, its configuration, and what starts it

T = TypeVar("T")

TERMINAL = 100  # columns that a list fits
IMPORT_SECONDS = 5.0  # after which the workers have imported, so that this process does not slow them down


def list_all(options: argparse.Namespace, console: Console) -> None:
    """Print every name with one line about it."""
    known = curricula.REGISTRY  # methods of installed packages are not imported for a description
    methods = {name: f"from {point.value.partition(':')[0]}" for name, point in known.announced().items()}
    tables = {
        "tasks": tasks.names(),
        "suites": suites.descriptions(),
        "methods": methods | {name: getattr(known.known(name), "description", "") for name in known},
        "learners": learners.names(),
        "backends": BACKENDS,
        "metrics": metrics.descriptions(),
    }
    width = max(len(name) for rows in tables.values() for name in rows)
    for title, rows in tables.items():
        console.print(title, style="bold")
        for name, text in rows.items():
            rest = " " * (width + 4)
            console.print(fill(f"  {name:<{width}}  {text}", TERMINAL, subsequent_indent=rest, break_on_hyphens=False))


def check_one(options: argparse.Namespace, console: Console) -> None:
    """Check a task; an invalid one raises an error that says what to change."""
    task = tasks.load(options.task)
    for line in tasks.check_task(task):
        console.print(f"  {line}")
    console.print(f"{task} is valid")


def plan_curriculum(options: argparse.Namespace, console: Console) -> None:
    """Draw the curriculum of a task without training."""
    from geodesic.report.figures import write_plan_figures

    task = tasks.load(options.task)
    try:
        alphas = [float(part) for part in options.alphas.split(",")]
    except ValueError:
        raise InvalidInput(f"expected --alphas as numbers separated by commas, got {options.alphas!r}") from None
    made = plan(task, alphas, options.metric)
    out = options.out or Path("runs") / slug(task.name) / "plan"
    for line in [*made.lines(), *(f"  wrote {path}" for path in write_plan_figures(out, made))]:
        console.print(line)


def report(options: argparse.Namespace, console: Console) -> None:
    """Write the page of a run, a comparison or a benchmark; figures are drawn in another process meanwhile."""
    from functools import partial

    from geodesic.report.contexts import Moments
    from geodesic.report.figures import write_comparison_figures, write_run_figures
    from geodesic.report.page import check_extra, write_report
    from geodesic.runs.helper import Helper

    check_extra()
    if is_benchmark(options.folder):
        _show_benchmark(options.folder, console)
        return
    draw = write_run_figures if (options.folder / "config.json").exists() else write_comparison_figures
    film, at = not options.no_film, Moments.parse(options.at) if options.at else None
    with Helper(
        "drawing the figures", partial(draw, at=at), options.folder, None, ("pdf", "svg"), options.trust
    ) as drawn:
        page = write_report(options.folder, film=film, figures=drawn.result, trust=options.trust)
    for path in drawn.result():
        console.print(f"  wrote {path}, also as PDF and SVG")
    console.print(f"  wrote {page}")


def export(options: argparse.Namespace, console: Console) -> None:
    """Write a trained policy to a file."""
    from geodesic.api import load

    result = load(options.folder, options.trust)
    for path in result.export(options.out, options.seed, options.method, options.which):
        console.print(f"  wrote {path}")


def watch_runs(options: argparse.Namespace, console: Console) -> None:
    """Show the progress of runs; Ctrl-C ends this command and not the runs."""
    from geodesic.report.progress import watch

    every = as_positive(options.every, "--every")
    with suppress(KeyboardInterrupt):
        watch(options.folder, console, every, options.once)


def theory(options: argparse.Namespace, console: Console) -> None:
    """Test the paper's theory; a claim that does not hold, or one that should fail and holds, raises an error."""
    from itertools import groupby

    import numpy as np

    from geodesic.analysis.theory import check

    findings = check(np.random.default_rng(0))
    counts = []
    for part, group in groupby(findings, lambda finding: finding.part):
        found = list(group)
        console.print(part, style="bold")
        for finding in found:
            console.print(f"  {finding}")
        counts.append(f"{part[0].lower()}{part[1:]}: {len(found)}")
    wrong = [finding.claim for finding in findings if not finding.confirmed]
    if wrong:
        raise RunFailed(f"expected every claim to be confirmed, got {len(wrong)} that are not: {'; '.join(wrong)}")
    console.print(f"All {len(findings)} claims are confirmed ({'; '.join(counts)}).")


def run_one(options: argparse.Namespace, console: Console) -> None:
    """Train one agent: a new run, one from a configuration file, or a resumed one; and draw the run's figures."""
    prepare(options)
    folder: Path | None = None
    try:
        with Stopping() as stop:
            folder, config, begin = _resumed(options) if options.resume is not None else _new(options)
            if options.resume is None or not _lacks_only_figures(folder, options.steps):
                _train(folder, config, begin, options, console)
        if stop.asked:
            raise KeyboardInterrupt
        from geodesic.analysis.verdict import verdict_of
        from geodesic.report.figures import write_run_figures

        console.print(verdict_of([load_run(folder)]).text)
        for path in [folder, *write_run_figures(folder, trust=True)]:  # `_new` and `_resumed` have checked its code
            console.print(f"  wrote {path}")
    except KeyboardInterrupt:
        if folder is None or not (folder / "config.json").exists():
            raise
        again = ["geodesic", "run", "--resume", str(folder)] if options.resume is None else shlex.split(options.line)
        raise KeyboardInterrupt(f"stopped; resume with: {shlex.join(again)}") from None


def _train(
    folder: Path, config: RunConfig, begin: Callable[[], Batch], options: argparse.Namespace, console: Console
) -> None:
    """Train to the end, and print a summary."""
    from geodesic.report.progress import FolderProgress

    with FolderProgress(console, folder, [config], options.quiet):
        batch = begin()
        batch.checkpoint_seconds = options.save_every
        batch.train()
    (session,) = batch.sessions
    console.print(
        f"{config.label} on {config.name}, seed {config.seed}: target {config.score} {session.target_score:.2f}, "
        f"stage {session.state.stage}, alpha {session.state.alpha:.2f} after {batch.step} steps",
    )


def _lacks_only_figures(folder: Path, steps: int | None) -> bool:
    """Whether a run is finished, but was killed before its figures were drawn."""
    from geodesic.report.figures import is_drawn

    return finished(folder) and steps in (None, read_config(folder).steps) and not is_drawn(folder)


def _new(options: argparse.Namespace) -> Planned:
    from geodesic.runs import run

    if options.config is not None:
        config = _from_file(options)
    elif options.task is None:
        raise InvalidInput("expected a task: geodesic run TASK (or --resume DIR, or --config FILE)")
    else:
        method, seed = options.method or "auto", options.seed or 0
        rest = (options.steps, options.metric, options.threshold, options.learner, options.backend or "jax")
        config = configure(options.task, method, seed, *rest)
    task = task_of(config)
    quick_check(task)
    folder = options.out or default_folder(config, task)
    return folder, config, lambda: run.start([config], [folder], task)


def _from_file(options: argparse.Namespace) -> RunConfig:
    config = read_file(options.config, options.trust)
    _refuse_others(options, config, ("task", "method", "metric", "threshold", "learner", "backend"))
    given = {name: getattr(options, name) for name in ("seed", "steps")}
    return config.replace(**{name: value for name, value in given.items() if value is not None})


def _resumed(options: argparse.Namespace) -> Planned:
    from geodesic.runs import run

    if options.config is not None or options.out is not None:
        raise InvalidInput("expected --resume DIR without --config and --out: the run is in its folder")
    config = read_config(options.resume)
    check_origin(options.resume / "config.json", config, options.trust)
    _refuse_others(options, config, ("task", "method", "metric", "threshold", "seed", "learner", "backend"))
    longer = config if options.steps is None else config.replace(steps=options.steps)
    return options.resume, longer, lambda: run.extend(options.resume, options.steps, trust=True)


def _refuse_others(options: argparse.Namespace, config: RunConfig, names: Sequence[str]) -> None:
    """Refuse options that contradict the configuration of the run."""
    for name in names:
        given = getattr(options, name)
        if given is not None and not _agrees(config, name, given):
            raise InvalidInput(f"expected the run's own {name} {_recorded(config, name)!r}, got {given!r}")


def _agrees(config: RunConfig, name: str, given: object) -> bool:
    """Whether an option means what the configuration says."""
    try:
        if name == "task":
            return tasks.load(str(given)).reference == config.task
        if name == "method":
            return resolve(task_of(config), str(given), config.metric)[:2] == (config.method, config.options)
        if name == "metric":
            return resolve(task_of(config), config.method, str(given))[2] == config.metric
        if name == "learner":
            return learner_of(task_of(config), given) == (config.learner, config.learner_options)
    except InvalidInput:  # it would be refused for this task, so it is not what the run has
        return False
    return bool(given == getattr(config, name))


def _recorded(config: RunConfig, name: str) -> object:
    """A value of the configuration as an option."""
    if name == "method":
        return config.label
    if name != "learner":
        return getattr(config, name)
    usual = learner_of(task_of(config), config.learner)[1]
    changed = {key: value for key, value in config.learner_options.items() if usual.get(key) != value}
    return ":".join([str(config.learner), *(f"{key}={value}" for key, value in changed.items())])


def prepare(options: argparse.Namespace) -> None:
    """Check the options that all training shares, and choose the trackers."""
    if not options.save_every >= 0:
        raise InvalidInput(f"expected --save-every of at least 0 seconds, got {options.save_every}")
    trackers.chosen(options.track)  # refuses unknown names before any work
    if options.track is not None:
        os.environ[trackers.VARIABLE] = options.track  # workers inherit it


def compare_all(options: argparse.Namespace, console: Console) -> None:
    """Train methods x seeds, and print and draw the results."""
    from geodesic.report.text import read_record, record

    methods = expand_methods(options.methods)
    if options.record is not None:
        read_record(options.record)  # refuses a file that is not text before the work, not after it
    name = "compare" if options.backend == "jax" else f"compare-{options.backend}"
    executor = _executor(options)
    with _warm_workers(executor, options, len(methods), name):
        task = tasks.load(options.task)
        out = options.out or Path("runs") / slug(task.name) / name
        text = _compare(console, task, methods, out, options, executor)
    if options.record is not None:
        record(options.record, f"compare {task.name}", text)
        console.print(f"  wrote {options.record}")


def benchmark(options: argparse.Namespace, console: Console) -> None:
    """Train methods x tasks x seeds, and write the tables and the page."""
    from geodesic.report.progress import benchmark_progress

    executor = _executor(options)
    out = options.out or Path("runs") / "benchmark" / (options.suite or suites.DEFAULT)
    with Stopping() as stop:
        plan = plan_benchmark(out, expand_methods(options.methods), options.suite, options.tasks, _seeds(options))
        for (label, name), reason in plan.left_out.items():
            console.print(f"{label} is left out on {name}: {reason}")
        console.print(f"suite {plan.suite}: {count(plan.runs, 'run')} in {out}, {plan.done} of them finished")
        try:
            progress = benchmark_progress(console, plan, options.quiet)
            outcome = run_benchmark(plan, executor, options.at_once, options.save_every, progress)
            if stop.asked:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"stopped; {plan.done} of {plan.runs} runs are finished, and the others are saved in {out}; "
                f"resume with: {options.line}"
            ) from None
    _and_failures(outcome.failed, lambda: _show_benchmark(out, console))


def _seeds(options: argparse.Namespace) -> Sequence[int] | None:
    """The seeds of a benchmark; None for those that its folder has."""
    if options.seeds is None and options.first_seed is None:
        return None
    first = options.first_seed or 0
    return range(first, first + as_count(SEEDS if options.seeds is None else options.seeds, "--seeds", 10**6))


def _show_benchmark(folder: Path, console: Console) -> None:
    """Print the table with one line per method, and write all tables and the page."""
    from geodesic.report.benchmark import BenchmarkResults, summary_table, write_tables
    from geodesic.report.page.benchmark import write_benchmark_report

    results = BenchmarkResults.read(folder)
    for line in [*results.sentences(), *summary_table(results).splitlines()]:
        console.print(line)
    written = write_tables(results)
    try:
        written.append(write_benchmark_report(results))
    except MissingExtra as error:
        console.print(f"  no page: {error}")
    for path in written:
        console.print(f"  wrote {path}")


def run_demo(options: argparse.Namespace, console: Console) -> None:
    """Train on the maze with and without a curriculum, and write a page about it."""
    from geodesic.cli import parser
    from geodesic.report.figures import write_run_figures
    from geodesic.report.page import write_report

    figures = argparse.Namespace(task="maze", alphas="0,.25,.5,.75,1", metric=None, out=options.out / "figures")
    plan_curriculum(figures, console)
    settings = parser().parse_args(["compare", "maze", "--seeds", "6", "--at-once", "6"])
    settings.quiet, settings.line = options.quiet, options.line
    methods = expand_methods("gradient,target-only")
    _compare(console, tasks.load("maze"), methods, options.out / "maze", settings, _executor(settings))
    for path in write_run_figures(options.out / "maze" / "runs" / "gradient" / "seed-0"):
        console.print(f"  wrote {path}")
    console.print(f"  wrote {write_report(options.out / 'maze')}; open it in a browser")


def _compare(
    console: Console, task: tasks.Task, methods: Methods, out: Path, options: argparse.Namespace, executor: Executor
) -> str:
    """Run and show a comparison; its table in Markdown."""
    from geodesic.report.progress import FolderProgress
    from geodesic.runs.cvar import check_fraction

    if options.cvar is not None:
        check_fraction(options.cvar)
    seeds = range(options.first_seed, options.first_seed + as_integer(options.seeds, "--seeds", 0, 10**6))
    imports = Timer(IMPORT_SECONDS, import_module, ["geodesic.report.figures"])  # its libraries take a second
    imports.daemon = True
    text = ""
    with Stopping() as stop, ExitStack() as progress:
        rest = (options.threshold, options.learner, options.backend)
        configs = plan_comparison(task, methods, seeds, options.steps, out, *rest)
        progress.enter_context(FolderProgress(console, out, configs, options.quiet))
        imports.start()

        def report(outcome: Outcome) -> None:
            nonlocal text
            progress.close()
            text = _and_failures(outcome.failed, lambda: _show(console, task, out, options.cvar))

        try:
            compare(configs, out, task, executor, options.at_once, options.save_every, report=report)
            if stop.asked:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            done = sum(finished(run_folder(out, config)) for config in configs)
            raise KeyboardInterrupt(
                f"stopped; {done} of {len(configs)} runs are finished, and the others are saved in {out}; "
                f"resume with: {options.line}"
            ) from None
        finally:
            imports.cancel()
    return text


def _warm_workers(
    executor: Executor, options: argparse.Namespace, methods: int, name: str
) -> AbstractContextManager[None]:
    """Start workers while the task is loaded and its runs are checked, unless all runs may be finished already."""
    likely = options.out or Path("runs") / slug(options.task) / name
    if not isinstance(executor, LocalProcesses) or os.path.exists(likely / "comparison.json"):
        return nullcontext()
    return executor.warm_up(max(options.seeds, 0) * max(methods, 1) // (options.at_once or 1))


def _executor(options: argparse.Namespace) -> Executor:
    """Check the options of the executor, and make it."""
    prepare(options)
    for name in ("workers", "at_once"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise InvalidInput(f"expected --{name.replace('_', '-')} of at least 1, got {getattr(options, name)}")
    ray = options.executor == "ray"
    for name in ("workers",) if ray else ("address", "cpus", "gpus"):
        if getattr(options, name) is not None:
            raise InvalidInput(f"expected --{name} with --executor {'local' if ray else 'ray'} only")
    if not ray:
        return LocalProcesses(options.workers)
    return RayTasks(options.address, 1 if options.cpus is None else options.cpus, options.gpus or 0)


def _and_failures(failed: dict[str, str], show: Callable[[], T]) -> T:
    """Show the results, and raise the failures, which no error in showing them may hide."""
    failures = [f"{name}: {reason}" for name, reason in failed.items()]
    try:
        shown = show()
    except Exception as error:
        if failures:
            raise RunFailed("; ".join([*failures, f"and no table: {error}"])) from error
        raise
    if failures:
        raise RunFailed("; ".join(failures))
    return shown


def _show(console: Console, task: tasks.Task, out: Path, cvar: float | None) -> str:
    """Print the tables and draw the figures; the tables in Markdown."""
    from geodesic.analysis.outcomes import at_source, path_problems
    from geodesic.analysis.statistics import summarise
    from geodesic.analysis.verdict import verdict_of
    from geodesic.report.figures import write_comparison_figures
    from geodesic.report.tables import cvar_table, format_table, infeasible_table, write_exports
    from geodesic.report.text import sparklines
    from geodesic.runs.cvar import worst_contexts

    runs = load_comparison(out)
    rows = summarise(runs, runs[0].solved)
    level = f"solved above {runs[0].solved:g}" if math.isfinite(runs[0].solved) else "no threshold"
    console.print(f"{task.name}, {runs[0].steps} steps, {level}")
    worst = [worst_contexts(run.folder, cvar, task) for run in runs if run.finished and cvar]

    def results(markdown: bool) -> str:
        tables = format_table(rows, markdown), infeasible_table(runs, markdown), cvar_table(worst, markdown)
        return "\n\n".join(filter(None, tables))

    shown = [results(markdown=False), "\n".join(sparklines(runs)), verdict_of(runs).text]
    for line in "\n\n".join(filter(None, shown)).splitlines():
        console.print(line)
    for path in [out, *write_exports(out, rows, runs), *write_comparison_figures(out, task, runs=runs)]:
        console.print(f"  wrote {path}")
    return "\n\n".join(filter(None, [results(markdown=True), "\n".join([*at_source(runs), *path_problems(runs)])]))
