"""The report as text: what it says, what its charts contain, and that words from a folder are escaped."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import geodesic as gd
from geodesic.analysis.verdict import verdict_of
from geodesic.cli import main
from geodesic.contexts import ContextSpace, Particles
from geodesic.errors import MissingExtra
from geodesic.records import load_comparison, load_run
from geodesic.report import page as pages
from geodesic.report.page import film, story, write_report
from geodesic.tasks import Plot, Task
from run_folders import write_comparison, write_run

pytest.importorskip("vl_convert", reason="needs vl-convert: pip install 'geodesic-rl[report]'")

LABELS = {"gradient": {}, "spdl": {"method": "spdl"}, "uniform": {"method": "uniform", "stages": 1}}


def content(page: Path) -> dict[str, Any]:
    """The data in a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def task(space: Any, source: Any, target: Any, **options: Any) -> Task:
    """A task that is never played."""
    facts = {"threshold": 40.0, "name": "mine", "set_context": lambda env, **context: None, **options}
    return Task("CartPole-v1", space, source, target, **facts)


def rows(data: dict[str, Any], label: str = "gradient", seed: int = 0, frame: int = 0) -> np.ndarray:
    """The rows of a frame, as a browser reads them."""
    fields = data["panels"][0]["fields"]
    numbers = np.array(data["curricula"][label][str(seed)][frame]["rows"][0], float).reshape(-1, len(fields))
    return numbers * [scale for _, _, scale in fields] + [offset for _, offset, _ in fields]


def test_the_page_of_a_comparison_tells_what_was_run(tmp_path: Path) -> None:
    page = write_report(write_comparison(tmp_path, LABELS, seeds=2), film=False)
    text = page.read_text()
    assert page == tmp_path / "report.html"
    assert "3 methods with 2 seeds each on mine, 1,000 environment steps. Every run is finished." in text
    assert "A stage is mastered above a mean return of 40, the target solved above 40." in text
    for section in ("Summary", "Learning curves", "Curriculum", "Stages", "Details"):
        assert f">{section}</h2>" in text
    data = content(page)
    assert data["labels"] == ["gradient", "uniform", "spdl"]  # as the registry lists them
    assert len(data["timelines"]) == 3
    assert len(data["curves"]["rows"]) == 3 * 4 * 4  # methods, evaluations, and views: two statistics of two columns
    assert len(data["seed_curves"]["rows"]) == 3 * 2 * 4 * 2
    assert [frame["step"] for frame in data["curricula"]["gradient"]["1"]] == [0, 333, 666]
    assert data["table"].startswith("label,runs,finished")


def test_the_verdict_comes_first(tmp_path: Path) -> None:
    page = write_report(write_comparison(tmp_path, LABELS, seeds=2), film=False).read_text()
    verdict = verdict_of(load_comparison(tmp_path))
    begin, lines = page.index('<div id="verdict">'), [*verdict.lines, *verdict.advice]
    assert begin < page.index("3 methods with 2 seeds each") < page.index(">Summary</h2>")
    assert len(lines) > 2
    shown = html.unescape(re.sub("<[^>]*>", "", page[begin:]))
    places = [shown.index(line) for line in lines]
    assert places == sorted(places)
    single = write_report(write_run(tmp_path / "run", returns=[0.0] * 4), film=False).read_text()
    assert "gradient did not solve the target of mine" in single[: single.index("One run of gradient")]


def test_a_long_label_may_end_its_line_after_an_option(tmp_path: Path) -> None:
    text = write_report(write_run(tmp_path / "run", label="gradient:pace=particles:step=0.2"), film=False).read_text()
    assert (
        '<th scope="row" data-value="gradient:pace=particles:step=0.2">gradient:<wbr>pace=particles:<wbr>step=0.2</th>'
        in text
    )


def test_the_page_asks_nothing_of_the_network(tmp_path: Path) -> None:
    text = write_report(write_run(tmp_path / "run"), film=False).read_text()
    assert "default-src 'none'" in text
    ours, _, _ = text.partition('<script type="application/json"')  # what follows holds the library, as text
    assert not re.search(r'<(script|img|link|iframe)[^>]*(src|href)="(?!data:)', ours)


def test_the_page_of_a_run_has_its_training_episodes(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run", reached=500), film=False)
    assert "One run of gradient, seed 0 on mine" in page.read_text()
    assert "0 of 1 run finished" in page.read_text()
    chart = page.read_text().partition('id="training">')[2].partition("</svg>")[0]
    assert chart.startswith("<svg")
    for words in ("return in training", "rolling mean of 20 episodes", "mastered above 40", "α of the stage"):
        assert f">{words}<" in chart
    assert "var(--c0)" in chart  # the theme decides
    assert "#d55e00" not in chart


@pytest.mark.parametrize(("solved", "shown"), [(70.0, True), (900.0, False)])
def test_a_level_out_of_sight_does_not_press_the_curves_flat(tmp_path: Path, solved: float, shown: bool) -> None:
    text = write_report(write_run(tmp_path / "run", solved=solved), film=False).read_text()
    assert ('id="level" checked' in text) == shown


def test_words_from_a_folder_are_escaped(tmp_path: Path) -> None:
    bad = "</script><script>alert(1)</script>"
    page = write_report(write_run(tmp_path / "run", task=bad, label=bad, contexts=[bad, "b"]), film=False)
    assert "<script>alert" not in page.read_text()
    assert content(page)["labels"] == [bad]
    assert "<script>alert" not in "".join(panel["svg"] for panel in content(page)["panels"])


def test_cells_are_written_by_row_column_and_fraction(tmp_path: Path) -> None:
    grid = np.array([[1, 1, 1], [1, 0, 0], [1, 0, 1]])
    starts = np.array([[1.0, 1.0], [1.0, 2.0], [2.0, 1.0]])
    ends = [Particles(starts, weights) for weights in ([1, 0, 0], [0, 0.5, 0.5])]
    given = task(ContextSpace.discrete(starts, ["row", "column"]), *ends, plot=Plot(cells=grid, goals=((1, 1),)))
    clouds = {"points": [starts] * 2, "weights": [end.weights for end in ends]}
    write_run(tmp_path / "run", stages=2, contexts=["row", "column"], **clouds)
    data = content(write_report(tmp_path / "run", given, film=False))
    np.testing.assert_allclose(rows(data), [[1, 1, 1]])
    np.testing.assert_allclose(rows(data, frame=1), [[1, 2, 0.5], [2, 1, 0.5]], atol=1e-3)


def test_contexts_of_one_value_are_fractions_of_their_range(tmp_path: Path) -> None:
    given = task({"length": (0.0, 2.0, "m")}, {"length": 0.5}, {"length": (1.0, 2.0)})
    clouds = {"points": [np.array([[0.05], [1.95]])], "weights": [np.array([0.25, 0.75])]}
    write_run(tmp_path / "run", stages=1, contexts=["length"], **clouds)
    data = content(write_report(tmp_path / "run", given, film=False))
    np.testing.assert_allclose(rows(data), [[0.0, 0.25], [1.9, 0.75]], atol=1e-3)
    (panel,) = data["panels"]
    assert ">length (m)<" in panel["svg"]
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', panel["svg"])[1])  # type: ignore[index]
    left, right = (panel["x"][0] * value + panel["x"][1] for value in (0.0, 2.0))
    assert 0 < left < 0.4 * width < 0.9 * width < right < width


def test_a_discrete_value_has_a_bar_for_each_of_its_points(tmp_path: Path) -> None:
    sizes = np.array([[1.0], [5.0], [50.0]])
    ends = [Particles(sizes, np.eye(3)[k]) for k in (0, 2)]
    given = task(ContextSpace.discrete(sizes, ["size"]), *ends)
    clouds = {"points": [sizes], "weights": [np.array([0.5, 0.0, 0.5])]}
    write_run(tmp_path / "run", stages=1, contexts=["size"], **clouds)
    data = content(write_report(tmp_path / "run", given, film=False))
    np.testing.assert_allclose(rows(data), [[0, 0.5], [2, 0.5]], atol=1e-3)
    assert data["panels"][0]["names"] == ["1", "5", "50"]


def test_points_in_a_plane_are_where_they_were_and_show_their_progress(tmp_path: Path) -> None:
    sides = {"x": (-1.0, 4.0), "y": (0.0, 8.0)}
    walls = Plot(walls=((0.0, 0.0, 1.0, 2.0),), goals=((3.0, 3.0),))
    given = task(sides, {"x": 0, "y": 4}, {"x": (2, 3), "y": 4}, plot=walls)
    points = np.array([[0.0, 4.0], [2.0, 1.0]])
    pictures = {1: {"progress": np.array([0.25, 1.0])}}
    write_run(tmp_path / "run", stages=2, contexts=["x", "y"], points=[points] * 2, snapshots=pictures)
    data = content(write_report(tmp_path / "run", given, film=False))
    first, second = rows(data), rows(data, frame=1)
    np.testing.assert_allclose(first[:, :2], points, atol=0.01)
    assert (first[:, 3] < 0).all()
    np.testing.assert_allclose(second[:, 3], [0.25, 1.0], atol=1e-3)
    (panel,) = data["panels"]
    assert panel["svg"].count("var(--wall)") >= 1
    assert panel["svg"].count("var(--goal)") >= 1
    assert panel["y"][0] < 0 < panel["x"][0]  # y grows upwards, the coordinates of an SVG downwards


def test_many_particles_and_stages_are_thinned(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(500, 2)) for _ in range(60)]
    write_run(tmp_path / "run", stages=60, steps=6000, points=clouds)
    data = content(write_report(tmp_path / "run", film=False))
    frames = data["curricula"]["gradient"]["0"]
    assert len(frames) == 24
    assert (frames[0]["stage"], frames[-1]["stage"]) == (0, 59)
    assert len(rows(data)) == 64
    assert rows(data)[:, 2].sum() == pytest.approx(1.0, abs=0.05)


def test_stages_that_ended_alike_have_the_same_words_whatever_their_numbers(tmp_path: Path) -> None:
    kinds = {
        "moved, 53 of 100 particles back": "moved, some particles back",
        "moved, 7 of 100 particles back": "moved, some particles back",
        "iteration 12, 1 failed": "iteration, failed",
        "fitted to 33 goals of intermediate success": "fitted to goals of intermediate success",
        "mixture of 4": "mixture",
    }
    folder = write_run(tmp_path / "run", stages=6, kinds=["train"] * 6, events=["start", *kinds])
    assert story.endings(load_run(folder))[:-1] == list(kinds.values())


def test_stages_say_why_they_ended(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run", stages=4, kinds=["train", "explore", "train", "train"],
        events=["start", "mastered", "explored", "step cap"], reached=900,
    )  # fmt: skip
    run = load_run(folder)
    assert story.endings(run) == ["mastered", "exploring", "step cap", "still running"]
    data = content(write_report(folder, film=False))
    (_, _, start, end, _, reason) = data["timelines"][0]["table"]["rows"][-1]
    assert (start, end, reason) == (750, 1000, "still running")
    assert [frame["explores"] for frame in data["curricula"]["gradient"]["0"]] == [False, True, False, False]


def test_distances_to_the_target_are_drawn_for_each_seed(tmp_path: Path) -> None:
    for seed in (0, 1):
        details = [f"hop={k / 4}; distance to target={(3 - k) / 4 + seed}" for k in range(3)]
        write_run(tmp_path / f"runs/mine/seed-{seed}", label="mine", seed=seed, details=details)
    page = write_report(tmp_path, film=False)
    (table,) = content(page)["distances"]
    assert table["columns"] == ["seed", "step", "distance", "moved", "alpha"]
    first = [row[1:] for row in table["rows"] if row[0] == "0"]
    assert [row[1] for row in first] == [0.75, 0.5, 0.25, 0.25]
    assert [row[2] for row in first] == [0.0, 0.25, 0.5, 0.5]
    assert first[-1][0] == 1000
    assert {row[0] for row in table["rows"]} == {"0", "1"}
    assert 'id="distance-0"' in page.read_text()


def test_shares_and_scores_of_the_parts_of_a_mixture_are_means_over_the_seeds(tmp_path: Path) -> None:
    for seed, share in enumerate((0.25, 0.75)):
        details = ["", f"share of path={share}; share of target={1 - share}; score on target={4 * seed}", ""]
        write_run(tmp_path / f"runs/mine/seed-{seed}", label="mine", seed=seed, details=details)
    (table,) = content(write_report(tmp_path, film=False))["mixtures"]
    found = [dict(zip(table["columns"], row)) for row in table["rows"]]
    assert {(row["kind"], row["part"], row["value"]) for row in found} == {
        ("share", "path", 0.5),
        ("share", "target", 0.5),
        ("score", "target", 2.0),
    }
    assert all(333 <= row["step"] < 667 for row in found)


def test_the_command_that_repeats_a_comparison_is_given(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"gradient": {}}, seeds=2, task="maze")
    (tmp_path / "comparison.json").write_text("{}")
    runs = [load_run(path) for path in sorted(tmp_path.glob("runs/*/*"))]
    (line,) = story.commands(tmp_path, runs)
    assert line == f"geodesic compare maze --methods gradient --steps 1000 --seeds 2 --out {tmp_path}"


def test_a_command_that_is_pasted_cannot_control_the_terminal(tmp_path: Path) -> None:
    """The end of a bracketed paste and a line break would run what follows."""
    write_comparison(tmp_path, {"gradient": {}}, seeds=1, task="\x1b[201~\nevil")
    (tmp_path / "comparison.json").write_text("{}")
    (line,) = story.commands(tmp_path, [load_run(path) for path in tmp_path.glob("runs/*/*")])
    assert line.startswith(r"geodesic compare '\x1b[201~\nevil' --methods")


class Filmed:
    """Enough of an environment for a film: thirty steps, then the end."""

    metadata = {"render_fps": 10}  # noqa: RUF012

    def __init__(self, steps: int) -> None:
        self.steps, self.now = steps, 0

    def reset(self, seed: int) -> tuple[float, dict[str, Any]]:
        self.now = 0
        return 0.0, {}

    def step(self, action: float) -> tuple[float, float, bool, bool, dict[str, Any]]:
        self.now += 1
        return 0.0, 2.0, self.now == self.steps, False, {"is_success": True}

    def render(self) -> np.ndarray:
        picture = np.zeros((40, 120, 3), np.uint8)
        picture[:, self.now : self.now + 10] = (250, 120, 0)
        return picture

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("steps", "frames", "note"), [(30, 31, ""), (100, 51, ", one step in 2 shown")])
def test_a_film_shows_an_episode(tmp_path: Path, monkeypatch: Any, steps: int, frames: int, note: str) -> None:
    from PIL import Image

    run = load_run(write_run(tmp_path / "run"))
    (tmp_path / "run" / "checkpoint").mkdir()
    (tmp_path / "run" / "checkpoint" / "latest.npz").write_bytes(b"")
    monkeypatch.setattr(film, "load_policy", lambda *_, **__: lambda obs: 0.0)
    given = task({"x": (0.0, 1.0)}, {"x": 0}, {"x": 1})
    monkeypatch.setattr(type(given), "make", lambda self, render_mode: Filmed(steps))
    found, reason = film.films([run], given, tmp_path / "run")
    assert reason == ""
    assert found["gradient"].caption == f"seed 0: return {2 * steps} in {steps} steps, success{note}"
    with Image.open(tmp_path / "run" / "figures" / "film.gif") as picture:
        assert picture.n_frames == frames
        assert picture.info["duration"] == 100 * (2 if note else 1)


def test_the_page_of_a_task_that_cannot_be_rendered_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    text = write_report(tmp_path / "run").read_text()
    assert "expected task to be one of" in text
    given = gd.Task(
        lambda: 1, {"a": (0, 1), "b": (0, 9)}, {"a": 0, "b": 0}, {"a": 1, "b": 1}, threshold=1, set_context=print
    )
    assert "cannot be rendered: expected env= to make" in write_report(tmp_path / "run", given).read_text()


def test_the_command_writes_figures_for_papers_and_names_the_page_last(tmp_path: Path, capsys: Any) -> None:
    write_run(tmp_path / "run")
    assert main(["report", str(tmp_path / "run"), "--no-film"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"  wrote {tmp_path / 'run' / 'report.html'}"
    for kind, start in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        assert (tmp_path / "run" / "figures" / f"run.{kind}").read_bytes().startswith(start)
    before = (tmp_path / "run" / "figures" / "run.svg").read_bytes()
    (tmp_path / "run" / ".report.html-abc.tmp").write_text("left by a killed report")
    assert main(["report", str(tmp_path / "run"), "--no-film"]) == 0
    assert (tmp_path / "run" / "figures" / "run.svg").read_bytes() == before
    assert not list((tmp_path / "run").rglob("*.tmp"))
    assert 'href="figures/run.pdf"' in (tmp_path / "run" / "report.html").read_text()


def die(*arguments: object, **options: object) -> None:
    os.abort()


@pytest.mark.parametrize(
    ("place", "work"),
    [
        ("vl_convert.javascript_bundle", "preparing the charts"),
        ("geodesic.report.figures.write_run_figures", "drawing"),
    ],
)
def test_a_process_that_dies_ends_the_report_in_one_line(
    tmp_path: Path, monkeypatch: Any, capfd: Any, place: str, work: str
) -> None:
    """As V8 does where memory is short."""
    pages._bundle.cache_clear()
    monkeypatch.setattr(place, die)
    assert main(["report", str(write_run(tmp_path / "run")), "--no-film"]) == 1
    shown = capfd.readouterr().err
    assert shown.startswith(f"geodesic: {work}")
    assert shown.endswith("its process died (SIGABRT); it may need more memory\n")
    assert shown.count("\n") == 1


def test_a_killed_report_leaves_no_process(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    report = subprocess.Popen([sys.executable, "-m", "geodesic", "report", str(run)], stdout=subprocess.DEVNULL)
    children = Path(f"/proc/{report.pid}/task/{report.pid}/children")
    deadline = time.monotonic() + 60
    while not (found := children.read_text().split()) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    report.kill()
    report.wait()
    assert found
    while (left := [child for child in found if Path(f"/proc/{child}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []


def test_a_missing_extra_is_reported_before_any_work(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra):
        write_report(tmp_path / "nowhere", film=False)
    assert main(["report", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err == "geodesic: jinja2 is not installed; try: pip install 'geodesic-rl[report]'\n"


def test_a_folder_without_runs_is_refused(tmp_path: Path, capsys: Any) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "to hold config.json or runs at runs/<label>/seed-<k>, got neither" in capsys.readouterr().err
