"""Figures of the tasks of CURROT's authors: mass on walls is visible, stars are named, thresholds are the method's."""

import json

import numpy as np

import geodesic as gd
from geodesic.records import load_run
from geodesic.report import contexts
from geodesic.report.scene import Scene
from geodesic.tasks import load
from run_folders import write_run


def test_mass_on_a_wall_is_visible_and_the_star_is_the_start():
    task = load("e-maze")
    on_wall = gd.Particles([[0.0, 4.0], [0.0, 0.0]])
    figure = contexts.interpolations([0.0], {"linear": [on_wall]}, Scene.of_task(task, [on_wall]), "e-maze")
    picture = figure.axes[0].images[0].get_array()
    assert not np.array_equal(picture[0, 4], picture[0, 5])
    assert np.array_equal(picture[0, 4], picture[0, 0])
    assert picture[0, 5][:3].max() < 0.35
    assert figure._suptitle.get_text().endswith("star: the start")


def test_a_sparse_goal_is_drawn_among_its_walls_and_over_its_tolerance():
    task = load("sparse-goal")
    scene = Scene.of_task(task, [task.source_particles])
    assert scene.planes == ((0, 1), (1, 2))
    assert scene.walls((0, 1))
    assert not scene.walls((1, 2))


def test_the_threshold_in_force_is_the_methods_where_it_has_one(tmp_path):
    folder = write_run(tmp_path / "run", threshold=40.0)
    assert load_run(folder).threshold == 40.0
    config = json.loads((folder / "config.json").read_text())
    for own, level in (({"threshold": 10.0}, 10.0), ({"threshold": "high"}, 40.0), ({}, 40.0)):
        (folder / "config.json").write_text(json.dumps({**config, "options": own}))
        assert load_run(folder).threshold == level
