"""What became of a call: accepted, refused with an error of ours, or one of three failures."""

from __future__ import annotations

import dataclasses
import math
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal
from unittest import mock

import numpy as np

from benchmarks.fuzz import world
from benchmarks.fuzz.calls import UNKNOWN
from geodesic import api
from geodesic.errors import GeodesicError

Verdict = Literal["accepted", "refused", "raw exception", "hang", "silent NaN"]
FAILURES: tuple[Verdict, ...] = ("raw exception", "hang", "silent NaN")
SECONDS = 20  # of processor time of one call, and ten times as long by the clock: a busy machine is no hang


class Hang(BaseException):
    """Raised by the alarm."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """An end to what takes so long on the processor, or ten times as long by the clock."""

    def ring(*_: object) -> None:
        raise Hang

    clocks = {signal.ITIMER_PROF: (signal.SIGPROF, seconds), signal.ITIMER_REAL: (signal.SIGALRM, 10 * seconds)}
    before = {number: signal.signal(number, ring) for number, _ in clocks.values()}
    for clock, (_, most) in clocks.items():
        signal.setitimer(clock, most)
    try:
        yield
    finally:
        for clock in clocks:
            signal.setitimer(clock, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclasses.dataclass
class Tally:
    """Verdicts by their number, and every failure with what led to it."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    failures: list[str] = dataclasses.field(default_factory=list)

    def add(self, what: str, verdict: Verdict, why: str) -> None:
        self.counts[verdict] += 1
        if verdict in FAILURES:
            self.failures.append(f"{verdict}: {what:.600}\n    {why:.400}")

    def __str__(self) -> str:
        words = [f"{self.counts.total()} in all"]
        words += [f"{self.counts[name]} {name}" for name in ("accepted", "refused", *FAILURES)]
        return ", ".join(words)


def judged(work: Callable[[], Any], seconds: float) -> tuple[Verdict, Any]:
    """The verdict on a piece of work, and its result or why it failed."""
    try:
        with alarm(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "accepted", work()
    except GeodesicError as error:
        text = str(error)
        return ("refused", text) if "\n" not in text.strip() else ("raw exception", f"more than one line: {text!r}")
    except Hang:
        return "hang", f"no end in {seconds} s: {_place()}"
    except Exception as error:
        return "raw exception", f"{type(error).__name__}: {str(error)[:200]} {_place()}"


def judge_call(text: str, tally: Tally) -> None:
    """Run a drawn call. Training ends where it would begin: what is looked at is what happens before."""
    with mock.patch.object(api, "do"), mock.patch("tempfile.tempdir", str(world.SCRATCH)):
        verdict, result = judged(lambda: eval(text, vars(world)), SECONDS)
    said = any(word in text for word in ("nan", "inf", "NaN"))
    if verdict == "accepted" and not said and not text.startswith(UNKNOWN) and not_a_number(result):
        verdict, result = "silent NaN", f"in {result!r:.200}"
    tally.add(text, verdict, str(result) if verdict in FAILURES else "")


def not_a_number(value: Any, depth: int = 0) -> bool:
    """Whether there is a NaN anywhere in a result."""
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and bool(np.isnan(value).any())
    if depth > 4 or isinstance(value, (str, type)):
        return False
    if isinstance(value, Mapping):
        return any(not_a_number(each, depth + 1) for each in value.values())
    if isinstance(value, (list, tuple)):
        return any(not_a_number(each, depth + 1) for each in value)
    if dataclasses.is_dataclass(value):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value) if field.name != "successes"]
        return any(not_a_number(each, depth + 1) for each in parts)
    return False


def _place() -> str:
    """Where it was raised: the last lines of our own."""
    import sys

    frames = traceback.extract_tb(sys.exc_info()[2])
    own = [frame for frame in frames if "geodesic" in frame.filename] or list(frames)
    return "at " + " < ".join(f"{frame.filename.split('/geodesic/')[-1]}:{frame.lineno}" for frame in own[:-4:-1])
