"""Under a learned metric, paces that follow an estimate keep their path from one fit to the next."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import AdaptivePace, PerParticlePace
from geodesic.curricula.gradient.staged import PathSegment
from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean, Graph, ReturnLift

SPACE = gd.ContextSpace([0.0, 0.0], [10.0, 10.0])
PACES = {"adaptive": AdaptivePace, "particles": PerParticlePace}


@dataclass(frozen=True)
class Straight:
    """A metric that counts how often it is fitted."""

    space: gd.ContextSpace = SPACE
    memory: int = 60
    fits: list[int] = field(default_factory=list)

    def fit(self, episodes, rng, anchors=None):
        self.fits.append(len(episodes))
        return Euclidean()


def gradient(learned, pace: str, **options) -> gd.Gradient:
    rng = np.random.default_rng(0)
    source, target = (gd.Particles.uniform([x, 0.0], [x + 1.0, 10.0], 20, rng) for x in (0.0, 9.0))
    made = PACES[pace](**{"stride": 0.2, "window": 10, "memory": 400, "bandwidth": 0.02, **options})
    return gd.Gradient(source, target, learned, made, threshold=5.0, space=SPACE, explore_steps=10)


def episodes(state, score: Callable, n: int = 30) -> gd.EpisodeBatch:
    """Episodes of this stage, all over the space and in its own contexts."""
    rng = np.random.default_rng(state.stage)
    contexts = np.concatenate([SPACE.draw(200 - n, rng), state.distribution.sample(rng, n)])
    return gd.EpisodeBatch(contexts, score(contexts), np.full(200, 10), np.full(200, state.stage))


def walk(curriculum, score: Callable, updates: int, state=None) -> list:
    rng = np.random.default_rng(1)
    states = [state or curriculum.init(rng)]
    for _ in range(updates):
        states.append(curriculum.update(states[-1], episodes(states[-1], score), rng))
    return states


def good_up_to(x: float) -> Callable:
    return lambda contexts: np.where(contexts[:, 0] < x, 9.0, 0.0)


def test_a_segment_leads_on_along_the_geodesic_and_back_along_the_path_so_far():
    rng = np.random.default_rng(0)
    source, here, target = (gd.Particles([[x, 0.0], [x, 1.0]]) for x in (0.0, 4.0, 10.0))
    first, start = PathSegment.through(gd.Geodesic(source, target), 0.0, np.zeros(2), None, 10, 5, rng)
    assert start.tolist() == [0.0, 0.0]
    assert first.points[:, 0, 0] == pytest.approx(np.arange(11.0))
    second, start = PathSegment.through(gd.Geodesic(here, target), 0.5, np.array([0.5, 0.2]), first, 10, 5, rng)
    assert start.tolist() == [0.5, 0.2]
    assert second.points[:, 0, 0] == pytest.approx([0.0, 1.0, 2.0, 3.0, 4.0, 4.0, 5.2, 6.4, 7.6, 8.8, 10.0])
    assert second.points[:3, 1, 0] == pytest.approx([0.0, 1.0, 4.0])
    # Eight knots are left of this one: each is the nearest of ten places between 4 and 10.
    assert second.points[3:, 1, 0] == pytest.approx(4.0 + np.linspace(0.125, 1.0, 8) * 6.0, abs=0.3 + 1e-9)
    trajectories = second.trajectories(source, target)
    assert trajectories.at(np.zeros(2, int)) is source
    assert trajectories.at(np.full(2, 10)) is target


def test_a_segment_keeps_the_mass_of_both_ends():
    rng = np.random.default_rng(2)
    here, there = (gd.Particles(rng.random((n, 2)), rng.random(n)) for n in (7, 5))
    segment, _ = PathSegment.through(gd.Geodesic(here, there), 0.5, np.full(7, 0.5), None, 4, 100, rng)
    for knot, end in ((2, here), (4, there)):
        assert gd.wasserstein(gd.Particles(segment.points[knot], segment.mass), end) == pytest.approx(0.0, abs=1e-7)
    thin, start = PathSegment.through(gd.Geodesic(here, there), 0.5, np.full(7, 0.5), None, 4, 3, rng)
    assert (thin.points.shape, len(start), thin.mass.tolist()) == ((5, 3, 2), 3, [1 / 3] * 3)


@dataclass(frozen=True)
class Scattered(Straight):
    """A graph through other nodes at each fit, so that no two fits lead the same way."""

    def fit(self, episodes, rng, anchors=None):
        super().fit(episodes, rng, anchors)
        return Graph.knn(np.unique(np.concatenate([anchors, SPACE.draw(80, rng)]), axis=0), 6)


def test_an_agent_that_forgets_goes_back_through_the_distributions_it_was_trained_on():
    curriculum = gradient(Scattered(), "adaptive")
    states = walk(curriculum, good_up_to(99.0), 30)
    trained = {round(state.position, 2): state.distribution for state in states if state.kind == "train"}
    assert sorted(trained) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    forgotten = walk(curriculum, good_up_to(-1.0), 5, states[-1])
    assert [round(state.position, 2) for state in forgotten] == [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]
    for state in forgotten:
        assert gd.wasserstein(state.distribution, trained[round(state.position, 2)]) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("pace", PACES)
def test_a_metric_is_fitted_as_often_as_a_fixed_step_of_a_stride_would(pace):
    learned = Straight()
    states = walk(gradient(learned, pace), good_up_to(99.0), 30)
    assert states[-1].alpha == 1.0
    assert len(learned.fits) == 5


@pytest.mark.parametrize("pace", PACES)
def test_small_moves_use_one_fit(pace):
    """The agent learns a little more at each update: many moves, at most two fits for each stride."""
    learned = Straight()
    curriculum = gradient(learned, pace, memory=2000)
    states = walk(curriculum, good_up_to(2.0), 3)
    for x in np.linspace(2.0, 12.0, 60):
        states += walk(curriculum, good_up_to(x), 1, states[-1])[1:]
    states += walk(curriculum, good_up_to(99.0), 10, states[-1])[1:]
    assert states[-1].alpha == 1.0
    assert states[-1].moves >= 15
    assert 5 <= len(learned.fits) <= 10


@pytest.mark.parametrize("pace", PACES)
def test_going_back_needs_no_fit(pace):
    learned = Straight()
    curriculum = gradient(learned, pace)
    there = walk(curriculum, good_up_to(99.0), 30)[-1]
    fits = len(learned.fits)
    forgotten = walk(curriculum, good_up_to(-1.0), 12, there)
    assert {state.kind for state in forgotten} == {"train"}
    assert forgotten[-1].distribution is curriculum.source
    assert len(learned.fits) == fits


@pytest.mark.parametrize(
    ("pace", "options", "fits"),
    [
        ("adaptive", {"memory": 6000}, 0),
        ("adaptive", {"memory": 800}, 3),
        ("particles", {}, 0),
        ("particles", {"max_stage_steps": 8000}, 3),
    ],
)
def test_a_path_that_leads_no_further_is_given_up_in_time(pace, options, fits):
    """200 episodes and 2000 steps an update: four of them, and one of exploring."""
    learned = Straight()
    curriculum = gradient(learned, pace, **options)
    blocked = walk(curriculum, good_up_to(5.0), 10)[-1]
    before = len(learned.fits)
    states = walk(curriculum, good_up_to(5.0), 15, blocked)
    assert len(learned.fits) - before == fits
    assert ("path is stale" in {state.event for state in states}) == bool(fits)


@pytest.mark.parametrize("pace", PACES)
def test_a_state_saved_on_a_segment_continues_with_the_same_bytes(pace):
    curriculum = gradient(ReturnLift(SPACE, 0.0, 5.0), pace)
    states = walk(curriculum, good_up_to(4.0), 5)
    assert states[-1].segment is not None
    again = curriculum.load(curriculum.save(states[-1]))
    ends = [curriculum.save(walk(curriculum, good_up_to(8.0), 6, state)[-1]) for state in (states[-1], again)]
    assert ends[0].keys() == ends[1].keys()
    assert all(ends[0][name].tobytes() == ends[1][name].tobytes() for name in ends[0])


def test_a_segment_of_another_space_is_refused():
    curriculum = gradient(Straight(), "adaptive")
    state = walk(curriculum, good_up_to(4.0), 4)[-1]
    other = state.replace(segment=replace(state.segment, points=state.segment.points[..., :1]))
    with pytest.raises(InvalidInput, match="expected a path segment of 20 particles in 2 dimensions, got shape"):
        walk(curriculum, good_up_to(4.0), 1, other)
