"""A comparison's results for other programs: its table as CSV and LaTeX, and the score matrix that rliable reads."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from geodesic.analysis.intervals import Estimate
from geodesic.analysis.statistics import Row, of_seeds
from geodesic.contexts import Arrays
from geodesic.records.files import write_atomically
from geodesic.records.reader import RunResult, by_label
from geodesic.report.tables import notes, table_cells

_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def write_exports(folder: Path, rows: Sequence[Row], runs: Sequence[RunResult]) -> list[Path]:
    """table.csv, table.tex and scores.npz in the folder of a comparison."""
    texts = {"table.csv": table_csv(rows), "table.tex": table_latex(rows)}
    for name, text in texts.items():
        write_atomically(folder / name, lambda file, text=text: file.write(text.encode()))  # type: ignore[misc]
    scores = score_matrix(runs)
    write_atomically(folder / "scores.npz", lambda file: np.savez(file, **scores))  # type: ignore[arg-type]
    return [folder / name for name in (*texts, "scores.npz")]


def table_csv(rows: Sequence[Row]) -> str:
    """The fields of `Row` as numbers, steps in full, each interval in columns _low and _high.

    Empty: not known, or too few seeds for an interval; inf: never.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [field.name for field in fields(Row)]
    estimates = {field.name for field in fields(Row) if "Estimate" in str(field.type)}
    ends = ("", "_low", "_high")
    writer.writerow([name + end for name in names for end in (ends if name in estimates else ("",))])
    for row in rows:
        cells = ((getattr(row, name), name in estimates) for name in names)
        writer.writerow([cell for value, estimated in cells for cell in _values(value, estimated)])
    return out.getvalue()


def _values(value: object, estimated: bool) -> list[object]:
    if not estimated:
        return ["" if isinstance(value, float) and math.isnan(value) else value]
    ends = (value.value, value.low, value.high) if isinstance(value, Estimate) else (math.nan,) * 3
    return ["" if math.isnan(end) else end for end in ends]


def table_latex(rows: Sequence[Row]) -> str:
    """The table as words, in a tabular that needs no package; its notes are comments above it."""
    header, *lines = [" & ".join(map(_escaped, cells)) + r" \\" for cells in table_cells(rows)]
    columns = "l" + "r" * (len(table_cells(rows)[0]) - 1)
    comments = [f"% {note}" for note in notes(rows)]
    begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([*comments, begin, r"\hline", header, r"\hline", *lines, r"\hline", end, ""])


def _escaped(cell: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in cell)


def score_matrix(runs: Sequence[RunResult]) -> Arrays:
    """Final scores (seeds, 1) of each label's finished runs: one task, as in the table.

    rliable takes this as it is, {method: (runs, tasks)}:

        scores = dict(np.load("scores.npz"))
        iqm = lambda x: np.array([metrics.aggregate_iqm(x)])
        values, intervals = library.get_interval_estimates(scores, iqm, reps=2000)

    Its intervals are bootstrap ones, which with one task and few seeds cover less than they say.
    """
    finals = {label: of_seeds(group, math.nan).finals for label, group in by_label(runs).items()}
    return {label: values[:, None] for label, values in finals.items() if len(values)}
