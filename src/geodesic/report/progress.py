"""Live progress of runs, read from their folders: bars while a command trains them, and `geodesic watch`."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Literal

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from geodesic.checks import as_path
from geodesic.errors import InvalidInput, count
from geodesic.records import RunConfig
from geodesic.records.lock import held_by
from geodesic.records.status import FAILED, FINISHED, RUNNING, STOPPED, WAITING, RunStatus, run_places, run_statuses
from geodesic.report.text import format_known
from geodesic.runs.benchmark import BenchmarkPlan, TaskPlan
from geodesic.runs.executors.base import run_name

# The states and their colours; those that need attention come first.
COLOURS = {FAILED: "bold red", RUNNING: "green", STOPPED: "yellow", WAITING: "dim", FINISHED: "cyan"}
POLL_SECONDS = 0.3
POLL_FRACTION = 0.2  # of the time may at most go into reading folders, however many there are
LINE_SECONDS = 5.0  # between two plain lines
NAME_LENGTH = 22  # so that a bar fits 80 columns

# of the table of `watch`
READINGS = 30  # over which a speed is measured
MOST_LINES = 5000  # of a table that is printed once, in about a second
OTHER_LINES = 6  # of the screen, that are not runs
COLUMNS = ("run", "step", "%", "stage", "α", "target", "steps/s", "left", "state")
DISPENSABLE = ("steps/s", "%", "stage", "left")  # columns that a narrow terminal drops, in this order
GAP = 2  # characters between two columns
SHORTEST_NAME = 8  # characters


class FolderProgress:
    """Shows the progress of runs while a `with` block trains them, in this process or elsewhere.

    A terminal shows a bar for the total and one for each run that is running or has failed; elsewhere a line about the
    total is printed every few seconds.

    Args:
        console: Where to show it.
        folder: The folder of the run, or one that holds all of them (`runs/*/seed-*`). It does not have to exist yet.
        configs: The configurations of the runs.
        quiet: Whether to show nothing.
    """

    def __init__(self, console: Console, folder: Path, configs: Sequence[RunConfig], quiet: bool = False) -> None:
        self.console = console
        self.folder = folder
        self.quiet = quiet
        self._steps = {run_name(config): config.steps for config in configs}
        self._total = sum(self._steps.values())
        self._name = "all runs" if len(configs) > 1 else f"{configs[0].name} {configs[0].label}"
        self._bars = _new_bars(console) if console.is_terminal and not quiet else None
        self._ids: dict[str, TaskID] = {}
        self._done_before: int | None = None
        self._started = self._printed = time.monotonic()
        self._ended = Event()
        self._thread = Thread(target=self._poll, daemon=True)

    def __enter__(self) -> FolderProgress:
        if self._bars is not None:
            totals = {self._name: self._total, **(self._steps if len(self._steps) > 1 else {})}
            for name, total in totals.items():
                short = name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "…"
                self._ids[name] = self._bars.add_task(short, total=total, note="compiling", visible=name == self._name)
            self._bars.start()
        if not self.quiet:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.quiet:
            return
        self._ended.set()
        self._thread.join()
        self._try_update()
        if self._bars is not None:
            self._bars.stop()

    def update(self) -> None:
        """Read the folders and show what they say."""
        found = {status.name: status for status in run_statuses(self.folder) if status.name in self._steps}
        done = sum(status.step for status in found.values())
        statuses = [found.get(name) or RunStatus(name, WAITING) for name in self._steps]
        note = describe(statuses[0]) if len(statuses) == 1 else count_states(statuses)
        if self._bars is None:
            self._print(done, note)
            return
        self._bars.update(self._ids[self._name], completed=done, note=note)
        for status in statuses if len(statuses) > 1 else ():
            bar, visible = self._ids[status.name], status.state in (RUNNING, FAILED)
            self._bars.update(bar, completed=status.step, note=describe(status), visible=visible)

    def _poll(self) -> None:
        """Update until the block ends. Reading many folders takes long, so the pauses grow with it."""
        pause = POLL_SECONDS
        while not self._ended.wait(pause):
            began = time.monotonic()
            self._try_update()
            pause = max(POLL_SECONDS, (time.monotonic() - began) / POLL_FRACTION)

    def _try_update(self) -> None:
        """Update, without letting an error of the display end the runs."""
        with contextlib.suppress(Exception):
            self.update()

    def _print(self, done: int, note: str) -> None:
        """Print a line, with the time left at the speed so far, unless the last one is recent."""
        now = time.monotonic()
        if self._done_before is None:
            self._done_before = done
        if now - self._printed < LINE_SECONDS:
            return
        self._printed = now
        new, left = done - self._done_before, self._total - done
        end = f", about {format_duration((now - self._started) * left / new)} left" if new > 0 and left else ""
        self.console.print(f"{self._name}: {done} of {self._total} steps, {note}{end}")


def benchmark_progress(console: Console, plan: BenchmarkPlan, quiet: bool) -> Callable[[TaskPlan], FolderProgress]:
    """Return what shows the progress of each task of a benchmark, under a heading.

    Args:
        console: Where to show it.
        plan: The benchmark.
        quiet: Whether to show nothing.
    """

    def show(each: TaskPlan) -> FolderProgress:
        if not quiet:
            place = f"task {plan.tasks.index(each) + 1} of {len(plan.tasks)}"
            runs = f"{count(len(each.configs), 'run')} of {each.benchmark.steps:,} steps"
            console.print(f"{place}: {each.task.name}, {runs}", highlight=False)
        return FolderProgress(console, each.folder, each.configs, quiet)

    return show


def _new_bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=10),
        TaskProgressColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeRemainingColumn(compact=True),
        console=console,
    )


def describe(status: RunStatus) -> str:
    """Describe where a run is, in a few words.

    Args:
        status: The status of the run.

    Example:
        >>> describe(RunStatus("gradient seed 0", "running", 500, 1000, stage=3, alpha=0.4, score=12.3))
        'stage 3 alpha 0.40 target 12.3'
    """
    if status.state == FAILED:
        return status.reason
    if status.step == 0 and math.isnan(status.score):
        return "compiling"  # a run evaluates its untrained agent as soon as its program is compiled
    cells = zip(("stage", "alpha", "target"), stage_cells(status))
    return " ".join(f"{name} {cell}" for name, cell in cells if cell)


def stage_cells(status: RunStatus) -> tuple[str, str, str]:
    """Format a run's stage, alpha and score on the target; empty where unknown.

    Args:
        status: The status of the run.
    """
    return str(status.stage), format_known(status.alpha, ".2f"), format_known(status.score, ".4g")


def count_states(statuses: Iterable[RunStatus]) -> str:
    """Count the runs in each state, those that need attention first.

    Args:
        statuses: The status of each run.

    Example:
        >>> count_states([RunStatus("a", "finished"), RunStatus("b", "failed"), RunStatus("c", "finished")])
        '1 failed, 2 finished'
    """
    states = Counter(status.state for status in statuses)
    return ", ".join(f"{states[state]} {state}" for state in COLOURS if states[state])


def format_duration(seconds: float) -> str:
    """Format a duration in a few characters; empty where it is not finite.

    Args:
        seconds: The duration.

    Example:
        >>> [format_duration(seconds) for seconds in (45, 720, 12_240)]
        ['45 s', '12 min', '3.4 h']
    """
    if not math.isfinite(seconds):
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Watcher:
    """Reads a folder repeatedly and estimates how fast its runs are.

    Args:
        folder: The folder of a run, of a comparison, or of several of them.
        clock: Returns the time in seconds.
    """

    def __init__(self, folder: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = as_path(folder)
        self.clock = clock
        self.runs: list[RunStatus] = []
        self._steps: dict[str, deque[tuple[float, int]]] = {}

    def read(self) -> list[RunStatus]:
        """Read and return the status of every run.

        Raises:
            InvalidInput: If the folder holds no run and no comparison.
        """
        self.runs = run_statuses(self.folder)
        if not self.runs and held_by(self.folder) is None:
            raise InvalidInput(f"expected {self.folder} to hold a run or a comparison, found none")
        now = self.clock()
        for run in self.runs:
            self._steps.setdefault(run.name, deque(maxlen=READINGS)).append((now, run.step))
        return self.runs

    @property
    def ended(self) -> bool:
        """Whether no process is writing to a run, or to a comparison as a whole."""
        if any(run.state == RUNNING for run in self.runs):
            return False
        return not any(map(held_by, (self.folder, *run_places(self.folder))))

    def speed(self, run: RunStatus) -> float:
        """Return steps per second since the first reading, or, without progress since then, since the run began.

        Args:
            run: The status of the run.
        """
        (first, before), (last, now) = self._steps[run.name][0], self._steps[run.name][-1]
        if now > before and last - first >= 1.0:
            return (now - before) / (last - first)
        return run.step / run.age if run.age > 0 and run.step else math.nan

    def seconds_left(self, run: RunStatus) -> float:
        """Return the estimated seconds to the end of a run; NaN if it is not running.

        Args:
            run: The status of the run.
        """
        return (run.steps - run.step) / self.speed(run) if run.state == RUNNING and run.step else math.nan

    def summary(self) -> str:
        """Return all runs in one line."""
        each = max((run.steps for run in self.runs), default=0)
        total, done = sum(run.steps or each for run in self.runs), sum(run.step for run in self.runs)
        todo = sum((run.steps or each) - run.step for run in self.runs if run.state in (RUNNING, WAITING))
        speed = sum(filter(math.isfinite, (self.speed(run) for run in self.runs if run.state == RUNNING)))
        end = f", about {format_duration(todo / speed)} left" if todo and speed else ""
        states, fraction = count_states(self.runs), done / max(total, 1)
        return f"{len(self.runs)} runs: {states}; {fraction:.0%} of {total:,} steps, {speed:,.0f} steps/s{end}"

    def table(self, most: int, width: int) -> Group:
        """Return the runs as a table.

        Empty columns are left out, and further ones if names and numbers do not fit; after that names are cut. Reasons
        of failures get the room that is left.

        Args:
            most: The largest number of rows; the runs that need attention come first.
            width: The characters in a line.
        """
        runs = self.runs
        if len(runs) > most:
            runs = sorted(runs, key=lambda run: list(COLOURS).index(run.state))[: max(1, most - 1)]
        rows = [self._cells(run) for run in runs]
        widths = {name: max(map(len, (name, *(row[name] for row in rows)))) for name in COLUMNS}
        names = [name for name in COLUMNS if any(row[name] for row in rows)]
        for name in DISPENSABLE:
            if name in names and _spare(widths, names, width) < 0:
                names.remove(name)
        spare = _spare(widths, names, width)
        widths["run"] = max(SHORTEST_NAME, widths["run"] + min(spare, 0))
        widths["state"] += max(spare, 0)
        table = Table(box=None, pad_edge=False)
        for name in names:
            side: Literal["left", "right"] = "left" if name in ("run", "state") else "right"
            table.add_column(name, justify=side, no_wrap=True, overflow="ellipsis", max_width=widths[name])
        for run, row in zip(runs, rows):
            state = Text(f"{run.state}: {run.reason}" if run.reason else run.state, style=COLOURS[run.state])
            table.add_row(*(Text(row[name]) for name in names[:-1]), state)
        parts: list[Table | Text] = [Text(self.summary(), style="bold"), table]
        if len(runs) < len(self.runs):
            parts.append(Text(f"and {len(self.runs) - len(runs)} more", style="dim"))
        return Group(*parts)

    def _cells(self, run: RunStatus) -> dict[str, str]:
        """The cells of a row, by the names of the columns."""
        done = f"{run.step / run.steps:.0%}" if run.steps else ""
        speed = format_known(self.speed(run), ",.0f") if run.state == RUNNING else ""
        left = format_duration(self.seconds_left(run))
        cells = (run.name, f"{run.step:,}", done, *stage_cells(run), speed, left, run.state)
        return dict(zip(COLUMNS, cells))


def _spare(widths: Mapping[str, int], names: Sequence[str], width: int) -> int:
    """The characters that these columns leave in a line; negative if they do not fit."""
    return width - sum(widths[name] for name in names) - GAP * (len(names) - 1)


def watch(folder: str | Path, console: Console, every: float, once: bool = False) -> None:
    """Show the runs of a folder until none of them is running.

    Args:
        folder: The folder of a run, of a comparison, or of several of them.
        console: Where to show them.
        every: Seconds between two readings.
        once: Whether to show only the current state, as is always done where there is no terminal.
    """
    watcher = Watcher(folder)
    watcher.read()
    if console.is_terminal and not once:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while not watcher.ended:
                live.update(watcher.table(max(3, console.height - OTHER_LINES), console.width), refresh=True)
                time.sleep(every)
                watcher.read()
    console.print(watcher.table(min(len(watcher.runs), MOST_LINES), console.width), soft_wrap=False)
