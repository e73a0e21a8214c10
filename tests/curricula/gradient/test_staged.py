"""Algorithm 1: when a stage is mastered, which episodes count, and which arguments are refused."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import FixedStep, Linear, Pace, TargetOnly, Uniform, build
from geodesic.errors import InvalidInput, UnknownName

SOURCE, TARGET = gd.Particles([[0.0], [1.0]]), gd.Particles([[4.0], [5.0]])
RNG = np.random.default_rng(0)


def episodes(returns, stage, lengths=None):
    n = len(returns)
    return gd.EpisodeBatch(np.zeros((n, 1)), returns, [10] * n if lengths is None else lengths, [stage] * n)


def gradient(**options):
    return gd.Gradient(SOURCE, TARGET, pace=FixedStep(**{"step": 0.25, "window": 3, **options}), threshold=1.0)


def test_a_stage_is_mastered_by_the_mean_of_its_last_window_of_episodes():
    curriculum = gradient()
    state = curriculum.init(RNG)
    assert (state.stage, state.alpha, state.done, state.distribution) == (0, 0.0, False, SOURCE)
    state = curriculum.update(state, episodes([0.0, 2.0], 0), RNG)
    assert state.stage == 0  # two of three episodes
    state = curriculum.update(state, episodes([1.0], 0), RNG)
    assert state.stage == 0  # mean 1 does not exceed 1
    state = curriculum.update(state, episodes([1.1], 0), RNG)
    assert (state.stage, state.alpha, state.event) == (1, 0.25, "mastered")  # 2, 1, 1.1
    np.testing.assert_allclose(state.distribution.points, [[1.0], [2.0]])


def test_episodes_of_an_earlier_stage_do_not_count():
    curriculum = gradient()
    state = curriculum.update(curriculum.init(RNG), episodes([9.0] * 3, 0), RNG)
    after = curriculum.update(state, episodes([9.0] * 50, 0), RNG)
    assert after.distribution is state.distribution
    assert (after.stage, after.steps, len(after.recent)) == (1, 0, 0)
    assert curriculum.update(state, episodes([9.0] * 3, 1), RNG).stage == 2


def test_the_last_stage_is_the_target_and_final():
    curriculum = gradient(step=0.4)
    state = curriculum.init(RNG)
    alphas = []
    while not state.done:
        state = curriculum.update(state, episodes([9.0] * 3, state.stage), RNG)
        alphas.append(state.alpha)
    assert alphas == [0.4, 0.8, 1.0]
    assert state.distribution is TARGET
    assert curriculum.update(state, episodes([9.0] * 3, state.stage), RNG) is state


def test_a_stage_that_is_not_mastered_ends_at_its_step_cap():
    curriculum = gradient(max_stage_steps=100)
    state = curriculum.update(curriculum.init(RNG), episodes([0.0] * 9, 0), RNG)
    assert state.stage == 0
    state = curriculum.update(state, episodes([0.0], 0), RNG)
    assert (state.stage, state.event) == (1, "step cap")


def test_a_stage_knows_how_far_it_moved_and_how_far_the_target_is():
    curriculum = gradient()
    state = curriculum.init(RNG)
    assert curriculum.scalars(state) == {"hop": 0.0, "distance to target": pytest.approx(4 / 5)}
    state = curriculum.update(state, episodes([9.0] * 3, 0), RNG)
    known = {"hop": pytest.approx(1 / 5), "distance to target": pytest.approx(3 / 5)}  # of a box around both ends
    assert curriculum.scalars(state) == known
    assert curriculum.scalars(curriculum.load(curriculum.save(state))) == known
    waiting = curriculum.update(state, episodes([0.0], 1), RNG)
    assert curriculum.scalars(waiting) == known


def test_linear_is_the_mixture():
    mixed = Linear(SOURCE, TARGET).path(0.25)
    assert mixed.mean() == pytest.approx(0.75 * 0.5 + 0.25 * 4.5)
    assert mixed.merged().points.ravel().tolist() == [0.0, 1.0, 4.0, 5.0]
    assert Linear(SOURCE, TARGET).path(0.0) is SOURCE
    assert Linear(SOURCE, TARGET).path(1.0) is TARGET


def test_fixed_curricula_never_change():
    cells = gd.ContextSpace.discrete([[0.0], [1.0], [2.0]])
    for curriculum in (TargetOnly(TARGET), Uniform(cells, particles=2)):
        state = curriculum.init(np.random.default_rng(3))
        assert state.done
        assert curriculum.update(state, episodes([9.0] * 50, 0), RNG) is state
    assert len(state.distribution) == 3


def test_samples_of_the_whole_space_are_drawn_afresh_after_as_many_episodes():
    uniform, rng = Uniform(gd.ContextSpace([0.0], [5.0]), particles=400), np.random.default_rng(3)
    state = uniform.init(rng)
    first = state.distribution
    state = uniform.update(state, episodes([9.0] * 399, 0), rng)
    assert (state.stage, state.fresh, state.distribution is first) == (0, 399, True)
    state = uniform.update(state, episodes([9.0], 0), rng)
    assert (state.stage, state.fresh, state.event, state.done) == (1, 0, "drawn afresh", False)
    assert not np.isin(state.distribution.points, first.points).any()
    for drawn in (first, state.distribution):
        assert abs(drawn.mean()[0] - 2.5) < 0.25
        assert drawn.cov()[0, 0] == pytest.approx(25 / 12, rel=0.15)


def test_source_and_target_of_two_dimensions_are_refused():
    with pytest.raises(InvalidInput, match="expected source and target of one dimension, got 1 and 2"):
        gd.Gradient(SOURCE, gd.Particles([[0.0, 0.0]]))
    with pytest.raises(InvalidInput, match="expected target to be Particles, got list"):
        Linear(SOURCE, [[0.0]])


def test_build_fills_in_the_problem_and_refuses_unknown_names():
    problem = gd.Problem(SOURCE, TARGET, gd.ContextSpace([0.0], [5.0]), threshold=3.0)
    assert build("gradient", problem, step=0.5).threshold == 3.0
    with pytest.raises(UnknownName, match="expected method to be one of auto, gradient, .*; got 'nonsense'"):
        build("nonsense", problem)
    with pytest.raises(InvalidInput, match="expected an option of Gradient .*, got 'stepp'"):
        build("gradient", problem, stepp=0.5)
    with pytest.raises(InvalidInput, match=r"expected target inside low \[0.0\], high \[2.0\], got \[4.0\]"):
        gd.Problem(SOURCE, TARGET, gd.ContextSpace([0.0], [2.0]), threshold=3.0)


def test_as_many_episodes_are_kept_as_the_pace_needs():
    plain, curious = gradient(), gd.Gradient(SOURCE, TARGET, pace=Remembering())
    for curriculum, kept in ((plain, 0), (curious, 4)):
        state = curriculum.init(RNG)
        for k in range(3):
            state = curriculum.update(state, episodes([float(k), k + 0.5], -1), RNG)
        assert len(state.seen) == kept
        assert state.recent.size == 0
    assert state.seen.returns.tolist() == [1.0, 1.5, 2.0, 2.5]


class Remembering(Pace):
    window, memory = 3, 4

    def stage_status(self, state):
        return ""

    def next_alpha(self, state, path):
        raise AssertionError("not called: no stage is over")
