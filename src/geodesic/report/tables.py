"""Tables of a comparison, as plain text and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from geodesic.analysis.intervals import IQM_SEEDS, MEDIAN_SEEDS, Estimate, iqm_of
from geodesic.analysis.measures import WINDOW, deviation
from geodesic.analysis.statistics import Row
from geodesic.checks import as_all
from geodesic.records.reader import RunResult, by_label

if TYPE_CHECKING:
    from geodesic.runs.tail import Tail

_HEADER = (
    "method",
    "seeds",
    "reached",
    "first above, raw",
    "first above",
    "stays above",
    "final mean ± std",
    "final IQM",
    "success",
)
_MARK = "*"


def format_table(rows: Sequence[Row], markdown: bool = False) -> str:
    """One line per label, then notes on what its cells are; brackets hold 95 % intervals.

    reached: seeds whose smoothed target score is above the level that counts as solved from some step to the end;
    first above, stays above: the steps at which it first is, and from which it stays; raw: at which a single evaluation
    first is. An interval of this would crowd the line, and is in table.csv.

    P(x faster) and P(x better): the probability that a seed of x beats a seed of this line's method, in time to
    solved and in final score.
    """
    rows = as_all(Row, rows, "rows")
    table, told = _lay_out(table_cells(rows), markdown), notes(rows)
    if markdown:
        return "\n\n".join([table, *(note.replace(_MARK, "\\*") for note in told)])
    return "\n".join([table, *told])


def table_cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The header and a line per label, as words; without the probabilities where there is nobody to compare with."""
    lines = [_header(rows), *(_cells(row) for row in rows)]
    alone = all(row.reference in (None, row.label) for row in rows)
    return [line[: len(_HEADER)] for line in lines] if alone else lines


def notes(rows: Sequence[Row]) -> list[str]:
    """What the times are, what the brackets cover, and why some are missing."""
    own = [row for row in rows if row.finished]
    if not own:
        return []
    told = [f"Times are medians over seeds; raw: single evaluations, the others a rolling mean of {WINDOW}."]
    short = {"medians of 5 seeds": MEDIAN_SEEDS, "interquartile means of 10": IQM_SEEDS}
    less = [what for what, seeds in short.items() if any(row.finished == seeds for row in own)]
    told.append("Brackets: 95 % intervals over seeds" + (f" ({' and '.join(less)}: 94 %)." if less else "."))
    if any(row.finished < IQM_SEEDS for row in own):
        needed = f"a median needs {MEDIAN_SEEDS}, an interquartile mean {IQM_SEEDS}"
        told.append(f"{_MARK} too few seeds for an interval: {needed}.")
    return told


def _lay_out(lines: Sequence[tuple[str, ...]], markdown: bool) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = [[_pad(cell, width, left=not k) for k, (cell, width) in enumerate(zip(line, widths))] for line in lines]
    if markdown:
        rule = ["-" * width if not k else "-" * (width - 1) + ":" for k, width in enumerate(widths)]
        return "\n".join(f"| {' | '.join(line)} |" for line in [padded[0], rule, *padded[1:]])
    rule = ["-" * width for width in widths]
    return "\n".join("  ".join(line).rstrip() for line in [padded[0], rule, *padded[1:]])


def infeasible_table(runs: Sequence[RunResult], markdown: bool = False) -> str:
    """Share of infeasible contexts by how far the curriculum is, mean over seeds; nothing where all are feasible.

    Stages that explore the whole space are left out: they are the same for every method.
    """
    shares = {label: _by_alpha(group) for label, group in by_label(as_all(RunResult, runs, "runs")).items()}
    shares = {label: line for label, line in shares.items() if len(line) > 1}
    if not any(share > 0 for line in shares.values() for share in line.values()):
        return ""
    alphas = sorted({alpha for line in shares.values() for alpha in line})
    rows = [
        (label, *(f"{line[alpha]:.0%}" if alpha in line else "" for alpha in alphas)) for label, line in shares.items()
    ]
    return _lay_out([("infeasible contexts at alpha", *(f"{alpha:g}" for alpha in alphas)), *rows], markdown)


def tail_table(tails: Sequence[Tail], markdown: bool = False) -> str:
    """Scores and successes in the worst contexts, over the seeds of each label; nothing without a finished run."""
    groups: dict[str, list[Tail]] = {}
    for tail in tails:
        groups.setdefault(tail.label, []).append(tail)
    lines = [_tail_cells(label, own) for label, own in groups.items()]
    if not lines:
        return ""
    header = (f"worst {tails[0].share:.0%} of contexts", "seeds", "mean ± std", "IQM", "success")
    return _lay_out([header, *lines], markdown)


def _tail_cells(label: str, tails: Sequence[Tail]) -> tuple[str, ...]:
    scores, success = np.array([tail.score for tail in tails]), float(np.mean([tail.success for tail in tails]))
    mean, spread = (_number(float(value)) for value in (scores.mean(), deviation(scores)))
    return (label, str(len(tails)), f"{mean} ± {spread}", _interval(iqm_of(scores), _number), _percentage(success))


def _by_alpha(group: Sequence[RunResult]) -> dict[float, float]:
    seen: dict[float, list[float]] = {}
    for run in group:
        for alpha, explores, share in zip(run.stages.alphas, run.stages.explores, run.stages.infeasible):
            if not explores:
                seen.setdefault(round(float(alpha), 3), []).append(float(share))
    return {alpha: sum(values) / len(values) for alpha, values in seen.items()}


def _header(rows: Sequence[Row]) -> tuple[str, ...]:
    reference = next((row.reference for row in rows if row.reference), "?")
    return (*_HEADER, f"P({reference} faster)", f"P({reference} better)")


def _cells(row: Row) -> tuple[str, ...]:
    seeds = str(row.runs) if row.finished == row.runs else f"{row.finished} of {row.runs}"
    if not row.finished:
        return (row.label, seeds, *["-"] * len(_HEADER))
    return (
        row.label,
        seeds,
        "-" if math.isnan(row.time.value) and not row.reached else f"{row.reached}/{row.finished}",
        _time(row.first_raw.value),
        _interval(row.first, _time),
        _interval(row.time, _time),
        "-" if math.isnan(row.final_mean) else f"{_number(row.final_mean)} ± {_number(row.final_std)}",
        _interval(row.final_iqm, _number),
        _percentage(row.final_success),
        _probability(row.faster),
        _probability(row.better),
    )


def _interval(estimate: Estimate, show: Callable[[float], str]) -> str:
    """The value and its interval; a mark where the seeds are too few, a dash where nothing is known."""
    if math.isnan(estimate.value):
        return "-"
    if math.isnan(estimate.low):
        return f"{show(estimate.value)} {_MARK}"
    if math.isinf(estimate.low):  # an interval from never to never says nothing more
        return show(estimate.value)
    return f"{show(estimate.value)} [{show(estimate.low)}, {show(estimate.high)}]"


def _percentage(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.0%}"


def _probability(estimate: Estimate | None) -> str:
    return "-" if estimate is None else _interval(estimate, lambda value: f"{value:.2f}")


def _time(steps: float) -> str:
    if math.isnan(steps):
        return "-"
    return "never" if math.isinf(steps) else f"{steps / 1000:.1f}k"


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def _pad(cell: str, width: int, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)
