"""The command line. Each command is one function; everything it does is a call into the library."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geodesic.errors import CheckpointError, GeodesicError, InvalidInput, RunFailed

if TYPE_CHECKING:
    from rich.console import Console

EXIT_FAILED, EXIT_USAGE = 1, 2


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
    except KeyboardInterrupt:
        return _complain("stopped; what was done is kept (--resume goes on)", EXIT_FAILED)
    return 0


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        """One line, and where to read on."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser() -> Parser:
    root = Parser(prog="geodesic", description="Curriculum reinforcement learning along Wasserstein geodesics.")
    commands = root.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=run)
        return sub

    command("list", list_all, "environments, methods, learners and metrics, with a line on each")

    plan = command("plan", plan_curriculum, "draw the curriculum without training")
    plan.add_argument("env", metavar="ENV")
    plan.add_argument("--alphas", default="0,.25,.5,.75,1", help="shares of the way, default %(default)s")
    plan.add_argument("--metric", help="distance between contexts")
    plan.add_argument("--out", type=Path, help="folder, default runs/ENV/plan")

    run = command("run", run_one, "train one agent with one method")
    run.add_argument("env", metavar="ENV", nargs="?", help="environment (not needed with --resume)")
    run.add_argument("--method", default="gradient", help="name[:option=value...], default %(default)s")
    run.add_argument("--learner", default="jax")
    run.add_argument("--metric", help="distance between contexts, default the environment's")
    run.add_argument("--threshold", type=float, help="return above which a stage is mastered")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--steps", type=int, help="environment steps, default the paper's")
    run.add_argument("--out", type=Path, help="run folder, default runs/ENV/METHOD/seed-N")
    run.add_argument("--save-every", type=float, default=20.0, metavar="SECONDS", help="between two checkpoints")
    run.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in this folder")

    compare = command("compare", compare_all, "methods x seeds, in processes; call it again to go on where it stopped")
    compare.add_argument("env", metavar="ENV")
    compare.add_argument("--methods", default="", help="all, or names with options separated by commas")
    compare.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each method, default %(default)s")
    compare.add_argument(
        "--first-seed", type=int, default=0, metavar="S", help="seeds S ... S + N - 1, default %(default)s"
    )
    compare.add_argument("--steps", type=int, help="environment steps of each run, default the paper's")
    compare.add_argument("--threshold", type=float, help="return that counts as solved, default the paper's")
    compare.add_argument("--out", type=Path, help="folder, default runs/ENV/compare")
    compare.add_argument("--workers", type=int, help="processes, default one per core")
    compare.add_argument("--at-once", type=int, help="runs in one program, default 1 (all of them on a GPU)")
    compare.add_argument("--record", type=Path, metavar="FILE", help="also keep the table in this Markdown file")

    command("theory", theory, "check the lemma, the theorem and the corollary on random tabular problems")

    demo = command("demo", run_demo, "the maze with and without a curriculum, in a minute")
    demo.add_argument("--out", type=Path, default=Path("runs/demo"))
    return root


def list_all(options: argparse.Namespace, console: Console) -> None:
    from geodesic import curricula, envs
    from geodesic.experiments.config import LEARNERS, METRICS

    tables = {
        "environments": {name: spec.summary for name, spec in envs.REGISTRY.items()},
        "methods": {name: (method.__doc__ or "").split("\n")[0] for name, method in curricula.REGISTRY.items()},
        "learners": LEARNERS,
        "metrics": METRICS,
    }
    for title, rows in tables.items():
        console.print(title, style="bold")
        for name, text in rows.items():
            console.print(f"  {name:<13} {text}")


def plan_curriculum(options: argparse.Namespace, console: Console) -> None:
    from geodesic.experiments.plan import draw_plan

    for line in draw_plan(options.env, _alphas(options.alphas), options.metric, options.out):
        console.print(line)


def run_one(options: argparse.Namespace, console: Console) -> None:
    from geodesic.experiments import run
    from geodesic.report.figures import write_run_figures

    run.use_compilation_cache()
    batch = _resume(options.resume, options.env) if options.resume is not None else _start(options)
    batch.checkpoint_seconds = options.save_every
    done = batch.runs[0]
    config, folder = done.config, done.folder.path
    with _progress(console) as bars:
        task = bars.add_task(f"{config.env} {config.label}", total=config.steps, note="compiling")
        batch.report = lambda _, now: bars.update(task, completed=now.step, note=_note(now))
        batch.train()
    console.print(
        f"{config.label} on {config.env}, seed {config.seed}: target return {done.target_return:.2f}, "
        f"stage {done.state.stage}, alpha {done.state.alpha:.2f} after {batch.step} steps",
    )
    for path in [folder, *write_run_figures(folder)]:
        console.print(f"  wrote {path}")


def _start(options: argparse.Namespace) -> Any:
    from geodesic.experiments import run
    from geodesic.experiments.config import configure, default_folder

    if options.env is None:
        raise InvalidInput("expected an environment: geodesic run ENV (or --resume DIR)")
    given = (options.method, options.seed, options.steps, options.metric, options.threshold, options.learner)
    config = configure(options.env, *given)
    return run.start([config], [options.out or default_folder(config)])


def _resume(folder: Path, env: str | None) -> Any:
    from geodesic.experiments import run
    from geodesic.experiments.folder import finished, read_config

    config = read_config(folder)
    if env not in (None, config.env):
        raise InvalidInput(f"expected the run's environment {config.env!r}, got {env!r}")
    if finished(folder):
        raise InvalidInput(f"the run in {folder} is finished; nothing to resume")
    return run.resume([config], [folder])


def compare_all(options: argparse.Namespace, console: Console) -> None:
    from geodesic import curricula
    from geodesic.report.text import record

    labels = list(curricula.REGISTRY) if options.methods == "all" else [m for m in options.methods.split(",") if m]
    out = options.out or Path("runs") / options.env / "compare"
    text = _compare(console, options.env, labels, options.seeds, options.steps, out, options)
    if options.record is not None:
        record(options.record, f"compare {options.env}", text)
        console.print(f"  wrote {options.record}")


def run_demo(options: argparse.Namespace, console: Console) -> None:
    from geodesic.report.figures import write_run_figures

    plan = argparse.Namespace(env="maze", alphas="0,.25,.5,.75,1", metric=None, out=options.out / "figures")
    plan_curriculum(plan, console)
    settings = argparse.Namespace(first_seed=0, threshold=None, workers=None, at_once=3)
    _compare(console, "maze", ["gradient", "target-only"], 3, None, options.out / "maze", settings)
    for path in write_run_figures(options.out / "maze" / "runs" / "gradient" / "seed-0"):
        console.print(f"  wrote {path}")


def _compare(
    console: Console,
    env: str,
    labels: list[str],
    seeds: int,
    steps: int | None,
    out: Path,
    options: argparse.Namespace,
) -> str:
    """Run and show a comparison; its table in Markdown."""
    from geodesic.experiments.compare import compare, plan_comparison
    from geodesic.experiments.results import load_comparison
    from geodesic.experiments.statistics import summarise
    from geodesic.report.figures import write_comparison_figures
    from geodesic.report.tables import format_table, infeasible_table
    from geodesic.report.text import sparklines

    chosen = range(options.first_seed, options.first_seed + seeds)
    configs = plan_comparison(env, labels, chosen, steps, out, options.threshold)
    with _progress(console) as bars:
        listener = _Bars(bars, sum(config.steps for config in configs))
        outcome = compare(configs, out, options.workers, options.at_once, listener)
    runs = load_comparison(out)
    rows = summarise(runs, configs[0].solved, "gradient")
    console.print(f"{env}, {configs[0].steps} steps, solved above {configs[0].solved:g}")
    infeasible = infeasible_table(runs).splitlines()
    for line in [*format_table(rows).splitlines(), "", *infeasible, *[""] * bool(infeasible), *sparklines(runs)]:
        console.print(line)
    for path in [out, *write_comparison_figures(out)]:
        console.print(f"  wrote {path}")
    if outcome.failed:
        raise RunFailed("; ".join(f"{name}: {why}" for name, why in outcome.failed.items()))
    return "\n\n".join(part for part in (format_table(rows, True), infeasible_table(runs, True)) if part)


class _Bars:
    """Live progress of a comparison: one bar for all of it, and one for each task under way."""

    def __init__(self, bars: Any, total: int) -> None:
        self.bars = bars
        self.whole = bars.add_task("all runs", total=total, note="")
        self.tasks: dict[int, Any] = {}
        self.steps: dict[int, int] = {}

    def __call__(self, task: Any, update: Any) -> None:
        if update.task not in self.tasks:
            self.tasks[update.task] = self.bars.add_task(task.name, total=task.steps, note="compiling")
        shown = self.tasks[update.task]
        self.steps[update.task] = max(update.steps, self.steps.get(update.task, 0))
        self.bars.update(shown, completed=update.steps, note=update.error or update.note)
        if update.ended:
            self.bars.update(shown, visible=bool(update.error))
        self.bars.update(self.whole, completed=sum(self.steps.values()))


def theory(options: argparse.Namespace, console: Console) -> None:
    import numpy as np

    from geodesic.experiments.theory import check

    for row in check(np.random.default_rng(0)):
        console.print(row)


def _progress(console: Console) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=console,
    )


def _note(now: Any) -> str:
    return f"stage {now.stage} alpha {now.alpha:.2f} return {now.train_return:.1f} target {now.target_return:.1f}"


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


XLA_FLAGS = {
    # these networks are too small for threads; runs are what is spread over cores
    "xla_cpu_multi_thread_eigen": "false",
    # with it, programs of several runs were seen to stop for good, every thread idle (JAX 0.10.2; a test shows it)
    "xla_cpu_enable_concurrency_optimized_scheduler": "false",
}


def one_thread_per_process() -> None:
    """Set what XLA reads from the environment when JAX starts; what the user has set there stays."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    given = os.environ.get("XLA_FLAGS", "")
    ours = [f"--{name}={value}" for name, value in XLA_FLAGS.items() if name not in given]
    os.environ["XLA_FLAGS"] = " ".join([*ours, given]).strip()


if __name__ == "__main__":
    sys.exit(main())
