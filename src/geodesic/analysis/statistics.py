"""What a comparison says: times, final scores, intervals and probabilities over seeds.

A score is what the task measures: the return, the discounted return or the success of an episode.

Seeds are the only source of chance that is resampled: a comparison has one environment, so that the stratified
bootstrap of Agarwal et al. (2021) is the plain one here, within each method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from geodesic.contexts import FloatArray, IntArray
from geodesic.errors import InvalidInput
from geodesic.records.reader import RunResult, by_label

Column = Literal["scores", "successes"]  # of the evaluations on the target
Statistic = Callable[[FloatArray, int], FloatArray]

RESAMPLES = 2000
LEVEL = 0.95
# Resampled values held at once: a curve of a thousand evaluations would else fill the memory.
BLOCK = 2_000_000


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One label of a comparison. Only finished runs count; without one, every estimate is NaN.

    reached: how many seeds solved the target for good; time: median over seeds of the time to solved, infinite where
    fewer than half of them did; first: the same for the first time above that level, lost again or not.
    final: asymptotic target score and success; faster, better: probability that a seed of the reference solves the
    target earlier, or ends higher, than a seed of this label; None in the reference's own row.
    """

    label: str
    runs: int
    finished: int
    reached: int
    first: Estimate
    time: Estimate
    final_mean: float
    final_std: float
    final_iqm: Estimate
    final_success: float
    faster: Estimate | None
    better: Estimate | None
    reference: str | None


def rolling_mean(values: ArrayLike, window: int = 10) -> FloatArray:
    """Mean of each value and those before it, `window` in all; at the start, of as many as there are.

    Values that are not finite are left out; a window without any other gives NaN.
    """
    if window < 1:
        raise InvalidInput(f"expected window to be at least 1, got {window}")
    data = np.asarray(values, dtype=np.float64)
    known = np.isfinite(data)
    sums = _window_sums(np.where(known, data, 0.0), window)
    counts = _window_sums(known.astype(np.float64), window)
    means: FloatArray = np.divide(sums, counts, out=np.full(len(data), np.nan), where=counts > 0)
    return means


def _window_sums(values: FloatArray, window: int) -> FloatArray:
    if not len(values):
        return values
    return np.asarray(np.convolve(values, np.ones(window))[: len(values)])


def time_to_solved(steps: ArrayLike, scores: ArrayLike, solved: float, window: int = 10, stays: bool = True) -> float:
    """First step from which the smoothed target score stays above the level `solved`; infinite if it never does.

    "Stays" means to the end of the run: a level that is passed by luck and lost again does not count. With
    stays=False, the first step at which it is above.
    """
    times = np.asarray(steps, dtype=np.float64)
    above = rolling_mean(scores, window) > solved
    if len(times) != len(above):
        raise InvalidInput(f"expected as many steps as scores, got {len(times)} and {len(above)}")
    below = np.flatnonzero(~above)
    first = int(below[-1]) + 1 if len(below) else 0
    if not stays and above.any():
        first = int(above.argmax())
    return float(times[first]) if first < len(times) else math.inf


def asymptotic(scores: ArrayLike, share: float = 0.1) -> float:
    """Mean of the last share of the evaluations, at least of one."""
    values = np.asarray(scores, dtype=np.float64)
    if not len(values):
        raise InvalidInput("expected at least one evaluation, got none")
    # A product such as 0.1 * 30 is a hair above 3 and must not count as 4.
    count = max(1, math.ceil(share * len(values) - 1e-9))
    return float(values[-count:].mean())


def interquartile_mean(values: FloatArray, axis: int = 0) -> FloatArray:
    """Mean of the middle half: a quarter of the values, rounded down, is cut off at either end."""
    return np.asarray(stats.trim_mean(values, 0.25, axis=axis))


def deviation(values: FloatArray, axis: int = 0) -> FloatArray:
    """Standard deviation over seeds (n - 1 in the denominator); zero for a single seed."""
    return np.asarray(values.std(axis=axis, ddof=1 if values.shape[axis] > 1 else 0))


def median(values: FloatArray, axis: int = 0) -> FloatArray:
    """The median, infinite values included."""
    return np.asarray(np.median(values, axis=axis))


def bootstrap(values: FloatArray, statistic: Statistic, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Percentile interval of a statistic over seeds: values (seeds, ...) -> low (...), high (...).

    The order statistics next to the percentiles are taken as they are, on the outer side: infinite values survive.
    """
    n = len(values)
    if not n:
        raise InvalidInput("expected values of at least one seed, got none")
    draws = rng.integers(n, size=(RESAMPLES, n))
    block = max(1, BLOCK // max(1, values.size))
    parts = [statistic(values[draws[start : start + block]], 1) for start in range(0, RESAMPLES, block)]
    return _percentiles(np.concatenate(parts))


def _percentiles(resampled: FloatArray) -> tuple[FloatArray, FloatArray]:
    ranked = np.sort(resampled, axis=0)
    last = len(ranked) - 1
    return ranked[math.floor((1 - LEVEL) / 2 * last)], ranked[math.ceil((1 + LEVEL) / 2 * last)]


def estimate(values: FloatArray, statistic: Statistic, rng: np.random.Generator) -> Estimate:
    """A statistic of one value per seed, with its interval."""
    low, high = bootstrap(values, statistic, rng)
    return Estimate(float(statistic(values, 0)), float(low), float(high))


def probability_of_improvement(x: ArrayLike, y: ArrayLike, rng: np.random.Generator) -> Estimate:
    """P(X > Y) + P(X = Y) / 2 over all pairs of seeds, both resampled (Agarwal et al. 2021).

    For times, where less is better, pass their negatives: two runs that never arrive are a tie.
    """
    ours, theirs = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if not len(ours) or not len(theirs):
        raise InvalidInput(f"expected at least one value on each side, got {len(ours)} and {len(theirs)}")
    wins = (ours[:, None] > theirs) + 0.5 * (ours[:, None] == theirs)
    rows = rng.integers(len(ours), size=(RESAMPLES, len(ours)))
    columns = rng.integers(len(theirs), size=(RESAMPLES, len(theirs)))
    low, high = _percentiles(wins[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2)))
    return Estimate(float(wins.mean()), float(low), float(high))


@dataclass(frozen=True, eq=False)
class Curve:
    """A statistic over seeds at each evaluation: steps, middle, low and high, all (n,)."""

    steps: IntArray
    middle: FloatArray
    low: FloatArray
    high: FloatArray


def mean_curve(runs: Sequence[RunResult], column: Column = "scores", window: int = 10) -> Curve:
    """Mean of the smoothed evaluations with one standard deviation on either side, as in the paper."""
    steps, values = aligned(runs, column, window)
    middle, spread = values.mean(axis=0), deviation(values)
    return Curve(steps, middle, middle - spread, middle + spread)


def iqm_curve(
    runs: Sequence[RunResult], rng: np.random.Generator, column: Column = "scores", window: int = 10
) -> Curve:
    """Interquartile mean of the smoothed evaluations with its 95 % bootstrap interval."""
    steps, values = aligned(runs, column, window)
    low, high = bootstrap(values, interquartile_mean, rng)
    return Curve(steps, interquartile_mean(values), low, high)


def aligned(runs: Sequence[RunResult], column: Column, window: int) -> tuple[IntArray, FloatArray]:
    """Smoothed evaluations (seeds, n) at the steps (n,) that every run has reached.

    A run without a single evaluation is left out.
    """
    begun = [run.evaluations for run in runs if len(run.evaluations.steps)]
    if not begun:
        return np.zeros(0, dtype=np.int64), np.zeros((1, 0))
    reached = min(table.steps[-1] for table in begun)
    grid = np.unique(np.concatenate([table.steps for table in begun]))
    grid = grid[(grid <= reached) & (grid >= max(table.steps[0] for table in begun))]
    rows = [np.interp(grid, table.steps, rolling_mean(getattr(table, column), window)) for table in begun]
    return grid, np.stack(rows)


def summarise(runs: Sequence[RunResult], solved: float, reference: str = "gradient") -> list[Row]:
    """One row per label, each compared with the reference: the label of this name, else the method's first label.

    solved: the mean score above which the target counts as solved.
    """
    groups = by_label(runs)
    chosen = next((label for label in groups if label == reference), None)
    chosen = chosen or next((run.label for run in runs if run.method == reference), "")
    # One generator per label, so that a table does not change when a label is added to it.
    return [
        _row(label, group, groups.get(chosen, []), solved, np.random.default_rng(0)) for label, group in groups.items()
    ]


def _row(
    label: str, group: list[RunResult], reference: list[RunResult], solved: float, rng: np.random.Generator
) -> Row:
    firsts, times, finals, successes = _of_seeds(group, solved)
    _, their_times, their_finals, _ = _of_seeds(reference, solved)
    compared = len(times) > 0 and len(their_times) > 0 and reference is not group
    unknown = Estimate(math.nan, math.nan, math.nan)
    return Row(
        label=label,
        runs=len(group),
        finished=len(times),
        reached=int(np.isfinite(times).sum()),
        first=estimate(firsts, median, rng) if len(times) else unknown,
        time=estimate(times, median, rng) if len(times) else unknown,
        final_mean=float(finals.mean()) if len(finals) else math.nan,
        final_std=float(deviation(finals)) if len(finals) else math.nan,
        final_iqm=estimate(finals, interquartile_mean, rng) if len(finals) else unknown,
        final_success=float(successes.mean()) if len(successes) else math.nan,
        faster=probability_of_improvement(-their_times, -times, rng) if compared else None,
        better=probability_of_improvement(their_finals, finals, rng) if compared else None,
        reference=reference[0].label if reference else None,
    )


def _of_seeds(runs: list[RunResult], solved: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """First time above the level, time to solved, asymptotic score and success of each finished run.

    A run that was never evaluated, as a loop of one's own may leave, says nothing of the target.
    """
    tables = [run.evaluations for run in runs if run.finished and len(run.evaluations.steps)]
    return (
        np.array([time_to_solved(table.steps, table.scores, solved, stays=False) for table in tables]),
        np.array([time_to_solved(table.steps, table.scores, solved) for table in tables]),
        np.array([asymptotic(table.scores) for table in tables]),
        np.array([asymptotic(table.successes) for table in tables]),
    )
