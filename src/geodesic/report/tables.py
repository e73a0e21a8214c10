"""Tables of a comparison: plain text, Markdown, CSV and LaTeX, and the score matrix that rliable reads."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from geodesic.analysis.intervals import IQM_SEEDS, MEDIAN_SEEDS, Estimate, deviation, iqm_of
from geodesic.analysis.statistics import Row, of_seeds
from geodesic.checks import check_instances
from geodesic.contexts import Arrays
from geodesic.records.files import write_atomically
from geodesic.records.reader import RunResult, by_label
from geodesic.report.text import format_known

if TYPE_CHECKING:
    from geodesic.runs.cvar import WorstContexts

TERMINAL = 100  # columns of a plain table
GAP = "  "  # between two columns
_RAW = "first above, raw"
COLUMNS = {  # and what they mean
    "method": "The method with its options",
    "seeds": "Finished runs, out of those that were started",
    "reached": "Seeds whose smoothed score on the target is above the solved level from some step to the end",
    _RAW: "Median over seeds of the step at which a single evaluation is first above the solved level",
    "first above": "The same for the rolling mean of evaluations, which is later and more reliable",
    "stays above": "The step from which the rolling mean stays above the level to the end; never, if fewer than half "
    "of the seeds get there",
    "final mean ± std": "Mean of the last tenth of the evaluations: its mean and standard deviation over seeds",
    "success": "Success rate in the last tenth of the evaluations",
    "final IQM": "Mean of the middle half of the seeds' final scores, which a few good or bad seeds do not move",
    "P(first)": "Probability that a seed of the first method is above the level earlier than one of this row",
    "P(faster)": "Probability that a seed of the first method stays above the level earlier than one of this row",
    "P(better)": "Probability that a seed of the first method ends higher than one of this row; an interval that "
    "contains 0.5 decides nothing",
}
SHORT = ("method", "reached", "first above", "final IQM", "P(better)")  # of the columns, for a first look
_HEADER, _CHANCES = tuple(COLUMNS)[:-3], tuple(COLUMNS)[-3:]
_MARK = "*"
_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def format_table(rows: Sequence[Row], markdown: bool = False) -> str:
    """Write the table of a comparison: one line per label, then notes on its cells; brackets hold 95 % intervals.

    The columns: reached is the number of seeds whose smoothed target score is above the level that counts as solved
    from some step to the end; first above and stays above are the steps at which it first is, and from which it stays;
    raw is the step at which a single evaluation first is (its interval is in table.csv). P(first), P(faster) and
    P(better) are the probabilities that a seed of the reference beats a seed of this line's method: in the step at
    which it is first above, in the step from which it stays above, and in the final score.

    A plain table fits a terminal of 100 columns: what is wider follows in further blocks of columns, and raw times and
    a success rate that no method has are left out.

    Args:
        rows: The rows, from `geodesic.analysis.statistics.summarise`.
        markdown: Whether to write Markdown instead of plain text.

    Returns:
        The table.
    """
    rows = check_instances(Row, rows, "rows")
    cells, remarks = table_cells(rows), notes(rows, raw=markdown)
    if markdown:
        return "\n\n".join([lay_out(cells, markdown), *(note.replace(_MARK, "\\*") for note in remarks)])
    known = [name for name, *column in zip(*cells) if name != "success" or set(column) != {"-"}]
    columns = [cells[0].index(name) for name in known if name != _RAW]
    without = [tuple(line[column] for column in columns) for line in cells]
    return "\n".join([lay_out(without), *(line for note in remarks for line in wrap(note, TERMINAL))])


def table_cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return the header and a line per label; without the probabilities if there is no other label to compare with."""
    lines = [(*_HEADER, *_CHANCES), *(_cells(row) for row in rows)]
    alone = all(row.reference in (None, row.label) for row in rows)
    return [line[: len(_HEADER)] for line in lines] if alone else lines


def notes(rows: Sequence[Row], raw: bool = True) -> list[str]:
    """Explain the times, with the raw ones if they are shown, and the brackets, of which some may be missing."""
    own = [row for row in rows if row.finished]
    if not own:
        return []
    window = own[0].window
    smoothed = "; raw: single evaluations, the others a" if raw else ", of a"
    of_times = f"{smoothed} rolling mean of {window}" if window > 1 else ", of single evaluations: there are few"
    remarks = [f"Times are medians over seeds{of_times}."]
    if reference := next((row.reference for row in rows if row.faster), None):
        remarks.append(f"P: that a seed of {reference} is first above earlier, stays above earlier, or ends higher.")
    short = {"medians of 5 seeds": MEDIAN_SEEDS, "interquartile means of 10": IQM_SEEDS}
    less = [words for words, seeds in short.items() if any(row.finished == seeds for row in own)]
    remarks.append("Brackets: 95 % intervals over seeds" + (f" ({' and '.join(less)}: 94 %)." if less else "."))
    if any(row.finished < IQM_SEEDS for row in own):
        needed = f"a median needs {MEDIAN_SEEDS}, an interquartile mean {IQM_SEEDS}"
        remarks.append(f"{_MARK} too few seeds for an interval: {needed}.")
    return remarks


def lay_out(lines: Sequence[tuple[str, ...]], markdown: bool = False) -> str:
    """A table, in blocks of columns that fit a terminal unless it is Markdown; each begins with the first column."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    sides = "<" + ">" * (len(widths) - 1)
    padded = [[f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths)] for line in lines]
    if markdown:
        rule = ["-" * width if not k else "-" * (width - 1) + ":" for k, width in enumerate(widths)]
        return "\n".join(f"| {' | '.join(line)} |" for line in [padded[0], rule, *padded[1:]])
    blocks, room = [[0]], TERMINAL - widths[0]
    for column in range(1, len(widths)):
        room -= len(GAP) + widths[column]
        if room < 0 and len(blocks[-1]) > 1:
            blocks.append([0])
            room = TERMINAL - widths[0] - len(GAP) - widths[column]
        blocks[-1].append(column)
    rule = ["-" * width for width in widths]
    tables = [
        [GAP.join(line[k] for k in block).rstrip() for line in (padded[0], rule, *padded[1:])] for block in blocks
    ]
    return "\n\n".join("\n".join(table) for table in tables)


def infeasible_table(runs: Sequence[RunResult], markdown: bool = False) -> str:
    """Write the fraction of infeasible contexts by alpha, mean over seeds.

    Args:
        runs: The runs. Stages that explore the whole space are left out: they are the same for every method.
        markdown: Whether to write Markdown instead of plain text.

    Returns:
        The table; empty if all contexts are feasible.
    """
    fractions = {label: _by_alpha(group) for label, group in by_label(check_instances(RunResult, runs, "runs")).items()}
    fractions = {label: line for label, line in fractions.items() if len(line) > 1}
    if not any(fraction > 0 for line in fractions.values() for fraction in line.values()):
        return ""
    alphas = sorted({alpha for line in fractions.values() for alpha in line})
    rows = [
        (label, *(f"{line[alpha]:.0%}" if alpha in line else "" for alpha in alphas))
        for label, line in fractions.items()
    ]
    return lay_out([("infeasible contexts at alpha", *(f"{alpha:g}" for alpha in alphas)), *rows], markdown)


def cvar_table(results: Sequence[WorstContexts], markdown: bool = False) -> str:
    """Write scores and successes in the worst contexts, over the seeds of each label.

    Args:
        results: One for each finished run, from `geodesic.runs.cvar.worst_contexts`.
        markdown: Whether to write Markdown instead of plain text.

    Returns:
        The table; empty without a finished run.
    """
    groups: dict[str, list[WorstContexts]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result)
    if not groups:
        return ""
    header = (f"worst {results[0].fraction:.0%} of contexts", "seeds", "mean ± std", "IQM", "success")
    return lay_out([header, *(_cvar_cells(label, group) for label, group in groups.items())], markdown)


def _cvar_cells(label: str, group: Sequence[WorstContexts]) -> tuple[str, ...]:
    scores = np.array([each.score for each in group])
    mean, spread = (_number(float(value)) for value in (scores.mean(), deviation(scores)))
    success = format_known(float(np.mean([each.success for each in group])), ".0%", "-")
    return (label, str(len(group)), f"{mean} ± {spread}", interval_text(iqm_of(scores), _number), success)


def _by_alpha(group: Sequence[RunResult]) -> dict[float, float]:
    found: dict[float, list[float]] = {}
    for run in group:
        for alpha, explores, fraction in zip(run.stages.alphas, run.stages.explores, run.stages.infeasible):
            if not explores:
                found.setdefault(round(float(alpha), 3), []).append(float(fraction))
    return {alpha: sum(values) / len(values) for alpha, values in found.items()}


def _cells(row: Row) -> tuple[str, ...]:
    seeds = str(row.runs) if row.finished == row.runs else f"{row.finished} of {row.runs}"
    if not row.finished:
        return (row.label, seeds, *["-"] * (len(_HEADER) + 1))
    return (
        row.label,
        seeds,
        "-" if math.isnan(row.time.value) and not row.reached else f"{row.reached}/{row.finished}",
        _time(row.first_raw.value),
        interval_text(row.first, _time),
        interval_text(row.time, _time),
        "-" if math.isnan(row.final_mean) else f"{_number(row.final_mean)} ± {_number(row.final_std)}",
        format_known(row.final_success, ".0%", "-"),
        interval_text(row.final_iqm, _number),
        interval_text(row.first_faster, "{:.2f}".format),
        interval_text(row.faster, "{:.2f}".format),
        interval_text(row.better, "{:.2f}".format),
    )


def interval_text(estimate: Estimate | None, show: Callable[[float], str]) -> str:
    """The value and its interval; a mark for too few seeds, a dash for an unknown value."""
    if estimate is None or math.isnan(estimate.value):
        return "-"
    if math.isnan(estimate.low):
        return f"{show(estimate.value)} {_MARK}"
    if math.isinf(estimate.low):  # an interval from never to never adds nothing
        return show(estimate.value)
    return f"{show(estimate.value)} [{show(estimate.low)}, {show(estimate.high)}]"


def _time(steps: float) -> str:
    if math.isnan(steps):
        return "-"
    return "never" if math.isinf(steps) else f"{steps / 1000:.1f}k"


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def write_exports(folder: Path, rows: Sequence[Row], runs: Sequence[RunResult]) -> list[Path]:
    """Write table.csv, table.tex and scores.npz for other programs.

    Args:
        folder: The folder of the comparison.
        rows: The table's rows.
        runs: The runs.

    Returns:
        The paths of the files.
    """
    texts = {"table.csv": table_csv(rows), "table.tex": table_latex(rows)}
    for name, text in texts.items():
        write_atomically(folder / name, lambda file, text=text: file.write(text.encode()))  # type: ignore[misc]
    scores = score_matrix(runs)
    write_atomically(folder / "scores.npz", lambda file: np.savez(file, **scores))  # type: ignore[arg-type]
    return [folder / name for name in (*texts, "scores.npz")]


def table_csv(rows: Sequence[Row]) -> str:
    """Write the fields of `Row` as CSV, steps in full, the ends of each interval in columns _low and _high.

    A cell is empty if its value is not known or the seeds are too few for an interval, and inf for never.
    """
    out = io.StringIO()
    ends = {"": "value", "_low": "low", "_high": "high"}
    names = [field.name + end for field in fields(Row) for end in (ends if "Estimate" in str(field.type) else ("",))]
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = {name: as_text(value) if isinstance(value, str) else value for name, value in vars(row).items()}
        for name, value in vars(row).items():
            if isinstance(value, Estimate):
                cells |= {name + end: getattr(value, part) for end, part in ends.items()}
        writer.writerow({name: cell for name, cell in cells.items() if cell == cell})  # without those that are NaN
    return out.getvalue()


def as_text(cell: str) -> str:
    """A string that a spreadsheet does not take for a formula."""
    return f"'{cell}" if cell.lstrip().startswith(("=", "+", "-", "@")) else cell


def table_latex(rows: Sequence[Row]) -> str:
    """Write the table as a LaTeX tabular that needs no package; its notes are comments above it."""
    header, *lines = [" & ".join(map(_escaped, cells)) + r" \\" for cells in table_cells(rows)]
    columns = "l" + "r" * (len(table_cells(rows)[0]) - 1)
    comments = [f"% {note}" for note in notes(rows)]
    begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([*comments, begin, r"\hline", header, r"\hline", *lines, r"\hline", end, ""])


def _escaped(cell: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in cell)


def score_matrix(runs: Sequence[RunResult]) -> Arrays:
    """Return the final scores of each label's finished runs, shape (seeds, 1): one task, as in the table.

    This is what rliable reads, {method: (runs, tasks)}:

        scores = dict(np.load("scores.npz"))
        iqm = lambda x: np.array([metrics.aggregate_iqm(x)])
        values, intervals = library.get_interval_estimates(scores, iqm, reps=2000)

    Its bootstrap intervals cover less than their nominal level with one task and few seeds.
    """
    finals = {label: of_seeds(group, math.nan).finals for label, group in by_label(runs).items()}
    return {label: values[:, None] for label, values in finals.items() if len(values)}
