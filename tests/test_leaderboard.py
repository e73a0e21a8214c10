"""`python -m benchmarks.leaderboard` keeps the numbers of a benchmark, and writes the page from them."""

import pytest
from benchmarks import leaderboard
from benchmarks.leaderboard import __main__ as command

from geodesic.report.benchmark import BenchmarkResults
from run_folders import write_benchmark

TASKS = {"maze": 100_000, "four-rooms": 51_200}
LABELS = {
    "gradient": {"returns": lambda seed: [-100.0, -60.0, -20.0 - seed, -20.0 - seed], "threshold": -25.0},
    "uniform": {"method": "uniform", "returns": lambda seed: [-100.0, -100.0, -90.0, -80.0], "threshold": -25.0},
}


def test_numbers_are_kept_and_the_page_is_written_from_them(tmp_path, monkeypatch):
    folder = write_benchmark(tmp_path / "out", TASKS, LABELS, seeds=6)
    monkeypatch.setattr(command, "SCORES", tmp_path / "scores.csv")
    monkeypatch.setattr(command, "PAGE", tmp_path / "page.md")
    assert command.main(["--record", str(folder)]) == 0
    marked = "<!-- leaderboard -->\nreplaced\n<!-- end of leaderboard -->"
    (tmp_path / "page.md").write_text(f"# Above\n\n{marked}\n\nBelow\n")
    assert command.main([]) == 0
    text = (tmp_path / "page.md").read_text()
    assert text.startswith("# Above\n")
    assert text.endswith("\n\nBelow\n")
    assert "replaced" not in text
    lines = text.splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert any(line[:1] == ["`gradient`"] and line[-2:] == ["2/2", "12"] for line in cells)
    assert ["`uniform`", "0.25 (0/6)", "0.23 (0/6)"] in cells
    assert ["`maze`", "100,000", "-100", "-13.333", "0 to 5"] in cells
    assert "- `gradient`: better in 2, worse in 0 of 2 tasks" in lines


def test_the_numbers_are_those_of_the_benchmark(tmp_path, monkeypatch):
    folder = write_benchmark(tmp_path / "out", TASKS, LABELS)
    monkeypatch.setattr(command, "SCORES", tmp_path / "scores.csv")
    command.main(["--record", str(folder)])
    rows = command.aggregate(command.scores_of(command.read(tmp_path / "scores.csv")), "uniform")
    results = BenchmarkResults.read(folder).rows
    assert [row.label for row in rows] == [row.label for row in results]
    for ours, theirs in zip(rows, results):
        assert ours.iqm.value == pytest.approx(theirs.iqm.value, rel=1e-5)
        assert ours.rank.value == pytest.approx(theirs.rank.value)


def test_what_is_kept_is_small():
    files = [path for path in command.HERE.iterdir() if path.suffix == ".csv"]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    assert leaderboard.__doc__
