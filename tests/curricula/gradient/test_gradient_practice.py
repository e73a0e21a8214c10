"""GRADIENT under the metric from practice: it finds a door, in small steps, and resumes exactly."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import AdaptivePace, PerParticlePace
from geodesic.curricula.gradient.gradient import WAYPOINTS
from geodesic.curricula.gradient.staged import PathSegment
from geodesic.envs.plane import path_length_around
from geodesic.metrics import Euclidean, Practice

SPACE = gd.ContextSpace([-5.0, -5.0], [5.0, 5.0])
START = np.array([-4.0, -4.0])
EDGE = 0.3  # half the thickness of the wall at x = 0


class Frontier:
    """An agent that reaches every goal up to some way from the start, around the wall, and a little beyond.

    Successes near the end of what it reaches extend it. Goals in the wall count where they are within 0.4 of a face.
    """

    def __init__(self, door: float, rng: np.random.Generator) -> None:
        self.box = np.array([-EDGE, -np.inf]), np.array([EDGE, door])
        self.corners = np.array([[-EDGE, door], [EDGE, door]])
        self.rng, self.reach = rng, 1.5

    def ways(self, goals):
        found = []
        for side in (-1, 1):
            free = np.stack([side * np.maximum(side * goals[:, 0], EDGE), goals[:, 1]], axis=1)
            gaps = np.abs(free - goals).sum(axis=1)
            far = path_length_around(np.tile(START, (len(goals), 1)), free, *self.box, self.corners)
            inside = (np.abs(goals[:, 0]) < EDGE) & (goals[:, 1] < self.box[1][1])
            usable = np.where(inside, gaps <= 0.4, gaps == 0)
            found.append(np.where(usable, far, np.inf))
        above = (np.abs(goals[:, 0]) < EDGE) & (goals[:, 1] >= self.box[1][1])
        direct = path_length_around(np.tile(START, (len(goals), 1)), goals, *self.box, self.corners)
        return np.where(above, direct, np.min(found, axis=0))

    def chances(self, goals):
        beyond = np.maximum(self.ways(goals) - self.reach, 0.0)
        return np.exp(-((beyond / 0.7) ** 2))

    def play(self, goals):
        won = self.rng.random(len(goals)) < self.chances(goals)
        self.reach += 0.03 * (won & (self.ways(goals) > self.reach - 0.5)).sum()
        return won.astype(float)


def train(metric, door, episodes, seed=0, resume_at=None):
    """The states of a curriculum while such an agent trains in a room."""
    rng = np.random.default_rng(seed)
    source = gd.Particles.uniform([-4.5, -4.5], [-3.0, -3.0], 30, rng)
    target = gd.Particles.uniform([2.0, -4.5], [4.5, -2.0], 30, rng)
    curriculum = gd.Gradient(source, target, metric, PerParticlePace(), 0.6, space=SPACE, score="success")
    agent, states = Frontier(door, rng), [curriculum.init(rng)]
    for k in range(episodes // 50):
        state = states[-1]
        if k == resume_at:
            state = curriculum.load(curriculum.save(state))
        goals = state.distribution.sample(rng, 50)
        won = agent.play(goals)
        lengths, stages = np.where(won > 0, 30, 80), np.full(50, state.stage)
        states.append(curriculum.update(state, gd.EpisodeBatch(goals, won, lengths, stages, successes=won), rng))
    return states, agent.chances(target.points).mean(), curriculum


def practice():
    return Practice(SPACE, 0.5, score="success")


def test_it_finds_the_door_in_small_steps_where_straight_lines_do_not():
    states, success, _ = train(practice(), 3.5, 6_000)
    assert success > 0.9
    assert max(state.alpha for state in states) == 1.0
    assert max(state.hop for state in states) < 0.2
    assert not any(state.jumped for state in states)
    assert {state.kind for state in states} == {"train"}
    assert any("ways planned again" in state.event for state in states)
    _, straight, _ = train(Euclidean(), 3.5, 6_000)
    assert straight < 0.1


def test_without_a_way_alpha_does_not_arrive_and_nothing_hangs():
    states, success, _ = train(practice(), 99.0, 4_000)
    assert success < 0.1
    assert states[-1].alpha < 1.0
    assert all(state.distribution.weights.sum() == pytest.approx(1.0) for state in states[::20])


def test_a_resumed_curriculum_is_the_same():
    whole, _, curriculum = train(practice(), 3.5, 2_000)
    broken, _, _ = train(practice(), 3.5, 2_000, resume_at=60)
    one, other = (curriculum.save(states[-1]) for states in (whole, broken))
    assert one.keys() == other.keys()
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)
    assert {"heat", "potential", "progress"} <= curriculum.snapshot(whole[-1]).keys()


@pytest.mark.parametrize("pace", [gd.FixedStep(), AdaptivePace(), PerParticlePace()])
def test_the_pace_does_not_matter(pace):
    source, target = gd.Particles([[-4.0, 0.0]]), gd.Particles([[4.0, 0.0]])
    curriculum = gd.Gradient(source, target, practice(), pace, 0.6, space=SPACE, score="success")
    rng = np.random.default_rng(0)
    state = curriculum.init(rng)
    for _ in range(3):
        won, stages = np.ones(100), np.full(100, state.stage)
        episodes = gd.EpisodeBatch(np.tile([-4.0, 0.0], (100, 1)), won, won.astype(int), stages, successes=won)
        state = curriculum.update(state, episodes, rng)
    assert state.stage == 3
    assert 0.0 < state.alpha < 0.2  # beyond what was practised nothing is mastered


def test_half_of_the_episodes_rehearse_what_is_mastered():
    source, target = gd.Particles([[-4.0, 0.0]]), gd.Particles([[4.0, 0.0]])
    curriculum = gd.Gradient(source, target, practice(), threshold=0.6, space=SPACE, score="success")
    rng = np.random.default_rng(0)
    contexts = np.stack([np.linspace(-4.0, 0.0, 200), np.zeros(200)], axis=1)
    won = np.ones(200)
    episodes = gd.EpisodeBatch(contexts, won, won.astype(int), np.zeros(200, int), successes=won)
    distribution = curriculum.update(curriculum.init(rng), episodes, rng).distribution
    frontier = distribution.points[:, 0].max()
    assert 0.0 < frontier < 1.0
    assert distribution.weights[distribution.points[:, 0] == frontier].sum() == pytest.approx(0.5)
    assert len(np.unique(distribution.points[distribution.points[:, 0] < frontier], axis=0)) == 8


def test_new_ways_have_equal_hops_and_the_others_stay():
    rng = np.random.default_rng(1)
    ends = gd.Particles([[-4.0, 0.0], [-4.0, 1.0]]), gd.Particles([[4.0, 0.0], [4.0, 1.0]])
    segment, _ = PathSegment.through(gd.Geodesic(*ends), 0.0, np.zeros(2), None, 16, 2, rng)
    way = np.array([[-4.0, 0.0], [0.0, 0.0], [0.0, 4.0], [4.0, 4.0], [4.0, 0.0]])
    changed = segment.with_ways({0: way}, SPACE)
    np.testing.assert_allclose(np.linalg.norm(np.diff(changed.points[:, 0], axis=0), axis=1), 1.0)
    np.testing.assert_allclose(changed.points[[0, 4, 8, 16], 0], [[-4, 0], [0, 0], [0, 4], [4, 0]], atol=1e-9)
    np.testing.assert_array_equal(changed.points[:, 1], segment.points[:, 1])


def test_auto_takes_the_metric():
    source, target = gd.Particles([[-4.0, 0.0]]), gd.Particles([[4.0, 0.0]])
    problem = gd.Problem(source, target, SPACE, 0.6, practice(), score="success")
    curriculum = gd.curricula.build("auto", problem)
    rng = np.random.default_rng(0)
    state = curriculum.init(rng)
    for _ in range(40):
        goals = state.distribution.sample(rng, 30)
        won = (goals[:, 0] < -2.0).astype(float)
        stages = np.full(30, state.stage)
        state = curriculum.update(state, gd.EpisodeBatch(goals, won, stages * 0 + 9, stages, successes=won), rng)
    assert 0.0 < state.inner.alpha < 0.5
    assert state.inner.segment.points.shape[0] == WAYPOINTS + 1
