from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from geodesic.analysis.intervals import Estimate
from geodesic.analysis.statistics import Row, summarise
from geodesic.records import RunResult, load_comparison, load_run
from geodesic.report.tables import (
    format_table,
    infeasible_table,
    score_matrix,
    table_cells,
    table_csv,
    table_latex,
    write_exports,
)
from run_folders import write_comparison, write_run

NAN = Estimate(math.nan, math.nan, math.nan)
NEVER = Estimate(math.inf, math.inf, math.inf)
ROWS = [
    Row("gradient", 20, 20, 20, Estimate(40000, 30000, 45000), Estimate(50000, 48000, 52000),
        Estimate(55000, 50500, 61000), -14.2, 0.3, Estimate(-14.1, -14.4, -13.9), 1.0, None, None, "gradient"),
    Row("target-only", 20, 19, 0, NEVER, NEVER, NEVER, -100.0, 0.0, Estimate(-100, -100, -100), 0.0,
        Estimate(1.0, 0.82, 1.0), Estimate(0.75, 0.5, 1.0), "gradient", Estimate(0.9, 0.7, 0.98)),
    Row("linear", 20, 0, 0, NAN, NAN, NAN, math.nan, math.nan, NAN, math.nan, None, None, "gradient"),
]  # fmt: skip
TIMES = "Times are medians over seeds; raw: single evaluations, the others a rolling mean of 10."
READINGS = "P: that a seed of gradient is first above earlier, stays above earlier, or ends higher."
FEW = "* too few seeds for an interval: a median needs 5, an interquartile mean 10."


def few(seeds: int, low: float = math.nan) -> Row:
    time = Estimate(5000, low, low)
    probability = Estimate(1.0, 0.29, 1.0)
    return Row("uniform", seeds, seeds, seeds, time, time, time, 1.0, 0.0, Estimate(1, math.nan, math.nan),
               math.nan, probability, NAN, "gradient", probability)  # fmt: skip


def cells(block: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line) for line in block.splitlines() if not line.startswith("-")]


def test_plain_table_fits_a_terminal_in_blocks_of_columns() -> None:
    rows = [ROWS[0], replace(ROWS[1], finished=20)]
    first, second = format_table(rows).split("\n\n")
    assert cells(first) == [
        ["method", "seeds", "reached", "first above", "stays above", "final mean ± std", "success"],
        ["gradient", "20", "20/20", "50.0k [48.0k, 52.0k]", "55.0k [50.5k, 61.0k]", "-14.2 ± 0.30", "100%"],
        ["target-only", "20", "0/20", "never", "never", "-100.0 ± 0.00", "0%"],
    ]
    *table, times, readings, brackets = second.splitlines()
    assert cells("\n".join(table)) == [
        ["method", "final IQM", "P(first)", "P(faster)", "P(better)"],
        ["gradient", "-14.1 [-14.4, -13.9]", "-", "-", "-"],
        ["target-only", "-100.0 [-100.0, -100.0]", "0.90 [0.70, 0.98]", "1.00 [0.82, 1.00]", "0.75 [0.50, 1.00]"],
    ]
    assert (times, readings, brackets) == (TIMES, READINGS, "Brackets: 95 % intervals over seeds.")
    assert max(map(len, format_table(ROWS).splitlines())) <= 100


def test_seeds_without_a_finished_run_are_dashes() -> None:
    assert cells(format_table(ROWS).split("\n\n")[0])[2:] == [
        ["target-only", "19 of 20", "0/19", "never", "never", "-100.0 ± 0.00"],
        ["linear", "0 of 20", *["-"] * 4],
    ]


def test_markdown_table_has_every_column() -> None:
    table, *remarks = format_table(ROWS, markdown=True).split("\n\n")
    marked = table.splitlines()
    assert {len(line) for line in marked} == {len(marked[0])}
    assert marked[1].replace("-", "").replace(" ", "") == "||" + ":|" * 11
    assert [[cell.strip() for cell in line.strip("|").split("|")] for line in (marked[0], *marked[2:])] == [
        list(line) for line in table_cells(ROWS)
    ]
    assert remarks == format_table(ROWS).splitlines()[-3:]


def test_without_a_solved_level_times_are_dashes(tmp_path: Path) -> None:
    labels = {"auto": {"method": "auto"}, "uniform": {"method": "uniform"}}
    runs = load_comparison(write_comparison(tmp_path, labels, seeds=10, threshold="auto"))
    rows = summarise(runs, runs[0].solved)
    for cells in table_cells(rows)[1:]:
        assert cells[2:6] == ("-", "-", "-", "-")
        assert re.fullmatch(r"\d[\d. ]*\[[\d., ]+\]", cells[8])
    for text in (format_table(rows), format_table(rows, markdown=True), table_csv(rows), table_latex(rows)):
        assert "nan" not in text
    assert "auto,10,10,0" in table_csv(rows)


def test_a_single_method_has_no_comparison() -> None:
    with_others, alone = format_table(ROWS), format_table(ROWS[:1])
    assert "P(faster)" in with_others
    assert "P(" not in alone
    assert alone.splitlines()[2].endswith("100%")


def test_too_few_seeds_are_marked_and_explained() -> None:
    first, second = format_table([few(3)]).split("\n\n")
    assert cells(first)[1] == ["uniform", "3", "3/3", "5.0k *", "5.0k *", "1.00 ± 0.00", "-", "1.00 *"]
    assert cells(second)[1] == ["uniform", "1.00 [0.29, 1.00]", "1.00 [0.29, 1.00]", "-"]
    lines = second.splitlines()
    assert lines[3:] == [TIMES, READINGS, "Brackets: 95 % intervals over seeds.", FEW]
    assert format_table([few(3)], markdown=True).endswith("\n\n\\" + FEW)


def test_coverage_below_95_percent_is_stated() -> None:
    assert "Brackets: 95 % intervals over seeds (medians of 5 seeds: 94 %)." in format_table([few(5, 4000)])
    assert "(medians of 5 seeds and interquartile means of 10: 94 %)" in format_table([few(5, 4000), few(10, 4000)])


def test_without_a_finished_run_there_are_no_notes() -> None:
    assert "Times" not in format_table(ROWS[2:])


def test_an_unknown_level_leaves_the_number_of_seeds_that_reached_it_open(tmp_path: Path) -> None:
    cells = format_table(summarise([load_run(write_run(tmp_path / "run"))], math.nan)).splitlines()[2].split()
    assert cells[:5] == ["gradient", "1", "-", "-", "-"]


def test_infeasible_contexts_by_alpha_leave_exploration_out(tmp_path: Path) -> None:
    labels = {
        "gradient": {"infeasible": [0.0, 0.5, 0.1], "kinds": ["train", "explore", "train"]},
        "linear": {"method": "linear", "infeasible": [0.0, 0.25, 0.0]},
        "uniform": {"method": "uniform", "stages": 1, "infeasible": [0.3]},
    }
    runs = load_comparison(write_comparison(tmp_path, labels, seeds=2))
    header, _, *lines = infeasible_table(runs).splitlines()
    assert re.split(r"\s{2,}", header) == ["infeasible contexts at alpha", "0", "0.5", "1"]
    assert [line.split() for line in lines] == [["gradient", "0%", "10%"], ["linear", "0%", "25%", "0%"]]


def test_feasible_paths_have_no_table(tmp_path: Path) -> None:
    assert infeasible_table([load_run(write_run(tmp_path / "run"))]) == ""


# For other programs


@pytest.fixture
def five_seeds(tmp_path: Path) -> list[RunResult]:
    labels = {
        "gradient": {"returns": lambda seed: [0.0] * 10 + [50.0 + seed] * 90},
        "gradient:step=0.05_a": {"returns": [0.0] * 100},
        "uniform": {"method": "uniform", "reached": 500},
    }
    return load_comparison(write_comparison(tmp_path, labels, seeds=5))


@pytest.fixture
def rows(five_seeds: list[RunResult]) -> list[Row]:
    return summarise(five_seeds, solved=40)


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


@pytest.mark.parametrize("label", ["=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "\t=1", " =1"])
def test_the_csv_table_cannot_start_a_formula(rows: list[Row], label: str) -> None:
    (line,) = csv.DictReader(io.StringIO(table_csv([Row(**{**vars(rows[0]), "label": label, "final_mean": -3.0})])))
    assert (line["label"], line["final_mean"]) == (f"'{label}", "-3.0")


def test_the_latex_table_has_the_same_cells(rows: list[Row]) -> None:
    lines = table_latex(rows).splitlines()
    assert [line for line in lines if line.startswith("%")][-1].startswith("% * too few seeds for an interval")
    assert lines[4:6] == [r"\begin{tabular}{lrrrrrrrrrrr}", r"\hline"]
    assert lines[-2:] == [r"\hline", r"\end{tabular}"]
    body = [line.removesuffix(r" \\").split(" & ") for line in lines if line.endswith(r"\\")]
    assert [len(cells) for cells in body] == [len(table_cells(rows)[0])] * 4
    assert body[2][0] == r"gradient:step=0.05\_a"
    assert body[2][6] == r"0.00 $\pm$ 0.00"
    assert body[1][7] == r"100\%"


def test_latex_signs_are_escaped(rows: list[Row]) -> None:
    assert r"a\&b\{c\}\textbackslash{}\#\$" in table_latex([Row(**{**vars(rows[0]), "label": "a&b{c}\\#$"})])


def test_scores_are_matrices_of_seeds_by_one_task(five_seeds: list[RunResult]) -> None:
    scores = score_matrix(five_seeds)
    assert list(scores) == ["gradient", "gradient:step=0.05_a"]  # unfinished runs are left out
    np.testing.assert_array_equal(scores["gradient"], [[50.0], [51.0], [52.0], [53.0], [54.0]])


def test_exports_are_written_and_read_back(tmp_path: Path, five_seeds: list[RunResult], rows: list[Row]) -> None:
    written = write_exports(tmp_path / "out", rows, five_seeds)
    assert [path.name for path in written] == ["table.csv", "table.tex", "scores.npz"]
    assert written[0].read_text() == table_csv(rows)
    assert written[1].read_text() == table_latex(rows)
    scores = dict(np.load(written[2]))
    assert {label: matrix.shape for label, matrix in scores.items()} == {
        "gradient": (5, 1),
        "gradient:step=0.05_a": (5, 1),
    }
    before = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in write_exports(tmp_path / "out", rows, five_seeds)] == before


def test_never_and_unknown_differ(rows: list[Row]) -> None:
    assert math.isinf(rows[1].time.value)
    assert "never" in table_latex(rows[1:2])
    assert "never" not in table_latex(rows[2:])
