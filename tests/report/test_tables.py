from __future__ import annotations

import math
import re
from pathlib import Path

from geodesic.analysis.intervals import Estimate
from geodesic.analysis.statistics import Row, summarise
from geodesic.records import load_comparison, load_run
from geodesic.report.tables import format_table, infeasible_table
from run_folders import write_comparison, write_run

NAN = Estimate(math.nan, math.nan, math.nan)
NEVER = Estimate(math.inf, math.inf, math.inf)
ROWS = [
    Row("gradient", 20, 20, 20, Estimate(40000, 30000, 45000), Estimate(50000, 48000, 52000),
        Estimate(55000, 50500, 61000), -14.2, 0.3, Estimate(-14.1, -14.4, -13.9), 1.0, None, None, "gradient"),
    Row("target-only", 20, 19, 0, NEVER, NEVER, NEVER, -100.0, 0.0, Estimate(-100, -100, -100), 0.0,
        Estimate(1.0, 0.82, 1.0), Estimate(0.75, 0.5, 1.0), "gradient"),
    Row("linear", 20, 0, 0, NAN, NAN, NAN, math.nan, math.nan, NAN, math.nan, None, None, "gradient"),
]  # fmt: skip
TIMES = "Times are medians over seeds; raw: single evaluations, the others a rolling mean of 10."
FEW = "* too few seeds for an interval: a median needs 5, an interquartile mean 10."


def few(seeds: int, low: float = math.nan) -> Row:
    time = Estimate(5000, low, low)
    probability = Estimate(1.0, 0.29, 1.0)
    return Row("uniform", seeds, seeds, seeds, time, time, time, 1.0, 0.0, Estimate(1, math.nan, math.nan),
               math.nan, probability, NAN, "gradient")  # fmt: skip


def test_plain_table() -> None:
    *lines, times, brackets = format_table(ROWS).splitlines()
    assert [re.split(r"\s{2,}", line) for line in lines if not line.startswith("-")] == [
        ["method", "seeds", "reached", "first above, raw", "first above", "stays above", "final mean ± std",
         "final IQM", "success", "P(gradient faster)", "P(gradient better)"],
        ["gradient", "20", "20/20", "40.0k", "50.0k [48.0k, 52.0k]", "55.0k [50.5k, 61.0k]",
         "-14.2 ± 0.30", "-14.1 [-14.4, -13.9]", "100%", "-", "-"],
        ["target-only", "19 of 20", "0/19", "never", "never", "never", "-100.0 ± 0.00",
         "-100.0 [-100.0, -100.0]", "0%", "1.00 [0.82, 1.00]", "0.75 [0.50, 1.00]"],
        ["linear", "0 of 20", *["-"] * 9],
    ]  # fmt: skip
    assert len({len(line) for line in lines}) == 1
    assert (times, brackets) == (TIMES, "Brackets: 95 % intervals over seeds.")


def test_markdown_table_has_the_same_cells() -> None:
    plain = [line.split() for line in format_table(ROWS).splitlines()]
    table, *told = format_table(ROWS, markdown=True).split("\n\n")
    marked = table.splitlines()
    assert {len(line) for line in marked} == {len(marked[0])}
    assert marked[1].replace("-", "").replace(" ", "") == "||" + ":|" * 10
    for words, line in zip(plain[2:], marked[2:]):
        assert line.replace("|", " ").split() == words
    assert [note.split() for note in told] == plain[-2:]


def test_a_method_alone_is_compared_with_nobody() -> None:
    with_others, alone = format_table(ROWS), format_table(ROWS[:1])
    assert "P(gradient faster)" in with_others
    assert alone.splitlines()[0].endswith("success")
    assert alone.splitlines()[2].endswith("100%")


def test_too_few_seeds_are_marked_and_told() -> None:
    lines = format_table([few(3)]).splitlines()
    assert re.split(r"\s{2,}", lines[2]) == [
        "uniform", "3", "3/3", "5.0k", "5.0k *", "5.0k *", "1.00 ± 0.00", "1.00 *", "-", "1.00 [0.29, 1.00]", "-",
    ]  # fmt: skip
    assert lines[3:] == [TIMES, "Brackets: 95 % intervals over seeds.", FEW]
    assert format_table([few(3)], markdown=True).endswith("\n\n\\" + FEW)


def test_what_covers_less_than_95_percent_is_told() -> None:
    assert "Brackets: 95 % intervals over seeds (medians of 5 seeds: 94 %)." in format_table([few(5, 4000)])
    assert "(medians of 5 seeds and interquartile means of 10: 94 %)" in format_table([few(5, 4000), few(10, 4000)])


def test_without_a_finished_run_there_is_nothing_to_explain() -> None:
    assert len(format_table(ROWS[2:]).splitlines()) == 3


def test_a_level_that_is_not_known_is_reached_by_nobody_knows_how_many(tmp_path: Path) -> None:
    cells = format_table(summarise([load_run(write_run(tmp_path / "run"))], math.nan)).splitlines()[2].split()
    assert cells[:6] == ["gradient", "1", "-", "-", "-", "-"]


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
