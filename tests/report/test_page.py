"""The report as text: what it says, what its charts hold, and that a stranger's words stay words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import geodesic as gd
from geodesic.cli import main
from geodesic.contexts import ContextSpace, Particles
from geodesic.errors import MissingExtra, RunFailed
from geodesic.records import load_run
from geodesic.report.page import film, story, write_report
from geodesic.tasks import Drawing, Task
from run_folders import write_comparison, write_run

pytest.importorskip("altair", reason="needs Altair: pip install 'geodesic-rl[report]'")

LABELS = {"gradient": {}, "spdl": {"method": "spdl"}, "uniform": {"method": "uniform", "stages": 1}}


def content(page: Path) -> dict[str, Any]:
    """The data in a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def task(space: Any, source: Any, target: Any, **options: Any) -> Task:
    """A task that is never played."""
    facts = {"threshold": 40.0, "name": "mine", "apply": lambda env, **context: None, **options}
    return Task("CartPole-v1", space, source, target, **facts)


def rows(data: dict[str, Any], label: str = "gradient", seed: int = 0, frame: int = 0) -> np.ndarray:
    """The rows of a frame, as a browser reads them."""
    fields = data["pictures"][0]["fields"]
    numbers = np.array(data["curricula"][label][str(seed)][frame]["m"][0], float).reshape(-1, len(fields))
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
    assert set(data["charts"]) == {"learning", "timeline-0", "timeline-1", "timeline-2"}
    assert [frame["s"] for frame in data["curricula"]["gradient"]["1"]] == [0, 333, 666]
    assert data["table"].startswith("label,runs,finished")


def test_a_long_label_may_end_its_line_after_an_option(tmp_path: Path) -> None:
    text = write_report(write_run(tmp_path / "run", label="gradient:gate=true:step=0.2"), film=False).read_text()
    assert '<th scope="row" data-value="gradient:gate=true:step=0.2">gradient:<wbr>gate=true:<wbr>step=0.2</th>' in text


def test_the_page_asks_nothing_of_the_network(tmp_path: Path) -> None:
    text = write_report(write_run(tmp_path / "run"), film=False).read_text()
    assert "default-src 'none'" in text
    ours, _, _ = text.partition('<script type="application/json"')  # what follows holds the library, as text
    assert not re.search(r'<(script|img|link|iframe)[^>]*(src|href)="(?!data:)', ours)


def test_the_page_of_a_run_has_its_training_episodes(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run", reached=500), film=False)
    assert "One run of gradient, seed 0 on mine" in page.read_text()
    assert "0 of 1 run finished" in page.read_text()
    data = content(page)
    assert "training" in data["charts"]
    assert data["charts"]["training"]["layer"][0]["mark"]["type"] == "circle"


@pytest.mark.parametrize(("solved", "shown"), [(70.0, True), (900.0, False)])
def test_a_level_out_of_sight_does_not_press_the_curves_flat(tmp_path: Path, solved: float, shown: bool) -> None:
    text = write_report(write_run(tmp_path / "run", solved=solved), film=False).read_text()
    assert ('id="level" checked' in text) == shown


def test_a_strangers_words_stay_words(tmp_path: Path) -> None:
    bad = "</script><script>alert(1)</script>"
    page = write_report(write_run(tmp_path / "run", task=bad, label=bad, contexts=[bad, "b"]), film=False)
    assert "<script>alert" not in page.read_text()
    assert content(page)["labels"] == [bad]


def test_cells_are_written_by_row_column_and_share(tmp_path: Path) -> None:
    grid = np.array([[1, 1, 1], [1, 0, 0], [1, 0, 1]])
    starts = np.array([[1.0, 1.0], [1.0, 2.0], [2.0, 1.0]])
    ends = [Particles(starts, weights) for weights in ([1, 0, 0], [0, 0.5, 0.5])]
    given = task(ContextSpace.discrete(starts, ["row", "column"]), *ends, drawing=Drawing(cells=grid, goals=((1, 1),)))
    clouds = {"points": [starts] * 2, "weights": [end.weights for end in ends]}
    write_run(tmp_path / "run", stages=2, contexts=["row", "column"], **clouds)
    data = content(write_report(tmp_path / "run", given, film=False))
    np.testing.assert_allclose(rows(data), [[1, 1, 1]])
    np.testing.assert_allclose(rows(data, frame=1), [[1, 2, 0.5], [2, 1, 0.5]], atol=1e-3)


def test_contexts_of_one_value_are_shares_of_their_range(tmp_path: Path) -> None:
    given = task({"length": (0.0, 2.0, "m")}, {"length": 0.5}, {"length": (1.0, 2.0)})
    clouds = {"points": [np.array([[0.05], [1.95]])], "weights": [np.array([0.25, 0.75])]}
    write_run(tmp_path / "run", stages=1, contexts=["length"], **clouds)
    data = content(write_report(tmp_path / "run", given, film=False))
    np.testing.assert_allclose(rows(data), [[0.0, 0.25], [1.9, 0.75]], atol=1e-3)
    assert data["pictures"][0]["title"] == "length (m)"
    x = data["pictures"][0]["spec"]["layer"][0]["encoding"]["x"]
    assert x["scale"]["domain"] == [0.0, 2.0]


def test_a_discrete_value_has_a_bar_for_each_of_its_points(tmp_path: Path) -> None:
    sizes = np.array([[1.0], [5.0], [50.0]])
    ends = [Particles(sizes, np.eye(3)[k]) for k in (0, 2)]
    given = task(ContextSpace.discrete(sizes, ["size"]), *ends)
    clouds = {"points": [sizes], "weights": [np.array([0.5, 0.0, 0.5])]}
    write_run(tmp_path / "run", stages=1, contexts=["size"], **clouds)
    data = content(write_report(tmp_path / "run", given, film=False))
    np.testing.assert_allclose(rows(data), [[0, 0.5], [2, 0.5]], atol=1e-3)
    assert "['1', '5', '50']" in json.dumps(data["pictures"][0]["spec"])


def test_points_in_a_plane_are_where_they_were_and_show_their_progress(tmp_path: Path) -> None:
    sides = {"x": (-1.0, 4.0), "y": (0.0, 8.0)}
    walls = Drawing(walls=((0.0, 0.0, 1.0, 2.0),), goals=((3.0, 3.0),))
    given = task(sides, {"x": 0, "y": 4}, {"x": (2, 3), "y": 4}, drawing=walls)
    points = np.array([[0.0, 4.0], [2.0, 1.0]])
    pictures = {1: {"progress": np.array([0.25, 1.0])}}
    write_run(tmp_path / "run", stages=2, contexts=["x", "y"], points=[points] * 2, snapshots=pictures)
    data = content(write_report(tmp_path / "run", given, film=False))
    first, second = rows(data), rows(data, frame=1)
    np.testing.assert_allclose(first[:, :2], points, atol=0.01)
    assert (first[:, 3] < 0).all()
    np.testing.assert_allclose(second[:, 3], [0.25, 1.0], atol=1e-3)
    drawn = json.dumps(data["pictures"][0]["spec"])
    assert '"x2": 1.0' in drawn
    assert "@goal" in drawn


def test_many_particles_and_stages_are_thinned(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(500, 2)) for _ in range(60)]
    write_run(tmp_path / "run", stages=60, steps=6000, points=clouds)
    data = content(write_report(tmp_path / "run", film=False))
    frames = data["curricula"]["gradient"]["0"]
    assert len(frames) == 24
    assert (frames[0]["k"], frames[-1]["k"]) == (0, 59)
    assert len(rows(data)) == 64
    assert rows(data)[:, 2].sum() == pytest.approx(1.0, abs=0.05)


def test_stages_that_ended_alike_are_told_alike_whatever_their_numbers(tmp_path: Path) -> None:
    told = {
        "moved, 53 of 100 particles back": "moved, some particles back",
        "moved, 7 of 100 particles back": "moved, some particles back",
        "iteration 12, 1 failed": "iteration, failed",
        "fitted to 33 goals of intermediate success": "fitted to goals of intermediate success",
        "mixture of 4": "mixture",
    }
    folder = write_run(tmp_path / "run", stages=6, kinds=["train"] * 6, events=["start", *told])
    assert story.endings(load_run(folder))[:-1] == list(told.values())


def test_stages_say_why_they_ended(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run", stages=4, kinds=["train", "explore", "train", "train"],
        events=["start", "mastered", "explored", "step cap"], reached=900,
    )  # fmt: skip
    run = load_run(folder)
    assert story.endings(run) == ["mastered", "exploring for the metric", "step cap", "under way"]
    (_, _, start, end, _, why) = story.timeline_rows([run])[-1]
    assert (start, end, why) == (750, 1000, "under way")
    data = content(write_report(folder, film=False))
    assert [frame["e"] for frame in data["curricula"]["gradient"]["0"]] == [False, True, False, False]


def test_the_command_that_repeats_a_comparison_is_given(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"gradient": {}}, seeds=2, task="maze", portable=True)
    (tmp_path / "comparison.json").write_text("{}")
    runs = [load_run(path) for path in sorted(tmp_path.glob("runs/*/*"))]
    for run in runs:
        run.config["backend"] = "jax"
    (line,) = story.commands(tmp_path, runs)
    assert line == f"geodesic compare maze --methods gradient --steps 1000 --seeds 2 --out {tmp_path}"


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


@pytest.mark.parametrize(("steps", "frames", "said"), [(30, 31, ""), (100, 51, ", one step in 2 shown")])
def test_a_film_shows_an_episode(tmp_path: Path, monkeypatch: Any, steps: int, frames: int, said: str) -> None:
    from PIL import Image

    run = load_run(write_run(tmp_path / "run"))
    (tmp_path / "run" / "checkpoint").mkdir()
    (tmp_path / "run" / "checkpoint" / "latest.npz").write_bytes(b"")
    monkeypatch.setattr(film, "load_policy", lambda *_: lambda obs: 0.0)
    given = task({"x": (0.0, 1.0)}, {"x": 0}, {"x": 1})
    monkeypatch.setattr(type(given), "make", lambda self, render_mode: Filmed(steps))
    found, why = film.films([run], given)
    assert why == ""
    assert found["gradient"].caption == f"seed 0: return {2 * steps} in {steps} steps, success{said}"
    picture = Image.open(tmp_path / "run" / "figures" / "film.gif")
    assert picture.n_frames == frames
    assert picture.info["duration"] == 100 * (2 if said else 1)


def test_a_task_without_pictures_has_a_page_that_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    text = write_report(tmp_path / "run").read_text()
    assert "mine was an object that only its owner has" in text
    given = gd.Task(lambda: 1, {"a": (0, 1), "b": (0, 9)}, {"a": 0, "b": 0}, {"a": 1, "b": 1}, threshold=1, apply=print)
    assert "gives no pictures: expected env= to make" in write_report(tmp_path / "run", given).read_text()


def test_the_command_writes_figures_for_papers_and_names_the_page_last(tmp_path: Path, capsys: Any) -> None:
    write_run(tmp_path / "run")
    assert main(["report", str(tmp_path / "run"), "--no-film"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"  wrote {tmp_path / 'run' / 'report.html'}"
    for kind, start in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        assert (tmp_path / "run" / "figures" / f"run.{kind}").read_bytes().startswith(start)
    before = (tmp_path / "run" / "figures" / "run.svg").read_bytes()
    assert main(["report", str(tmp_path / "run"), "--no-film"]) == 0
    assert (tmp_path / "run" / "figures" / "run.svg").read_bytes() == before
    assert 'href="figures/run.pdf"' in (tmp_path / "run" / "report.html").read_text()


def test_a_missing_extra_is_said_before_any_work(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    from geodesic.report.page import write

    monkeypatch.setattr(write, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra):
        write_report(write_run(tmp_path / "run"), film=False)
    assert main(["report", str(tmp_path / "run")]) == 1
    assert capsys.readouterr().err == "geodesic: altair is not installed; try: pip install 'geodesic-rl[report]'\n"


def test_a_library_that_is_too_old_for_the_charts_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("altair.SCHEMA_VERSION", "v99.1.0")
    with pytest.raises(RunFailed, match=r"to have Vega-Lite 99.1, .*; try pip install --upgrade vl-convert-python"):
        write_report(write_run(tmp_path / "run"), film=False)


def test_a_folder_without_runs_is_refused(tmp_path: Path, capsys: Any) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "to hold runs at runs/<label>/seed-<k>, got none" in capsys.readouterr().err
