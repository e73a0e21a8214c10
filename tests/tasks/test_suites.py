"""Suites of tasks: what is in them, their budgets, and what a score is worth."""

import numpy as np
import pytest

from extras import each
from geodesic.errors import InvalidInput, UnknownName
from geodesic.tasks import catalogue, suites
from geodesic.tasks.suites import SUITES, Benchmark, choose, suite_of

LISTED = [member.task for member in suite_of("all")]


def test_the_suites():
    names = {suite: {member.task for member in suite_of(suite)} for suite in SUITES}
    assert names["fast"] == {"maze", "e-maze", "mountain-car", "four-rooms", "point-mass"}
    assert names["paper"] == {"maze", "point-mass", "fetch-push", "u-maze"}
    assert names["rivals"] >= {"e-maze", "sparse-goal", "point-mass-bimodal", "point-mass-nd"}
    assert names["all"] == set().union(*names.values())
    assert set(SUITES) == set(suites.descriptions())


def test_only_the_fast_suite_has_other_budgets_than_the_tasks():
    for suite in SUITES:
        for member in suite_of(suite):
            full = catalogue.table(member.task)["steps"]
            assert member.steps <= full if suite == "fast" else member.steps == full


@pytest.mark.parametrize("name", each(LISTED))
def test_a_task_has_its_floor_below_its_top_and_its_level_between(name):
    task, member = catalogue.load(name), suites.benchmark_of(name)
    assert member.floor < task.solved_above <= member.top
    assert task.least is None or task.least == member.floor
    if task.score == "return" and name != "fetch-push":  # whose bound is far from what can be earned
        assert member.top <= task.reachable() + 0.005


def test_scores_are_normalised_and_not_clipped():
    scores = Benchmark("maze", 1000, -100.0, -20.0).normalised(np.array([-100.0, -20.0, -60.0, -140.0, np.nan]))
    np.testing.assert_array_equal(scores, [0.0, 1.0, 0.5, -0.5, np.nan])


def test_some_tasks_of_a_suite_are_chosen_in_its_order():
    assert [member.task for member in choose("fast", "point-mass,maze,maze")] == ["maze", "point-mass"]
    assert choose("fast") == suite_of("fast")
    for wanted in ("", ","):
        with pytest.raises(InvalidInput, match="expected tasks of the suite fast, got none"):
            choose("fast", wanted)
    with pytest.raises(UnknownName, match="expected a task of the suite fast to be one of"):
        choose("fast", "maze,u-maze")
    with pytest.raises(UnknownName, match="expected the suite to be one of fast, paper, rivals, all; got 'slow'"):
        choose("slow")


def test_a_name_from_a_file_is_no_member():
    assert suites.benchmark_of("file.py:task") is None
