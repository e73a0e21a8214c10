"""The learned embedding: it recovers known distances, and decodes inside the space."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from geodesic.contexts import ContextSpace, EpisodeBatch, Particles
from geodesic.errors import InvalidInput
from geodesic.metrics.embedding import Embedding, Latent
from geodesic.transport.geodesic import Geodesic

BOX = ContextSpace([-2.0, 0.0], [10.0, 1.0])
FOLDED = {60: (18, 32, 33, 49, 60, 61), 200: (34, 49)}  # among seeds 0 ... 65, where a single start folds


def swiss_roll(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, 3) on a rolled-up sheet, and their coordinates (n, 2) on the sheet, where distances are straight."""
    turn, height = rng.uniform(2.4, 7.1, n), rng.uniform(0, 10, n)
    arc = (turn * np.sqrt(1 + turn**2) + np.arcsinh(turn)) / 2
    return np.stack([turn * np.cos(turn), height, turn * np.sin(turn)], axis=1), np.stack([arc, height], axis=1)


@pytest.fixture(scope="module")
def fitted() -> Latent:
    contexts = BOX.uniform(60, np.random.default_rng(0)).points
    return Embedding(BOX, 0.0, epochs=300).embed(contexts, cdist(contexts, contexts), np.random.default_rng(1))


def test_swiss_roll_distances_and_reconstruction() -> None:
    rng = np.random.default_rng(0)
    points, sheet = swiss_roll(500, rng)
    space = ContextSpace(points.min(axis=0), points.max(axis=0))
    metric = Embedding(space, 0.0, epochs=30).embed(points, cdist(sheet, sheet), rng)
    held_out, flat = swiss_roll(300, rng)
    held_out = space.clip(held_out)
    pairs = np.triu_indices(300, 1)
    latent, true = metric.pairwise(held_out, held_out)[pairs], cdist(flat, flat)[pairs]
    assert np.corrcoef(latent, true)[0, 1] >= 0.95
    assert np.abs(latent - true).mean() < 0.05 * true.mean()
    straight = cdist(held_out, held_out)[pairs]
    assert np.corrcoef(straight, true)[0, 1] < 0.9, "the set must be one where the straight distance misleads"
    errors = np.abs(metric.decode(metric.encode(held_out)) - held_out) / (space.high - space.low)
    assert np.sqrt((errors**2).mean()) <= 0.02


@pytest.mark.parametrize(("n", "epochs"), [(60, 300), (200, 40)])
def test_plain_distances_do_not_fold(n: int, epochs: int) -> None:
    """With a single start these seeds fold, at a stress of .17 and more, where .002 is possible."""
    square = ContextSpace([0.0, 0.0], [1.0, 1.0])
    contexts = square.uniform(n, np.random.default_rng(0)).points
    distances = cdist(contexts, contexts)
    for seed in FOLDED[n]:
        metric = Embedding(square, 0.0, epochs=epochs).embed(contexts, distances, np.random.default_rng(seed))
        error = np.linalg.norm(metric.pairwise(contexts, contexts) - distances) / np.linalg.norm(distances)
        assert error < 0.01, seed
        assert metric.stress == pytest.approx(error, rel=0.01)


def test_the_squared_form_fits_the_square_root() -> None:
    points = np.linspace(0, 1, 40)[:, None] * [12.0, 1.0] + [-2.0, 0.0]
    distances = cdist(points, points)
    metric = Embedding(BOX, 0.0, epochs=400, squared=True, beta=100.0).embed(
        points, distances, np.random.default_rng(0)
    )
    latent = metric.pairwise(points, points)
    error = np.abs(latent**2 - distances).mean() / distances.mean()
    assert error < 0.4  # sqrt(d) on a line cannot be embedded in the plane without distortion
    assert error < np.abs(latent - distances).mean() / distances.mean()


def test_the_same_generator_gives_the_same_embedding(fitted: Latent) -> None:
    contexts = BOX.uniform(60, np.random.default_rng(0)).points
    again = Embedding(BOX, 0.0, epochs=300).embed(contexts, cdist(contexts, contexts), np.random.default_rng(1))
    np.testing.assert_array_equal(again.encode(contexts), fitted.encode(contexts))


def test_decoded_contexts_stay_in_their_space(fitted: Latent) -> None:
    wild = np.random.default_rng(0).normal(scale=1e3, size=(100, 2))
    assert BOX.contains(fitted.decode(wild)).all()


def test_paths_are_straight_in_the_latent_space(fitted: Latent) -> None:
    x, y = BOX.uniform(5, np.random.default_rng(2)).points, BOX.uniform(5, np.random.default_rng(3)).points
    points, fractions = fitted.interpolate(x, y, 0.25)
    assert points.shape == (5, 1, 2)
    np.testing.assert_array_equal(fractions, 1.0)
    middle = fitted.decode(0.75 * fitted.encode(x) + 0.25 * fitted.encode(y))
    np.testing.assert_allclose(points[:, 0], middle)
    np.testing.assert_allclose(fitted.plan_cost(x, y), fitted.pairwise(x, y) ** 2)


def test_a_geodesic_runs_from_source_to_target(fitted: Latent) -> None:
    source = Particles.uniform([-2, 0], [0, 0.2], 20, np.random.default_rng(0))
    target = Particles.uniform([8, 0.8], [10, 1.0], 20, np.random.default_rng(1))
    path = Geodesic(source, target, fitted)
    assert path(0) == source
    assert path(1) == target
    assert np.abs(path(0.5).mean() - [4, 0.5]).max() < 1.0


def test_equal_returns_everywhere_do_not_break_it() -> None:
    contexts = BOX.uniform(60, np.random.default_rng(0)).points
    metric = Embedding(BOX, 0.0, epochs=300).embed(contexts, np.zeros((60, 60)), np.random.default_rng(0))
    assert np.isfinite(metric.encode(contexts)).all()


def test_wrong_shapes_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="expected contexts of dimension 2, got dimension 3"):
        Embedding(BOX, 0.0).embed(np.zeros((4, 3)), np.zeros((4, 4)), rng)
    with pytest.raises(InvalidInput, match=r"expected distances >= 0 of shape \(4, 4\), got shape \(3, 4\)"):
        Embedding(BOX, 0.0).embed(np.zeros((4, 2)), np.zeros((3, 4)), rng)


def test_a_latent_space_fitted_to_distances_has_no_returns(fitted: Latent) -> None:
    with pytest.raises(
        InvalidInput, match="expected a latent space that was fitted to returns, got one fitted to distances"
    ):
        fitted.returns(np.zeros((1, 2)))


def test_an_embedding_is_fitted_to_differences_of_returns() -> None:
    """J rises along the first axis only: contexts that differ in the second are near, the others far in proportion."""
    rng = np.random.default_rng(0)
    contexts = BOX.uniform(200, rng).points
    episodes = EpisodeBatch(contexts, contexts[:, 0], np.ones(200), np.zeros(200))
    metric = Embedding(BOX, worst_return=-2.0, contexts=100, epochs=100).fit(episodes, rng)
    x, aside, ahead = (np.array([place]) for place in ([0.0, 0.2], [0.0, 0.8], [6.0, 0.2]))
    assert metric.pairwise(x, ahead)[0, 0] == pytest.approx(6.0, rel=0.25)
    assert metric.pairwise(x, aside)[0, 0] < 0.35 * metric.pairwise(x, ahead)[0, 0]
    np.testing.assert_allclose(metric.returns(ahead), 6.0, atol=0.3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "expected epochs to be a positive integer, got 0"),
        ({"contexts": 0}, "expected contexts to be a positive integer, got 0"),
        ({"latent": -1}, "expected latent to be a positive integer, got -1"),
        ({"memory": 1.5}, "expected memory to be a positive integer, got 1.5"),
        ({"beta": 0.0}, "expected beta to be positive, got 0.0"),
        (
            {"space": ContextSpace([-np.inf], [0.0])},
            "expected a bounded context space, got low [-inf] and high [0.]",
        ),
    ],
)
def test_invalid_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Embedding(**{"space": BOX, "worst_return": -1.0, **options})  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_the_raw_form_weighs_its_losses_by_their_units() -> None:
    """Small distances between contexts of a large box hardly count: the reconstruction fits, the distances do not."""
    rng = np.random.default_rng(0)
    box = ContextSpace([-100.0, -100.0], [100.0, 100.0])
    contexts = box.uniform(60, rng).points
    distances = 1e-3 * cdist(contexts, contexts)
    plain, raw = (Embedding(box, 0.0, epochs=300, raw=raw).embed(contexts, distances, rng) for raw in (False, True))
    assert plain.stress < 0.2 < 5 < raw.stress
    latent = np.linalg.norm(raw.decode(raw.encode(contexts)) - contexts, axis=1)
    assert np.median(latent) < 20  # a tenth of a side
    assert raw.unit == 1.0


def test_an_embedding_passes_the_raw_form_to_the_fit() -> None:
    rng = np.random.default_rng(1)
    contexts = BOX.uniform(30, rng).points
    episodes = EpisodeBatch(contexts, contexts[:, 0], np.ones(30, int), np.zeros(30, int))
    fitted = [Embedding(BOX, -2.0, contexts=40, epochs=5, raw=raw).fit(episodes, rng) for raw in (False, True)]
    assert [latent.metric.raw for latent in fitted] == [False, True]
