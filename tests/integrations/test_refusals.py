"""Calls of other libraries' adapters that are wrong in one place end in an error of ours, or do their work."""

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
def test_what_is_handed_over_by_mistake_is_refused(name):
    tally = import_module("benchmarks.fuzz.drive").fuzz_one(name, 60, start=3)
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.counts["accepted"] > 5
    assert tally.counts["refused"] > 20
