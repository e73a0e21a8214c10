"""Evaluations on the target over the steps, as one curve with a band over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from geodesic.analysis.intervals import IQM_SEEDS, iqm_interval
from geodesic.analysis.measures import WINDOW, deviation, interquartile_mean, rolling_mean
from geodesic.checks import FloatArray, IntArray, as_all, as_name
from geodesic.records.reader import RunResult

Column = Literal["scores", "successes"]  # of the evaluations on the target


@dataclass(frozen=True, eq=False)
class Curve:
    """A statistic over seeds at each evaluation: steps, middle, low, high and raw, all (n,).

    raw: the same statistic of the evaluations before smoothing; band: what lies between low and high.
    """

    steps: IntArray
    middle: FloatArray
    low: FloatArray
    high: FloatArray
    raw: FloatArray
    band: str


def mean_curve(runs: Sequence[RunResult], column: Column = "scores", window: int = WINDOW) -> Curve:
    """Mean of the smoothed evaluations with one standard deviation on either side, as in the paper.

    The band ends at the lowest and the highest evaluation of these runs: beyond, it would show what cannot be earned.
    """
    steps, values = aligned(runs, column, window)
    middle, spread = values.mean(axis=0), deviation(values)
    raw = aligned(runs, column, 1)[1]
    known = raw[np.isfinite(raw)]
    ends = (known.min(), known.max()) if len(known) else (-np.inf, np.inf)
    low, high = (np.clip(side, *ends) for side in (middle - spread, middle + spread))
    return Curve(steps, middle, low, high, raw.mean(axis=0), "standard deviation")


def iqm_curve(runs: Sequence[RunResult], column: Column = "scores", window: int = WINDOW) -> Curve:
    """Interquartile mean of the smoothed evaluations with its 95 % interval at each step.

    With too few seeds for one, the band is their range, and says so.
    """
    steps, values = aligned(runs, column, window)
    enough = len(values) >= IQM_SEEDS
    low, high = iqm_interval(values) if enough else (values.min(axis=0), values.max(axis=0))
    band = "95 % interval" if enough else "range (too few seeds for an interval)"
    return Curve(steps, interquartile_mean(values), low, high, interquartile_mean(aligned(runs, column, 1)[1]), band)


def aligned(runs: Sequence[RunResult], column: Column, window: int) -> tuple[IntArray, FloatArray]:
    """Smoothed evaluations (seeds, n) at the steps (n,) that every run has reached.

    A run without a single evaluation is left out.
    """
    as_name(column, "column", get_args(Column))
    begun = [run.evaluations for run in as_all(RunResult, runs, "runs") if len(run.evaluations.steps)]
    if not begun:
        return np.zeros(0, dtype=np.int64), np.zeros((1, 0))
    reached = min(table.steps[-1] for table in begun)
    grid = np.unique(np.concatenate([table.steps for table in begun]))
    grid = grid[(grid <= reached) & (grid >= max(table.steps[0] for table in begun))]
    rows = [np.interp(grid, table.steps, rolling_mean(getattr(table, column), window)) for table in begun]
    return grid, np.stack(rows)
