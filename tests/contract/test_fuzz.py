"""A part of `python -m benchmarks.reliability.fuzz`: a call with a wrong argument is refused in one line, or works."""

from importlib import import_module

import pytest

FUZZ = "benchmarks.reliability.fuzz"


@pytest.fixture(scope="module")
def drive():
    """Imported when it is used: its objects take seconds to make."""
    return import_module(f"{FUZZ}.drive")


@pytest.fixture(scope="module")
def calls():
    return import_module(f"{FUZZ}.calls")


@pytest.fixture(scope="module")
def judge():
    return import_module(f"{FUZZ}.judge")


def failures(verdicts):
    """The failures, as source that repeats them."""
    return "\n".join([f"from {FUZZ}.world import *", *verdicts.failures])


def test_no_call_ends_in_a_raw_exception_a_hang_or_a_silent_nan(drive):
    verdicts = drive.fuzz_calls(250, start=7)
    assert not verdicts.failures, failures(verdicts)
    assert verdicts.counts["accepted"] > 50
    assert verdicts.counts["refused"] > 100


def test_no_command_line_ends_in_a_raw_exception(drive):
    verdicts = drive.fuzz_lines(12, start=7)
    assert not verdicts.failures, failures(verdicts)
    assert verdicts.counts["refused"] > 3


def test_every_public_class_and_function_is_called(calls):
    assert {
        "gd.Particles",
        "gd.Particles.gaussian",
        "a.sample",
        "gd.train",
        "metrics.Graph.knn",
        "curricula.CURROT",
        "tasks.load",
    } <= set(calls.calls())
    assert set(calls.arguments("gd.wasserstein")) == {"a", "b", "metric", "p"}


def test_a_new_parameter_without_an_example_is_an_error_that_names_it(calls, monkeypatch):
    monkeypatch.setattr(calls.world, "new_function", lambda unheard_of: None, raising=False)
    with pytest.raises(LookupError, match=r"no example for the parameter 'unheard_of' .* of new_function"):
        calls.arguments("new_function")


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        ("a.sample(rng(0), 3)", "accepted"),
        ("a.sample(None, 3)", "refused"),
        ("a.sample()", "raw exception"),
        ("[1.0][5]", "raw exception"),
        ("np.sqrt(np.array([-1.0]))", "silent NaN"),
        ("{'x': (0.0, float('na' + 'n'))}", "silent NaN"),
        ("np.array([np.nan])", "accepted"),  # the call itself has a NaN
        ("gd.EpisodeBatch(contexts=[[0.0]], returns=0, lengths=1, stages=0)", "accepted"),  # successes are unknown
    ],
)
def test_the_judge_distinguishes_verdicts(judge, call, verdict):
    verdicts = judge.Verdicts()
    judge.judge_call(call, verdicts)
    assert dict(verdicts.counts) == {verdict: 1}


def test_the_judge_does_not_wait_for_a_hang(judge, monkeypatch):
    monkeypatch.setattr(judge, "SECONDS", 0.2)
    verdicts = judge.Verdicts()
    judge.judge_call("[None for _ in iter(int, 1)]", verdicts)
    assert dict(verdicts.counts) == {"hang": 1}
