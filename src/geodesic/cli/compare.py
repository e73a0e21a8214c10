"""`geodesic compare` and the demo, which is one: methods x seeds, and what came of them."""

from __future__ import annotations

import argparse
import os
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from geodesic.cli.commands import plan_curriculum
from geodesic.cli.run import prepare
from geodesic.errors import InvalidInput, RunFailed

if TYPE_CHECKING:
    from rich.console import Console

    from geodesic.records import RunConfig
    from geodesic.runs.executors import Executor, Job, Update
    from geodesic.tasks import Task


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
