"""GRADIENT: the geodesic under a known metric; stages, memory, resume and the way around a wall under a learned one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from geodesic.contexts import ContextSpace, EpisodeBatch, Particles
from geodesic.curricula import AdaptivePace, FixedStep, Gradient, Pace, PerParticlePace
from geodesic.curricula.gradient.staged import StagedState
from geodesic.envs.u_maze import UMaze, nearest_free, path_length
from geodesic.errors import InvalidInput
from geodesic.metrics import Embedding, Euclidean, Graph, LearnedMetric, Matrix, ReturnLift
from geodesic.transport import barycenter

ENV = UMaze()


LIFT = ReturnLift(ENV.context_space, worst_return=-1.0, threshold=0.5)


def curriculum(**options: Any) -> Gradient:
    rng = np.random.default_rng(0)
    pace = FixedStep(options.pop("step", 0.25), max_stage_steps=options.pop("max_stage_steps", None))
    given = {"threshold": 0.5, "pace": pace, "metric": LIFT, "explore_steps": 2000}
    return Gradient(ENV.source(rng), ENV.target(rng), **{**given, **options})


def skilled(state: StagedState, rng: np.random.Generator, n: int = 40) -> EpisodeBatch:
    """Episodes of an agent that reaches every feasible goal on a path a little longer than the shortest."""
    goals = state.distribution.sample(rng, n)
    feasible = ENV.is_feasible(goals)
    ways = np.where(feasible, path_length(np.zeros_like(goals), nearest_free(goals)), 100.0)
    lengths = np.clip(np.ceil(ways * rng.uniform(1.0, 1.3, n)), 1, 100).astype(int)
    returns = np.where(feasible, 1 - 0.01 * (lengths - 1), -1.0)
    return EpisodeBatch(goals, returns, lengths, np.full(n, state.stage))


def drive(method: Gradient, state: StagedState, rng: np.random.Generator, updates: int) -> StagedState:
    for _ in range(updates):
        state = method.update(state, skilled(state, rng), rng)
    return state


def same(method: Gradient, a: StagedState, b: StagedState) -> bool:
    left, right = method.save(a), method.save(b)
    return left.keys() == right.keys() and all(left[key].tobytes() == right[key].tobytes() for key in left)


def test_stages_alternate_training_and_exploration() -> None:
    method, rng = curriculum(), np.random.default_rng(1)
    state = method.init(rng)
    assert state.distribution is method.source
    seen = [(state.stage, state.kind, state.position, state.event)]
    while not state.done:
        before = state.stage
        state = method.update(state, skilled(state, rng), rng)
        if state.stage != before:
            seen.append((state.stage, state.kind, state.position, state.event))
    assert [entry[0] for entry in seen] == list(range(9))
    assert [entry[1] for entry in seen] == ["train", "explore"] * 4 + ["train"]
    assert [entry[2] for entry in seen] == [0.0, 0.0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1.0]
    assert [entry[3] for entry in seen] == ["start"] + ["mastered"] * 8
    assert state.distribution is method.target
    assert method.update(state, skilled(state, rng), rng) is state


def test_exploration_lasts_its_steps_and_counts_its_own_episodes_only() -> None:
    method, rng = curriculum(explore_steps=1000), np.random.default_rng(1)
    state = drive(method, method.init(rng), rng, 1)
    assert state.kind == "explore"
    goals = np.zeros((10, 2))
    late = EpisodeBatch(goals, np.ones(10), np.full(10, 99), np.full(10, state.stage - 1))
    state = method.update(state, late, rng)
    assert (state.kind, state.steps) == ("explore", 0)
    state = method.update(state, EpisodeBatch(goals, np.ones(10), np.full(10, 99), np.full(10, state.stage)), rng)
    assert (state.kind, state.steps) == ("explore", 990)
    state = method.update(state, EpisodeBatch(goals[:1], [1.0], [10], [state.stage]), rng)
    assert (state.kind, state.moves, state.steps) == ("train", 1, 0)


def test_exploration_hands_out_the_whole_space() -> None:
    method, rng = curriculum(), np.random.default_rng(1)
    state = drive(method, method.init(rng), rng, 1)
    counts = np.histogram2d(*state.distribution.points.T, bins=4, range=[[-2, 10], [-2, 10]])[0]
    assert counts.min() > 30


def test_episodes_of_another_stage_do_not_master_this_one_but_are_remembered() -> None:
    method, rng = curriculum(), np.random.default_rng(1)
    state = method.init(rng)
    other = EpisodeBatch(np.zeros((50, 2)), np.ones(50), np.full(50, 5), np.full(50, 7))
    state = method.update(state, other, rng)
    assert (state.stage, state.steps, len(state.recent)) == (0, 0, 0)
    assert len(state.seen) == 50


def test_memory_is_bounded_and_keeps_the_latest() -> None:
    method, rng = curriculum(threshold=2.0), np.random.default_rng(1)
    state = drive(method, method.init(rng), rng, 9)
    last = skilled(state, rng)
    state = method.update(state, last, rng)
    assert state.seen.contexts.shape == (LIFT.memory, 2) == (200, 2)
    np.testing.assert_array_equal(state.seen.contexts[-40:], last.contexts)
    np.testing.assert_array_equal(state.seen.returns[-40:], last.returns)


def test_a_stage_ends_at_its_step_cap() -> None:
    method, rng = curriculum(threshold=2.0, max_stage_steps=100), np.random.default_rng(1)
    state = method.init(rng)
    seen = []
    while state.moves == 0:
        state = method.update(state, skilled(state, rng), rng)
        seen.append((state.kind, state.event))
    assert list(dict.fromkeys(seen)) == [("train", "start"), ("explore", "step cap"), ("train", "step cap")]


@pytest.mark.parametrize(
    "learned",
    [
        pytest.param(LIFT, id="return-lift"),
        pytest.param(Embedding(ENV.context_space, -1.0), id="embedding", marks=pytest.mark.slow),
    ],
)
def test_resume_in_the_middle_of_an_exploration_gives_the_same_bytes(learned: LearnedMetric) -> None:
    method, rng = curriculum(metric=learned, explore_steps=4000), np.random.default_rng(1)
    state = drive(method, method.init(rng), rng, 2)
    assert state.kind == "explore"
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
    assert method.update(state, EpisodeBatch.empty(2), rng) is state
    drive(method, state, rng, 4)
    after = method.save(state)
    assert all(before[key].tobytes() == after[key].tobytes() for key in before)


def test_with_a_skilled_agent_return_lift_leads_around_the_wall() -> None:
    method, rng = curriculum(step=0.1), np.random.default_rng(1)
    state, fractions, means = method.init(rng), [], []
    while not state.done:
        moves = state.moves
        state = method.update(state, skilled(state, rng), rng)
        if state.moves != moves:
            points = state.distribution.points
            assert len(points) == 100
            fractions.append(ENV.is_feasible(points).mean())
            means.append(path_length(np.zeros_like(points), nearest_free(points)).mean())
    assert len(fractions) == 10
    assert np.mean(fractions) >= 0.97
    assert min(fractions) >= 0.94
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


def test_there_is_no_path_before_the_metric_is_fitted() -> None:
    method = curriculum()
    for path in (lambda: method.geodesic, lambda: method.path(0.5)):
        with pytest.raises(InvalidInput) as caught:
            path()
        message = "expected a metric that is known before training, got one that is fitted to episodes"
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "l2"}, "expected metric to be a Metric or a LearnedMetric, got 'l2'"),
        ({"explore_steps": 0}, "expected explore_steps to be a positive integer, got 0"),
        ({"step": 2.0}, "expected step in (0, 1], got 2.0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        curriculum(**options)
    assert str(caught.value) == message


CELLS = np.array([[0.0], [1.0], [2.0]])
ON_CELLS = [Particles.categorical(weights, CELLS) for weights in ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0])]


@pytest.mark.parametrize("space", [None, ContextSpace.discrete(CELLS)])
def test_discrete_contexts_without_a_metric_are_refused(space: ContextSpace | None) -> None:
    with pytest.raises(InvalidInput) as caught:
        Gradient(*ON_CELLS, space=space)
    assert str(caught.value) == (
        "expected a metric between discrete contexts, got none: straight lines leave the support; "
        "try metric=geodesic.metrics.Graph(...) or Matrix(...)"
    )


def test_continuous_contexts_that_look_discrete_are_accepted() -> None:
    """A box is continuous; a target that equals the source needs no path."""
    assert Gradient(*ON_CELLS, space=ContextSpace([0.0], [2.0])).path(0.5).mean() == pytest.approx(1.0)
    assert Gradient(ON_CELLS[0], ON_CELLS[0]).path(0.5).mean() == pytest.approx(0.0)


def test_under_a_known_metric_the_path_is_its_geodesic() -> None:
    line = Graph(CELLS, [[0, 1], [1, 2]])
    for metric in (line, Matrix(line.distances, CELLS)):
        method = Gradient(*ON_CELLS, metric=metric)
        assert method.path(0.25) == method.geodesic(0.25)
        np.testing.assert_allclose(method.path(0.25).weights, [0.5, 0.5, 0.0], atol=1e-12)
    source, target = Particles([[0.0, 0.0]]), Particles([[4.0, 2.0]])
    for metric in (None, Euclidean([1.0, 10.0])):
        np.testing.assert_allclose(Gradient(source, target, metric=metric).path(0.25).points, [[1.0, 0.5]])


LINE = ContextSpace([0.0], [1.0])


@pytest.mark.parametrize("learned", [ReturnLift(LINE, 0.0, 0.5), Embedding(LINE, 0.0, contexts=40, epochs=5)])
def test_works_in_one_dimension(learned: LearnedMetric) -> None:
    """The snapshot has the stress of an embedding; a graph has none."""
    rng = np.random.default_rng(0)
    ends = [Particles.uniform([low], [low + 0.1], 20, rng) for low in (0.0, 0.9)]
    method = Gradient(*ends, learned, FixedStep(0.5), threshold=0.5, explore_steps=50)
    state = method.init(rng)
    while not state.done:
        contexts = state.distribution.sample(rng, 30)
        state = method.update(state, EpisodeBatch(contexts, np.ones(30), np.ones(30), np.full(30, state.stage)), rng)
    assert state.distribution is method.target
    picture = method.snapshot(state)
    assert picture["heat"].shape == (40, 40)
    assert ("stress" in picture) == isinstance(learned, Embedding)
    assert picture.get("stress", np.asarray(0.0)).shape == ()


def test_the_sinkhorn_path_is_algorithm_2_with_exact_ends() -> None:
    line = Graph(np.arange(9.0)[:, None], [[k, k + 1] for k in range(8)])
    ends = [Particles.categorical(np.eye(9)[k], line.support) for k in (0, 8)]
    method = Gradient(*ends, metric=line, pace=FixedStep(0.25, window=1), threshold=0.0, barycenter="sinkhorn")
    assert (method.path(0.0), method.path(1.0)) == tuple(ends)
    middle = method.path(0.5)
    assert middle == barycenter(*ends, 0.5, line, "sinkhorn")
    assert middle.weights.argmax() == 4
    state, rng = method.init(np.random.default_rng(0)), np.random.default_rng(0)
    for stage in range(4):
        state = method.update(state, EpisodeBatch([[0.0]], [1.0], [1], [stage]), rng)
    assert state.done
    assert state.distribution == ends[1]


@pytest.mark.parametrize(
    "options",
    [
        {"metric": Euclidean()},
        {"metric": LIFT},
        {"metric": Matrix([[0, 1], [1, 0]], [[0.0, 0.0], [1.0, 1.0]]), "pace": PerParticlePace()},
    ],
)
def test_the_sinkhorn_path_needs_a_known_metric_on_discrete_contexts(options) -> None:
    ends = Particles([[0.0, 0.0]]), Particles([[1.0, 1.0]])
    with pytest.raises(InvalidInput, match='expected barycenter="sinkhorn" with a metric on discrete contexts'):
        Gradient(*ends, **options, barycenter="sinkhorn")


SQUARE = ContextSpace([0.0, 0.0], [10.0, 10.0])


class Collapsed(Euclidean):
    """Paths that stay near their start and jump to the end."""

    def interpolate(self, x: np.ndarray, y: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
        return super().interpolate(x, y, 0.02 * t if t < 1.0 else 1.0)


class Around(Euclidean):
    """Along the second axis, then along the first one, at constant speed."""

    def interpolate(self, x: np.ndarray, y: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
        sides = np.abs(y - x)
        covered = np.minimum(t * sides.sum(axis=1), sides[:, 1])
        along = np.stack([t * sides.sum(axis=1) - covered, covered], axis=1)
        return (x + np.sign(y - x) * along)[:, None], np.ones((len(x), 1))


class Refitted:
    """The same metric at every fit."""

    space, memory = SQUARE, 10

    def __init__(self, metric: Euclidean) -> None:
        self.metric = metric

    def fit(self, episodes: EpisodeBatch, rng: np.random.Generator, anchors: Any = None) -> Euclidean:
        return self.metric


@pytest.mark.parametrize("pace", [FixedStep(0.1), AdaptivePace(stride=0.1), PerParticlePace(stride=0.1)])
def test_under_a_learned_metric_alpha_is_progress_that_was_made(pace: Pace) -> None:
    def walk(metric: Euclidean) -> list[StagedState]:
        rng = np.random.default_rng(0)
        source, target = (Particles.uniform([x, x], [x + 1, x + 1], 10, rng) for x in (0.0, 9.0))
        method = Gradient(source, target, Refitted(metric), pace, threshold=0.5, explore_steps=10)
        states = [method.init(rng)]
        while states[-1].alpha < 1.0:
            contexts = states[-1].distribution.sample(rng, 20)
            done = EpisodeBatch(contexts, np.ones(20), np.full(20, 10), np.full(20, states[-1].stage))
            states.append(method.update(states[-1], done, rng))
        assert (states[-1].position, states[-1].distance) == (1.0, 0.0)
        return states

    stuck = walk(Collapsed())
    assert max(state.position for state in stuck[:-1]) > 0.85
    assert max(state.alpha for state in stuck[:-1]) < 0.06
    assert max(state.hop for state in stuck[:-1]) < 0.02
    assert [state.jumped for state in stuck] == [False] * (len(stuck) - 1) + [True]
    assert stuck[-1].hop > 0.8
    around = walk(Around())
    assert not any(state.jumped for state in around)
    assert max(state.hop for state in around) < 0.2
    assert max(abs(state.alpha - state.position) for state in around) < 0.06
