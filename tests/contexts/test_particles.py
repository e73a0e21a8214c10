"""Weighted points: invariants, closed forms, and the messages of invalid input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geodesic as gd
from geodesic.errors import InvalidInput

NAN = float("nan")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gd.Particles([1.0, 2.0]), "expected points of shape (n, d), got shape (2,)"),
        (lambda: gd.Particles(np.zeros((0, 2))), "expected points to hold at least one point, got shape (0, 2)"),
        (lambda: gd.Particles([[NAN, 0.0]]), "expected points to be finite, got 1 NaN or infinite values"),
        (lambda: gd.Particles([["a"]]), "expected points to be an array of numbers of shape (n, d), got [['a']]"),
        (lambda: gd.Particles([[0.0]], [1.0, 2.0]), "expected weights of shape (1,), got shape (2,)"),
        (
            lambda: gd.Particles([[0.0], [1.0]], [1.0, -0.5]),
            "expected weights to be non-negative, got a smallest weight of -0.5",
        ),
        (lambda: gd.Particles([[0.0]], [0.0]), "expected weights with a positive sum, got all zeros"),
        (lambda: gd.Particles([[0.0]], [NAN]), "expected weights to be finite, got [nan]"),
        (
            lambda: gd.Particles.gaussian([0.0], [-1.0], 3, np.random.default_rng(0)),
            "expected std to be non-negative, got [-1.]",
        ),
        (
            lambda: gd.Particles.gaussian([0.0], [1.0], 0, np.random.default_rng(0)),
            "expected n to be a positive integer, got 0",
        ),
        (
            lambda: gd.Particles.gaussian([0.0, 0.0], -np.eye(2), 2, np.random.default_rng(0)),
            "expected a positive semi-definite covariance, got eigenvalue -1",
        ),
        (
            lambda: gd.Particles.uniform([1.0], [0.0], 2, np.random.default_rng(0)),
            "expected low <= high, got low [1.] and high [0.]",
        ),
        (
            lambda: gd.Particles([[0.0]]).sample(np.random.default_rng(0), -1),
            "expected n to be a positive integer, got -1",
        ),
        (
            lambda: gd.Particles([[0.0]]).thinned(0, np.random.default_rng(0)),
            "expected n to be a positive integer, got 0",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message


def test_weights_are_normalised_and_arrays_are_read_only():
    particles = gd.Particles([[0.0], [1.0]], [1.0, 3.0])
    assert particles.weights.tolist() == [0.25, 0.75]
    with pytest.raises(ValueError, match="read-only"):
        particles.points[0] = 5.0


def test_moments_equal_numpys_weighted_ones():
    rng = np.random.default_rng(1)
    points, weights = rng.normal(size=(30, 3)), rng.random(30)
    particles = gd.Particles(points, weights)
    np.testing.assert_allclose(particles.mean(), np.average(points, axis=0, weights=weights))
    np.testing.assert_allclose(particles.cov(), np.cov(points.T, aweights=weights, ddof=0))


def test_samples_follow_the_weights():
    drawn = gd.Particles([[0.0], [1.0], [2.0]], [0.5, 0.0, 0.5]).sample(np.random.default_rng(2), 4000)[:, 0]
    assert not (drawn == 1.0).any()
    assert abs((drawn == 0.0).mean() - 0.5) < 4 * np.sqrt(0.25 / 4000)


def test_gaussian_has_its_moments_and_respects_the_bounds():
    cov = np.array([[2.0, 0.6], [0.6, 0.5]])
    free = gd.Particles.gaussian([1.0, -1.0], cov, 20_000, np.random.default_rng(3))
    np.testing.assert_allclose(free.cov(), cov, atol=0.06)
    held = gd.Particles.gaussian([1.0, -1.0], cov, 500, np.random.default_rng(3), low=[0.0, -2.0], high=[2.0, 0.0])
    assert (held.points >= [0.0, -2.0]).all()
    assert (held.points <= [2.0, 0.0]).all()
    np.testing.assert_array_equal(held.points, np.clip(free.points[:500], [0.0, -2.0], [2.0, 0.0]))


def test_merged_joins_equal_points():
    merged = gd.Particles([[1.0], [0.0], [1.0], [2.0]], [0.25, 0.5, 0.25, 0.0]).merged()
    assert merged == gd.Particles([[0.0], [1.0]], [0.5, 0.5])


def test_positive_drops_points_of_weight_zero_only():
    particles = gd.Particles([[1.0], [0.0], [1.0], [2.0]], [0.25, 0.5, 0.25, 0.0])
    assert particles.positive() == gd.Particles([[1.0], [0.0], [1.0]], [0.25, 0.5, 0.25])
    full = gd.Particles([[1.0], [0.0]])
    assert full.positive() is full


def test_categorical_is_a_distribution_on_its_support():
    plain = gd.Particles.categorical([0.2, 0.8])
    assert plain.points.tolist() == [[0.0], [1.0]]
    assert gd.Particles.categorical([0.2, 0.8], [[3.0, 4.0], [5.0, 6.0]]).mean().tolist() == pytest.approx([4.6, 5.6])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), many=st.integers(1, 300), few=st.integers(1, 120))
def test_thinning_draws_each_point_in_proportion_to_its_weight_rounded_up_or_down(seed, many, few):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(many)) * (rng.random(many) < 0.7) + np.eye(many)[0]
    particles = gd.Particles(np.arange(many, dtype=float)[:, None], weights)
    thinned = particles.thinned(few, rng)
    counts = np.bincount(thinned.points[:, 0].astype(int), minlength=many)
    fractions = few * particles.weights
    assert len(thinned) == few
    assert (thinned.weights == 1 / few).all()
    assert (counts <= np.ceil(fractions + 1e-9)).all()
    assert (counts >= np.floor(fractions - 1e-9)).all()
    assert not counts[particles.weights == 0].any()


def test_thinning_to_the_same_size_keeps_equally_weighted_points():
    particles = gd.Particles(np.random.default_rng(0).normal(size=(50, 2)))
    for seed in range(20):
        np.testing.assert_array_equal(particles.thinned(50, np.random.default_rng(seed)).points, particles.points)


@pytest.mark.parametrize("dim", [1, 2, 4, 5, 40])
def test_repr_gives_count_and_moments_in_one_short_line(dim):
    rng = np.random.default_rng(0)
    wide = gd.Particles(-1e30 * rng.random((3000, dim)), rng.random(3000))
    assert len(repr(wide)) < 120
    assert "\n" not in repr(wide)
    assert repr(gd.Particles([[1.0, 10.0], [2.0, 10.0]])) == "Particles(2 points, mean 1.5 ± 0.5, 10 ± 0)"
    assert repr(wide).endswith(", ...)") == (dim > 4)
