"""A share of `python -m benchmarks.fuzz`: what is wrong in one place is refused in one line, or does its work."""

from importlib import import_module

import pytest


@pytest.fixture(scope="module")
def drive():
    """Imported when it is used: its world takes seconds to make."""
    return import_module("benchmarks.fuzz.drive")


@pytest.fixture(scope="module")
def judge():
    return import_module("benchmarks.fuzz.judge")


def told(tally):
    """The failures as they would be repeated."""
    return "\n".join(["from benchmarks.fuzz.world import *", *tally.failures])


def test_no_call_ends_in_a_raw_exception_a_hang_or_a_silent_nan(drive):
    tally = drive.fuzz_calls(250, start=7)
    assert not tally.failures, told(tally)
    assert tally.counts["accepted"] > 50
    assert tally.counts["refused"] > 100


def test_no_command_line_ends_in_a_raw_exception(drive):
    tally = drive.fuzz_lines(12, start=7)
    assert not tally.failures, told(tally)
    assert tally.counts["refused"] > 3


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        ("a.sample(rng(0), 3)", "accepted"),
        ("a.sample(None, 3)", "refused"),
        ("a.sample()", "raw exception"),
        ("[1.0][5]", "raw exception"),
        ("np.sqrt(np.array([-1.0]))", "silent NaN"),
        ("{'x': (0.0, float('na' + 'n'))}", "silent NaN"),
        ("np.array([np.nan])", "accepted"),  # it said so itself
        ("gd.Episodes(contexts=[[0.0]], returns=0, lengths=1, stages=0)", "accepted"),  # nobody knows of a success
    ],
)
def test_the_judge_tells_verdicts_apart(judge, call, verdict):
    tally = judge.Tally()
    judge.judge_call(call, tally)
    assert dict(tally.counts) == {verdict: 1}


def test_the_judge_does_not_wait_for_what_hangs(judge, monkeypatch):
    monkeypatch.setattr(judge, "SECONDS", 0.2)
    tally = judge.Tally()
    judge.judge_call("[None for _ in iter(int, 1)]", tally)
    assert dict(tally.counts) == {"hang": 1}
