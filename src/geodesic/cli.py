"""The command line. Each command is one function; everything it does is a call into the library."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from geodesic.errors import CheckpointError, GeodesicError, InvalidInput, RunFailed
from geodesic.runtime import one_thread_per_process

if TYPE_CHECKING:
    from rich.console import Console

    from geodesic.records import RunConfig
    from geodesic.runs.executors import Job, Update
    from geodesic.runs.run import Batch
    from geodesic.tasks import Task

EXIT_FAILED, EXIT_USAGE = 1, 2
TASK = "name, name:option=value, package.module:object or path/file.py:object"
METHOD = "name[:option=value...]"
Command = Callable[[argparse.Namespace, "Console"], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """0 on success, 1 on a failed run, 2 on bad usage with a one-line message."""
    options = parser().parse_args(arguments)
    one_thread_per_process()
    try:
        options.command(options, _console())
    except (InvalidInput, CheckpointError) as error:
        return _complain(error, EXIT_USAGE)
    except GeodesicError as error:
        return _complain(error, EXIT_FAILED)
    except KeyboardInterrupt as stop:
        return _complain(str(stop) or "stopped; the same command goes on where it was", EXIT_FAILED)
    return 0


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, and where to read on."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser() -> Parser:
    root = Parser(prog="geodesic", description="Curriculum reinforcement learning along Wasserstein geodesics.")
    root.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    commands = root.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Command, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=run)
        return sub

    command("list", list_all, "tasks, methods, learners, backends and metrics, with a line on each")
    check = command("check", check_one, "whether a task keeps the contract; what to add if it does not")
    check.add_argument("task", metavar="TASK", help=TASK)
    _plan_options(command("plan", plan_curriculum, "draw the curriculum without training"))
    _run_options(command("run", run_one, "train one agent with one method"))
    _compare_options(
        command("compare", compare_all, "methods x seeds, in processes; call it again to go on where it stopped")
    )
    command("theory", theory, "check the lemma, the theorem and the corollary on random tabular problems")
    demo = command("demo", run_demo, "the maze with and without a curriculum, in a minute")
    demo.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder (default: %(default)s)")
    _quiet(demo)
    return root


def _plan_options(plan: argparse.ArgumentParser) -> None:
    plan.add_argument("task", metavar="TASK", help=TASK)
    plan.add_argument("--alphas", default="0,.25,.5,.75,1", help="shares of the way (default: %(default)s)")
    plan.add_argument("--metric", help="distance between contexts (default: the task's)")
    plan.add_argument("--out", type=Path, help="folder (default: runs/TASK/plan)")


def _run_options(run: argparse.ArgumentParser) -> None:
    run.add_argument("task", metavar="TASK", nargs="?", help=f"{TASK} (not needed with --resume or --config)")
    run.add_argument("--method", help=f"{METHOD} (default: gradient)")
    run.add_argument("--learner", help=f"{METHOD}, such as sac:learning_rate=1e-3 (default: the task's)")
    run.add_argument("--backend", help="what trains (default: jax)")
    run.add_argument("--metric", help="distance between contexts (default: the task's)")
    run.add_argument("--threshold", type=float, help="score above which a stage is mastered (default: the task's)")
    run.add_argument("--seed", type=int, help="of everything random (default: 0)")
    run.add_argument("--steps", type=int, help="environment steps; with --resume, in all (default: the task's)")
    run.add_argument(
        "--config", type=Path, metavar="FILE", help="a run's config.json, or TOML, to repeat (default: none)"
    )
    run.add_argument("--out", type=Path, help="run folder (default: runs/TASK/LABEL/seed-N)")
    run.add_argument(
        "--save-every", type=float, default=20.0, metavar="SECONDS", help="between checkpoints (default: %(default)s)"
    )
    run.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with the run in this folder (default: a new run)"
    )
    _quiet(run)


def _compare_options(compare: argparse.ArgumentParser) -> None:
    compare.add_argument("task", metavar="TASK", help=TASK)
    compare.add_argument("--methods", default="", help=f"all, or {METHOD} with commas between (default: the task's)")
    compare.add_argument("--learner", help=f"{METHOD} (default: the task's)")
    compare.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each method (default: %(default)s)")
    compare.add_argument(
        "--first-seed", type=int, default=0, metavar="S", help="seeds S ... S + N - 1 (default: %(default)s)"
    )
    compare.add_argument("--steps", type=int, help="environment steps of each run (default: the task's)")
    compare.add_argument(
        "--threshold", type=float, help="score that counts as mastered and solved (default: the task's)"
    )
    compare.add_argument("--out", type=Path, help="folder (default: runs/TASK/compare)")
    compare.add_argument("--executor", default="local", choices=["local"], help="who runs them (default: %(default)s)")
    compare.add_argument("--workers", type=int, help="processes (default: one per core)")
    compare.add_argument("--at-once", type=int, help="runs in one program (default: 1, all of them on a GPU)")
    compare.add_argument(
        "--record", type=Path, metavar="FILE", help="keep the table in this Markdown file (default: none)"
    )
    _quiet(compare)


def _quiet(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--quiet", action="store_true", help="no progress, only the summary (default: progress)")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> NoReturn:
        from geodesic import __version__

        parser.exit(message=f"geodesic {__version__}\n")


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
    from geodesic.report.figures import write_run_figures
    from geodesic.report.progress import Display, standing

    if not options.save_every >= 0:
        raise InvalidInput(f"expected --save-every of at least 0 seconds, got {options.save_every}")
    batch = _resumed(options) if options.resume is not None else _started(options)
    batch.checkpoint_seconds = options.save_every
    (lesson,) = batch.lessons
    config, folder = lesson.config, options.resume or lesson.folder.path  # type: ignore[union-attr]
    try:
        with Display(console, options.quiet) as display:
            line = display.add(f"{config.name} {config.label}", config.steps)
            batch.watch = lambda _, now: display.update(
                line, now.step, standing(now.stage, now.alpha, now.target_score)
            )
            batch.train()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; kept in {folder}; go on with: geodesic run --resume {folder}") from None
    console.print(
        f"{config.label} on {config.name}, seed {config.seed}: target {config.measure} {lesson.target_score:.2f}, "
        f"stage {lesson.state.stage}, alpha {lesson.state.alpha:.2f} after {batch.step} steps",
    )
    for path in [folder, *write_run_figures(folder, lesson.task)]:
        console.print(f"  wrote {path}")


def _started(options: argparse.Namespace) -> Batch:
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
    return run.start([config], [options.out or default_folder(config, task)], task)


def _from_file(options: argparse.Namespace) -> RunConfig:
    from geodesic.runs.config import read_file

    config = read_file(options.config)
    _refuse_others(options, config, ("task", "method", "metric", "threshold", "learner", "backend"))
    steps = config.steps if options.steps is None else options.steps
    return config.replace(seed=config.seed if options.seed is None else options.seed, steps=steps)


def _resumed(options: argparse.Namespace) -> Batch:
    from geodesic.records import read_config
    from geodesic.runs import run

    if options.config is not None or options.out is not None:
        raise InvalidInput("expected --resume DIR without --config and --out: the run is in its folder")
    names = ("task", "method", "metric", "threshold", "seed", "learner", "backend")
    _refuse_others(options, read_config(options.resume), names)
    return run.extend(options.resume, options.steps)


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

    if name == "task":
        return said if load(str(said)).reference == config.task else config.task
    if name == "method":
        return said if config.label.startswith(str(said)) else config.label
    if name == "learner":
        same = learner_of(task_of(config), said) == (config.learner, config.learner_options)
        return said if same else config.learner
    return getattr(config, name)


def compare_all(options: argparse.Namespace, console: Console) -> None:
    from geodesic import curricula
    from geodesic.report.text import record
    from geodesic.runs.config import slug
    from geodesic.tasks import load

    task = load(options.task)
    labels = list(curricula.REGISTRY) if options.methods == "all" else [m for m in options.methods.split(",") if m]
    out = options.out or Path("runs") / slug(task.name) / "compare"
    text = _compare(console, task, labels, out, options)
    if options.record is not None:
        record(options.record, f"compare {task.name}", text)
        console.print(f"  wrote {options.record}")


def run_demo(options: argparse.Namespace, console: Console) -> None:
    from geodesic.report.figures import write_run_figures
    from geodesic.tasks import load

    figures = argparse.Namespace(task="maze", alphas="0,.25,.5,.75,1", metric=None, out=options.out / "figures")
    plan_curriculum(figures, console)
    settings = parser().parse_args(["compare", "maze", "--at-once", "3"])
    settings.quiet = options.quiet
    _compare(console, load("maze"), ["gradient", "target-only"], options.out / "maze", settings)
    for path in write_run_figures(options.out / "maze" / "runs" / "gradient" / "seed-0"):
        console.print(f"  wrote {path}")


def _compare(console: Console, task: Task, labels: list[str], out: Path, options: argparse.Namespace) -> str:
    """Run and show a comparison; its table in Markdown."""
    from geodesic.analysis.statistics import summarise
    from geodesic.records import load_comparison
    from geodesic.report.figures import write_comparison_figures
    from geodesic.report.progress import Display
    from geodesic.report.tables import format_table, infeasible_table
    from geodesic.report.text import sparklines
    from geodesic.runs.compare import compare, plan_comparison
    from geodesic.runs.executors import LocalProcesses

    for name in ("workers", "at_once"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise InvalidInput(f"expected --{name.replace('_', '-')} of at least 1, got {getattr(options, name)}")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    configs = plan_comparison(task, labels, seeds, options.steps, out, options.threshold, options.learner)
    with Display(console, options.quiet) as display:
        bars = _Bars(display, sum(config.steps for config in configs))
        executor = None if options.workers is None else LocalProcesses(options.workers)
        outcome = compare(configs, out, task, executor, options.at_once, bars)
    runs = load_comparison(out)
    rows = summarise(runs, configs[0].solved, "gradient")
    console.print(f"{task.name}, {configs[0].steps} steps, solved above {configs[0].solved:g}")
    infeasible = infeasible_table(runs).splitlines()
    for line in [*format_table(rows).splitlines(), "", *infeasible, *[""] * bool(infeasible), *sparklines(runs)]:
        console.print(line)
    for path in [out, *write_comparison_figures(out, task)]:
        console.print(f"  wrote {path}")
    if outcome.failed:
        raise RunFailed("; ".join(f"{name}: {why}" for name, why in outcome.failed.items()))
    return "\n\n".join(part for part in (format_table(rows, True), infeasible_table(runs, True)) if part)


class _Bars:
    """Live progress of a comparison: one line for all of it, and one for each job under way."""

    def __init__(self, display: Any, total: int) -> None:
        self.display = display
        self.whole = display.add("all runs", total)
        self.lines: dict[int, Any] = {}

    def __call__(self, job: Job, update: Update) -> None:
        if update.job not in self.lines:
            self.lines[update.job] = self.display.add(job.name, job.steps)
        line = self.lines[update.job]
        note = update.error or update.note
        done = max(update.steps, line.done)
        self.display.update(line, done, note, shown=not update.ended or bool(update.error))
        total = sum(each.done for each in self.lines.values())
        self.display.update(self.whole, total, f"{sum(not each.shown for each in self.lines.values())} jobs done")


def theory(options: argparse.Namespace, console: Console) -> None:
    import numpy as np

    from geodesic.analysis.theory import check

    for row in check(np.random.default_rng(0)):
        console.print(row)


def _alphas(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"expected --alphas as numbers separated by commas, got {text!r}") from None


def _console() -> Console:
    from rich.console import Console

    return Console(markup=False, highlight=False, soft_wrap=True)


def _complain(error: object, code: int) -> int:
    sys.stderr.write(f"geodesic: {' '.join(str(error).split())}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
