from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import SPDL
from geodesic.curricula.gaussians import Step

LINE = gd.ContextSpace([0.0], [10.0])
PLANE = gd.ContextSpace([-4.0, 0.5], [4.0, 8.0])
POINT_MASS = {
    "source_moments": (np.array([0.0, 4.25]), np.diag([2.0, 1.875]) ** 2),
    "target_moments": (np.array([2.5, 0.5]), np.diag([4e-3, 3.75e-3]) ** 2),
    "std_lower_bound": (0.2, 0.1875),
    "kl_threshold": 8000.0,
    "zeta": 1.1,
}


def line(**options: object) -> SPDL:
    rng = np.random.default_rng(0)
    source = gd.Particles.gaussian([3.0], 1.0, 200, rng, LINE.low, LINE.high)
    target = gd.Particles.gaussian([8.0], 0.5, 200, rng, LINE.low, LINE.high)
    return SPDL(source, target, LINE, **{"steps_per_iteration": 100, **options})  # type: ignore[arg-type]


def point_mass(**options: object) -> SPDL:
    rng = np.random.default_rng(0)
    points = gd.Particles.uniform(PLANE.low, PLANE.high, 10, rng)
    return SPDL(points, points, PLANE, **{**POINT_MASS, "steps_per_iteration": 100, **options})  # type: ignore[arg-type]


def feed(state: gd.State, rng: np.random.Generator, value: float | None = None, n: int = 40) -> gd.EpisodeBatch:
    contexts = state.distribution.sample(rng, n)
    returns = np.abs(np.sin(contexts.sum(axis=1))) if value is None else np.full(n, value)
    return gd.EpisodeBatch(contexts, returns, np.full(n, 5), np.full(n, state.stage))


@pytest.mark.parametrize("options", [{}, {"alpha_offset": 9}, {"max_kl": 0.3}, {"zeta": 0.2}])
def test_the_step_is_the_best_of_a_grid_in_one_dimension(options: dict[str, float]) -> None:
    rng = np.random.default_rng(1)
    curriculum = line(**options)
    state = curriculum.init(rng)
    pending = feed(state, rng)
    step = curriculum.step(state.absorb(pending))
    found = step.solve()
    assert found is not None
    reach = np.sqrt(2 * curriculum.max_kl)
    shifts, stretches = np.linspace(-reach, reach, 161), np.linspace(-1.2 * reach, 1.2 * reach, 161)
    grid = [np.array([u, a]) for u in shifts for a in stretches]
    best = min(step.objective(x)[0] for x in grid if step.slack(x) >= 0)
    assert step.objective(found)[0] <= best + 1e-6
    assert step.objective(found)[0] >= best - 1e-2 * abs(best)


def test_every_step_is_within_the_bound() -> None:
    rng = np.random.default_rng(2)
    curriculum = point_mass()
    state = curriculum.init(rng)
    states = [state]
    for _ in range(60):
        states.append(curriculum.update(states[-1], feed(states[-1], rng), rng))
    steps = [after.gaussian.kl(before.gaussian) for before, after in pairwise(states)]
    assert max(steps) <= 0.05 + 1e-9
    assert np.median(steps) > 0.049  # the whole trust region is used
    assert states[-1].iteration == 60


def test_a_competent_agent_is_led_to_the_target() -> None:
    rng = np.random.default_rng(3)
    curriculum = point_mass(max_kl=0.2)
    state = curriculum.init(rng)
    while state.iteration < 90:
        state = curriculum.update(state, feed(state, rng, value=50.0), rng)
    np.testing.assert_allclose(state.mean, [2.5, 0.5], atol=0.01)
    np.testing.assert_allclose(np.diag(state.chol), [4e-3, 3.75e-3], rtol=0.1)
    assert state.alpha > 0.99


def test_an_agent_without_return_is_not_led_anywhere() -> None:
    rng = np.random.default_rng(4)
    curriculum = point_mass(worst_return=-7.0)
    state = first = curriculum.init(rng)
    for _ in range(5):
        state = curriculum.update(state, feed(state, rng, value=-7.0), rng)
    assert (state.iteration, state.stage, state.failures) == (5, 0, 0)
    assert state.distribution is first.distribution


def test_the_std_keeps_its_bound_until_the_kl_threshold() -> None:
    rng = np.random.default_rng(5)
    curriculum = point_mass(max_kl=0.2)
    state = curriculum.init(rng)
    free = False
    for _ in range(90):
        free = free or state.gaussian.kl(curriculum.goal) <= 8000.0
        state = curriculum.update(state, feed(state, rng, value=50.0), rng)
        assert free or (np.diag(state.chol) >= np.array([0.2, 0.1875]) - 1e-9).all()
    assert free


def test_alpha_is_zero_before_its_offset_then_zeta_times_return_over_kl() -> None:
    rng = np.random.default_rng(6)
    curriculum = line(alpha_offset=1, zeta=1.5)
    state = curriculum.init(rng)
    assert curriculum.step(state.absorb(feed(state, rng))).pull == 0.0
    state = curriculum.update(state, feed(state, rng), rng)
    # the objective is divided by the mean value
    expected = 1.5 / state.gaussian.kl(curriculum.goal)
    assert curriculum.step(state.absorb(feed(state, rng))).pull == pytest.approx(expected)


def test_iterations_count_all_steps_and_learn_from_their_own_stage() -> None:
    rng = np.random.default_rng(7)
    curriculum = line(steps_per_iteration=100)
    state = curriculum.init(rng)
    early = gd.EpisodeBatch(np.full((4, 1), 3.0), np.ones(4), np.full(4, 24), [0, 0, -1, -1])
    state = curriculum.update(state, early, rng)
    assert (state.steps, len(state.pending), state.iteration) == (96, 2, 0)
    state = curriculum.update(state, early, rng)
    assert (state.steps, len(state.pending), state.iteration) == (92, 0, 1)


def test_a_failed_optimisation_keeps_the_distribution_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    curriculum = line()
    state = curriculum.init(rng)
    with monkeypatch.context() as patch:
        patch.setattr(Step, "slack", lambda self, x: np.nan)
        failed = curriculum.update(state, feed(state, rng), rng)
    assert (failed.failures, failed.iteration, failed.stage) == (1, 1, 0)
    assert failed.distribution is state.distribution
    after = curriculum.update(failed, feed(failed, rng), rng)
    assert (after.stage, after.event) == (1, "iteration 2, 1 failed")
    assert curriculum.snapshot(after)["failures"] == 1


def test_returns_as_large_as_they_may_be_do_not_end_the_run() -> None:
    rng = np.random.default_rng(9)
    curriculum = line()
    state = curriculum.init(rng)
    wild = gd.EpisodeBatch(
        np.array([[3.0], [9.0], [3.1]]), [1e149, 1e-300, 1e150], np.full(3, 50), np.zeros(3, dtype=int)
    )
    after = curriculum.update(state, wild, rng)
    assert after.iteration == 1
    assert np.isfinite(after.distribution.points).all()


@pytest.mark.parametrize("worst", [0.0, -1e150])
def test_returns_as_large_as_they_may_be_lead_where_small_ones_lead(worst: float) -> None:
    """Without a bound on alpha that looks at them (the offset), steps depend on the returns' proportions alone."""
    first = line().init(np.random.default_rng(9))
    episodes = feed(first, np.random.default_rng(10))

    def after(scale: float, worst: float) -> gd.State:
        huge = gd.EpisodeBatch(episodes.contexts, scale * episodes.returns + worst, episodes.lengths, episodes.stages)
        return line(alpha_offset=9, worst_return=worst).update(first, huge, np.random.default_rng(11))

    small, large = after(1.0, 0.0), after(1e148, worst)
    assert (small.stage, large.stage) == (1, 1)
    np.testing.assert_allclose(large.distribution.points, small.distribution.points, atol=1e-6)


def test_fitted_gaussians_are_announced() -> None:
    rng = np.random.default_rng(10)
    assert line().init(rng).event == "start, Gaussian fitted to source and target"
    assert point_mass().init(rng).event == "start"
    partly = line(source_moments=(np.array([3.0]), np.eye(1)))
    assert partly.init(rng).event == "start, Gaussian fitted to target"


def test_moments_win_over_particles() -> None:
    start = point_mass().init(np.random.default_rng(0))
    np.testing.assert_allclose(start.mean, [0.0, 4.25])
    np.testing.assert_allclose(start.chol, np.diag([2.0, 1.875]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"zeta": 0.0}, "expected zeta to be positive, got 0.0"),
        ({"max_kl": -1.0}, "expected max_kl to be positive, got -1.0"),
        ({"std_lower_bound": (0.1, 0.1)}, "expected std_lower_bound of shape (1,), got shape (2,)"),
        ({"std_lower_bound": (0.0,)}, "expected std_lower_bound to be positive, got (0.0,)"),
        (
            {"source_moments": (np.zeros(2), np.eye(2))},
            "expected the mean of source_moments of shape (1,), got shape (2,)",
        ),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(gd.GeodesicError) as caught:
        line(**options).init(np.random.default_rng(0))
    assert str(caught.value) == message


def test_idle_iterations_pass_without_a_step() -> None:
    rng = np.random.default_rng(6)
    curriculum = point_mass(idle=3)
    state = curriculum.init(rng)
    stages = []
    for _ in range(5):
        state = curriculum.update(state, feed(state, rng), rng)
        stages.append((state.iteration, state.stage, state.failures))
    assert stages == [(1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 1, 0), (5, 2, 0)]


def test_the_reverse_bound_holds_and_its_gradient_is_right() -> None:
    from geodesic.curricula.gaussians import Gaussian, flat_gradient, reverse_kl, unpack

    rng = np.random.default_rng(7)
    old, x = Gaussian(np.zeros(3), np.eye(3)), 0.3 * rng.standard_normal(9)
    u, a = unpack(x, 3)
    assert reverse_kl(u, a)[0] == pytest.approx(old.kl(old.moved(u, a)))
    slope = flat_gradient(*reverse_kl(u, a)[1:], a)
    steps = 1e-6 * np.eye(9)
    numeric = [(reverse_kl(*unpack(x + h, 3))[0] - reverse_kl(*unpack(x - h, 3))[0]) / 2e-6 for h in steps]
    np.testing.assert_allclose(slope, numeric, atol=1e-6)
    curriculum = point_mass(bound="old-new")
    before = curriculum.init(rng)
    after = curriculum.update(before, feed(before, rng), rng)
    assert 0.049 < before.gaussian.kl(after.gaussian) <= 0.05 + 1e-9
    with pytest.raises(gd.errors.InvalidInput, match="expected bound to be one of new-old, old-new; got 'both'"):
        point_mass(bound="both")
