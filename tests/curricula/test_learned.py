"""GRADIENT with a learned metric: phases, memory, resume, and the way around a wall."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from geodesic.curricula.base import Episodes
from geodesic.curricula.learned import MEMORY, LearnedGradient, LearnedState, thinned
from geodesic.distributions import ContextSpace, Particles
from geodesic.envs.u_maze import UMaze, nearest_free, path_length
from geodesic.errors import InvalidInput, UnknownName

ENV = UMaze()


def curriculum(**options: Any) -> LearnedGradient:
    rng = np.random.default_rng(0)
    stated = {"threshold": 0.5, "step": 0.25, "worst_return": -1.0, "space": ENV.context_space, "explore_steps": 2000}
    return LearnedGradient(ENV.source(rng), ENV.target(rng), **{**stated, **options})


def skilled(state: LearnedState, rng: np.random.Generator, n: int = 40) -> Episodes:
    """What an agent reports that reaches every goal it can along the shortest way, a little faster or slower."""
    goals = state.distribution.sample(rng, n)
    feasible = ENV.is_feasible(goals)
    ways = np.where(feasible, path_length(np.zeros_like(goals), nearest_free(goals)), 100.0)
    lengths = np.clip(np.ceil(ways * rng.uniform(1.0, 1.3, n)), 1, 100).astype(int)
    returns = np.where(feasible, 1 - 0.01 * (lengths - 1), -1.0)
    return Episodes(goals, returns, lengths, np.full(n, state.stage))


def drive(method: LearnedGradient, state: LearnedState, rng: np.random.Generator, updates: int) -> LearnedState:
    for _ in range(updates):
        state = method.update(state, skilled(state, rng), rng)
    return state


def same(method: LearnedGradient, a: LearnedState, b: LearnedState) -> bool:
    left, right = method.save(a), method.save(b)
    return left.keys() == right.keys() and all(left[key].tobytes() == right[key].tobytes() for key in left)


def test_stages_alternate_training_and_exploration() -> None:
    method, rng = curriculum(), np.random.default_rng(1)
    state = method.init(rng)
    assert state.distribution == method.source
    seen = [(state.stage, state.phase, state.alpha, state.event)]
    while not state.done:
        before = state.stage
        state = method.update(state, skilled(state, rng), rng)
        if state.stage != before:
            seen.append((state.stage, state.phase, state.alpha, state.event))
    assert [entry[0] for entry in seen] == list(range(9))
    assert [entry[1] for entry in seen] == ["train", "explore"] * 4 + ["train"]
    assert [entry[2] for entry in seen] == [0.0, 0.0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1.0]
    assert [entry[3] for entry in seen] == ["start"] + ["explore", "mastered"] * 4
    assert state.distribution == method.target
    assert method.update(state, skilled(state, rng), rng) is state


def test_exploration_lasts_its_steps_and_counts_its_own_episodes_only() -> None:
    method, rng = curriculum(explore_steps=1000), np.random.default_rng(1)
    state = drive(method, method.init(rng), rng, 1)
    assert state.phase == "explore"
    goals = np.zeros((10, 2))
    late = Episodes(goals, np.ones(10), np.full(10, 99), np.full(10, state.stage - 1))
    state = method.update(state, late, rng)
    assert (state.phase, state.steps) == ("explore", 0)
    state = method.update(state, Episodes(goals, np.ones(10), np.full(10, 99), np.full(10, state.stage)), rng)
    assert (state.phase, state.steps) == ("explore", 990)
    state = method.update(state, Episodes(goals[:1], [1.0], [10], [state.stage]), rng)
    assert (state.phase, state.moves, state.steps) == ("train", 1, 0)


def test_exploration_hands_out_the_whole_space() -> None:
    method, rng = curriculum(), np.random.default_rng(1)
    state = drive(method, method.init(rng), rng, 1)
    counts = np.histogram2d(*state.distribution.points.T, bins=4, range=[[-2, 10], [-2, 10]])[0]
    assert counts.min() > 30


def test_episodes_of_another_stage_do_not_master_this_one_but_are_remembered() -> None:
    method, rng = curriculum(), np.random.default_rng(1)
    state = method.init(rng)
    other = Episodes(np.zeros((50, 2)), np.ones(50), np.full(50, 5), np.full(50, 7))
    state = method.update(state, other, rng)
    assert (state.stage, state.steps, len(state.recent)) == (0, 0, 0)
    assert len(state.returns) == 50


def test_memory_is_bounded_and_keeps_the_latest() -> None:
    method, rng = curriculum(threshold=2.0), np.random.default_rng(1)
    state = drive(method, method.init(rng), rng, 9)
    last = skilled(state, rng)
    state = method.update(state, last, rng)
    assert state.contexts.shape == (MEMORY, 2)
    np.testing.assert_array_equal(state.contexts[-40:], last.contexts)
    np.testing.assert_array_equal(state.returns[-40:], last.returns)


def test_a_stage_ends_at_its_step_cap_and_says_so() -> None:
    method, rng = curriculum(threshold=2.0, max_stage_steps=100), np.random.default_rng(1)
    state = method.init(rng)
    while state.moves == 0:
        state = method.update(state, skilled(state, rng), rng)
    assert state.event == "step cap"


@pytest.mark.parametrize("learned", ["return-lift", "embedding"])
def test_resume_in_the_middle_of_an_exploration_gives_the_same_bytes(learned: str) -> None:
    method, rng = curriculum(learned=learned, explore_steps=4000), np.random.default_rng(1)
    state = drive(method, method.init(rng), rng, 2)
    assert state.phase == "explore"
    assert 0 < state.steps < 4000
    saved, generator = method.save(state), rng.bit_generator.state
    unbroken = drive(method, state, rng, 5)
    assert unbroken.moves == 1

    later = np.random.default_rng()
    later.bit_generator.state = generator
    resumed = method.load(saved)
    assert same(method, resumed, state)
    assert same(method, drive(method, resumed, later, 5), unbroken)


def test_update_leaves_its_inputs_alone_and_no_episodes_change_nothing() -> None:
    method, rng = curriculum(), np.random.default_rng(1)
    state = drive(method, method.init(rng), rng, 3)
    before = {key: value.copy() for key, value in method.save(state).items()}
    assert method.update(state, Episodes.empty(2), rng) is state
    drive(method, state, rng, 4)
    after = method.save(state)
    assert all(before[key].tobytes() == after[key].tobytes() for key in before)


def test_with_a_skilled_agent_return_lift_leads_around_the_wall() -> None:
    method, rng = curriculum(step=0.1), np.random.default_rng(1)
    state, shares, means = method.init(rng), [], []
    while not state.done:
        moves = state.moves
        state = method.update(state, skilled(state, rng), rng)
        if state.moves != moves:
            points = state.distribution.points
            assert len(points) == 100
            shares.append(ENV.is_feasible(points).mean())
            means.append(path_length(np.zeros_like(points), nearest_free(points)).mean())
    assert len(shares) == 10
    assert np.mean(shares) >= 0.97
    assert min(shares) >= 0.94
    assert (np.diff(means) > 0).all(), "every stage lies farther along the corridor than the one before"


def test_snapshot_pictures_the_last_refit() -> None:
    method, rng = curriculum(), np.random.default_rng(1)
    state = method.init(rng)
    assert method.snapshot(state) == {}
    while state.moves == 0:
        state = method.update(state, skilled(state, rng), rng)
    picture = method.snapshot(state)
    assert picture["heat"].shape == (40, 40)
    assert picture["potential"].shape == (11, 100, 2)
    assert float(picture["length"]) > 0
    column, row = np.abs(picture["heat_x"] - 0.0).argmin(), np.abs(picture["heat_y"] - 4.0).argmin()
    start = np.abs(picture["heat_y"] - 0.0).argmin()
    assert picture["heat"][start, column] > 0.5 > picture["heat"][row, column]
    np.testing.assert_array_equal(np.sort(picture["potential"][0], axis=0), np.sort(method.source.points, axis=0))


def test_ends_are_known_and_what_lies_between_is_not() -> None:
    method = curriculum()
    assert method.distribution(0.0) == method.source
    assert method.distribution(1.0) == method.target
    with pytest.raises(
        InvalidInput, match="expected alpha 0 or 1 for a metric that is learned while training, got 0.5"
    ):
        method.distribution(0.5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"learned": "l2"}, UnknownName, "expected learned metric to be one of embedding, return-lift; got 'l2'"),
        ({"threshold": -1.0}, InvalidInput, "expected a threshold above the worst return -1.0, got -1.0"),
        ({"explore_steps": 0}, InvalidInput, "expected explore_steps to be a positive integer, got 0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        curriculum(**options)
    assert str(caught.value) == message


def test_works_in_one_dimension() -> None:
    line, rng = ContextSpace([0.0], [1.0]), np.random.default_rng(0)
    ends = [Particles.uniform([low], [low + 0.1], 20, rng) for low in (0.0, 0.9)]
    method = LearnedGradient(*ends, step=0.5, threshold=0.5, space=line, worst_return=0.0, explore_steps=50)
    state = method.init(rng)
    while not state.done:
        contexts = state.distribution.sample(rng, 30)
        state = method.update(state, Episodes(contexts, np.ones(30), np.ones(30), np.full(30, state.stage)), rng)
    assert state.distribution == method.target


def test_thinning_keeps_shares_up_to_one_particle() -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(300))
    many = Particles(np.arange(300.0)[:, None], weights)
    few = thinned(many, 100, rng)
    counts = np.bincount(few.points[:, 0].astype(int), minlength=300)
    assert len(few) == 100
    assert (np.abs(counts - 100 * weights) <= 1).all()
