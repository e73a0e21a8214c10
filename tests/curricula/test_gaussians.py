from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.optimize import check_grad
from scipy.stats import multivariate_normal

from geodesic.curricula.gaussians import (
    Gaussian,
    ImportanceWeighted,
    KullbackLeibler,
    Step,
    StepFunction,
    flat_gradient,
    unpack,
)
from geodesic.curricula.regression import NadarayaWatson

UNIT = np.array([2.0, 3.0, 0.5])


def gaussian(seed: int, d: int = 3) -> Gaussian:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    return Gaussian.fit(rng.normal(size=d), root @ root.T + 0.1 * np.eye(d), np.full(d, 1e-3))


def functions() -> dict[str, StepFunction]:
    rng = np.random.default_rng(9)
    old, other = gaussian(0), gaussian(1)
    contexts, values = old.sample(40, rng), rng.random(40)
    return {
        "kl": KullbackLeibler(old, other),
        "importance": ImportanceWeighted(old, contexts, values),
    }


@pytest.mark.parametrize("name", ["kl", "importance"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    function = functions()[name]

    def value(x: np.ndarray) -> float:
        return function(*unpack(x, 3))[0]

    def gradient(x: np.ndarray) -> np.ndarray:
        u, a = unpack(x, 3)
        return flat_gradient(*function(u, a)[1:], a)

    rng = np.random.default_rng(2)
    for _ in range(5):
        x = 0.3 * rng.normal(size=9)
        assert check_grad(value, gradient, x) < 1e-5 * (1 + np.abs(gradient(x)).max())


def moved(x: np.ndarray) -> Gaussian:
    return gaussian(0).moved(*unpack(x, 3))


def test_kl_is_the_closed_form() -> None:
    x = 0.2 * np.arange(9.0) - 0.5
    p, q = moved(x), gaussian(1)
    S, T = p.chol @ p.chol.T, q.chol @ q.chol.T
    shift = q.mean - p.mean
    inverse = np.linalg.inv(T)
    logs = np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]
    expected = 0.5 * (np.trace(inverse @ S) + shift @ inverse @ shift - 3 + logs)
    assert KullbackLeibler(gaussian(0), q)(*unpack(x, 3))[0] == pytest.approx(expected)
    assert p.kl(q) == pytest.approx(expected)
    assert p.kl(p) == pytest.approx(0.0, abs=1e-12)


def test_wasserstein_is_the_closed_form() -> None:
    x = 0.2 * np.arange(9.0) - 0.5
    p, q = moved(x), gaussian(1)
    scale = np.diag(1 / UNIT)
    S, T = scale @ p.chol @ p.chol.T @ scale, scale @ q.chol @ q.chol.T @ scale
    cross = np.real(np.trace(sqrtm(sqrtm(T) @ S @ sqrtm(T))))
    expected = ((p.mean - q.mean) ** 2 / UNIT**2).sum() + np.trace(S) + np.trace(T) - 2 * cross
    assert p.wasserstein(q, UNIT) == pytest.approx(np.sqrt(expected))


def test_importance_weights_are_ratios_of_densities() -> None:
    rng = np.random.default_rng(3)
    old, x = gaussian(0), 0.1 * np.arange(9.0) - 0.4
    contexts, values = old.sample(30, rng), rng.random(30)

    def density(p: Gaussian) -> Callable[[np.ndarray], np.ndarray]:
        return multivariate_normal(p.mean, p.chol @ p.chol.T).pdf

    ratios = density(moved(x))(contexts) / density(old)(contexts)
    expected = values.mean() + (ratios * (values - values.mean())).mean()
    assert ImportanceWeighted(old, contexts, values)(*unpack(x, 3))[0] == pytest.approx(expected)
    alike, by_u, by_a = ImportanceWeighted(old, contexts, np.full(30, 0.7))(*unpack(x, 3))
    assert alike == pytest.approx(0.7)
    np.testing.assert_allclose(flat_gradient(by_u, by_a, unpack(x, 3)[1]), 0.0, atol=1e-12)


def test_fit_raises_deviations_that_are_too_small_and_keeps_the_others() -> None:
    floor = np.array([0.1, 0.1])
    point = Gaussian.fit(np.zeros(2), np.zeros((2, 2)), floor)
    np.testing.assert_allclose(point.chol, 0.1 * np.eye(2))
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    wide = Gaussian.fit(np.zeros(2), cov, floor)
    np.testing.assert_allclose(wide.chol @ wide.chol.T, cov)


def test_kernel_regression_averages_near_data_and_extends_the_nearest_value() -> None:
    model = NadarayaWatson(np.array([[0.0], [1.0]]), np.array([2.0, 4.0]), 0.1)
    np.testing.assert_allclose(model.predict(np.array([[0.5], [-9.0], [30.0]])), [3.0, 2.0, 4.0])


@pytest.mark.parametrize("d", [1, 2])
def test_a_step_without_an_inverse_is_no_step(d: int) -> None:
    """The optimiser shrinks the Gaussian until its factor underflows: no LinAlgError, no step."""

    def narrow(u: np.ndarray, a: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        diagonal = np.linalg.inv(a).diagonal()
        return float(np.log(diagonal).sum()), np.zeros(d), -np.diag(diagonal)

    def free(u: np.ndarray, a: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        return 0.0, np.zeros(d), np.zeros((d, d))

    assert Step(narrow, free, free, 0.0, 1.0, np.full(d, -np.inf)).solve() is None
