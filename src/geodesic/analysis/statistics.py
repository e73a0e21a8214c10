"""What a comparison says: times, final scores and probabilities over seeds, one row a label.

A score is what the task measures: the return, the discounted return or the success of an episode. A comparison has one
environment, so that seeds are its only source of chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geodesic.analysis.intervals import Estimate, iqm_of, median_of, probability_of_improvement
from geodesic.analysis.measures import WINDOW, asymptotic, deviation, time_to_solved
from geodesic.checks import FloatArray, as_all
from geodesic.records.reader import RunResult, by_label


@dataclass(frozen=True)
class Row:
    """One label of a comparison. Only finished runs count; without one, every estimate is NaN.

    reached: how many seeds solved the target for good; time: median over seeds of the time to solved, infinite where
    fewer than half of them did; first: the same for the first time above that level, lost again or not; first_raw: for
    the first single evaluation above it.
    final: asymptotic target score and success; faster, better: probability that a seed of the reference solves the
    target earlier, or ends higher, than a seed of this label; None in the reference's own row.
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


@dataclass(frozen=True, eq=False)
class Seeds:
    """What each finished run of a label came to: arrays (seeds,), as in `Row`."""

    firsts_raw: FloatArray
    firsts: FloatArray
    times: FloatArray
    finals: FloatArray
    successes: FloatArray

    def __len__(self) -> int:
        return len(self.finals)


def summarise(runs: Sequence[RunResult], solved: float, reference: str = "gradient") -> list[Row]:
    """One row per label, each compared with the reference: the label of this name, else the method's first label.

    solved: the mean score above which the target counts as solved.
    """
    groups = by_label(as_all(RunResult, runs, "runs"))
    chosen = next((label for label in groups if label == reference), None)
    chosen = chosen or next((run.label for run in runs if run.method == reference), None)
    seeds = {label: of_seeds(group, solved) for label, group in groups.items()}
    return [_row(label, len(group), seeds, chosen) for label, group in groups.items()]


def _row(label: str, runs: int, groups: dict[str, Seeds], reference: str | None) -> Row:
    own, other = groups[label], None if reference in (None, label) else groups[str(reference)]
    compared = other is not None and len(own) > 0 and len(other) > 0
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
        faster=probability_of_improvement(-other.times, -own.times) if other and compared else None,
        better=probability_of_improvement(other.finals, own.finals) if other and compared else None,
        reference=reference,
    )


def of_seeds(runs: Sequence[RunResult], solved: float) -> Seeds:
    """The times and final scores of each finished run.

    A run that was never evaluated, as a loop of one's own may leave, says nothing of the target.
    """
    tables = [run.evaluations for run in as_all(RunResult, runs, "runs") if run.finished and len(run.evaluations.steps)]

    def times(window: int, stays: bool) -> FloatArray:
        return np.array([time_to_solved(table.steps, table.scores, solved, window, stays) for table in tables])

    return Seeds(
        firsts_raw=times(1, False),
        firsts=times(WINDOW, False),
        times=times(WINDOW, True),
        finals=np.array([asymptotic(table.scores) for table in tables]),
        successes=np.array([asymptotic(table.successes) for table in tables]),
    )
