"""Calls of adapters with one wrong argument raise our own errors or work."""

from importlib import import_module

import pytest

from extras import needs_brax, needs_gymnax, needs_rllib

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("envs.from_gymnax", marks=needs_gymnax),
        pytest.param("envs.from_brax", marks=needs_brax),
        pytest.param("gd.rllib.with_curriculum", marks=needs_rllib),
    ],
)
def test_wrong_arguments_are_refused(name):
    verdicts = import_module("benchmarks.reliability.fuzz.drive").fuzz_one(name, 60, start=3)
    assert not verdicts.failures, "\n".join(verdicts.failures)
    assert verdicts.counts["accepted"] > 5
    assert verdicts.counts["refused"] > 20
