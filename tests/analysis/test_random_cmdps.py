from itertools import pairwise

import numpy as np
import pytest

from geodesic.analysis import random_cmdps
from geodesic.analysis.random_cmdps import Corridor, random_cmdp, random_problem

GAMMA = 0.9
CORRIDORS = [Corridor.make(8, 2, 0.9), Corridor.make(13, 5, 0.99), Corridor.make(10, 9, 0.95)]


def test_policy_iteration_finds_the_best_of_all_policies():
    cmdp = random_cmdp(np.random.default_rng(2), 4, 0.2, GAMMA)
    policies = np.array(np.meshgrid(*[range(4)] * 4)).reshape(4, -1).T
    best = np.max([random_cmdps.values(cmdp, policy, GAMMA) for policy in policies], axis=0)
    np.testing.assert_allclose(random_cmdps.values(cmdp, random_cmdps.optimal(cmdp, GAMMA), GAMMA), best, atol=1e-10)
    np.testing.assert_allclose(random_cmdps.optimal_values(cmdp, GAMMA), best, atol=1e-10)


@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_stage_policy_is_random_only_on_unreachable_states(slip):
    problem = random_problem(np.random.default_rng(3), 8, slip, GAMMA)
    source = problem.path(0.0)
    policy = problem.stage_policy(source)
    np.testing.assert_allclose(policy.sum(axis=1), 1)
    trained = source.weights > 0
    np.testing.assert_array_equal(policy[trained].argmax(axis=1), problem.best[trained])
    assert (policy == 0.25).all(axis=1).any()
    assert random_cmdps.values(problem.cmdp, policy, GAMMA)[trained] == pytest.approx(problem.star[trained])


@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_hitting_loss_is_the_loss_of_the_stage_policy(slip):
    problem = random_problem(np.random.default_rng(3), 8, slip, GAMMA)
    source = problem.path(0.0)
    lost = problem.star - random_cmdps.values(problem.cmdp, problem.stage_policy(source), GAMMA)
    np.testing.assert_allclose(problem.hitting_loss(source), lost, atol=1e-12)
    assert lost.max() > 0.01


def test_random_cmdps_are_within_the_papers_bounds():
    cmdp = random_cmdp(np.random.default_rng(4), 6, 0.3, GAMMA)
    assert cmdp.rewards.min() >= 0
    assert cmdp.rewards.max() == pytest.approx(1 - GAMMA)
    assert 0 <= random_cmdps.optimal_values(cmdp, GAMMA).min() <= random_cmdps.optimal_values(cmdp, GAMMA).max() <= 1


@pytest.mark.parametrize("corridor", CORRIDORS)
def test_corridors_meet_the_assumptions_of_the_papers_appendix(corridor):
    """In units of the least distance."""
    rewards, units = corridor.cmdp.rewards, corridor.metric.M / corridor.unit
    assert 0 <= rewards.min() <= rewards.max() <= 1 - corridor.gamma
    states = np.arange(len(rewards))
    np.testing.assert_allclose(units, np.abs(states[:, None] - states), atol=1e-9)
    assert units[units > 1e-9].min() >= 1 - 1e-9
    assert (units.max(axis=1) >= corridor.length / 2 - 1e-9).all()
    assert corridor.cmdp.deterministic
    for count in corridor.counts:
        for before, after in pairwise(corridor.stages(count)):
            nearest = units[:, before.weights > 0].min(axis=1)
            for start in np.flatnonzero((after.weights > 0) & (before.weights == 0)):
                change = nearest[corridor.cmdp.transitions[start]] - nearest[start]
                np.testing.assert_allclose(np.abs(change), 1, atol=1e-9)
                assert (change < 0).mean() == corridor.p
                entry = np.flatnonzero(corridor.reached(before)).max()  # where the walk meets the stage
                assert units[entry, start] == pytest.approx(nearest[start])  # so C_1 = 1


@pytest.mark.parametrize("corridor", CORRIDORS)
def test_the_corrected_constant_is_the_loss_of_the_first_state_beyond_the_source(corridor):
    lost = corridor.hitting_loss(corridor.path(0.0)) / corridor.unit
    assert corridor.constant == pytest.approx(lost[2])
    beyond = np.arange(len(lost)) - 1
    assert (lost <= corridor.constant * np.maximum(beyond, 0) + 1e-9).all()


def test_a_long_corridor_has_the_constant_of_an_endless_one():
    p, q, gamma = 0.6, 0.4, 0.9
    z = (1 - np.sqrt(1 - 4 * p * q * gamma**2)) / (2 * q * gamma)
    assert Corridor.make(200, 6, gamma).constant == pytest.approx(2 * gamma * q * (1 - z) / (1 - gamma))
