"""The README's film: made by its command on a small budget, and the one in the repository."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from benchmarks.studies.film import film, labels
from PIL import Image

import geodesic as gd
from geodesic.report.scene import Scene

KEPT = Path(__file__).parents[3] / "docs" / "film.gif"


@pytest.fixture(scope="module")
def made():
    task = gd.tasks.load("point-mass")
    return Image.open(BytesIO(film(task, "gradient", seed=0, steps=1000, pieces=2, every=4, most=4)))


def pictures(image):
    for number in range(image.n_frames):
        image.seek(number)
        yield np.asarray(image.convert("RGB")).astype(int)


def test_it_moves_loops_and_draws_both_sides(made):
    first, *rest = pictures(made)
    assert made.info["loop"] == 0
    assert len(rest) >= 4
    moved = np.abs(np.stack(rest) - first).max(axis=(0, 1, 3)) > 60  # by column of the picture
    middle = made.width // 2
    assert moved[middle:].any()  # the agents
    assert moved[:middle].any()  # new contexts are drawn after each piece
    assert (first < 80).all(axis=2).any(axis=0)[middle:].any()  # walls


def test_coinciding_contexts_have_one_label():
    task = gd.tasks.load("point-mass")
    scene = Scene.of_task(task, [task.target_particles])
    assert [name for name, _ in labels(np.full((4, 2), 2.5), scene)] == ["1-4"]
    assert [name for name, _ in labels(np.array([[0.0, 1.0], [2.5, 2.5]]), scene)] == ["1", "2"]


def test_the_readme_film_is_small_and_loops():
    assert KEPT.stat().st_size < 2e6
    with Image.open(KEPT) as kept:
        assert kept.n_frames > 50
        assert kept.info["loop"] == 0
        assert kept.width <= 830  # the width of a README
