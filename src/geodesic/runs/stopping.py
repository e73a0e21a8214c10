"""Ctrl-C and SIGTERM as a request that runs check between segments, so that no segment is cut short."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_open = threading.local()


class Stopping:
    """A block in which the first signal only sets `asked`; a second one raises KeyboardInterrupt at once.

    Blocks inside another one share its request, since `with` gives all of them the outermost block: a command or
    worker that is asked to stop before its run has begun stops at the run's first pause. Outside the main thread,
    signals are left alone.

    Example:
        >>> with Stopping() as stop:
        ...     stop.ask()
        ...     stop.asked
        True
    """

    def __init__(self) -> None:
        self.asked = False
        self._signalled = False
        self._outermost: Stopping | None = None
        self._before: dict[signal.Signals, Any] = {}

    def ask(self) -> None:
        """Ask without a signal, from any thread."""
        self.asked = True

    def __enter__(self) -> Stopping:
        self._outermost = getattr(_open, "stopping", None)
        _open.stopping = self._outermost or self
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, _open.stopping._note) for number in SIGNALS}
        return cast(Stopping, _open.stopping)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        _open.stopping = self._outermost

    def _note(self, number: int, frame: FrameType | None) -> None:
        again, self._signalled = self._signalled, True
        self.ask()
        if again:
            raise KeyboardInterrupt


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt in this block, so that a command releases its locks and reports the stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
