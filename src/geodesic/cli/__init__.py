"""The command line. Every option's help states its default."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from geodesic import __version__
from geodesic.checks import as_path
from geodesic.cli import commands
from geodesic.errors import CheckpointError, GeodesicError, InvalidInput, printable
from geodesic.runs.benchmark import METHODS, SEEDS
from geodesic.runs.stopping import termination_interrupts
from geodesic.runtime import configure_process
from geodesic.tasks.suites import DEFAULT, SUITES
from geodesic.training.best import WHICH

if TYPE_CHECKING:
    from rich.console import Console

    Command = Callable[[argparse.Namespace, Console], None]

Add = Callable[..., argparse.Action]  # `add_argument` of a parser

TASK = "name, name:option=value, package.module:object or path/file.py:object"
METHOD = "name[:option=value...], or package.module:Name or path/file.py:Name with options"
METRIC = "distance between contexts: name, package.module:Name or path/file.py:Name (default: the task's)"
TRUST = "run code that the folder names (own task, method, ...) even if you did not write it here (default: no)"
QUIET = "show only the summary (default: show progress)"
EXIT_FAILED = 1
EXIT_USAGE = 2
# Replacements for a terminal without Unicode; any other character that it lacks becomes a question mark.
PLAIN = {"α": "alpha", "±": "+-", "…": "...", "²": "^2", "μ": "mu", **dict(zip("▁▂▃▄▅▆▇█", "_.,-=+*#"))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The words after `geodesic`; by default those of this process.

    Returns:
        The exit code: 0 on success, 1 if a run failed or was stopped, 2 on bad usage. Errors print one line.
    """
    _replace_unencodable()
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = parser().parse_args(words)
    options.line = shlex.join(["geodesic", *words])
    configure_process()
    try:
        with termination_interrupts():
            options.command(options, _console())
    except (InvalidInput, CheckpointError) as error:
        return _complain(error, EXIT_USAGE)
    except GeodesicError as error:
        return _complain(error, EXIT_FAILED)
    except KeyboardInterrupt as stop:
        # An interrupt inside another exec (a dataclass being made) stays recorded in the interpreter, and `python -m`
        # would die of SIGINT despite this handler; an exec of our own clears the record.
        exec("")
        return _complain(str(stop) or f"stopped; resume with: {options.line}", EXIT_FAILED)
    except OSError as error:
        return _complain(error, EXIT_FAILED) if error.filename else _output_failed(error)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):  # which JAX says
            raise
        return _complain(f"out of memory: {error}", EXIT_FAILED)
    return _written(0)


def _written(code: int) -> int:
    """Write what is left in the output's buffer; the exit code."""
    try:
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
    except OSError as error:
        return _output_failed(error)
    return code


def _output_failed(error: OSError) -> int:
    """Complain, and drop what is left in the output's buffer, which the interpreter would try to write again."""
    with contextlib.suppress(OSError):  # not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _complain(f"cannot write the output: {error.strerror or error}", EXIT_FAILED)


def _console() -> Console:
    from geodesic.report.terminal import SafeConsole

    return SafeConsole(markup=False, highlight=False, soft_wrap=True)


def _replace_unencodable() -> None:
    """Replace characters that the terminal or file cannot encode."""

    def replacement(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end

    codecs.register_error("geodesic.plain", replacement)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="geodesic.plain")


def _complain(error: object, code: int) -> int:
    """Print an error in one line; the exit code."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"geodesic: {printable(' '.join(str(error).split()))}\n")
    return code


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Exit after the output is written.

        Args:
            status: The exit code.
            message: What to print.
        """
        super().exit(_written(status), message)

    def error(self, message: str) -> NoReturn:
        """Print an error in one line, and exit.

        Args:
            message: The error.
        """
        self.exit(EXIT_USAGE, f"{self.prog}: {printable(message)} (see {self.prog} --help)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or the version; argparse would ignore that the output is full."""
        try:
            if file is not None and file is sys.stdout:
                file.write(message)
            else:
                super()._print_message(message, file)
        except OSError as error:
            super().exit(_output_failed(error))


def parser() -> Parser:
    """Return the parser of the command line."""
    root = Parser(prog="geodesic", description="Curriculum reinforcement learning along Wasserstein geodesics.")
    version = f"geodesic {__version__}"
    root.add_argument("--version", action="version", version=version, help="print the version and exit")
    subs = root.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Command, text: str) -> Add:
        sub = subs.add_parser(name, help=text, description=text)
        sub.set_defaults(command=run)
        return sub.add_argument

    command("list", commands.list_all, "list tasks, methods, learners, backends and metrics")
    add = command("check", commands.check_one, "check a task, and say what to change if it is not valid")
    add("task", metavar="TASK", help=TASK)
    _plan_options(command("plan", commands.plan_curriculum, "draw a curriculum without training"))
    _run_options(command("run", commands.run_one, "train one agent with one method"))
    text = "train methods x seeds in parallel; repeat the command to resume"
    _compare_options(command("compare", commands.compare_all, text))
    text = "train methods x the tasks of a suite x seeds, and write one table; repeat the command to resume"
    _benchmark_options(command("benchmark", commands.benchmark, text))
    add = command("report", commands.report, "write a page about a run, a comparison or a benchmark, and figures")
    add("folder", metavar="DIR", type=_path, help="folder of a run, a comparison or a benchmark, finished or not")
    add("--no-film", action="store_true", help="do not film the agents (default: film them)")
    text = (
        "draw contexts at these steps (10k,50k,300k) or fractions of the path (alpha=0,.5,1); give it twice for both: "
    )
    text += "alphas for methods with a path, steps for the others (default: five steps)"
    add("--at", action="append", metavar="MOMENTS", help=text)
    add("--trust", action="store_true", help=TRUST)
    add = command("export", commands.export, "write a trained policy to a file that other programs can use")
    add("folder", metavar="DIR", type=_path, help="folder of a run or a comparison, whatever trained it")
    text = "ends with .npz for NumPy, .onnx, or .zip for Stable-Baselines3 (default: policy.npz)"
    add("--out", type=_path, default=Path("policy.npz"), metavar="FILE", help=text)
    add("--seed", type=int, help="the run of this seed (default: the first one)")
    add("--method", help="the run of this method, by its label in the table (default: the first one)")
    text = "the policy with the best smoothed evaluation on the target, or the last one (default: %(default)s)"
    add("--which", default=WHICH[0], choices=WHICH, help=text)
    add("--trust", action="store_true", help=TRUST)
    add = command("watch", commands.watch_runs, "show the progress of the runs in a folder until none is running")
    add("folder", metavar="DIR", type=_path, help="folder of a run, of a comparison, or of several of them")
    text = "time between two updates (default: %(default)s)"
    add("--every", type=float, default=1.0, metavar="SECONDS", help=text)
    add(
        "--once", action="store_true", help="print the current state and exit (default: update it until all have ended)"
    )
    command("theory", commands.theory, "test the paper's theory: what it states, what fails, what holds instead")
    add = command("demo", commands.run_demo, "train on the maze with and without a curriculum, in a minute or two")
    add("--out", type=_path, default=Path("runs/demo"), help="folder (default: %(default)s)")
    add("--quiet", action="store_true", help=QUIET)
    return root


def _plan_options(add: Add) -> None:
    add("task", metavar="TASK", help=TASK)
    add("--alphas", default="0,.25,.5,.75,1", help="positions on the path (default: %(default)s)")
    add("--metric", help=METRIC)
    add("--out", type=_path, help="folder (default: runs/TASK/plan)")


def _run_options(add: Add) -> None:
    add("task", metavar="TASK", nargs="?", help=f"{TASK} (omit with --resume or --config)")
    add("--method", help=f"{METHOD} (default: auto)")
    add("--metric", help=METRIC)
    add("--seed", type=int, help="seed of all random numbers (default: 0)")
    text = "config.json of a run to repeat, or the same keys in TOML (default: none)"
    add("--config", type=_path, metavar="FILE", help=text)
    add("--out", type=_path, help="run folder (default: runs/TASK/LABEL/seed-N)")
    add("--resume", type=_path, metavar="DIR", help="resume the run in this folder (default: a new run)")
    add("--trust", action="store_true", help=TRUST)
    _training_options(add, backend=None)


def _compare_options(add: Add) -> None:
    add("task", metavar="TASK", help=TASK)
    text = f"all, or a comma-separated list of {METHOD}; step=0.1|0.2 expands to both (default: the task's)"
    add("--methods", default="", help=text)
    add("--seeds", type=int, default=3, metavar="N", help="runs of each method (default: %(default)s)")
    add("--first-seed", type=int, default=0, metavar="S", help="use seeds S ... S + N - 1 (default: %(default)s)")
    text = "also score each agent on its worst contexts: this fraction of the target's, such as 0.1 (default: off)"
    add("--cvar", type=float, metavar="FRACTION", help=text)
    add("--out", type=_path, help="folder (default: runs/TASK/compare, or compare-BACKEND)")
    _executor_options(add, "1, or all of them on a GPU")
    add("--record", type=_path, metavar="FILE", help="put the table into this Markdown file as well (default: none)")
    _training_options(add, backend="jax")


def _benchmark_options(add: Add) -> None:
    add("--suite", choices=list(SUITES), help=f"tasks to train on (default: that of --out, or {DEFAULT})")
    text = f"all, or a comma-separated list of {METHOD} (default: {','.join(METHODS)})"
    add("--methods", default="", help=text)
    add("--tasks", metavar="NAMES", help="only these tasks of the suite, separated by commas (default: all of them)")
    add("--seeds", type=int, metavar="N", help=f"runs of each method and task (default: as in --out, or {SEEDS})")
    add("--first-seed", type=int, metavar="S", help="use seeds S ... S + N - 1 (default: as in --out, or 0)")
    text = "folder; methods and seeds are added to an earlier benchmark in it (default: runs/benchmark/SUITE)"
    add("--out", type=_path, help=text)
    _executor_options(add, "all seeds of a method")
    _record_options(add, track="none")


def _executor_options(add: Add, at_once: str) -> None:
    """The options of commands with many runs."""
    text = "local processes or a Ray cluster (default: %(default)s)"
    add("--executor", default="local", choices=["local", "ray"], help=text)
    add("--workers", type=int, help="processes (default: one per core)")
    add("--address", help="with ray: the cluster (default: one that Ray finds, or a new one here)")
    add("--cpus", type=float, metavar="N", help="with ray: CPUs of each job (default: 1)")
    add("--gpus", type=float, metavar="N", help="with ray: GPUs of each job (default: 0)")
    add("--at-once", type=int, help=f"runs in one program (default: {at_once})")


def _training_options(add: Add, backend: str | None) -> None:
    """The options that `run` and `compare` share."""
    add("--learner", help=f"{METHOD}, such as sac:learning_rate=1e-3 (default: the task's)")
    add("--backend", default=backend, help="training code: jax, sb3 or sbx (default: jax)")
    text = 'score above which a stage is mastered and a run solved, or "auto" (default: the task\'s)'
    add("--threshold", type=_threshold, help=text)
    add("--steps", type=int, help="environment steps of a run, in total (default: the task's)")
    _record_options(add, track=None)


def _record_options(add: Add, track: str | None) -> None:
    """The options that all training shares."""
    text = "time between checkpoints (default: %(default)s)"
    add("--save-every", type=float, default=20.0, metavar="SECONDS", help=text)
    text = f"trackers: tensorboard, wandb, tensorboard,wandb or none (default: {track or 'tensorboard'})"
    add("--track", default=track, metavar="NAMES", help=text)
    add("--quiet", action="store_true", help=QUIET)


def _threshold(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected a number or "auto", got {text!r}') from None


def _path(text: str) -> Path:
    try:
        return as_path(text, "a name")
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None
