from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from geodesic.analysis.statistics import Row, summarise
from geodesic.records import RunResult, load_comparison
from geodesic.report.exports import score_matrix, table_csv, table_latex, write_exports
from geodesic.report.tables import table_cells
from run_folders import write_comparison


@pytest.fixture
def runs(tmp_path: Path) -> list[RunResult]:
    labels = {
        "gradient": {"returns": lambda seed: [0.0] * 10 + [50.0 + seed] * 90},
        "gradient:step=0.05_a": {"returns": [0.0] * 100},
        "uniform": {"method": "uniform", "reached": 500},
    }
    return load_comparison(write_comparison(tmp_path, labels, seeds=5))


@pytest.fixture
def rows(runs: list[RunResult]) -> list[Row]:
    return summarise(runs, solved=40)


def test_the_csv_table_holds_every_number(rows: list[Row]) -> None:
    gradient, never, unfinished = csv.DictReader(table_csv(rows).splitlines())
    assert (gradient["label"], gradient["finished"], gradient["reached"]) == ("gradient", "5", "5")
    times = [float(gradient[name]) for name in ("first_raw", "first", "time", "time_low", "time_high")]
    assert times == [110, 180, 180, 180, 190]
    assert (float(gradient["final_iqm"]), gradient["final_iqm_low"]) == (52.0, "")  # too few seeds
    assert (gradient["better"], gradient["better_low"]) == ("", "")
    assert (never["time"], never["time_low"], never["better"]) == ("inf", "inf", "1.0")
    assert float(never["better_low"]) == pytest.approx(0.025**0.2)
    assert (unfinished["label"], unfinished["final_mean"], unfinished["time"]) == ("uniform", "", "")


def test_the_latex_table_has_the_same_cells(rows: list[Row]) -> None:
    lines = table_latex(rows).splitlines()
    assert [line for line in lines if line.startswith("%")][-1].startswith("% * too few seeds for an interval")
    assert lines[3:5] == [r"\begin{tabular}{lrrrrrrrrrr}", r"\hline"]
    assert lines[-2:] == [r"\hline", r"\end{tabular}"]
    body = [line.removesuffix(r" \\").split(" & ") for line in lines if line.endswith(r"\\")]
    assert [len(cells) for cells in body] == [len(table_cells(rows)[0])] * 4
    assert body[2][0] == r"gradient:step=0.05\_a"
    assert body[2][6] == r"0.00 $\pm$ 0.00"
    assert body[1][8] == r"100\%"


def test_latex_signs_are_escaped(rows: list[Row]) -> None:
    assert r"a\&b\{c\}\textbackslash{}\#\$" in table_latex([Row(**{**vars(rows[0]), "label": "a&b{c}\\#$"})])


def test_scores_are_matrices_of_seeds_by_one_task(runs: list[RunResult]) -> None:
    scores = score_matrix(runs)
    assert list(scores) == ["gradient", "gradient:step=0.05_a"]  # nothing is known of what has not finished
    np.testing.assert_array_equal(scores["gradient"], [[50.0], [51.0], [52.0], [53.0], [54.0]])


def test_exports_are_written_and_read_back(tmp_path: Path, runs: list[RunResult], rows: list[Row]) -> None:
    written = write_exports(tmp_path / "out", rows, runs)
    assert [path.name for path in written] == ["table.csv", "table.tex", "scores.npz"]
    assert written[0].read_text() == table_csv(rows)
    assert written[1].read_text() == table_latex(rows)
    scores = dict(np.load(written[2]))
    assert {label: matrix.shape for label, matrix in scores.items()} == {
        "gradient": (5, 1),
        "gradient:step=0.05_a": (5, 1),
    }
    before = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in write_exports(tmp_path / "out", rows, runs)] == before


def test_never_and_not_known_differ_in_every_form(rows: list[Row]) -> None:
    assert math.isinf(rows[1].time.value)
    assert "never" in table_latex(rows[1:2])
    assert "never" not in table_latex(rows[2:])
