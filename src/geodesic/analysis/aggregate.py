"""One number per method over several tasks, with its interval, after Agarwal et al. (2021).

Scores are normalised for each task (`geodesic.tasks.suites`). Every task has the same weight, however many seeds it
has; with equally many seeds these are the estimates of rliable. Their intervals are percentiles of the stratified
bootstrap: each draw resamples the seeds of a method within each task. It covers less than 95 % with few seeds per task;
`python -m benchmarks.studies.coverage` shows how much less for a single task.

    IQM                          mean of the middle half of the normalised scores of all tasks and seeds
    performance profile          fraction of scores above tau, as a function of tau
    probability of improvement   mean over tasks of P(X > Y) + P(X = Y) / 2; its interval assumes nothing about the
                                 scores (`geodesic.analysis.intervals`)
    rank of the time             1 + (methods - 1) x the mean over tasks and other methods of the probability that a
                                 seed of the other one stays above the threshold earlier; never counts as last, and two
                                 that never arrive as a tie

Differs from rliable: a quarter of the scores is cut off exactly, by weight, where rliable rounds it down to whole
scores; ranks compare seeds, where some papers rank the medians.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from geodesic.analysis.intervals import LEVEL, UNKNOWN, Estimate, probability_interval, probability_of_improvement
from geodesic.checks import FloatArray

DRAWS = 2000
TAUS = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True, eq=False)
class TaskScores:
    """The results of every method on one task.

    Args:
        task: The name of the task.
        scores: For each label, the normalised final score (seeds,) of each finished run.
        times: For each label, the step (seeds,) from which each of them stays above the threshold; infinite: never.
    """

    task: str
    scores: Mapping[str, FloatArray]
    times: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Aggregate:
    """One method over all tasks on which it has a finished run.

    Args:
        label: The method with its options.
        tasks: The number of these tasks.
        runs: The number of finished runs.
        iqm: The interquartile mean of their normalised scores.
        mean: For each of the tasks, the mean normalised score.
        solved: The fraction of seeds that solved their task and stayed above the threshold, as a mean over tasks.
        rank: The rank of its time to the threshold.
        better: The probability that a seed of the reference has a lower score; NaN for the reference.
        profile: The fractions (taus,) of scores above `TAUS`.
        low: The lower ends (taus,) of their intervals.
        high: The upper ends (taus,).
    """

    label: str
    tasks: int
    runs: int
    iqm: Estimate
    mean: dict[str, float]
    solved: float
    rank: Estimate
    better: Estimate
    profile: FloatArray = field(repr=False)
    low: FloatArray = field(repr=False)
    high: FloatArray = field(repr=False)


def aggregate(tasks: Sequence[TaskScores], reference: str | None = None, draws: int = DRAWS) -> list[Aggregate]:
    """Summarise every method over tasks.

    Args:
        tasks: The results on each task.
        reference: The label that the others are compared with.
        draws: The draws of the bootstrap.

    Returns:
        The methods, that with the highest interquartile mean first.
    """
    labels = list(dict.fromkeys(label for task in tasks for label, scores in task.scores.items() if len(scores)))
    rng = np.random.default_rng(0)
    ways = [{label: _resamplings(task, label, draws, rng) for label in labels} for task in tasks]
    rows = [_summary(label, labels, tasks, ways, reference) for label in labels]
    return sorted(rows, key=lambda row: -row.iqm.value)


def improvement(tasks: Sequence[TaskScores], label: str, other: str) -> Estimate:
    """Estimate the probability that a seed of one method has a higher score than a seed of another, mean over tasks.

    Args:
        tasks: The results on each task; those that lack one of the methods are left out.
        label: The first method.
        other: The second method.

    Returns:
        The estimate; NaN without a task that has both.
    """
    pairs = [(task.scores.get(label, ()), task.scores.get(other, ())) for task in tasks]
    both = [(ours, theirs) for ours, theirs in pairs if len(ours) and len(theirs)]
    found = [probability_of_improvement(ours, theirs) for ours, theirs in both]
    return mean_probability(found, min((min(len(ours), len(theirs)) for ours, theirs in both), default=0))


def mean_probability(estimates: Sequence[Estimate], seeds: int) -> Estimate:
    """Average probabilities of improvement over tasks, each with at least this many independent pairs of seeds.

    Over T tasks the estimate is a mean over ways to pair the seeds off of means of T k independent values in [0, 1]. By
    Hoeffding (1956) the bound of `probability_interval` also holds where their means differ between the tasks.

    Args:
        estimates: The estimate of each task.
        seeds: The number of pairs, k.

    Returns:
        The mean; NaN without an estimate, or if one is unknown.
    """
    value = float(np.mean([each.value for each in estimates])) if estimates else math.nan
    return UNKNOWN if math.isnan(value) else Estimate(value, *probability_interval(value, seeds * len(estimates)))


def _resamplings(task: TaskScores, label: str, draws: int, rng: np.random.Generator) -> FloatArray:
    """The weight of each seed (1 + draws, seeds): equal ones first, then those of each draw of the bootstrap."""
    n = len(task.scores.get(label, ()))
    if not n:
        return np.zeros((1 + draws, 0))
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=draws)
    return np.concatenate([np.ones((1, n)), drawn]) / n


def _summary(
    label: str,
    labels: Sequence[str],
    tasks: Sequence[TaskScores],
    ways: Sequence[Mapping[str, FloatArray]],
    reference: str | None,
) -> Aggregate:
    own = [(task, weights) for task, weights in zip(tasks, ways) if weights[label].shape[1]]
    scores = np.concatenate([task.scores[label] for task, _ in own])
    weights = np.concatenate([weights[label] for _, weights in own], axis=1) / len(own)
    above = weights @ (scores[:, None] > TAUS)
    low, high = _percentiles(above)
    solved = float(np.mean([np.isfinite(task.times[label]).mean() for task, _ in own]))
    return Aggregate(
        label=label,
        tasks=len(own),
        runs=len(scores),
        iqm=_estimate(_interquartile_means(scores, weights)),
        mean={task.task: float(task.scores[label].mean()) for task, _ in own},
        solved=solved,
        rank=_estimate(_ranks(label, labels, own)),
        better=improvement(tasks, label, reference) if reference not in (None, label) else UNKNOWN,
        profile=above[0],
        low=low,
        high=high,
    )


def _interquartile_means(scores: FloatArray, weights: FloatArray) -> FloatArray:
    """The mean of the middle half of scores (n,) under each row of weights (m, n)."""
    order = np.argsort(scores)
    cumulated = np.cumsum(weights[:, order], axis=1).clip(0.25, 0.75)
    parts = np.diff(cumulated, axis=1, prepend=0.25)
    return np.asarray(2 * parts @ scores[order])


def _ranks(label: str, labels: Sequence[str], own: Sequence[tuple[TaskScores, Mapping[str, FloatArray]]]) -> FloatArray:
    """The rank of a method's times in each draw (1 + draws,)."""
    means = []
    for task, weights in own:
        ours = task.times[label]
        chances = []
        for other in labels:
            theirs = task.times.get(other, np.zeros(0))
            if other != label and len(theirs):
                earlier = (theirs < ours[:, None]) + 0.5 * (theirs == ours[:, None])
                chances.append(np.einsum("di,ij,dj->d", weights[label], earlier, weights[other], optimize=True))
        if chances:
            means.append(np.mean(chances, axis=0))
    rows = len(own[0][1][label])
    return np.asarray(1 + (len(labels) - 1) * np.mean(means, axis=0)) if means else np.ones(rows)


def _estimate(values: FloatArray) -> Estimate:
    """The first value, with the interval of the others."""
    low, high = _percentiles(values)
    return Estimate(float(values[0]), float(low), float(high))


def _percentiles(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The interval of the draws in rows 1, 2, ... of values (1 + draws, ...)."""
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(values[1:], [tail, 100 - tail], axis=0)
    return np.asarray(low), np.asarray(high)
