"""Under a metric that is learned, paces that follow an estimate keep their way from one fit to the next."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula.gradient.legs import leg
from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean, Graph, ReturnLift

SPACE = gd.ContextSpace([0.0, 0.0], [10.0, 10.0])
PACES = {"auto": {"step": "auto"}, "gate": {"gate": True, "step": 0.2}}


@dataclass(frozen=True)
class Straight:
    """A recipe that counts how often it is fitted."""

    space: gd.ContextSpace = SPACE
    memory: int = 60
    fits: list[int] = field(default_factory=list)

    def fit(self, episodes, rng, anchors=None):
        self.fits.append(len(episodes))
        return Euclidean()


def gradient(recipe, pace: str, **options) -> gd.Gradient:
    rng = np.random.default_rng(0)
    source, target = (gd.Particles.uniform([x, 0.0], [x + 1.0, 10.0], 20, rng) for x in (0.0, 9.0))
    given = {
        "metric": recipe,
        "threshold": 5.0,
        "space": SPACE,
        "window": 10,
        "explore_steps": 10,
        "width": 0.02,
        "memory": 400,
    }
    return gd.Gradient(source, target, **{**given, **PACES[pace], **options})


def heard(state, score: Callable, n: int = 30) -> gd.Episodes:
    """Episodes of this stage, all over the space and in its own contexts."""
    rng = np.random.default_rng(state.stage)
    contexts = np.concatenate([SPACE.draw(200 - n, rng), state.distribution.sample(rng, n)])
    return gd.Episodes(contexts, score(contexts), np.full(200, 10), np.full(200, state.stage))


def walk(curriculum, score: Callable, updates: int, state=None) -> list:
    rng = np.random.default_rng(1)
    states = [state or curriculum.init(rng)]
    for _ in range(updates):
        states.append(curriculum.update(states[-1], heard(states[-1], score), rng))
    return states


def good_up_to(x: float) -> Callable:
    return lambda contexts: np.where(contexts[:, 0] < x, 9.0, 0.0)


def test_a_leg_leads_on_along_the_geodesic_and_back_the_way_that_was_come():
    rng = np.random.default_rng(0)
    source, here, target = (gd.Particles([[x, 0.0], [x, 1.0]]) for x in (0.0, 4.0, 10.0))
    first, start = leg(gd.Geodesic(source, target), source, np.zeros(2), None, 10, 5, rng)
    assert start.tolist() == [0.0, 0.0]
    assert first.points[:, 0, 0, 0] == pytest.approx(np.arange(11.0))
    second, start = leg(gd.Geodesic(here, target), source, np.array([0.5, 0.2]), first, 10, 5, rng)
    assert start.tolist() == [0.5, 0.2]
    assert second.points[:, 0, 0, 0] == pytest.approx([0.0, 1.0, 2.0, 3.0, 4.0, 4.0, 5.2, 6.4, 7.6, 8.8, 10.0])
    assert second.points[:3, 1, 0, 0] == pytest.approx([0.0, 1.0, 4.0])
    # Eight rungs are left of this one: each is the nearest of ten places between 4 and 10.
    assert second.points[3:, 1, 0, 0] == pytest.approx(4.0 + np.linspace(0.125, 1.0, 8) * 6.0, abs=0.3 + 1e-9)
    assert second.at(np.zeros(2, int)) is source
    assert second.at(np.full(2, 10)) is target


def test_a_leg_keeps_the_mass_of_both_its_ends():
    rng = np.random.default_rng(2)
    here, there = (gd.Particles(rng.random((n, 2)), rng.random(n)) for n in (7, 5))
    ways, _ = leg(gd.Geodesic(here, there), here, np.full(7, 0.5), None, 4, 100, rng)
    for rung, end in ((2, here), (4, there)):
        assert gd.wasserstein(gd.Particles(ways.points[rung, :, 0], ways.mass), end) == pytest.approx(0.0, abs=1e-7)
    thin, start = leg(gd.Geodesic(here, there), here, np.full(7, 0.5), None, 4, 3, rng)
    assert (len(thin), len(start), thin.mass.tolist()) == (3, 3, [1 / 3] * 3)


@dataclass(frozen=True)
class Scattered(Straight):
    """A graph through other nodes at each fit, so that no two fits lead the same way."""

    def fit(self, episodes, rng, anchors=None):
        super().fit(episodes, rng, anchors)
        return Graph.knn(np.unique(np.concatenate([anchors, SPACE.draw(80, rng)]), axis=0), 6)


def test_what_is_lost_is_left_for_the_very_distributions_that_were_trained_on():
    curriculum = gradient(Scattered(), "auto")
    states = walk(curriculum, good_up_to(99.0), 30)
    trained = {round(state.alpha, 2): state.distribution for state in states if state.kind == "train"}
    assert sorted(trained) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    lost = walk(curriculum, good_up_to(-1.0), 5, states[-1])
    assert [round(state.alpha, 2) for state in lost] == [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]
    for state in lost:
        assert gd.wasserstein(state.distribution, trained[round(state.alpha, 2)]) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("pace", PACES)
def test_a_metric_is_fitted_as_often_as_a_fixed_step_of_a_stride_would(pace):
    recipe = Straight()
    states = walk(gradient(recipe, pace), good_up_to(99.0), 30)
    assert states[-1].alpha == 1.0
    assert len(recipe.fits) == 5


@pytest.mark.parametrize("pace", PACES)
def test_small_moves_share_a_fit(pace):
    """The agent learns a little further at each look: many moves, at most two fits for each stride."""
    recipe = Straight()
    curriculum = gradient(recipe, pace, memory=2000)
    states = walk(curriculum, good_up_to(2.0), 3)
    for x in np.linspace(2.0, 12.0, 60):
        states += walk(curriculum, good_up_to(x), 1, states[-1])[1:]
    states += walk(curriculum, good_up_to(99.0), 10, states[-1])[1:]
    assert states[-1].alpha == 1.0
    assert states[-1].moves >= 15
    assert 5 <= len(recipe.fits) <= 10


@pytest.mark.parametrize("pace", PACES)
def test_the_way_back_needs_no_fit(pace):
    recipe = Straight()
    curriculum = gradient(recipe, pace)
    there = walk(curriculum, good_up_to(99.0), 30)[-1]
    fits = len(recipe.fits)
    lost = walk(curriculum, good_up_to(-1.0), 12, there)
    assert {state.kind for state in lost} == {"train"}
    assert lost[-1].distribution is curriculum.source
    assert len(recipe.fits) == fits


@pytest.mark.parametrize(
    ("pace", "options", "fits"),
    [
        ("auto", {"memory": 6000}, 0),
        ("auto", {"memory": 800}, 3),
        ("gate", {}, 0),
        ("gate", {"max_stage_steps": 8000}, 3),
    ],
)
def test_a_way_that_leads_no_further_is_given_up_in_time(pace, options, fits):
    """200 episodes and 2000 steps an update: four of them, and one of exploring."""
    recipe = Straight()
    curriculum = gradient(recipe, pace, **options)
    blocked = walk(curriculum, good_up_to(5.0), 10)[-1]
    before = len(recipe.fits)
    states = walk(curriculum, good_up_to(5.0), 15, blocked)
    assert len(recipe.fits) - before == fits
    assert ("no way on" in {state.event for state in states}) == bool(fits)


@pytest.mark.parametrize("pace", PACES)
def test_a_state_that_was_saved_on_a_leg_goes_on_with_the_same_bytes(pace):
    curriculum = gradient(ReturnLift(SPACE, 0.0, 5.0), pace)
    states = walk(curriculum, good_up_to(4.0), 5)
    assert states[-1].leg
    again = curriculum.load(curriculum.save(states[-1]))
    ends = [curriculum.save(walk(curriculum, good_up_to(8.0), 6, state)[-1]) for state in (states[-1], again)]
    assert ends[0].keys() == ends[1].keys()
    assert all(ends[0][name].tobytes() == ends[1][name].tobytes() for name in ends[0])


def test_the_leg_of_another_space_is_refused():
    curriculum = gradient(Straight(), "auto")
    state = walk(curriculum, good_up_to(4.0), 4)[-1]
    other = state.replace(leg={**state.leg, "points": state.leg["points"][..., :1]})
    with pytest.raises(InvalidInput, match="expected a leg of 20 atoms in 2 dimensions, got shape"):
        walk(curriculum, good_up_to(4.0), 1, other)
