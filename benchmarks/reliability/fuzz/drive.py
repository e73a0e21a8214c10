"""Draw a number of calls or command lines, and judge each."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

from benchmarks.reliability.fuzz.calls import any_call, public_call
from benchmarks.reliability.fuzz.judge import Verdicts, judge_call


def judge_drawn(what: st.SearchStrategy, count: int, start: int, judge: Callable[..., None]) -> Verdicts:
    """Draw until there are this many different examples, and judge each; Hypothesis may stop earlier."""
    verdicts, known = Verdicts(), set[str]()
    for part in range(100):
        left = count - len(known)
        if left <= 0:
            break

        @seed(start * 1000 + part)
        @settings(
            max_examples=left + 20,  # each part begins with the same simple examples
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
                judge(piece, verdicts)

        one()
    return verdicts


def fuzz_calls(count: int, start: int = 0) -> Verdicts:
    """Judge calls of all kinds."""
    return judge_drawn(any_call, count, start, judge_call)


def fuzz_one(name: str, count: int, start: int = 0) -> Verdicts:
    """Judge calls of one function."""
    return judge_drawn(public_call((name,)), count, start, judge_call)


def fuzz_lines(count: int, start: int = 0) -> Verdicts:
    """Judge command lines; a few fixed ones run in separate processes."""
    from benchmarks.reliability.fuzz.lines import PROCESSES, judge_line, judge_process, lines

    apart = PROCESSES[: count // 20]
    verdicts = judge_drawn(lines, count - len(apart), start, judge_line)
    for line in apart:
        judge_process(line, verdicts)
    return verdicts
