from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import CURROT
from geodesic.curricula.constrained import ConstrainedState
from geodesic.curricula.regression import NadarayaWatson

SPACE = gd.ContextSpace([0.0, 0.0], [10.0, 10.0])
RNG = np.random.default_rng(0)
SOURCE = gd.Particles.gaussian([1.5, 1.5], 0.4, 100, RNG, SPACE.low, SPACE.high)
TARGET = gd.Particles.gaussian([8.0, 6.0], 0.2, 50, RNG, SPACE.low, SPACE.high)
METHOD = CURROT(SOURCE, TARGET, SPACE, threshold=5.0, episodes_per_update=20, n_particles=50)


def walk(value: Callable[[np.ndarray], np.ndarray], rounds: int, method: CURROT = METHOD) -> list[ConstrainedState]:
    rng = np.random.default_rng(1)
    states = [method.init(rng)]
    for _ in range(rounds):
        contexts = states[-1].distribution.sample(rng, 20)
        episodes = gd.EpisodeBatch(contexts, value(contexts), np.full(20, 9), np.full(20, states[-1].stage))
        states.append(method.update(states[-1], episodes, rng))
    return states


def test_a_competent_agent_is_led_to_the_target_itself() -> None:
    states = walk(lambda c: np.full(len(c), 9.0), 20)
    last = states[-1]
    np.testing.assert_array_equal(np.sort(last.particles, axis=0), np.sort(last.goals, axis=0))
    assert last.alpha == 1.0
    alphas = [state.alpha for state in states]
    assert alphas == sorted(alphas)
    assert last.stage == len(set(alphas)) - 1 < 20  # once there, no new stages


def test_no_particle_moves_farther_than_epsilon_when_none_goes_back() -> None:
    states = walk(lambda c: np.full(len(c), 9.0), 8)
    moves = [np.linalg.norm((b.particles - a.particles) / SPACE.unit_length, axis=1) for a, b in pairwise(states)]
    assert max(move.max() for move in moves) == pytest.approx(METHOD.epsilon)


def test_it_waits_for_an_incompetent_agent() -> None:
    states = walk(lambda c: np.full(len(c), 4.9), 6)
    assert [state.stage for state in states] == [0] * 7
    assert not states[-1].competent


def test_particles_stop_where_the_agent_fails() -> None:
    """The agent masters the left half only: particles gather at its edge."""
    last = walk(lambda c: np.where(c[:, 0] < 5.0, 9.0, 0.0), 40)[-1]
    bandwidth = METHOD.epsilon * SPACE.unit_length[0]
    assert last.particles[:, 0].max() < 5.0 + 2 * bandwidth
    assert np.median(last.particles[:, 0]) > 5.0 - 4 * bandwidth
    assert 0.2 < last.alpha < 0.8


def test_particles_go_back_to_mastered_contexts_when_the_agent_forgets() -> None:
    rng = np.random.default_rng(2)
    states = walk(lambda c: np.full(len(c), 9.0), 6)
    state = states[-1]
    contexts = np.concatenate([state.distribution.sample(rng, 60), SOURCE.sample(rng, 20)])
    returns = np.concatenate([np.zeros(60), np.full(20, 9.0)])
    episodes = gd.EpisodeBatch(contexts, returns, np.full(80, 9), np.full(80, state.stage))
    after = METHOD.update(state, episodes, rng)
    assert after.event.endswith("particles back")
    assert after.stage == state.stage + 1


def test_advance_moves_up_to_the_edge_of_the_mastered_region() -> None:
    line = CURROT(
        gd.Particles([[0.0]]), gd.Particles([[10.0]]), gd.ContextSpace([0.0], [10.0]), threshold=5.0, epsilon=0.4
    )
    model = NadarayaWatson(np.array([[0.0], [5.0]]), np.array([10.0, 0.0]), 0.01, 10.0)  # mastered below 2.5
    points, goals = np.array([[0.0], [1.0], [3.0]]), np.array([[10.0], [1.2], [10.0]])
    (edge,), (reached,), (back,) = line.advance(points, goals, model, np.random.default_rng(0))
    assert reached == 1.2
    assert 2.4 <= edge <= 2.5  # as near to its goal as it may: 10 places on its way and 100 beside it were looked at
    assert 2.3 <= back <= 2.5  # it stood beyond


def test_a_blocked_particle_slides_along_the_edge_of_the_mastered_region() -> None:
    """The agent masters the left half. The goal lies far up on the right: straight on is no way, up is one."""
    grid = np.stack(np.meshgrid(np.arange(0.25, 10, 0.5), np.arange(0.25, 10, 0.5)), axis=-1).reshape(-1, 2)
    model = NadarayaWatson(grid, np.where(grid[:, 0] < 5.0, 9.0, 0.0), 0.01, SPACE.unit_length)
    points, goals, rng = np.array([[4.7, 2.0]]), np.array([[8.0, 9.0]]), np.random.default_rng(0)
    for _ in range(12):
        points = METHOD.advance(points, goals, model, rng)
    assert points[0, 0] < 5.1
    assert points[0, 1] > 7.0


def test_each_update_draws_new_samples_of_the_target() -> None:
    wide = gd.Particles.uniform([6.0, 6.0], [9.0, 9.0], 400, np.random.default_rng(0))
    states = walk(lambda c: np.full(len(c), 9.0), 30, replace(METHOD, target=wide))
    assert len(np.unique(np.concatenate([state.goals for state in states]), axis=0)) > 300
    assert len(np.unique(states[0].particles, axis=0)) == 50  # and none is drawn twice while others are left out


def test_it_begins_once_half_of_the_episodes_reach_the_threshold() -> None:
    few, half = (walk(lambda c, n=n: np.where(np.arange(20) < n, 9.0, -90.0), 1)[-1] for n in (9, 11))
    assert (few.competent, half.competent) == (False, True)
    assert len(few.recent) == 0  # what failed before it began does not count against it
    assert len(few.mastered) == 9


def test_old_failures_are_forgotten_and_mastered_contexts_cover_the_target() -> None:
    rng = np.random.default_rng(3)
    state = METHOD.init(rng).replace(competent=True)

    def after(contexts: np.ndarray, value: float) -> ConstrainedState:
        n = len(contexts)
        return METHOD.remember(
            state.replace(fresh=gd.EpisodeBatch(contexts, np.full(n, value), np.full(n, 9), np.zeros(n, dtype=int)))
        )

    state = after(SOURCE.sample(rng, 50), 0.0)
    assert (len(state.mastered), (state.recent.returns < 5).sum()) == (0, 50)
    near, far = state.goals + 0.01, SOURCE.sample(rng, 30)
    state = after(near, 9.0)
    assert len(state.recent) == 50
    state = after(far, 9.0)  # mastered, but they cover nothing that is not covered: they count as the latest
    np.testing.assert_allclose(np.sort(state.mastered.contexts, axis=0), np.sort(near, axis=0))
    np.testing.assert_array_equal(state.recent.contexts[-30:], far)
    assert (state.recent.returns < 5).sum() == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "expected epsilon to be positive, got 0.0"),
        ({"threshold": np.inf}, "expected threshold to be a finite number, got inf"),
        ({"n_particles": 0}, "expected n_particles to be a positive integer, got 0"),
    ],
)
def test_bad_options(options: dict[str, float], message: str) -> None:
    with pytest.raises(gd.GeodesicError) as caught:
        CURROT(SOURCE, TARGET, SPACE, **{"threshold": 0.0, **options})  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_the_bandwidth_is_in_units_of_epsilon() -> None:
    rng = np.random.default_rng(2)
    contexts = SPACE.uniform(20, rng).points
    narrow = CURROT(SOURCE, TARGET, SPACE, threshold=5.0, epsilon=0.1, bandwidth=0.3)
    fresh = gd.EpisodeBatch(contexts, np.full(20, 9.0), np.ones(20), np.zeros(20))
    state = narrow.remember(narrow.init(rng).replace(fresh=fresh))
    assert narrow.model(state).bandwidth == pytest.approx(0.03)
    with pytest.raises(gd.errors.InvalidInput, match="expected bandwidth to be positive, got 0"):
        CURROT(SOURCE, TARGET, SPACE, threshold=5.0, bandwidth=0)
