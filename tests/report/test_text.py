from __future__ import annotations

from pathlib import Path

import pytest

from geodesic.records import load_comparison, load_run
from geodesic.report.text import record, sparklines
from run_folders import write_comparison, write_run


def test_sparklines_have_one_scale_and_a_line_for_each_label(tmp_path: Path) -> None:
    labels = {
        "gradient": {"returns": [0.0] * 29 + [100.0]},
        "uniform": {"method": "uniform", "returns": [0.0] * 30},
    }
    head, gradient, uniform = sparklines(load_comparison(write_comparison(tmp_path, labels, seeds=1)), width=3)
    assert head == "return on the target over 1000 steps, centred mean of 3 evaluations, from 0.0 to 50.0"
    assert (gradient, uniform) == ("gradient  ▁▁█  50.0", "uniform   ▁▁▁  0.0")


@pytest.mark.parametrize(
    ("score", "words"),
    [("discounted_return", "discounted return on the target"), ("success", "success rate on the target")],
)
def test_sparklines_name_the_score_of_the_task(tmp_path: Path, score: str, words: str) -> None:
    head, line = sparklines([load_run(write_run(tmp_path / "run", score=score, returns=[60.0]))])
    assert head.startswith(words)
    assert line.endswith("1.00" if score == "success" else "60.0")


def test_runs_without_evaluations_have_no_sparklines(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "evaluations.csv").unlink()
    assert sparklines([load_run(folder)]) == []


def test_a_record_is_replaced_where_it_was(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text("# Results\n")
    record(page, "a", "one")
    record(page, "b", "two")
    record(page, "a", "three")
    assert page.read_text() == (
        "# Results\n\n<!-- a -->\n\nthree\n\n<!-- end of a -->\n\n<!-- b -->\n\ntwo\n\n<!-- end of b -->\n"
    )
