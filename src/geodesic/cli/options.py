"""What the commands take. Every option's help names its default."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from geodesic.checks import as_path
from geodesic.cli import commands, compare, run
from geodesic.errors import InvalidInput

if TYPE_CHECKING:
    from geodesic.cli.commands import Command

EXIT_USAGE = 2
TASK = "name, name:option=value, package.module:object or path/file.py:object"
METHOD = "name[:option=value...]"


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, and where to read on."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser() -> Parser:
    root = Parser(prog="geodesic", description="Curriculum reinforcement learning along Wasserstein geodesics.")
    root.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    subs = root.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Command, text: str) -> argparse.ArgumentParser:
        sub = subs.add_parser(name, help=text, description=text)
        sub.set_defaults(command=run)
        return sub

    command("list", commands.list_all, "tasks, methods, learners, backends and metrics, with a line on each")
    check = command("check", commands.check_one, "whether a task keeps the contract; what to add if it does not")
    check.add_argument("task", metavar="TASK", help=TASK)
    _plan_options(command("plan", commands.plan_curriculum, "draw the curriculum without training"))
    _run_options(command("run", run.run_one, "train one agent with one method"))
    _compare_options(
        command(
            "compare", compare.compare_all, "methods x seeds, in processes; call it again to go on where it stopped"
        )
    )
    report = command("report", commands.report, "a page of a run or a comparison, and its figures for a paper")
    report.add_argument("folder", metavar="DIR", type=_path, help="of a run or a comparison, finished or not")
    report.add_argument("--no-film", action="store_true", help="do not film the agents (default: do)")
    watch = command("watch", commands.watch_runs, "where the runs of a folder stand, live, until nothing goes on there")
    watch.add_argument("folder", metavar="DIR", type=_path, help="of a run or a comparison")
    watch.add_argument(
        "--every", type=float, default=1.0, metavar="SECONDS", help="between two looks (default: %(default)s)"
    )
    watch.add_argument("--once", action="store_true", help="only as it is now (default: until nothing goes on)")
    command("theory", commands.theory, "check the lemma, the theorem and the corollary on random tabular problems")
    demo = command("demo", compare.run_demo, "the maze with and without a curriculum, in a minute")
    demo.add_argument("--out", type=_path, default=Path("runs/demo"), help="folder (default: %(default)s)")
    _quiet(demo)
    return root


def _plan_options(plan: argparse.ArgumentParser) -> None:
    plan.add_argument("task", metavar="TASK", help=TASK)
    plan.add_argument("--alphas", default="0,.25,.5,.75,1", help="shares of the way (default: %(default)s)")
    plan.add_argument("--metric", help="distance between contexts (default: the task's)")
    plan.add_argument("--out", type=_path, help="folder (default: runs/TASK/plan)")


def _run_options(run: argparse.ArgumentParser) -> None:
    run.add_argument("task", metavar="TASK", nargs="?", help=f"{TASK} (not needed with --resume or --config)")
    run.add_argument("--method", help=f"{METHOD} (default: gradient)")
    run.add_argument("--learner", help=f"{METHOD}, such as sac:learning_rate=1e-3 (default: the task's)")
    run.add_argument("--backend", help="what trains: jax, sb3 or sbx (default: jax)")
    run.add_argument("--metric", help="distance between contexts (default: the task's)")
    run.add_argument("--threshold", type=float, help="score above which a stage is mastered (default: the task's)")
    run.add_argument("--seed", type=int, help="of everything random (default: 0)")
    run.add_argument("--steps", type=int, help="environment steps; with --resume, in all (default: the task's)")
    run.add_argument(
        "--config", type=_path, metavar="FILE", help="a run's config.json, or TOML, to repeat (default: none)"
    )
    run.add_argument("--out", type=_path, help="run folder (default: runs/TASK/LABEL/seed-N)")
    run.add_argument(
        "--save-every", type=float, default=20.0, metavar="SECONDS", help="between checkpoints (default: %(default)s)"
    )
    run.add_argument(
        "--resume", type=_path, metavar="DIR", help="go on with the run in this folder (default: a new run)"
    )
    _track(run)
    _quiet(run)


def _compare_options(compare: argparse.ArgumentParser) -> None:
    compare.add_argument("task", metavar="TASK", help=TASK)
    compare.add_argument("--methods", default="", help=f"all, or {METHOD} with commas between (default: the task's)")
    compare.add_argument("--learner", help=f"{METHOD} (default: the task's)")
    compare.add_argument("--backend", default="jax", help="what trains: jax, sb3 or sbx (default: %(default)s)")
    compare.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each method (default: %(default)s)")
    compare.add_argument(
        "--first-seed", type=int, default=0, metavar="S", help="seeds S ... S + N - 1 (default: %(default)s)"
    )
    compare.add_argument("--steps", type=int, help="environment steps of each run (default: the task's)")
    compare.add_argument(
        "--threshold", type=float, help="score that counts as mastered and solved (default: the task's)"
    )
    compare.add_argument(
        "--cvar",
        type=float,
        metavar="SHARE",
        help="also score each agent in this share of the target's contexts, its worst, such as 0.1 (default: not)",
    )
    compare.add_argument("--out", type=_path, help="folder (default: runs/TASK/compare, or compare-BACKEND)")
    compare.add_argument(
        "--executor", default="local", choices=["local", "ray"], help="who runs them (default: %(default)s)"
    )
    compare.add_argument("--workers", type=int, help="processes (default: one per core)")
    compare.add_argument("--address", help="with ray: the cluster (default: one that is found, or one of its own here)")
    compare.add_argument("--cpus", type=float, metavar="N", help="with ray: of each job (default: 1)")
    compare.add_argument("--gpus", type=float, metavar="N", help="with ray: of each job (default: 0)")
    compare.add_argument("--at-once", type=int, help="runs in one program (default: 1, all of them on a GPU)")
    compare.add_argument(
        "--save-every", type=float, default=20.0, metavar="SECONDS", help="between checkpoints (default: %(default)s)"
    )
    compare.add_argument(
        "--record", type=_path, metavar="FILE", help="keep the table in this Markdown file (default: none)"
    )
    _track(compare)
    _quiet(compare)


def _track(sub: argparse.ArgumentParser) -> None:
    text = "where numbers go too: tensorboard, wandb, both with a comma, or none (default: tensorboard)"
    sub.add_argument("--track", metavar="NAMES", help=text)


def _quiet(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--quiet", action="store_true", help="no progress, only the summary (default: progress)")


def _path(text: str) -> Path:
    try:
        return as_path(text, "a name")
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> NoReturn:
        from geodesic import __version__

        sys.stdout.write(f"geodesic {__version__}\n")
        parser.exit()
