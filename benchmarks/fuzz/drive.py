"""Draw so many calls or lines, and judge each."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

from benchmarks.fuzz.calls import calls, of_the_catalogue
from benchmarks.fuzz.judge import Tally, judge_call


def drawn(what: st.SearchStrategy, count: int, start: int, judge: Callable[..., None]) -> Tally:
    """Each drawn piece judged once, until there are so many; Hypothesis stops early where it has seen enough."""
    tally, known = Tally(), set[str]()
    for part in range(100):
        left = count - len(known)
        if left <= 0:
            break

        @seed(start * 1000 + part)
        @settings(
            max_examples=left + 20,  # the simplest comes first each time
            database=None,
            deadline=None,
            phases=[Phase.generate],
            verbosity=Verbosity.quiet,
            suppress_health_check=list(HealthCheck),
        )
        @given(what)
        def one(piece: object) -> None:
            if repr(piece) not in known and len(known) < count:
                known.add(repr(piece))
                judge(piece, tally)

        one()
    return tally


def fuzz_calls(count: int, start: int = 0) -> Tally:
    return drawn(calls, count, start, judge_call)


def fuzz_one(name: str, count: int, start: int = 0) -> Tally:
    """Calls of one function of the catalogue."""
    return drawn(of_the_catalogue((name,)), count, start, judge_call)


def fuzz_lines(count: int, start: int = 0) -> Tally:
    """A handful of them, always the same, are processes of their own."""
    from benchmarks.fuzz.lines import PROCESSES, judge_line, judge_process, lines

    apart = PROCESSES[: count // 20]
    tally = drawn(lines, count - len(apart), start, judge_line)
    for line in apart:
        judge_process(line, tally)
    return tally
