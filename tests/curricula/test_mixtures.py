from __future__ import annotations

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from geodesic.curricula.mixtures import fit_mixtures, nearest_seed, plus_plus


def points() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(c, 0.05, (70, 2)) for c in ((0.2, 0.2), (0.8, 0.3), (0.5, 0.9))])


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_mixture_is_that_of_scikit_learn_from_the_same_start(k: int) -> None:
    x = points()
    ours = fit_mixtures(x, [k, 7], np.random.default_rng(4), tol=1e-12, max_iter=300)[0]
    seeds = x[plus_plus(x, 7, np.random.default_rng(4))][:k]
    shares = nearest_seed(x, seeds)
    mass = shares.sum(axis=1)
    means = shares @ x / mass[:, None]
    covs = [np.cov(x[share > 0].T, bias=True) + 1e-6 * np.eye(2) for share in shares]
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
