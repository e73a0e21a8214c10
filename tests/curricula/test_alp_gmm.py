from __future__ import annotations

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import ALPGMM

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
    episodes = gd.Episodes(SPACE.uniform(50, rng).points, rng.normal(size=50), np.full(50, 10), np.zeros(50, dtype=int))
    curriculum = ALPGMM(SPACE, fit_rate=100, max_size=20)
    start = curriculum.init(rng)
    whole = curriculum.update(start, episodes, rng)
    pieces = start
    for part in (slice(0, 7), slice(7, 8), slice(8, 50)):
        pieces = curriculum.update(pieces, episodes[part], rng)
    np.testing.assert_array_equal(whole.changes, pieces.changes)
    assert (whole.low, whole.high) == (episodes.returns.min(), episodes.returns.max())


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

    shares = []
    for time in range(60):
        contexts = state.distribution.sample(rng, 20)
        returns = np.where(learnable(contexts), 0.1 * time + rng.normal(size=20), 0.0)
        episodes = gd.Episodes(contexts, scale * returns, np.full(20, 50), np.full(20, state.stage))
        state = curriculum.update(state, episodes, rng)
        shares.append(learnable(state.distribution.points).mean())
    assert state.stage == 12
    assert shares[0] == pytest.approx(0.09, abs=0.03)
    assert np.mean(shares[-20:]) > 0.6  # at most 0.8 + 0.2 * 0.09


def test_a_fit_without_variety_is_counted_and_keeps_the_distribution() -> None:
    rng = np.random.default_rng(2)
    curriculum = ALPGMM(SPACE, fit_rate=10)
    state = curriculum.init(rng)
    same = gd.Episodes(np.zeros((10, 2)), np.ones(10), np.full(10, 5), np.zeros(10, dtype=int))
    after = curriculum.update(state, same, rng)
    assert (after.failures, after.stage, after.fresh) == (1, 0, 0)
    assert after.distribution is state.distribution


def test_random_ratio_one_stays_uniform() -> None:
    rng = np.random.default_rng(3)
    curriculum = ALPGMM(SPACE, fit_rate=30, random_ratio=1.0, particles=2000)
    episodes = gd.Episodes(SPACE.uniform(30, rng).points, rng.normal(size=30), np.full(30, 5), np.zeros(30, dtype=int))
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
