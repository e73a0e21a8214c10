"""Figures and pages of contexts with integers and categories: their names, their places and their masses."""

import json
import re

import numpy as np
import pytest

import geodesic as gd
from geodesic.records import load_run
from geodesic.records.schema import StageDistribution
from geodesic.report import contexts, figures
from geodesic.report.page import charts
from geodesic.report.panels import BarPanel, LinePanel, integers, panels_of
from geodesic.report.scene import Scene, scene_of
from mixed_walk import mixed_walk
from run_folders import write_run

TASK = mixed_walk()
SPACE = TASK.space
HALF = gd.Particles([[0.0, 0, 1], [0.5, 2, 1], [1.0, 2, 1]], [2, 1, 1])
NAMES = ["straight", "mirrored", "slow"]


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_categories_are_named_at_the_ticks_and_integers_are_whole():
    figure = contexts.interpolations([0.5], {"linear": [HALF]}, Scene.of_task(TASK, [HALF]), "walk")
    figure.canvas.draw()
    upper, lower = figure.axes
    assert ticks(upper.yaxis) == ticks(lower.xaxis) == NAMES
    assert ticks(lower.yaxis) == ["0", "1", "2", "3"]
    assert upper.get_ylim() == pytest.approx((-0.62, 2.62))  # categories are in the middle of their rows
    assert figure._suptitle.get_text().endswith("\ngrey crosses and black rings: the target")


def test_in_a_plane_of_few_places_areas_are_masses():
    figure = contexts.interpolations([0.5], {"linear": [HALF]}, Scene.of_task(TASK, [HALF]), "walk")
    empty, dots, rings = figure.axes[1].collections
    assert len(empty.get_offsets()) == 3 * 4
    np.testing.assert_array_equal(dots.get_offsets(), [[0, 1], [2, 1]])
    np.testing.assert_allclose(dots.get_sizes(), 130)
    np.testing.assert_array_equal(rings.get_offsets(), [[1, 2], [1, 3], [2, 2], [2, 3]])


@pytest.mark.parametrize(
    ("sides", "kind", "names"),
    [
        ({"wind": NAMES}, BarPanel, NAMES),
        ({"delay": range(2, 9, 3)}, BarPanel, ["2", "5", "8"]),
        ({"delay": range(100)}, LinePanel, None),
    ],
)
def test_one_value_has_bars_with_their_names(sides, kind, names):
    space = gd.ContextSpace.of(sides)
    every = space.uniform(200, np.random.default_rng(0))
    task = gd.Task("CartPole-v1", sides, target=every, set_context=lambda env, **context: None)
    (panel,) = panels_of(Scene.of_task(task, [every]))
    assert isinstance(panel, kind)
    assert panel.shape.get("names") == names
    assert panel.fractions(every).sum() == pytest.approx(1)


def test_a_page_gets_integers_and_categories_exactly_and_their_names():
    first, second = charts.page_panels(Scene.of_task(TASK, [HALF]))
    assert (first.shape["names"], second.shape["names"]) == ([None, NAMES], [NAMES, None])
    stage = StageDistribution(0, 0, 0.5, HALF, {})
    rows = np.array(integers(second, stage)).reshape(-1, 4)
    drawn = rows * [scale for _, _, scale in second.fields] + [offset for _, offset, _ in second.fields]
    assert drawn[:, :2].tolist() == [[0, 1], [2, 1]]
    assert all(name in charts.background(second)["svg"] for name in NAMES)


def folder(tmp_path, categories):
    points = [HALF.points, TASK.target_particles.points]
    made = write_run(tmp_path / "run", contexts=list(SPACE.names), points=points, stages=2)
    config = json.loads((made / "config.json").read_text())
    (made / "config.json").write_text(json.dumps({**config, "categories": categories}))
    return made


def test_without_its_task_a_folder_still_names_its_categories(tmp_path):
    run = load_run(folder(tmp_path, {"steering": NAMES}))
    found = scene_of([run])
    assert found.target is None
    assert found.space.categories == {"steering": tuple(NAMES)}
    assert figures.write_run_figures(run.folder)[-1].name == "contexts.png"


WRONG = [{"steering": names} for names in (["a"], ["a", "a", "b"], [])]


@pytest.mark.parametrize("categories", [*WRONG, {"other": NAMES}, {"place": NAMES}, {}])
def test_lists_of_categories_that_do_not_fit_are_left_out(tmp_path, categories):
    assert scene_of([load_run(folder(tmp_path, categories))]).space.categories == {}


def test_names_from_a_folder_are_escaped_in_the_page(tmp_path):
    pytest.importorskip("vl_convert", reason="needs vl-convert: pip install 'geodesic-rl[report]'")
    from geodesic.report.page import write_report

    run = folder(tmp_path, {"steering": ["<script>alert(1)</script>", "b", "c\x1b[2J"]})
    text = write_report(run, film=False).read_text()
    assert "<script>alert" not in text
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["panels"][0]["names"][1] == ["<script>alert(1)</script>", "b", "c\\x1b[2J"]
