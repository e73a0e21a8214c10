"""Ctrl-C and SIGTERM as a question that is asked between segments, so that nothing is cut in the middle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_open = threading.local()


class _Question:
    """What all openings of one thread share."""

    def __init__(self) -> None:
        self.asked = False
        self.signalled = False


class Stopping:
    """While this is open, the first signal only sets `asked`; a second one interrupts at once, as usual.

    One that is opened inside another shares its question, so that a command or a worker that is asked before its run
    begins stops at the run's first pause. `ask` asks without a signal, from any thread.
    """

    def __init__(self) -> None:
        self._question = _Question()
        self._outer: Stopping | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def asked(self) -> bool:
        return self._question.asked

    def ask(self) -> None:
        self._question.asked = True

    def __enter__(self) -> Stopping:
        self._outer = getattr(_open, "stopping", None)
        if self._outer is not None:
            self._question = self._outer._question
        _open.stopping = self
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        _open.stopping = self._outer

    def _note(self, number: int, frame: FrameType | None) -> None:
        again, self._question.signalled = self._question.signalled, True
        self.ask()
        if again:
            raise KeyboardInterrupt


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """While this is open, SIGTERM interrupts as Ctrl-C does, so that a command lets go of what it holds and answers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
