import numpy as np
import pytest

from geodesic.analysis import random_cmdps, theory
from geodesic.analysis.theory import FAILS, INSTEAD, STATED, Finding
from geodesic.cli import main
from geodesic.contexts import Particles
from geodesic.metrics import Matrix, contextual_distance
from geodesic.metrics.bisimulation import TabularCMDP

CLAIMS = {
    STATED: [
        "Definition of the distance",
        "Its two solvers",
        "Lemma A.1, states",
        "Lemma A.1, distributions",
        "Lemma A.2, probability",
        "Lemma A.2, time",
        "Policy of a stage",
        "Theorem",
        "Corollary, speed",
        "Corollary, gap",
    ],
    FAILS: [
        "Ranges of the appendix",
        "Lemma A.2, probability",
        "Lemma A.2, time",
        "Duality of the appendix",
        "Theorem on one scale",
        "Theorem without a least distance",
    ],
    INSTEAD: [
        "Exact random walk",
        "Loss of a move",
        "Corrected theorem",
        "Corrected constant",
        "Corrected corollary",
        "Tightness",
        "Not separated",
    ],
}


def checked() -> list[Finding]:
    return theory.check(np.random.default_rng(0), cmdps=2, states=6)


def refuted() -> set[str]:
    return {finding.claim for finding in checked() if not finding.confirmed}


def test_what_is_stated_and_what_is_corrected_holds_and_what_fails_fails():
    findings = checked()
    found = {part: [finding.claim for finding in findings if finding.part == part] for part in CLAIMS}
    assert found == CLAIMS
    assert all(finding.confirmed for finding in findings)
    assert {finding.part for finding in findings if not finding.holds} == {FAILS}
    assert all(finding.cases for finding in findings)


exact_moved, exact_gap = theory.moved, theory.gap
exact_geodesic, exact_optimal, exact_distance = (
    random_cmdps.Geodesic,
    random_cmdps.optimal,
    random_cmdps.contextual_distance,
)


def scaled_distance(factor: float):
    return lambda *args: Matrix(factor * exact_distance(*args).M, exact_distance(*args).support)


def worst_policy(cmdp: TabularCMDP, gamma: float) -> np.ndarray:
    v = np.ones(len(cmdp.rewards))
    for _ in range(400):
        v = random_cmdps.action_values(cmdp, v, gamma).min(axis=1)
    return random_cmdps.action_values(cmdp, v, gamma).argmin(axis=1)


def wrong_in_one_state(cmdp: TabularCMDP, gamma: float) -> np.ndarray:
    return np.where(np.arange(len(cmdp.rewards)) == 2, worst_policy(cmdp, gamma), exact_optimal(cmdp, gamma))


def random_distributions(source: Particles, target: Particles, metric: Matrix):
    rng = np.random.default_rng(0)
    drawn = {0.0: source, 1.0: target}
    return lambda t: drawn.setdefault(t, Particles(metric.support, rng.dirichlet(np.ones(len(metric.M)))))


def uneven_speed(source: Particles, target: Particles, metric: Matrix):
    path = exact_geodesic(source, target, metric)
    return lambda t: path(t**2)


def with_another_gamma(cmdp: TabularCMDP, policy: np.ndarray, gamma: float) -> Matrix:
    return contextual_distance(cmdp, policy, gamma - 0.01)


BOUNDS = {"Corrected theorem", "Corrected constant", "Corrected corollary"}
MUTATIONS = {
    "W x 0.2": ({"moved": lambda *args: 0.2 * exact_moved(*args)}, BOUNDS | {"Lemma A.1, distributions"}),
    "W x 5": ({"moved": lambda *args: 5 * exact_moved(*args)}, {"Tightness"}),
    "gap x 5": ({"gap": lambda *args: 5 * exact_gap(*args)}, BOUNDS | {"Loss of a move"}),
    "gap x 1.1": ({"gap": lambda *args: 1.1 * exact_gap(*args)}, BOUNDS | {"Loss of a move"}),
    "gap x 0.5": ({"gap": lambda *args: 0.5 * exact_gap(*args)}, {"Loss of a move", "Tightness"}),
    "random distributions": ({"Geodesic": random_distributions}, {"Corollary, speed", "Corrected corollary"}),
    "uneven speed": ({"Geodesic": uneven_speed}, {"Corollary, speed", "Corrected corollary"}),
    "the worst policy": ({"optimal": worst_policy}, BOUNDS | {"Policy of a stage", "Theorem", "Loss of a move"}),
    "a policy wrong in one state": ({"optimal": wrong_in_one_state}, BOUNDS | {"Policy of a stage", "Loss of a move"}),
    "d x 1.001": ({"contextual_distance": scaled_distance(1.001)}, {"Definition of the distance", "Tightness"}),
    "d x 0.999": ({"contextual_distance": scaled_distance(0.999)}, {"Definition of the distance", "Lemma A.1, states"}),
    "another gamma": (
        {"contextual_distance": with_another_gamma},
        {"Definition of the distance", "Lemma A.1, states"},
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_each_mutation_makes_these_claims_fail(monkeypatch, mutation):
    changes, claims = MUTATIONS[mutation]
    for name, changed in changes.items():
        for module in (theory, random_cmdps):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, changed)
    assert refuted() >= claims


@pytest.mark.parametrize("solver", ["_deterministic", "_stochastic"])
def test_an_error_in_either_solver_fails(monkeypatch, solver):
    from geodesic.metrics import bisimulation

    exact = getattr(bisimulation, solver)
    monkeypatch.setattr(bisimulation, solver, lambda *args: 1.001 * exact(*args))
    assert refuted() >= {"Definition of the distance", "Its two solvers"}


def test_the_random_walk_lemma_at_its_documented_setting():
    assert theory.chance(0.3, 1, 100) == pytest.approx(3 / 7)
    assert theory.claimed_chance(0.3, 1, 100) == pytest.approx(0.802, abs=1e-3)
    broken = [theory.chance(p, d, D) < theory.claimed_chance(p, d, D) for p, D, d in theory.WALKS]
    assert (sum(broken), len(broken)) == (20, 84)


@pytest.mark.parametrize("p", [0.3, 0.5, 0.6])
def test_chance_and_duration_agree_with_simulated_walks(p):
    rng = np.random.default_rng(0)
    place, steps = np.zeros(4000, dtype=int), np.zeros(4000, dtype=int)
    while (walking := (place < 2) & (place > -7)).any():
        place += walking * np.where(rng.random(4000) < p, 1, -1)
        steps += walking
    assert (place == 2).mean() == pytest.approx(theory.chance(p, 2, 7), abs=0.03)
    assert steps.mean() == pytest.approx(theory.duration(p, 2, 7), rel=0.05)


def test_w2_separates_the_linear_mixture_and_w1_does_not():
    finding = theory.mixture([random_cmdps.Corridor.make(12, 6, 0.9)])
    assert finding.holds
    assert "W2 does: its longest step is 3.1" in finding.remark  # sqrt(20) W2 / 20 against two halves of a cell


def test_a_claim_without_a_case_is_not_confirmed():
    assert not theory.corrected_theorem([]).confirmed


def test_the_command_prints_the_parts_and_fails_if_a_claim_is_not_confirmed(monkeypatch, capsys):
    stated = Finding(STATED, "Lemma", "a <= b.", 3, 0.0, 1e-8, "So.")
    fails = Finding(FAILS, "Walk", "c <= d.", 5, 2.0, 1.0, quantity="left / right")
    monkeypatch.setattr(theory, "check", lambda rng: [stated, fails])
    assert main(["theory"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if not line.startswith(" ")][:2] == [STATED, FAILS]
    assert "Lemma (holds): a <= b. In 3 cases the worst error is 0, allowed 1e-08. So." in out
    assert "Walk (FAILS): c <= d. In 5 cases the worst left / right is 2, allowed 1." in out
    assert "All 2 claims are confirmed" in out
    wrong = Finding(FAILS, "Ruin", "e <= f.", 5, 0.5, 1.0)  # documented as failing, and holds
    monkeypatch.setattr(theory, "check", lambda rng: [stated, wrong])
    assert main(["theory"]) == 1
    out, err = capsys.readouterr()
    assert "expected every claim to be confirmed, got 1 that are not: Ruin" in out + err
