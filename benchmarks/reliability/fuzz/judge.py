"""Judge a call: accepted, refused with an error of ours, or one of three failures."""

from __future__ import annotations

import dataclasses
import math
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal
from unittest import mock

import numpy as np

from benchmarks.reliability.fuzz import world
from geodesic import api, curricula, learners, metrics
from geodesic.errors import GeodesicError

Verdict = Literal["accepted", "refused", "raw exception", "hang", "silent NaN"]
FAILURES: tuple[Verdict, ...] = ("raw exception", "hang", "silent NaN")
SECONDS = 20  # CPU time of one call; ten times as much wall-clock, because a busy machine is no hang
# results in which NaN says that a value is unknown
UNKNOWN = ("gd.EpisodeBatch", "batch", "intervals", "curves", "statistics", "paths", "check_theory")

NOT_KNOWN = ("successes", "discounted", "first", "best", "before")  # fields that are NaN where they are not known


class Hang(BaseException):
    """Raised by the alarm."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Interrupt what takes this much CPU time, or ten times as much wall-clock."""

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
class Verdicts:
    """Counts of verdicts, and every failure with its call."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    failures: list[str] = dataclasses.field(default_factory=list)

    def add(self, call: str, verdict: Verdict, reason: str) -> None:
        """Count a verdict."""
        self.counts[verdict] += 1
        if verdict in FAILURES:
            self.failures.append(f"{verdict}: {call:.600}\n    {reason:.400}")

    def __str__(self) -> str:
        counts = [f"{self.counts[name]} {name}" for name in ("accepted", "refused", *FAILURES)]
        return ", ".join([f"{self.counts.total()} in total", *counts])


def judge(work: Callable[[], Any], seconds: float) -> tuple[Verdict, Any]:
    """Do some work; the verdict on it, and its result or the reason of a failure."""
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


def judge_call(text: str, verdicts: Verdicts) -> None:
    """Run a call and count the verdict. Nothing is trained, and what it registers is removed."""
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(api, "run_job", return_value={}))
        patches.enter_context(mock.patch("tempfile.tempdir", str(world.SCRATCH)))
        for registry in (curricula.REGISTRY, learners.REGISTRY, metrics.REGISTRY):
            patches.enter_context(mock.patch.dict(registry._values))
        verdict, result = judge(lambda: eval(text, vars(world)), SECONDS)
    has_nan = any(word in text for word in ("nan", "inf", "NaN"))
    if verdict == "accepted" and not has_nan and not text.startswith(UNKNOWN) and contains_nan(result):
        verdict, result = "silent NaN", f"in {result!r:.200}"
    verdicts.add(text, verdict, str(result) if verdict in FAILURES else "")


def contains_nan(value: Any, depth: int = 0) -> bool:
    """Whether there is a NaN anywhere in a result but where it says that a value is not known."""
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and bool(np.isnan(value).any())
    if depth > 4 or isinstance(value, (str, type)):
        return False
    if isinstance(value, Mapping):
        return any(contains_nan(each, depth + 1) for each in value.values())
    if isinstance(value, (list, tuple)):
        return any(contains_nan(each, depth + 1) for each in value)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.name not in NOT_KNOWN]
        return any(contains_nan(getattr(value, name), depth + 1) for name in names)
    return False


def _place() -> str:
    """Where an exception was raised: the last lines of this package."""
    frames = traceback.extract_tb(sys.exc_info()[2])
    own = [frame for frame in frames if "geodesic" in frame.filename] or list(frames)
    return "at " + " < ".join(f"{frame.filename.split('/geodesic/')[-1]}:{frame.lineno}" for frame in own[:-4:-1])
