"""The tables of a benchmark: cells, Markdown, and the files for other programs."""

import csv

import numpy as np
import pytest

from geodesic.report.benchmark import (
    BenchmarkResults,
    curves_figure,
    profile_figure,
    scale_table,
    summary_table,
    write_tables,
)
from run_folders import write_benchmark

TASKS = {"maze": 100_000, "four-rooms": 51_200}
LABELS = {
    "gradient": {"returns": lambda seed: [-100.0, -60.0, -20.0 - seed, -20.0 - seed], "threshold": -25.0},
    "uniform": {"method": "uniform", "returns": lambda seed: [-100.0, -100.0, -90.0, -80.0], "threshold": -25.0},
}


@pytest.fixture
def results(tmp_path):
    return BenchmarkResults.read(write_benchmark(tmp_path, TASKS, LABELS))


def test_the_table_has_one_line_per_method_and_the_best_first(results):
    header, rule, first, second, *remarks = summary_table(results).splitlines()
    assert header.split("  ")[0] == "method"
    assert "P(better than uniform)" in header
    assert set(rule) == {"-", " "}
    assert (first.split()[0], second.split()[0]) == ("gradient", "uniform")
    assert first.split()[-1] == "6"
    assert "100%" in first
    assert "0%" in second
    assert remarks[0].startswith("IQM: ")
    means = [row.mean for row in results.rows]
    assert means[0]["maze"] == pytest.approx(np.mean([80, 79, 78]) / (100 - 13.333))
    assert means[1]["four-rooms"] == pytest.approx(20 / (100 - 19.333))


def test_markdown_has_the_same_cells(results):
    plain, markdown = summary_table(results), summary_table(results, markdown=True)
    assert markdown.splitlines()[0].replace("|", " ").split() == plain.splitlines()[0].split()
    assert markdown.splitlines()[2].replace("|", " ").split() == plain.splitlines()[2].split()


def test_the_scale_of_each_task_is_stated(results):
    lines = scale_table(results, markdown=True).splitlines()
    assert lines[3].replace("|", " ").split() == ["maze", "100,000", "ppo", "return", "-100", "-13.333", "-25", "3"]


def test_files_for_other_programs(results, tmp_path):
    paths = write_tables(results)
    assert [path.name for path in paths] == ["benchmark.md", "aggregate.csv", "scores.csv"]
    text = (tmp_path / "benchmark.md").read_text()
    assert all(f"### {name}" in text for name in TASKS)
    with (tmp_path / "aggregate.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["gradient", "uniform"]
    assert float(rows[0]["iqm"]) == pytest.approx(results.rows[0].iqm.value, rel=1e-5)
    assert rows[1]["better"] == ""
    with (tmp_path / "scores.csv").open() as file:
        scores = list(csv.DictReader(file))
    assert len(scores) == 12
    one = next(row for row in scores if (row["task"], row["label"], row["seed"]) == ("maze", "gradient", "1"))
    assert (one["final_score"], one["steps"], one["stays_above"]) == ("-21", "100000", "75000")
    assert float(one["normalised"]) == pytest.approx(79 / (100 - 13.333), rel=1e-5)


def test_a_label_is_no_formula_of_a_spreadsheet(tmp_path):
    results = BenchmarkResults.read(write_benchmark(tmp_path, TASKS, {"=1+1": {"method": "uniform"}}))
    write_tables(results)
    assert "'=1+1" in (tmp_path / "aggregate.csv").read_text()
    assert "'=1+1" in (tmp_path / "scores.csv").read_text()


def test_methods_that_lack_tasks_are_marked(tmp_path):
    folder = write_benchmark(tmp_path, TASKS, LABELS)
    write_benchmark(folder, {"mountain-car": 250_000}, {"uniform": {"method": "uniform"}})
    results = BenchmarkResults.read(folder)
    lines = summary_table(results).splitlines()
    assert any(line.endswith("  6, 2/3 tasks") for line in lines)
    assert any(line.startswith("Methods that lack tasks are not comparable") for line in lines)


def test_unfinished_runs_do_not_count(tmp_path):
    folder = write_benchmark(tmp_path, TASKS, LABELS)
    for path in folder.glob("maze/runs/uniform/seed-*/summary.json"):
        path.unlink()
    results = BenchmarkResults.read(folder)
    assert [row.runs for row in results.rows] == [6, 3]
    assert "12 runs, 9 of them finished" in results.sentences()[0]
    assert results.reference == "uniform"


def test_the_figures_draw_a_line_for_each_method(results):
    (profile,) = profile_figure(results).axes
    assert [line.get_gid() for line in profile.lines] == ["line-0", "line-1"]
    np.testing.assert_allclose(profile.lines[0].get_ydata(), results.rows[0].profile)
    (curves,) = curves_figure(results.tasks["maze"][1], results).axes
    assert [line.get_gid() for line in curves.lines[:2]] == ["line-0", "line-1"]
