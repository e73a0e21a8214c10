from __future__ import annotations

import math
import re
from pathlib import Path

from geodesic.analysis.statistics import Estimate, Row
from geodesic.records import load_comparison, load_run
from geodesic.report.tables import format_table, infeasible_table
from run_folders import write_comparison, write_run

NAN = Estimate(math.nan, math.nan, math.nan)
NEVER = Estimate(math.inf, math.inf, math.inf)
ROWS = [
    Row("gradient", 10, 10, 10, Estimate(50000, 48000, 52000), Estimate(55000, 50500, 61000), -14.2, 0.3,
        Estimate(-14.1, -14.4, -13.9), 1.0, None, None, "gradient"),
    Row("target-only", 10, 9, 0, NEVER, NEVER, -100.0, 0.0, Estimate(-100, -100, -100), 0.0,
        Estimate(1.0, 1.0, 1.0), Estimate(0.75, 0.5, 1.0), "gradient"),
    Row("linear", 10, 0, 0, NAN, NAN, math.nan, math.nan, NAN, math.nan, None, None, "gradient"),
]  # fmt: skip


def test_plain_table() -> None:
    lines = format_table(ROWS).splitlines()
    assert [re.split(r"\s{2,}", line) for line in lines if not line.startswith("-")] == [
        ["method", "seeds", "reached", "first above (median)", "stays above (median)", "final mean ± std",
         "final IQM", "success", "P(gradient faster)", "P(gradient better)"],
        ["gradient", "10", "10/10", "50.0k [48.0k, 52.0k]", "55.0k [50.5k, 61.0k]",
         "-14.2 ± 0.30", "-14.1 [-14.4, -13.9]", "100%", "-", "-"],
        ["target-only", "9 of 10", "0/9", "never", "never", "-100.0 ± 0.00", "-100.0 [-100.0, -100.0]", "0%",
         "1.00 [1.00, 1.00]", "0.75 [0.50, 1.00]"],
        ["linear", "0 of 10", *["-"] * 8],
    ]  # fmt: skip
    assert len({len(line) for line in lines}) == 1


def test_markdown_table_has_the_same_cells() -> None:
    plain = [line.split() for line in format_table(ROWS).splitlines()]
    marked = format_table(ROWS, markdown=True).splitlines()
    assert {len(line) for line in marked} == {len(marked[0])}
    assert marked[1].replace("-", "").replace(" ", "") == "||" + ":|" * 9
    for words, line in zip(plain[2:], marked[2:]):
        assert line.replace("|", " ").split() == words


def test_an_interval_without_a_reference_shows_none() -> None:
    alone = Row(
        "uniform",
        1,
        1,
        1,
        Estimate(5, 5, 5),
        Estimate(5, 5, 5),
        1.0,
        0.0,
        Estimate(1, 1, 1),
        math.nan,
        None,
        None,
        None,
    )
    assert format_table([alone]).splitlines()[2].split()[-3:] == ["-", "-", "-"]


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
