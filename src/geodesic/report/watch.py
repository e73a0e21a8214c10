"""The live state of runs in a terminal, read from their folders: who writes them, and where, does not matter."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from geodesic.checks import as_path
from geodesic.errors import InvalidInput
from geodesic.records.lock import held_by
from geodesic.records.standing import FAILED, FINISHED, RUNNING, STOPPED, WAITING, Standing, standings

ORDER = (FAILED, RUNNING, STOPPED, WAITING, FINISHED)  # of the lines, when there are more than fit
COLOURS = {RUNNING: "green", FAILED: "bold red", STOPPED: "yellow", WAITING: "dim", FINISHED: "cyan"}
LOOKS = 30  # that a speed is taken over
AROUND = 6  # lines of the screen that are not runs
COLUMNS = ("run", "step", "%", "stage", "α", "target", "steps/s", "left", "state")
LEAST = ("steps/s", "%", "stage", "left")  # columns that a narrow terminal goes without, in this order
BETWEEN = 2  # letters between two columns
SHORTEST = 8  # letters of a run's name


class Watcher:
    """Looks at a folder again and again; what it saw before tells how fast runs are."""

    def __init__(self, folder: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = as_path(folder)
        self.clock = clock
        self._seen: dict[str, deque[tuple[float, int]]] = {}
        self.runs: list[Standing] = []

    def look(self) -> list[Standing]:
        """Where every run stands now."""
        self.runs = standings(self.folder)
        if not self.runs and held_by(self.folder) is None:
            raise InvalidInput(f"expected {self.folder} to be a run or a comparison, got neither")
        now = self.clock()
        for run in self.runs:
            self._seen.setdefault(run.name, deque(maxlen=LOOKS)).append((now, run.step))
        return self.runs

    @property
    def over(self) -> bool:
        """Whether nothing is going on any more: no run is being written, nor the comparison as a whole."""
        return held_by(self.folder) is None and not any(run.state == RUNNING for run in self.runs)

    def speed(self, run: Standing) -> float:
        """Steps a second: between the looks so far, or, before they tell, since the run began."""
        (first, before), (last, now) = self._seen[run.name][0], self._seen[run.name][-1]
        if now > before and last - first >= 1.0:
            return (now - before) / (last - first)
        return run.step / run.age if run.age > 0 and run.step else math.nan

    def left(self, run: Standing) -> float:
        """Seconds to its end, where it runs."""
        return (run.steps - run.step) / self.speed(run) if run.state == RUNNING and run.step else math.nan

    def whole(self) -> str:
        """All runs in one line."""
        states = Counter(run.state for run in self.runs)
        counts = ", ".join(f"{states[state]} {state}" for state in ORDER if states[state])
        each = max((run.steps for run in self.runs), default=0)
        done = sum(run.step for run in self.runs)
        todo = sum((run.steps or each) - run.step for run in self.runs if run.state in (RUNNING, WAITING))
        total = done + sum((run.steps or each) - run.step for run in self.runs)
        speeds = [self.speed(run) for run in self.runs if run.state == RUNNING]
        speed = sum(value for value in speeds if math.isfinite(value))
        end = f", about {spell(todo / speed)} left" if todo and speed else ""
        share = f"{done / total:.0%}" if total else "0%"
        return f"{len(self.runs)} runs: {counts}; {share} of {total:,} steps, {speed:,.0f} steps/s{end}"

    def table(self, most: int, width: int) -> Group:
        """The runs as a table of at most so many lines, those that need attention first, and of so many letters a line.

        Columns are left out where nothing is in them, and where names and numbers do not fit; after that names are cut.
        Reasons of failures get the room that is left.
        """
        shown = self.runs
        if len(shown) > most:
            shown = sorted(self.runs, key=lambda run: ORDER.index(run.state))[: max(1, most - 1)]
        lines = [self._cells(run) for run in shown]
        widths = {name: max(map(len, (name, *(line[name] for line in lines)))) for name in COLUMNS}
        names = [name for name in COLUMNS if any(line[name] for line in lines)]
        for least in LEAST:
            if least in names and _spare(widths, names, width) < 0:
                names.remove(least)
        spare = _spare(widths, names, width)
        widths["run"] = max(SHORTEST, widths["run"] + min(spare, 0))
        widths["state"] += max(spare, 0)
        table = Table(box=None, pad_edge=False)
        for name in names:
            side: Literal["left", "right"] = "left" if name in ("run", "state") else "right"
            table.add_column(name, justify=side, no_wrap=True, overflow="ellipsis", max_width=widths[name])
        for run, line in zip(shown, lines):
            state = Text(f"{run.state}: {run.why}" if run.why else run.state, style=COLOURS[run.state])
            table.add_row(*(Text(line[name]) for name in names[:-1]), state)
        parts: list[Table | Text] = [Text(self.whole(), style="bold"), table]
        if len(shown) < len(self.runs):
            parts.append(Text(f"and {len(self.runs) - len(shown)} more", style="dim"))
        return Group(*parts)

    def _cells(self, run: Standing) -> dict[str, str]:
        """By the names of columns."""
        cells = (
            run.name,
            f"{run.step:,}",
            f"{run.step / run.steps:.0%}" if run.steps else "",
            str(run.stage),
            _known(run.alpha, ".2f"),
            _known(run.score, ".4g"),
            _known(self.speed(run) if run.state == RUNNING else math.nan, ",.0f"),
            spell(self.left(run)),
            run.state,
        )
        return dict(zip(COLUMNS, cells))


def _spare(widths: Mapping[str, int], names: Sequence[str], width: int) -> int:
    """Letters that columns of these widths leave in a line; below zero those that it lacks."""
    return width - sum(widths[name] for name in names) - BETWEEN * (len(names) - 1)


def watch(folder: str | Path, console: Console, every: float, once: bool = False) -> None:
    """Show the runs of a folder until nothing goes on there; once, or where there is no terminal, only as they are."""
    watcher = Watcher(folder)
    watcher.look()
    if once or not console.is_terminal:
        console.print(watcher.table(len(watcher.runs), console.width), soft_wrap=False)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while not watcher.over:
            live.update(watcher.table(max(3, console.height - AROUND), console.width), refresh=True)
            time.sleep(every)
            watcher.look()
    console.print(watcher.table(len(watcher.runs), console.width), soft_wrap=False)


def spell(seconds: float) -> str:
    """A time to wait in few letters: 45 s, 12 min, 3.4 h."""
    if not math.isfinite(seconds):
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _known(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else ""
