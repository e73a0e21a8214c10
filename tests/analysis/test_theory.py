import re

import numpy as np
import pytest

from geodesic.analysis import theory
from geodesic.analysis.theory import RandomCMDP
from geodesic.cli import main
from geodesic.contexts import Particles
from geodesic.metrics import Matrix, contextual_distance
from geodesic.transport import Geodesic

CLAIMS = [
    "Definition",
    "Solvers",
    "Lemma on states",
    "Lemma on distributions",
    "Lemma at the goal",
    "Theorem",
    "Corollary on speed",
    "Corollary on the value gap",
    "Not separated",
]


def failing() -> set[str]:
    findings = theory.check(np.random.default_rng(0), cmdps=4, states=8)
    return {finding.claim for finding in findings if not finding.holds}


def test_every_claim_holds_on_random_cmdps():
    findings = theory.check(np.random.default_rng(0), cmdps=4, states=8)
    assert [finding.claim for finding in findings] == CLAIMS
    assert all(finding.holds for finding in findings)
    assert [finding.cases for finding in findings] == [336, 2, 12, 120, 12, 616, 280, 280, 160]


@pytest.mark.parametrize("factor", [1000, 1.001])
def test_a_distance_that_is_too_large_fails(monkeypatch, factor):
    """The lemma's bound still holds; the definition fails, and the equality at the goal."""
    exact = theory.distance
    monkeypatch.setattr(theory, "distance", lambda *args: Matrix(factor * exact(*args).M, exact(*args).support))
    assert failing() >= {"Definition", "Lemma at the goal"}


def test_a_distance_that_is_too_small_fails(monkeypatch):
    exact = theory.distance
    monkeypatch.setattr(theory, "distance", lambda *args: Matrix(0.999 * exact(*args).M, exact(*args).support))
    assert failing() >= {"Definition", "Lemma on states", "Lemma at the goal"}


@pytest.mark.parametrize("gamma", [0.89, 0.91])
def test_the_distance_of_another_gamma_fails(monkeypatch, gamma):
    monkeypatch.setattr(theory, "distance", lambda cmdp, policy: contextual_distance(cmdp, policy, gamma))
    assert failing() >= {"Definition", "Lemma at the goal"}


def test_the_worst_policy_fails(monkeypatch):
    """The distance is that of this policy and the stages are evenly spaced; the policy is not optimal on a stage."""

    def worst(cmdp: theory.TabularCMDP) -> np.ndarray:
        v = np.ones(len(cmdp.rewards))
        for _ in range(400):
            v = theory.action_values(cmdp, v).min(axis=1)
        return theory.action_values(cmdp, v).argmin(axis=1)

    monkeypatch.setattr(theory, "optimal", worst)
    assert "Theorem" in failing()


def test_random_stages_fail(monkeypatch):
    def noise(source: Particles, target: Particles, metric: Matrix):
        rng = np.random.default_rng(0)
        drawn = {0.0: source, 1.0: target}
        return lambda t: drawn.setdefault(t, Particles(metric.support, rng.dirichlet(np.ones(len(metric.M)))))

    monkeypatch.setattr(theory, "Geodesic", noise)
    assert "Corollary on speed" in failing()


@pytest.mark.parametrize("solver", ["_deterministic", "_stochastic"])
def test_an_error_in_either_solver_fails(monkeypatch, solver):
    from geodesic.metrics import bisimulation

    exact = getattr(bisimulation, solver)
    monkeypatch.setattr(bisimulation, solver, lambda *args: 1.001 * exact(*args))
    assert failing() >= {"Definition", "Solvers", "Lemma at the goal"}


def test_a_smaller_constant_fails():
    """Stages need a positive m: the gaps are not all zero."""
    for slip in (0.0, 0.3):
        problem = RandomCMDP.draw(np.random.default_rng(0), 12, slip)
        assert theory.theorem([problem]).holds
        needed = theory._needed(problem, 40, [])
        assert 0.01 * problem.constant < needed <= problem.constant
        vars(problem)["constant"] = 0.9 * needed
        assert not theory.theorem([problem]).holds


def test_w2_separates_the_linear_mixture_and_w1_does_not():
    """On a corridor, where states lie between source and target."""
    n = 12
    successors = np.stack([np.maximum(np.arange(n) - 1, 0), np.arange(n)], axis=1)
    rewards = np.tile((1 - theory.GAMMA) * np.where(np.arange(n) == 0, 1.0, 0.1)[:, None], (1, 2))
    cmdp = theory.TabularCMDP(rewards, successors, np.arange(n))
    best = theory.optimal(cmdp)
    metric = theory.distance(cmdp, best)
    ends = (Particles.categorical(np.eye(n)[k]) for k in (1, n - 1))
    finding = theory.mixture([RandomCMDP(cmdp, best, metric, Geodesic(*ends, metric))])
    assert finding.holds
    ratio = re.search(r"is (\S+) to", finding.remark)
    assert ratio
    assert float(ratio.group(1)) > 1.5


def test_the_command_prints_sentences_and_fails_if_a_claim_fails(monkeypatch, capsys):
    small = [theory.Finding("Lemma", "a <= b.", 3, worst, 1e-8, remark="So.") for worst in (0.0, 1.0)]
    monkeypatch.setattr(theory, "check", lambda rng: small[:1])
    assert main(["theory"]) == 0
    out = capsys.readouterr().out
    assert "Lemma (holds): a <= b. In 3 cases the worst is 0, allowed 1e-08. So." in out
    assert "Verdict: all 1 claims hold." in out
    monkeypatch.setattr(theory, "check", lambda rng: small)
    assert main(["theory"]) == 1
    out, err = capsys.readouterr()
    assert "Lemma (FAILS): a <= b. In 3 cases the worst is 1, allowed 1e-08. So." in out
    assert "expected every claim to hold, got 1 that fail: Lemma" in out + err


def test_policy_iteration_finds_the_best_of_all_policies():
    cmdp = theory.random_cmdp(np.random.default_rng(2), 4, slip=0.2)
    policies = np.array(np.meshgrid(*[range(4)] * 4)).reshape(4, -1).T
    best = np.max([theory.values(cmdp, policy) for policy in policies], axis=0)
    np.testing.assert_allclose(theory.values(cmdp, theory.optimal(cmdp)), best, atol=1e-10)
    np.testing.assert_allclose(theory.optimal_values(cmdp), best, atol=1e-10)


@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_stage_policy_is_random_only_on_unreachable_states(slip):
    problem = RandomCMDP.draw(np.random.default_rng(3), 8, slip)
    source = problem.path(0.0)
    policy = problem.stage_policy(source)
    np.testing.assert_allclose(policy.sum(axis=1), 1)
    trained = source.weights > 0
    np.testing.assert_array_equal(policy[trained].argmax(axis=1), problem.best[trained])
    assert (policy == 0.25).all(axis=1).any()
    assert theory.values(problem.cmdp, policy)[trained] == pytest.approx(problem.star[trained])


def test_random_cmdps_are_within_the_papers_bounds():
    cmdp = theory.random_cmdp(np.random.default_rng(4), 6, slip=0.3)
    assert cmdp.rewards.min() >= 0
    assert cmdp.rewards.max() == pytest.approx(1 - theory.GAMMA)
    assert 0 <= theory.optimal_values(cmdp).min() <= theory.optimal_values(cmdp).max() <= 1
