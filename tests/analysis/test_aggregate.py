"""Aggregates over tasks: closed forms, and the formulas of rliable written out."""

import numpy as np
import pytest

from geodesic.analysis.aggregate import TAUS, TaskScores, aggregate, improvement, mean_probability
from geodesic.analysis.intervals import UNKNOWN, probability_of_improvement

RNG = np.random.default_rng(0)
FIRST = {"a": RNG.normal(0.7, 0.2, 8), "b": RNG.normal(0.4, 0.3, 8)}
SECOND = {"a": RNG.normal(0.5, 0.1, 8), "b": RNG.normal(0.5, 0.1, 8)}


def scores(name, values, times=None):
    return TaskScores(name, values, times or {label: np.full(len(own), np.inf) for label, own in values.items()})


TASKS = [scores("one", FIRST), scores("two", SECOND)]


def row(rows, label):
    return next(each for each in rows if each.label == label)


def test_the_interquartile_mean_is_that_of_all_runs():
    pooled = np.sort(np.concatenate([FIRST["a"], SECOND["a"]]))
    assert row(aggregate(TASKS), "a").iqm.value == pytest.approx(pooled[4:12].mean())


def test_a_quarter_is_cut_off_exactly():
    found = aggregate([scores("one", {"a": np.arange(5.0)})])[0].iqm.value
    assert found == pytest.approx((0.75 * 1 + 2 + 0.75 * 3) / 2.5)


def test_every_task_has_the_same_weight():
    many = [scores("one", {"a": np.ones(20)}), scores("two", {"a": np.zeros(5)})]
    found = aggregate(many)[0]
    assert found.iqm.value == pytest.approx(0.5)
    assert found.profile[50] == pytest.approx(0.5)
    assert (found.runs, found.tasks, found.mean) == (25, 2, {"one": 1.0, "two": 0.0})


def test_the_interval_is_that_of_the_stratified_bootstrap():
    rng, draws = np.random.default_rng(1), []
    for _ in range(4000):
        parts = [own["a"][rng.integers(0, 8, 8)] for own in (FIRST, SECOND)]
        draws.append(np.sort(np.concatenate(parts))[4:12].mean())
    low, high = np.percentile(draws, [2.5, 97.5])
    found = row(aggregate(TASKS), "a").iqm
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.01)


def test_the_profile_is_the_fraction_of_runs_above_each_score():
    found, pooled = row(aggregate(TASKS), "b"), np.concatenate([FIRST["b"], SECOND["b"]])
    np.testing.assert_allclose(found.profile, [(pooled > tau).mean() for tau in TAUS])
    assert ((found.low <= found.profile + 1e-12) & (found.profile <= found.high + 1e-12)).all()


def test_the_best_interquartile_mean_comes_first():
    assert [each.label for each in aggregate(TASKS)] == ["a", "b"]


def test_the_probability_of_improvement_is_a_mean_over_tasks():
    parts = [probability_of_improvement(own["a"], own["b"]).value for own in (FIRST, SECOND)]
    found = improvement(TASKS, "a", "b")
    assert found.value == pytest.approx(np.mean(parts))
    assert found.low < found.value < found.high
    assert row(aggregate(TASKS, "b"), "a").better == found
    assert row(aggregate(TASKS, "b"), "b").better == UNKNOWN
    assert improvement(TASKS, "a", "b").value + improvement(TASKS, "b", "a").value == pytest.approx(1.0)
    assert improvement(TASKS, "a", "c") == UNKNOWN


def test_the_mean_over_tasks_has_a_narrower_interval():
    always = probability_of_improvement([1.0] * 10, [0.0] * 10)
    over_three = mean_probability([always] * 3, 10)
    assert over_three.value == 1.0
    assert always.low < over_three.low < 1.0
    assert mean_probability([], 10) == UNKNOWN


def test_ranks_of_times_count_pairs_and_ties():
    times = {"a": np.array([10.0, 20.0]), "b": np.array([30.0, np.inf]), "c": np.array([np.inf, np.inf])}
    rows = aggregate([scores("one", {label: np.zeros(2) for label in times}, times)])
    assert {each.label: each.rank.value for each in rows} == {"a": 1.0, "b": 2 + 0.25, "c": 1 + 1 + 0.75}
    assert {each.label: each.solved for each in rows} == {"a": 1.0, "b": 0.5, "c": 0.0}
    assert row(rows, "a").rank.low == row(rows, "a").rank.high == 1.0


def test_a_method_without_a_task_is_ranked_among_those_it_met():
    other = scores("two", {"b": np.ones(2)}, {"b": np.array([5.0, 5.0])})
    both = scores("one", {"a": np.ones(2), "b": np.ones(2)}, {"a": np.array([1.0, 1.0]), "b": np.array([2.0, 2.0])})
    rows = aggregate([both, other])
    assert (row(rows, "a").tasks, row(rows, "b").tasks) == (1, 2)
    assert (row(rows, "a").rank.value, row(rows, "b").rank.value) == (1.0, 2.0)


def test_labels_without_finished_runs_are_left_out_and_unknown_scores_stay_unknown():
    rows = aggregate([scores("one", {"a": np.zeros(0), "b": np.array([np.nan, 1.0])})])
    assert [each.label for each in rows] == ["b"]
    assert np.isnan(rows[0].iqm.value)
