"""Progress for a person who waits: bars on a terminal, now and then a line where there is none."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from geodesic.runs.executors import Job, Update

NAME = 22  # letters of a name, so that a line fits 80 columns
EVERY = 5.0  # seconds between two plain lines


@dataclass
class Line:
    """Something under way: its name, how much there is to do, and where it stands."""

    name: str
    total: int
    done: int = 0
    note: str = "compiling"
    shown: bool = True
    place: Any = None  # rich's handle
    began: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        return f"{self.name}: {self.done} of {self.total} steps, {self.note}{self._left()}"

    def _left(self) -> str:
        seconds = time.monotonic() - self.began
        if not 0 < self.done < self.total or seconds < 1:
            return ""
        return f", about {seconds * (self.total - self.done) / self.done:.0f} s left"


class Display:
    """Lines of progress. The first added is the whole: where there is no terminal, only it is printed."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self.console = console
        self.quiet = quiet
        self._lines: list[Line] = []
        self._spoken = time.monotonic()
        self._bars: Progress | None = None
        if console.is_terminal and not quiet:
            self._bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=10),
                TaskProgressColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(compact=True),
                console=console,
            )

    def __enter__(self) -> Display:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def add(self, name: str, total: int) -> Line:
        line = Line(name, total)
        self._lines.append(line)
        if self._bars is not None:
            line.place = self._bars.add_task(shortened(name), total=total, note=line.note)
        return line

    def update(self, line: Line, done: int, note: str, shown: bool = True) -> None:
        line.done, line.note, line.shown = done, note, shown
        if self._bars is not None:
            self._bars.update(line.place, completed=done, note=note, visible=shown)
        elif not self.quiet and line is self._lines[0] and time.monotonic() - self._spoken > EVERY:
            self._spoken = time.monotonic()
            self.console.print(str(line))


def shortened(name: str) -> str:
    return name if len(name) <= NAME else name[: NAME - 1] + "…"


def standing(stage: int, alpha: float, score: float) -> str:
    """Where a run stands, in few letters."""
    return f"stage {stage} α {alpha:.2f} target {score:.3g}"


class JobBars:
    """Live progress of a comparison: one line for all of it, and one for each job under way."""

    def __init__(self, display: Display, total: int) -> None:
        self.display = display
        self.whole = display.add("all runs", total)
        self.lines: dict[int, Line] = {}
        self.finished: set[int] = set()

    def __call__(self, job: Job, update: Update) -> None:
        if update.job not in self.lines:
            self.lines[update.job] = self.display.add(job.name, job.steps)
        line = self.lines[update.job]
        note = update.error or update.note
        more = max(update.steps - line.done, 0)
        self.display.update(line, line.done + more, note, shown=not update.ended or bool(update.error))
        if not line.shown:
            self.finished.add(update.job)
        self.display.update(self.whole, self.whole.done + more, f"{len(self.finished)} jobs done")
