from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import WassersteinSPDL
from geodesic.curricula.spdl import SPDLState

SPACE = gd.ContextSpace([-4.0, 0.5], [4.0, 8.0])
SOURCE = np.array([0.0, 4.25]), np.diag([2.0, 1.875]) ** 2
TARGET = np.array([2.5, 0.5]), np.diag([4e-3, 3.75e-3]) ** 2


def method(**options: object) -> WassersteinSPDL:
    points = gd.Particles.uniform(SPACE.low, SPACE.high, 10, np.random.default_rng(0))
    given = {"source_moments": SOURCE, "target_moments": TARGET, "steps_per_iteration": 100, **options}
    return WassersteinSPDL(points, points, SPACE, **given)  # type: ignore[arg-type]


def walk(curriculum: WassersteinSPDL, value: object, rounds: int) -> list[SPDLState]:
    rng = np.random.default_rng(1)
    states = [curriculum.init(rng)]
    for _ in range(rounds):
        contexts = states[-1].distribution.sample(rng, 40)
        returns = value(contexts) if callable(value) else np.full(40, value)
        episodes = gd.Episodes(contexts, returns, np.full(40, 5), np.full(40, states[-1].stage))
        states.append(curriculum.update(states[-1], episodes, rng))
    return states


def test_every_step_is_within_its_share_of_the_diagonal() -> None:
    states = walk(method(), lambda c: 1 + np.abs(np.sin(c[:, 0])), 12)
    unit = SPACE.unit_length
    steps = [after.gaussian.wasserstein(before.gaussian, unit) for before, after in pairwise(states)]
    assert max(steps) <= 0.05 + 1e-9
    assert max(steps) > 0.049


def test_a_competent_agent_is_led_along_the_geodesic_to_the_target() -> None:
    """Where V is flat only the pull acts, and each step is a step on the geodesic of Gaussians: diagonals linear."""
    states = walk(method(), 50.0, 16)
    last = states[-1]
    np.testing.assert_allclose(last.mean, TARGET[0], atol=0.02)
    np.testing.assert_allclose(np.diag(last.chol), [4e-3, 3.75e-3], atol=5e-3)
    assert last.alpha > 0.99
    for state in states[:5]:
        share = (state.mean[0] - 0.0) / 2.5
        np.testing.assert_allclose(state.mean[1], 4.25 - 3.75 * share, atol=0.02)
        np.testing.assert_allclose(np.diag(state.chol), [2 - 1.996 * share, 1.875 - 1.87125 * share], atol=0.02)


def test_an_agent_without_return_is_not_led_anywhere() -> None:
    states = walk(method(worst_return=-3.0), -3.0, 5)
    assert [state.stage for state in states] == [0] * 6
    assert states[-1].iteration == 5


@pytest.mark.parametrize("zeta", [0.05, 1.0])
def test_it_stops_where_the_agent_fails(zeta: float) -> None:
    """The Gaussian goes no further than a kernel's width beyond the edge of what the agent masters, and waits."""
    edge, width = 3.0, 0.05 * SPACE.unit_length[1]
    states = walk(method(zeta=zeta), lambda c: np.where(c[:, 1] > edge, 50.0, 0.0), 60)
    assert min(state.mean[1] for state in states) > edge - width
    assert walk(method(zeta=zeta), 50.0, 60)[-1].mean[1] < 0.6


@pytest.mark.parametrize("seed", range(3))
def test_in_one_dimension_the_step_equals_a_grid_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    space = gd.ContextSpace([0.0], [10.0])
    source = gd.Particles.gaussian([3.0], 1.0, 200, rng, space.low, space.high)
    target = gd.Particles.gaussian([8.0], 0.5, 200, rng, space.low, space.high)
    curriculum = WassersteinSPDL(source, target, space, steps_per_iteration=10**6)
    state = curriculum.init(rng)
    contexts = state.distribution.sample(rng, 50)
    returns = 5.0 + np.sin(contexts[:, 0])
    pending = gd.Episodes(contexts, returns, np.full(50, 5), np.zeros(50, dtype=int))
    step = curriculum.step(state.absorb(pending))
    found = step.solve()
    assert found is not None
    grid = [np.array([u, a]) for u in np.linspace(-0.6, 0.6, 161) for a in np.linspace(-0.9, 0.6, 161)]
    best = min(step.objective(x)[0] for x in grid if step.slack(x) >= 0)
    assert best - 5e-3 <= step.objective(found)[0] <= best + 1e-5
