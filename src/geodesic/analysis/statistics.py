"""Statistics of runs: times and final scores of each, and of a comparison one row per label.

Scores are of the kind that the task uses: returns, discounted returns or successes. A comparison has one environment,
so seeds are its only source of chance.

NaN means unknown. Evaluations that are not finite are left out of every mean over evaluations; a run without any other
has neither a time nor a final score. A time of infinity means never.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from geodesic.analysis.intervals import Estimate, as_values, deviation, iqm_of, median_of, probability_of_improvement
from geodesic.checks import FloatArray, as_count, as_fraction, as_integer, as_strings, check_instances, is_number
from geodesic.errors import InvalidInput, short_repr
from geodesic.records.reader import RunResult, by_label

REFERENCES = ("auto", "gradient")  # what a comparison compares the others with
WINDOW = 10  # evaluations in a rolling mean
FEW = 30  # evaluations, below which the window is that of the final score
TENTH = 0.1  # of the evaluations, the last of which give the final score


@dataclass(frozen=True)
class Row:
    """One label of a comparison. Only finished runs count; without one, every estimate is NaN.

    Args:
        label: The method with its options.
        runs: The number of runs.
        finished: The number of finished runs.
        reached: The number of seeds that solved the target and stayed above the level.
        first_raw: The median step of the first single evaluation above the level.
        first: The median step of the first smoothed evaluation above the level.
        time: The median step from which smoothed evaluations stay above the level; infinite if fewer than half of the
            seeds reached it.
        final_mean: The mean of the final target scores.
        final_std: Their standard deviation.
        final_iqm: Their interquartile mean.
        final_success: The mean of the final success rates on the target.
        faster: The probability that a seed of the reference stays above the level earlier than a seed of this label;
            None in the reference's own row.
        better: The probability that a seed of the reference has a higher final score than a seed of this label.
        reference: The label that this one is compared with.
        first_faster: As `faster`, for the step at which they are first above the level.
        window: The number of evaluations in the rolling means.
    """

    label: str
    runs: int
    finished: int
    reached: int
    first_raw: Estimate
    first: Estimate
    time: Estimate
    final_mean: float
    final_std: float
    final_iqm: Estimate
    final_success: float
    faster: Estimate | None
    better: Estimate | None
    reference: str | None
    first_faster: Estimate | None = None
    window: int = WINDOW


@dataclass(frozen=True, eq=False)
class Seeds:
    """The statistics of each finished run of a label.

    Args:
        firsts_raw: Steps (seeds,) of the first single evaluation above the level.
        firsts: Steps (seeds,) of the first smoothed evaluation above the level.
        times: Steps (seeds,) from which smoothed evaluations stay above the level.
        finals: Final target scores (seeds,).
        successes: Final success rates (seeds,) on the target.
    """

    firsts_raw: FloatArray
    firsts: FloatArray
    times: FloatArray
    finals: FloatArray
    successes: FloatArray

    def __len__(self) -> int:
        return len(self.finals)


def summarise(runs: Sequence[RunResult], solved: float, *references: str) -> list[Row]:
    """Summarise a comparison in one row per label.

    Args:
        runs: The runs of the comparison.
        solved: The mean score above which the target counts as solved.
        *references: The label that the others are compared with, or a method, whose first label is taken; of several,
            the first one among the runs (default: auto, else gradient).

    Returns:
        The rows, in the order of the labels.
    """
    groups = by_label(check_instances(RunResult, runs, "runs"))
    wanted = as_strings(references, "references") or REFERENCES
    named = {run.method: run.label for run in reversed(runs)} | {label: label for label in groups}
    chosen = next((named[name] for name in wanted if name in named), None)
    window = window_of(runs)
    seeds = {label: of_seeds(group, solved, window) for label, group in groups.items()}
    return [_row(label, len(group), seeds, chosen, window) for label, group in groups.items()]


def _row(label: str, runs: int, groups: dict[str, Seeds], reference: str | None, window: int) -> Row:
    own = groups[label]
    other = groups[reference] if own and reference not in (None, label) else None
    return Row(
        label=label,
        runs=runs,
        finished=len(own),
        reached=int(np.isfinite(own.times).sum()),
        first_raw=median_of(own.firsts_raw),
        first=median_of(own.firsts),
        time=median_of(own.times),
        final_mean=float(own.finals.mean()) if len(own) else math.nan,
        final_std=float(deviation(own.finals)) if len(own) else math.nan,
        final_iqm=iqm_of(own.finals),
        final_success=float(own.successes.mean()) if len(own) else math.nan,
        faster=probability_of_improvement(-other.times, -own.times) if other else None,
        better=probability_of_improvement(other.finals, own.finals) if other else None,
        reference=reference,
        first_faster=probability_of_improvement(-other.firsts, -own.firsts) if other else None,
        window=window,
    )


def smoothing_window(evaluations: int) -> int:
    """Compute how many evaluations a rolling mean takes.

    It takes 10. In a run of fewer than 30 evaluations it takes those that give the final score, the last tenth, so that
    such a run has solved its target if its final score is above the level.

    Args:
        evaluations: The evaluations of a run.

    Returns:
        The number of evaluations in a mean.

    Example:
        >>> [smoothing_window(count) for count in (5, 21, 30, 51, 101)]
        [1, 3, 10, 10, 10]
    """
    return WINDOW if as_integer(evaluations, "evaluations") >= FEW else _last_tenth(evaluations)


def window_of(runs: Sequence[RunResult]) -> int:
    """Compute how many evaluations the rolling means of runs take: the same for all of them.

    Args:
        runs: The runs of a comparison; the one with the most evaluations decides.

    Returns:
        The number of evaluations in a mean.
    """
    return smoothing_window(_most_evaluations(runs))


def drawn_window(runs: Sequence[RunResult]) -> int:
    """Compute how many evaluations the centred means in figures take: a tenth of those of a run, an odd number.

    Args:
        runs: The runs of a comparison; the one with the most evaluations decides.

    Returns:
        The number of evaluations in a mean.
    """
    return 2 * (_most_evaluations(runs) // 20) + 1


def _most_evaluations(runs: Sequence[RunResult]) -> int:
    """The number of evaluations of the run with the most; 0 without runs."""
    return max((len(run.evaluations.steps) for run in check_instances(RunResult, runs, "runs")), default=0)


def _last_tenth(count: int, fraction: float = TENTH) -> int:
    """A fraction of a count, at least one."""
    # 0.1 * 30 is slightly above 3 in floating point and must not round up to 4
    return max(1, math.ceil(fraction * count - 1e-9))


def of_seeds(runs: Sequence[RunResult], solved: float, window: int | None = None) -> Seeds:
    """Compute the times and final scores of each finished run.

    Args:
        runs: Runs of one label; those that were never evaluated are left out.
        solved: The mean score above which the target counts as solved.
        window: The number of evaluations in a rolling mean (default: that of these runs).

    Returns:
        One array per statistic.
    """
    checked = check_instances(RunResult, runs, "runs")
    smooth = window_of(checked) if window is None else window
    tables = [run.evaluations for run in checked if run.finished and len(run.evaluations.steps)]

    def times(window: int, stays: bool) -> FloatArray:
        return np.array([time_to_solved(table.steps, table.scores, solved, window, stays) for table in tables])

    finals = np.array([asymptotic(table.scores) for table in tables])
    successes = np.array([asymptotic(table.successes) for table in tables])
    return Seeds(times(1, False), times(smooth, False), times(smooth, True), finals, successes)


def rolling_mean(values: ArrayLike, window: int = WINDOW, centred: bool = False) -> FloatArray:
    """Compute the mean of each value and those before it, `window` in all; at the ends, of as many as there are.

    Args:
        values: Values (n,); those that are not finite are left out.
        window: The number of values in a mean.
        centred: Whether a mean is of as many values on both sides instead: for figures, since it does not lag.

    Returns:
        Means (n,); NaN where a window has no finite value.
    """
    data, window = as_values(values, "values"), as_count(window, "window")
    if not len(data):
        return data
    size = min(2 * (window // 2) + 1, 2 * len(data) - 1) if centred else min(window, len(data))
    known, ones, first = np.isfinite(data), np.ones(size), size // 2 if centred else 0
    parts = np.where(known, data, 0.0), known.astype(float)
    sums, counts = (np.convolve(part, ones)[first : first + len(data)] for part in parts)
    return np.asarray(np.divide(sums, counts, out=np.full(len(data), np.nan), where=counts > 0))


def time_to_solved(
    steps: ArrayLike, scores: ArrayLike, solved: float, window: int = WINDOW, stays: bool = True
) -> float:
    """Find the first step from which the smoothed target score stays above a level.

    "Stays" means to the end of the run, so a level that is passed by luck and lost again does not count. A rolling mean
    lags by up to `window` evaluations if the score jumps from far below to just above.

    Args:
        steps: The step (n,) of each evaluation.
        scores: Their scores (n,).
        solved: The level.
        window: The number of evaluations in a rolling mean; 1 for no smoothing.
        stays: Whether the score must stay above the level; else the first step above it is returned.

    Returns:
        The step; infinite if there is none, NaN without a level or a single finite evaluation.

    Raises:
        InvalidInput: If the arguments do not fit together.
    """
    times, smooth = as_values(steps, "steps"), rolling_mean(scores, window)
    if not is_number(solved):
        raise InvalidInput(f"expected solved to be a number, got {short_repr(solved)}")
    if len(times) != len(smooth):
        raise InvalidInput(f"expected as many steps as scores, got {len(times)} and {len(smooth)}")
    if math.isnan(solved) or np.isnan(smooth).all():
        return math.nan
    reached = smooth > solved
    if stays:
        reached = np.logical_and.accumulate(reached[::-1])[::-1]
    return float(times[reached.argmax()]) if reached.any() else math.inf


def asymptotic(scores: ArrayLike, fraction: float = TENTH) -> float:
    """Compute the mean of the last evaluations.

    Args:
        scores: The scores (n,) of the evaluations; those that are not finite are left out.
        fraction: The fraction of the evaluations to use, at least one of them.

    Returns:
        The mean; NaN if none of them is finite.

    Raises:
        InvalidInput: If there is no evaluation.
    """
    values, fraction = as_values(scores, "scores"), as_fraction(fraction, "fraction")
    if not len(values):
        raise InvalidInput("expected at least one evaluation, got none")
    count = _last_tenth(len(values), fraction)
    return float(rolling_mean(values[-count:], count)[-1])
