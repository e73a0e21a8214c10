import numpy as np
import pytest

from geodesic.analysis import theory
from geodesic.metrics.bisimulation import TabularCMDP


def test_every_claim_holds_on_random_cmdps():
    findings = theory.check(np.random.default_rng(0), cmdps=4, states=8)
    assert [finding.claim for finding in findings] == ["Lemma", "Theorem", "Corollary"]
    assert all(finding.holds for finding in findings)
    assert [finding.cases for finding in findings] == [4, 40, 40]
    assert 0 < findings[1].worst < np.inf


def test_the_checks_can_fail():
    world = theory.World.draw(np.random.default_rng(1), 8, slip=0.0)
    uneven = theory.World(world.cmdp, world.best, world.metric, world.length, [world.stages[0], world.stages[-1]])
    assert not theory.corollary([uneven]).holds


def test_policy_iteration_finds_the_best_of_all_policies():
    rng = np.random.default_rng(2)
    cmdp = theory.random_cmdp(rng, 4, slip=0.2)
    policies = np.array(np.meshgrid(*[range(4)] * 4)).reshape(4, -1).T
    best = np.max([theory.values(cmdp, policy) for policy in policies], axis=0)
    np.testing.assert_allclose(theory.values(cmdp, theory.optimal(cmdp)), best, atol=1e-10)


def test_stage_policy_is_random_only_where_the_stage_cannot_lead():
    world = theory.World.draw(np.random.default_rng(3), 8, slip=0.0)
    policy = theory.stage_policy(world, world.stages[0])
    np.testing.assert_allclose(policy.sum(axis=1), 1)
    trained = world.stages[0].weights > 0
    np.testing.assert_array_equal(policy[trained].argmax(axis=1), world.best[trained])
    assert (policy == 0.25).all(axis=1).any()
    v, star = theory.values(world.cmdp, policy), theory.values(world.cmdp, world.best)
    assert v[trained] == pytest.approx(star[trained])


def test_random_cmdps_keep_the_papers_bounds():
    cmdp = theory.random_cmdp(np.random.default_rng(4), 6, slip=0.3)
    assert isinstance(cmdp, TabularCMDP)
    assert cmdp.rewards.min() >= 0
    assert cmdp.rewards.max() == pytest.approx(1 - theory.GAMMA)
