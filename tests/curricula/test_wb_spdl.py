from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import CURROT, WassersteinSPDL
from geodesic.curricula.constrained import Constrained, ConstrainedState
from geodesic.curricula.regression import NadarayaWatson
from geodesic.curricula.wb_spdl import PROBES

SPACE = gd.ContextSpace([0.0, 0.0], [10.0, 10.0])
RNG = np.random.default_rng(0)
SOURCE = gd.Particles.gaussian([1.5, 1.5], 0.4, 100, RNG, SPACE.low, SPACE.high)
TARGET = gd.Particles.gaussian([8.0, 6.0], 0.2, 50, RNG, SPACE.low, SPACE.high)
METHOD = WassersteinSPDL(SOURCE, TARGET, SPACE, threshold=5.0, episodes_per_update=20, n_particles=50)
Value = Callable[[np.ndarray], np.ndarray]


def always(value: float) -> Value:
    return lambda contexts: np.full(len(contexts), value)


def walk(value: Value, rounds: int, method: Constrained = METHOD) -> list[ConstrainedState]:
    rng = np.random.default_rng(1)
    states = [method.init(rng)]
    for _ in range(rounds):
        contexts = states[-1].distribution.sample(rng, 20)
        episodes = gd.EpisodeBatch(contexts, value(contexts), np.full(20, 9), np.full(20, states[-1].stage))
        states.append(method.update(states[-1], episodes, rng))
    return states


def w2(before: ConstrainedState, after: ConstrainedState) -> float:
    return gd.wasserstein(before.distribution, after.distribution, gd.metrics.Euclidean(SPACE.unit_length))


def half(contexts: np.ndarray) -> np.ndarray:
    """An agent that masters the left half only."""
    return np.where(contexts[:, 0] < 5.0, 9.0, 0.0)


def test_an_agent_that_can_do_it_is_led_along_the_geodesic_to_the_target_itself() -> None:
    states = walk(always(9.0), 20)
    last = states[-1]
    np.testing.assert_array_equal(np.sort(last.particles, axis=0), np.sort(last.goals, axis=0))
    assert last.alpha == 1.0
    steps = np.array([w2(before, after) for before, after in pairwise(states)])
    moving = steps > 0
    np.testing.assert_allclose(steps[moving][:-1], METHOD.epsilon)  # the whole trust region, until the last step
    assert w2(states[0], last) == pytest.approx(steps.sum())  # no detour: the steps add up to the distance
    assert last.stage == moving.sum() < 20  # once there, no new stages


def test_it_waits_for_an_incompetent_agent() -> None:
    states = walk(always(4.9), 6)
    assert [state.stage for state in states] == [0] * 7
    assert not states[-1].competent


def test_it_stays_within_epsilon_and_stops_where_the_mean_return_meets_the_threshold() -> None:
    """The penalty form went on to the target here, where the agent earns nothing."""
    states = walk(half, 60)
    assert max(w2(before, after) for before, after in pairwise(states)) <= METHOD.epsilon + 1e-12
    middles = [state.particles[:, 0].mean() for state in states[30:]]
    bandwidth = METHOD.epsilon * SPACE.unit_length[0]
    assert 5.0 - 2 * bandwidth < min(middles) < max(middles) < 5.0 + 2 * bandwidth


def test_the_mean_is_constrained_where_currot_constrains_every_particle() -> None:
    """Half of the target cannot be mastered: 9 on the other half is a mean of 4.5, enough for a threshold of 4."""
    target = gd.Particles([[8.0, 2.0], [2.0, 8.0]])
    both = [
        method(SOURCE, target, SPACE, threshold=4.0, episodes_per_update=20, n_particles=50)
        for method in (WassersteinSPDL, CURROT)
    ]
    together, apart = (walk(half, 60, method)[-1] for method in both)
    assert together.alpha == 1.0
    assert together.particles[:, 0].max() == 8.0
    assert apart.particles[:, 0].max() < 5.0 + 2 * METHOD.epsilon * SPACE.unit_length[0]


def line(epsilon: float) -> WassersteinSPDL:
    ends = gd.Particles([[0.0]]), gd.Particles([[10.0]])
    return WassersteinSPDL(*ends, gd.ContextSpace([0.0], [10.0]), threshold=5.0, epsilon=epsilon, n_particles=2)


def slope() -> NadarayaWatson:
    """J falls from 10 at 0 to 0 at 10, smoothly."""
    x = np.linspace(0.0, 10.0, 201)
    return NadarayaWatson(x[:, None], 10.0 - x, 0.01, 10.0)


def test_the_step_towards_the_target_is_the_longest_whose_mean_is_good_enough() -> None:
    points, goals = np.array([[1.0], [3.0]]), np.array([[7.0], [9.0]])  # a mean of 8, and of 2 at the goals
    found = line(0.8).advance(points, goals, slope(), 0.8)
    np.testing.assert_allclose(found, [[4.0], [6.0]], atol=6.0 / PROBES)
    assert line(0.8).mean(found[None], slope())[0] >= 5.0
    np.testing.assert_allclose(line(0.1).advance(points, goals, slope(), 0.1), points + 1.0)  # the trust region binds
    np.testing.assert_allclose(line(0.8).advance(goals, goals, slope(), 0.8), goals)  # nowhere good: it stays


def test_the_step_back_is_the_shortest_whose_mean_is_good_enough_or_the_best() -> None:
    points, havens = np.array([[7.0], [9.0]]), np.array([[1.0], [3.0]])
    found = line(0.8).retreat(points, havens, slope())
    np.testing.assert_allclose(found, [[4.0], [6.0]], atol=6.0 / PROBES)
    assert line(0.8).mean(found[None], slope())[0] >= 5.0
    np.testing.assert_allclose(line(0.1).retreat(points, havens, slope()), points - 1.0)  # as far as it may


def test_it_goes_back_towards_mastered_contexts_when_the_agent_forgets() -> None:
    rng = np.random.default_rng(2)
    state = walk(always(9.0), 6)[-1]
    contexts = np.concatenate([state.distribution.sample(rng, 60), SOURCE.sample(rng, 20)])
    returns = np.concatenate([np.zeros(60), np.full(20, 9.0)])
    episodes = gd.EpisodeBatch(contexts, returns, np.full(80, 9), np.full(80, state.stage))
    after = METHOD.update(state, episodes, rng)
    assert (after.event, after.stage) == ("moved back", state.stage + 1)
    assert after.alpha < state.alpha
    assert w2(state, after) <= METHOD.epsilon + 1e-12
