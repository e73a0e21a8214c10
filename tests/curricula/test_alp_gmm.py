from __future__ import annotations

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import geodesic as gd
from geodesic.curricula import ALPGMM
from geodesic.curricula.alp_gmm import fit_mixtures, nearest_seed, plus_plus

SPACE = gd.ContextSpace([-1.0, 0.0], [1.0, 4.0])


def test_progress_is_the_change_against_the_nearest_earlier_context() -> None:
    curriculum = ALPGMM(gd.ContextSpace([0.0], [10.0]), max_size=2)
    contexts = np.array([[0.0], [9.0], [1.0], [8.0], [0.1]])
    returns = np.array([5.0, 1.0, 7.0, 4.0, 0.0])
    # the last one's neighbour at 0.0 is older than the two episodes that count: 1.0 takes its place
    expected = np.array([0.0, 4.0, 2.0, 3.0, 7.0])
    np.testing.assert_array_equal(curriculum.changes(contexts, returns, 0), expected)
    np.testing.assert_array_equal(curriculum.changes(contexts, returns, 3), expected[3:])


def test_feeding_in_pieces_is_feeding_at_once() -> None:
    rng = np.random.default_rng(0)
    episodes = gd.EpisodeBatch(
        SPACE.uniform(50, rng).points, rng.normal(size=50), np.full(50, 10), np.zeros(50, dtype=int)
    )
    curriculum = ALPGMM(SPACE, fit_rate=25, max_size=20)
    start = curriculum.init(rng)
    whole = curriculum.update(start, episodes, np.random.default_rng(1))
    pieces = start
    for part in (slice(0, 7), slice(7, 8), slice(8, 24), slice(24, 50)):
        pieces = curriculum.update(pieces, episodes[part], np.random.default_rng(1))
    assert whole.stage == pieces.stage == 1
    assert whole.distribution == pieces.distribution
    assert (whole.low, whole.high) == (pieces.low, pieces.high) == (episodes.returns.min(), episodes.returns.max())


def test_contexts_are_uniform_before_the_first_fit() -> None:
    state = ALPGMM(SPACE, particles=4000).init(np.random.default_rng(0))
    np.testing.assert_allclose(state.distribution.mean(), [0.0, 2.0], atol=0.08)
    np.testing.assert_allclose(np.sqrt(np.diag(state.distribution.cov())), [2 / 12**0.5, 4 / 12**0.5], atol=0.05)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_it_finds_the_region_of_learning_progress(scale: float) -> None:
    """Returns grow with time in one corner only; elsewhere they do not change."""
    rng = np.random.default_rng(1)
    curriculum = ALPGMM(SPACE, fit_rate=100, random_ratio=0.2)
    state = curriculum.init(rng)

    def learnable(contexts: np.ndarray) -> np.ndarray:
        return (contexts[:, 0] > 0.4) & (contexts[:, 1] > 2.8)

    fractions = []
    for time in range(60):
        contexts = state.distribution.sample(rng, 20)
        returns = np.where(learnable(contexts), 0.1 * time + rng.normal(size=20), 0.0)
        episodes = gd.EpisodeBatch(contexts, scale * returns, np.full(20, 50), np.full(20, state.stage))
        state = curriculum.update(state, episodes, rng)
        fractions.append(learnable(state.distribution.points).mean())
    assert state.stage == 12
    assert fractions[0] == pytest.approx(0.09, abs=0.03)
    assert np.mean(fractions[-20:]) > 0.6  # at most 0.8 + 0.2 * 0.09


def test_a_fit_without_variety_is_counted_and_keeps_the_distribution() -> None:
    rng = np.random.default_rng(2)
    curriculum = ALPGMM(SPACE, fit_rate=10)
    state = curriculum.init(rng)
    same = gd.EpisodeBatch(np.zeros((10, 2)), np.ones(10), np.full(10, 5), np.zeros(10, dtype=int))
    after = curriculum.update(state, same, rng)
    assert (after.failures, after.stage, after.fresh) == (1, 0, 0)
    assert after.distribution is state.distribution


def test_random_ratio_one_stays_uniform() -> None:
    rng = np.random.default_rng(3)
    curriculum = ALPGMM(SPACE, fit_rate=30, random_ratio=1.0, particles=2000)
    episodes = gd.EpisodeBatch(
        SPACE.uniform(30, rng).points, rng.normal(size=30), np.full(30, 5), np.zeros(30, dtype=int)
    )
    state = curriculum.update(curriculum.init(rng), episodes, rng)
    assert state.stage == 1
    np.testing.assert_allclose(state.distribution.mean(), [0.0, 2.0], atol=0.12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"random_ratio": 1.5}, "expected random_ratio in [0, 1], got 1.5"),
        ({"fit_rate": 0}, "expected fit_rate to be a positive integer, got 0"),
    ],
)
def test_bad_options(options: dict[str, float], message: str) -> None:
    with pytest.raises(gd.GeodesicError) as caught:
        ALPGMM(SPACE, **options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_an_unbounded_space_is_refused() -> None:
    with pytest.raises(gd.GeodesicError, match="expected a bounded context space"):
        ALPGMM(gd.ContextSpace([0.0], [np.inf]))


def points() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(c, 0.05, (70, 2)) for c in ((0.2, 0.2), (0.8, 0.3), (0.5, 0.9))])


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_mixture_is_that_of_scikit_learn_from_the_same_start(k: int) -> None:
    x = points()
    ours = fit_mixtures(x, [k, 7], np.random.default_rng(4), tol=1e-12, max_iter=300)[0]
    seeds = x[plus_plus(x, 7, np.random.default_rng(4))][:k]
    fractions = nearest_seed(x, seeds)
    mass = fractions.sum(axis=1)
    means = fractions @ x / mass[:, None]
    covs = [np.cov(x[fraction > 0].T, bias=True) + 1e-6 * np.eye(2) for fraction in fractions]
    theirs = GaussianMixture(
        k,
        weights_init=mass / mass.sum(),
        means_init=means,
        precisions_init=np.linalg.inv(covs),
        tol=1e-12,
        max_iter=300,
    ).fit(x)
    np.testing.assert_allclose(ours.means, theirs.means_, atol=1e-4)
    np.testing.assert_allclose(ours.weights, theirs.weights_, atol=1e-4)
    np.testing.assert_allclose(ours.covariances, theirs.covariances_, atol=1e-5)
    assert ours.aic == pytest.approx(theirs.aic(x), abs=1e-2)


def test_the_criterion_finds_the_number_of_clusters() -> None:
    fits = fit_mixtures(points(), [1, 2, 3], np.random.default_rng(1))
    assert [len(fit.weights) for fit in fits] == [1, 2, 3]
    assert min(fits, key=lambda fit: fit.aic) is fits[2]


def test_points_that_coincide_still_have_a_mixture() -> None:
    x = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    fit = fit_mixtures(x, [2], np.random.default_rng(0))[0]
    np.testing.assert_allclose(sorted(fit.means[:, 0]), [0.0, 1.0], atol=1e-6)
