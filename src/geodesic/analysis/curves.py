"""Evaluations on the target over steps, as one curve with a band over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from geodesic.analysis.intervals import IQM_SEEDS, deviation, interquartile_mean, iqm_interval
from geodesic.analysis.statistics import drawn_window, rolling_mean
from geodesic.checks import FloatArray, IntArray, as_name, check_instances
from geodesic.records.reader import RunResult

Column = Literal["scores", "successes"]  # of the evaluations on the target


@dataclass(frozen=True, eq=False)
class Curve:
    """A statistic over seeds at each evaluation.

    Args:
        steps: The steps (n,) of the evaluations.
        middle: The statistic (n,) of the smoothed evaluations.
        low: The lower edge (n,) of the band.
        high: The upper edge (n,) of the band.
        raw: The statistic (n,) of the evaluations before smoothing.
        band: The name of the band.
    """

    steps: IntArray
    middle: FloatArray
    low: FloatArray
    high: FloatArray
    raw: FloatArray
    band: str


def mean_curve(runs: Sequence[RunResult], column: Column = "scores", window: int | None = None) -> Curve:
    """Compute the mean of the smoothed evaluations with one standard deviation on either side, as in the paper.

    The band is cut at the lowest and the highest evaluation of these runs, so that it shows no impossible scores.

    Args:
        runs: The runs of one label.
        column: The evaluations to use.
        window: The number of evaluations in a centred mean (default: that of these runs).

    Returns:
        The curve.
    """
    steps, values = aligned(runs, column, window)
    middle, spread = values.mean(axis=0), deviation(values)
    raw = aligned(runs, column, 1)[1]
    known = raw[np.isfinite(raw)]
    ends = (known.min(), known.max()) if len(known) else (-np.inf, np.inf)
    low, high = (np.clip(side, *ends) for side in (middle - spread, middle + spread))
    return Curve(steps, middle, low, high, raw.mean(axis=0), "standard deviation")


def iqm_curve(runs: Sequence[RunResult], column: Column = "scores", window: int | None = None) -> Curve:
    """Compute the interquartile mean of the smoothed evaluations with its 95 % interval.

    With too few seeds for an interval, the band is their range.

    Args:
        runs: The runs of one label.
        column: The evaluations to use.
        window: The number of evaluations in a centred mean (default: that of these runs).

    Returns:
        The curve.
    """
    steps, values = aligned(runs, column, window)
    enough = len(values) >= IQM_SEEDS
    low, high = iqm_interval(values) if enough else (values.min(axis=0), values.max(axis=0))
    band = "95 % interval" if enough else "range (too few seeds for an interval)"
    return Curve(steps, interquartile_mean(values), low, high, interquartile_mean(aligned(runs, column, 1)[1]), band)


def aligned(runs: Sequence[RunResult], column: Column, window: int | None) -> tuple[IntArray, FloatArray]:
    """Interpolate smoothed evaluations at the steps that every run has reached.

    Runs without evaluations are left out.

    Args:
        runs: The runs of one label.
        column: The evaluations to use.
        window: The number of evaluations in a centred mean (default: that of these runs).

    Returns:
        The steps (n,), and the evaluations (seeds, n).
    """
    as_name(column, "column", get_args(Column))
    tables = [run.evaluations for run in check_instances(RunResult, runs, "runs") if len(run.evaluations.steps)]
    if not tables:
        return np.zeros(0, dtype=np.int64), np.zeros((1, 0))
    reached = min(table.steps[-1] for table in tables)
    grid = np.unique(np.concatenate([table.steps for table in tables]))
    grid = grid[(grid <= reached) & (grid >= max(table.steps[0] for table in tables))]
    smooth = drawn_window(runs) if window is None else window
    rows = [np.interp(grid, table.steps, rolling_mean(getattr(table, column), smooth, True)) for table in tables]
    return grid, np.stack(rows)
