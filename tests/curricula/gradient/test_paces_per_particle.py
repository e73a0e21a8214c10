"""The per-particle pace: each particle along its own path, as far as the agent is good enough there."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geodesic as gd
from geodesic.contexts import ContextSpace
from geodesic.curricula import PerParticlePace
from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean, Graph, Matrix, ReturnLift

SPACE = ContextSpace([0.0, 0.0], [6.0, 4.0])
CELLS = np.stack(np.meshgrid(np.arange(7.0), np.arange(5.0)), axis=-1).reshape(-1, 2)
STEPS = np.abs(CELLS[:, None] - CELLS).sum(axis=2)
METRICS = {
    "euclidean": Euclidean(),
    "scaled": Euclidean([6.0, 4.0]),
    "graph": Graph(CELLS, np.argwhere(np.triu(STEPS == 1))),
    "matrix": Matrix(STEPS, CELLS),
}


@dataclass(frozen=True)
class Neighbours:
    """A metric that is fitted at once."""

    space: ContextSpace = SPACE
    memory: int = 60

    def fit(self, episodes, rng, anchors=None):
        return Graph.knn(np.unique(np.concatenate([episodes.contexts, anchors]), axis=0), 6)


def ends(name, rng):
    """Left and right parts of the space: clouds, or masses on the cells."""
    if name in ("graph", "matrix"):
        left, right = CELLS[:, 0] <= 1, CELLS[:, 0] >= 5
        return tuple(gd.Particles.categorical(side * rng.random(35), CELLS) for side in (left, right))
    return gd.Particles.uniform([0, 0], [1, 4], 12, rng), gd.Particles.uniform([5, 0], [6, 4], 9, rng)


def gradient(name, rng, **options):
    metric = options.pop("metric", None) or (Neighbours() if name == "learned" else METRICS[name])
    pace = PerParticlePace(**{"window": 10, **options})
    return gd.Gradient(*ends(name, rng), metric, pace, threshold=5.0, space=SPACE, explore_steps=10)


def episodes(state, rng, score, n=40):
    contexts = np.concatenate([state.distribution.sample(rng, n), SPACE.draw(n, rng)])
    return gd.EpisodeBatch(contexts, score(contexts), np.full(2 * n, 10), np.full(2 * n, state.stage))


def walk(curriculum, rng, score, updates=14):
    states = [curriculum.init(rng)]
    for _ in range(updates):
        states.append(curriculum.update(states[-1], episodes(states[-1], rng, score), rng))
    return states


@pytest.fixture(params=[*METRICS, "learned"])
def name(request):
    return request.param


def test_where_everything_is_mastered_all_particles_end_at_the_target_itself(name):
    rng = np.random.default_rng(0)
    curriculum = gradient(name, rng)
    states = walk(curriculum, rng, lambda c: np.full(len(c), 5.0), 30)
    assert states[-1].alpha == 1.0
    assert states[-1].distribution is curriculum.target
    assert (states[-1].progress == 1.0).all()
    assert max(np.diff([state.position for state in states])) <= 0.1 + 1e-9


def test_where_nothing_is_mastered_no_particle_moves(name):
    rng = np.random.default_rng(0)
    curriculum = gradient(name, rng)
    for state in walk(curriculum, rng, lambda c: np.full(len(c), 4.9), 6):
        assert (state.alpha, state.stage) == (0.0, 0)
        assert state.distribution is curriculum.source


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(sorted(METRICS)),
    seed=st.integers(0, 2**16),
    step=st.sampled_from([0.05, 0.1, 0.3, 1.0]),
    updates=st.integers(1, 6),
)
def test_after_an_update_no_particle_that_could_go_back_is_below_the_threshold(name, seed, step, updates):
    """The agent learns and forgets: a new random competence at each update."""
    rng = np.random.default_rng(seed)
    curriculum = gradient(name, rng, stride=step)
    state = curriculum.init(rng)
    for _ in range(updates):
        slope, offset = rng.normal(size=2), rng.normal(4.0, 3.0)
        given = episodes(state, rng, lambda c, s=slope, o=offset: o + c @ s + rng.normal(size=len(c)))
        state = curriculum.update(state, given, rng)
        value = curriculum.bound_pace(state).values(state.seen)
        trajectories = curriculum.trajectories
        progress = state.progress if state.progress.size else np.zeros(len(trajectories))
        knots = np.rint(progress * trajectories.knots).astype(int)
        low = trajectories.values(value, knots[:, None], np.arange(len(trajectories)))[:, 0] < 0.0
        assert (progress[low] == 0.0).all()
        if not low.any() and 0.0 < state.alpha < 1.0:
            assert value(state.distribution.positive().points).min() >= -1e-12


def test_particles_stop_where_the_agent_fails_and_the_others_go_on():
    rng = np.random.default_rng(1)
    curriculum = gradient("euclidean", rng, bandwidth=0.01)
    last = walk(curriculum, rng, lambda c: np.where((c[:, 1] > 2.0) | (c[:, 0] < 3.0), 9.0, 0.0), 40)[-1]
    points = last.distribution.points
    assert ((points[:, 1] > 1.8) | (points[:, 0] < 3.5)).all()
    assert (last.progress == 1.0).any()
    assert (last.progress < 0.6).any()
    assert 0.0 < last.alpha < 1.0


def test_particles_go_back_to_the_nearest_place_that_is_good_enough():
    rng = np.random.default_rng(2)
    curriculum = gradient("euclidean", rng, bandwidth=0.01, memory=400)
    there = walk(curriculum, rng, lambda c: np.full(len(c), 9.0), 14)[-1]
    assert there.alpha == 1.0
    after = curriculum.update(there, episodes(there, rng, lambda c: np.where(c[:, 0] < 4.0, 9.0, 0.0), 300), rng)
    assert after.event.endswith("atoms back")
    assert 3.0 < after.distribution.points[:, 0].mean() < 4.2


def test_under_a_learned_metric_each_particle_moves_and_goes_back_individually():
    rng = np.random.default_rng(3)
    curriculum = gradient("learned", rng, bandwidth=0.01)
    states = walk(curriculum, rng, lambda c: np.where((c[:, 1] > 2.0) | (c[:, 0] < 3.0), 9.0, 0.0), 40)
    trained = [state for state in states if state.kind == "train" and state.progress.size]
    assert all(len(state.progress) == len(state.distribution) for state in trained)
    last = trained[-1]
    assert (last.progress == 1.0).any()
    assert (last.progress < 0.8).any()
    forgotten = last
    for _ in range(6):
        forgotten = curriculum.update(forgotten, episodes(forgotten, rng, lambda c: np.zeros(len(c)), 100), rng)
    assert forgotten.alpha == 0.0
    assert forgotten.distribution is curriculum.source


def test_it_works_under_a_return_lift():
    rng = np.random.default_rng(4)
    learned = ReturnLift(SPACE, 0.0, 5.0)
    curriculum = gradient("euclidean", rng, metric=learned, stride=0.5)
    states = walk(curriculum, rng, lambda c: np.full(len(c), 9.0), 8)
    assert states[-1].distribution is curriculum.target
    assert {state.kind for state in states} == {"train", "explore"}
    assert {"progress", "mass", "heat"} <= set(curriculum.snapshot(states[-1]))


def test_a_snapshot_has_the_progress_and_the_mass_of_each_atom(name):
    rng = np.random.default_rng(5)
    curriculum = gradient(name, rng)
    for state in walk(curriculum, rng, lambda c: 9.0 - c[:, 0], 10):
        arrays = curriculum.snapshot(state)
        if state.stage == 0:
            assert "progress" not in arrays
            continue
        if state.progress.size:
            assert arrays["progress"].shape == arrays["mass"].shape
            mean = arrays["mass"] @ arrays["progress"] / arrays["mass"].sum()
            assert state.position == pytest.approx(mean, abs=0.02)


@pytest.mark.parametrize("progress", [np.zeros(3), np.full(20, 1.5), np.full(20, np.nan)])
def test_the_state_of_another_curriculum_is_refused(progress):
    rng = np.random.default_rng(5)
    curriculum = gradient("euclidean", rng)
    state = curriculum.init(rng).replace(progress=progress)
    with pytest.raises(InvalidInput, match=f"expected the progress of {len(curriculum.trajectories)} particles in "):
        curriculum.update(state, episodes(state, rng, lambda c: np.full(len(c), 9.0)), rng)


def test_four_knots_make_a_stride():
    assert PerParticlePace(0.2).path_knots == 20
    assert PerParticlePace(0.3).path_knots == 14
