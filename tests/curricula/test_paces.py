"""Paces: the paper's fixed steps, and one's own in their place."""

from dataclasses import dataclass

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import Linear
from geodesic.curricula.gradient import FixedStep, Pace
from geodesic.errors import InvalidInput

SOURCE, TARGET = gd.Particles([[0.0], [1.0]]), gd.Particles([[4.0], [5.0]])
LINE = gd.ContextSpace([0.0], [5.0])
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Scripted:
    """Each stage ends with its first report, and the next lies where the script says; None: where this one does."""

    script: tuple[float | None, ...]
    window: int = 2
    memory: int = 0

    def verdict(self, state):
        return "as written" if len(state.recent) else ""

    def alpha(self, state, path):
        place = self.script[min(state.moves, len(self.script) - 1)]
        return state.alpha if place is None else place


@dataclass(frozen=True)
class Straight:
    """A recipe that has made up its mind; it keeps what it was fitted to."""

    space: gd.ContextSpace = LINE
    memory: int = 6
    fitted: tuple[list, ...] = ([],)

    def fit(self, episodes, rng, anchors=None):
        self.fitted[0].append((episodes, anchors))
        return gd.metrics.Euclidean()


def report(state, n=3, value=9.0):
    return gd.Episodes(np.zeros((n, 1)), np.full(n, value), np.full(n, 10), np.full(n, state.stage))


def walk(curriculum, updates):
    """All stages of a run with one report an update, the first included."""
    states = [curriculum.init(RNG)]
    for _ in range(updates):
        after = curriculum.update(states[-1], report(states[-1]), RNG)
        if after.stage != states[-1].stage:
            states.append(after)
        else:
            states[-1] = after
    return states


def test_fixed_steps_and_home_made_ones_are_paces():
    assert isinstance(FixedStep(), Pace)
    assert isinstance(Scripted((1.0,)), Pace)
    assert not isinstance(0.1, Pace)


@pytest.mark.parametrize("step", [0.1, 0.05, 0.2, 1 / 3, 1 / 7, 0.3, 1.0, 1])
def test_alphas_are_multiples_of_the_step_and_end_at_one_exactly(step):
    states = walk(gd.Gradient(SOURCE, TARGET, step=step, window=3), 100)
    last = int(np.ceil(1 / step - 1e-9))
    assert [state.alpha for state in states] == [k * step for k in range(last)] + [1.0]
    assert [state.moves for state in states] == list(range(last + 1))
    assert states[-1].done


@pytest.mark.parametrize("step", [0.25, 0.3, 1 / 3])
def test_under_a_recipe_they_are_the_same(step):
    known = walk(gd.Gradient(SOURCE, TARGET, step=step, window=3), 50)
    refitted = walk(gd.Gradient(SOURCE, TARGET, step=step, window=3, metric=Straight(), explore_steps=10), 50)
    trained = [state for state in refitted if state.kind == "train"]
    assert [state.alpha for state in trained] == [state.alpha for state in known]
    assert [state.kind for state in refitted] == ["train", "explore"] * (len(known) - 1) + ["train"]
    for one, other in zip(trained, known):
        np.testing.assert_allclose(one.distribution.points, other.distribution.points, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0.0}, "expected step in (0, 1], got 0.0"),
        ({"step": -0.1}, "expected step in (0, 1], got -0.1"),
        ({"step": 1.5}, "expected step in (0, 1], got 1.5"),
        ({"step": float("nan")}, "expected step in (0, 1], got nan"),
        ({"step": True}, "expected step in (0, 1], got True"),
        ({"threshold": float("nan")}, "expected threshold to be a finite number, got nan"),
        ({"threshold": "high"}, "expected threshold to be a finite number, got 'high'"),
        ({"window": 0}, "expected window to be a positive integer, got 0"),
        ({"max_stage_steps": -5}, "expected max_stage_steps to be a positive integer, got -5"),
    ],
)
@pytest.mark.parametrize("make", [FixedStep, lambda **given: gd.Gradient(SOURCE, TARGET, **given)])
def test_refusals(make, options, message):
    with pytest.raises(InvalidInput) as caught:
        make(**options)
    assert str(caught.value) == message


def test_a_word_that_is_no_pace_is_refused():
    with pytest.raises(InvalidInput, match=r"expected step in \(0, 1\], got 'fast'"):
        FixedStep("fast")
    for options in ({}, {"gate": True}):
        with pytest.raises(InvalidInput, match=r"expected step in \(0, 1\], 'auto' or a pace, got 'fast'"):
            gd.Gradient(SOURCE, TARGET, step="fast", **options)


def test_what_lacks_a_part_is_no_pace():
    class Half:
        window = 1

        def verdict(self, state):
            return ""

    with pytest.raises(InvalidInput, match=r"expected step in \(0, 1\], got <.*Half"):
        gd.Gradient(SOURCE, TARGET, step=Half())


def test_the_verdict_is_why_a_stage_ended():
    pace = FixedStep(0.5, threshold=1.0, window=2, max_stage_steps=100)
    state = gd.Gradient(SOURCE, TARGET, step=pace).init(RNG)
    for recent, steps, verdict in (
        ([], 0, ""),
        ([2.0], 10, ""),
        ([1.0, 1.0], 20, ""),
        ([1.0, 1.1], 20, "mastered"),
        ([0.0, 0.0], 100, "step cap"),
        ([9.0, 9.0], 100, "mastered"),
        ([], 99, ""),
    ):
        assert pace.verdict(state.replace(recent=np.array(recent), steps=steps)) == verdict


def test_ones_own_pace_moves_as_it_says_and_may_go_back():
    states = walk(gd.Gradient(SOURCE, TARGET, step=Scripted((0.5, 0.25, 0.0, 0.75, 1.0))), 10)
    assert [state.alpha for state in states] == [0.0, 0.5, 0.25, 0.0, 0.75, 1.0]
    assert [state.moves for state in states] == [0, 1, 2, 3, 4, 5]
    assert [state.done for state in states] == [False] * 5 + [True]
    assert [state.event for state in states] == ["start"] + ["as written"] * 5
    for state in states:
        np.testing.assert_allclose(state.distribution.points, SOURCE.points + 4 * state.alpha)
    assert states[3].distribution is SOURCE
    assert states[-1].distribution is TARGET


def test_ones_own_pace_is_for_every_staged_method():
    states = walk(Linear(SOURCE, TARGET, step=Scripted((0.5, 1.0))), 10)
    assert [state.alpha for state in states] == [0.0, 0.5, 1.0]
    assert states[1].distribution.mean()[0] == pytest.approx(2.5)


def test_a_pace_may_overshoot_the_ends():
    states = walk(gd.Gradient(SOURCE, TARGET, step=Scripted((0.5, -3.0, 1.7))), 10)
    assert [state.alpha for state in states] == [0.0, 0.5, 0.0, 1.0]
    assert states[2].distribution is SOURCE
    assert states[3].distribution is TARGET
    assert states[3].done


def test_a_pace_that_stays_goes_on_with_the_same_stage():
    curriculum = gd.Gradient(SOURCE, TARGET, step=Scripted((None,)))
    state = curriculum.init(RNG)
    for k in range(1, 4):
        state = curriculum.update(state, report(state), RNG)
        assert (state.stage, state.moves, state.steps) == (0, 0, 30 * k)
        assert state.recent.tolist() == [9.0, 9.0]
    assert state.distribution is SOURCE


def test_under_a_recipe_a_pace_that_stays_goes_back_to_training():
    recipe = Straight(fitted=([],))
    curriculum = gd.Gradient(SOURCE, TARGET, step=Scripted((0.5, None)), metric=recipe, explore_steps=10)
    states = walk(curriculum, 6)
    assert [state.kind for state in states] == ["train", "explore"] * 3 + ["train"]
    assert [state.alpha for state in states] == [0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5]
    assert [state.moves for state in states] == [0, 0, 1, 1, 1, 1, 1]
    assert [state.stage for state in states] == list(range(7))
    assert [state.event for state in states] == ["start"] + ["as written"] * 6
    for later in (states[4], states[6]):
        assert later.distribution is states[2].distribution
        assert (later.steps, later.recent.size) == (0, 0)
    assert len(recipe.fitted[0]) == 3


def test_under_a_recipe_a_pace_may_go_back():
    curriculum = gd.Gradient(SOURCE, TARGET, step=Scripted((0.5, 0.25, 0.0, 1.0)), metric=Straight(), explore_steps=10)
    states = [state for state in walk(curriculum, 20) if state.kind == "train"]
    assert [state.alpha for state in states] == [0.0, 0.5, 0.25, 0.0, 1.0]
    for state in states:
        np.testing.assert_allclose(state.distribution.points, SOURCE.points + 4 * state.alpha)
    assert states[3].distribution is SOURCE
    assert states[4].distribution is TARGET


def test_a_recipe_sees_its_latest_episodes_and_both_ends_of_the_way():
    recipe = Straight(memory=4, fitted=([],))
    curriculum = gd.Gradient(SOURCE, TARGET, step=Scripted((0.5, 1.0), memory=9), metric=recipe, explore_steps=60)
    state = curriculum.init(RNG)
    for value in range(12):
        if not state.done:
            state = curriculum.update(state, report(state, value=float(value)), RNG)
    (first, around), (second, later) = recipe.fitted[0]
    assert first.returns.tolist() == [1.0, 2.0, 2.0, 2.0]
    assert second.returns.tolist() == [4.0, 5.0, 5.0, 5.0]
    np.testing.assert_array_equal(around, np.concatenate([SOURCE.points, TARGET.points]))
    np.testing.assert_array_equal(later, np.concatenate([SOURCE.points + 2.0, TARGET.points]))
    assert len(state.seen) == 9


@pytest.mark.parametrize("metric", [None, Straight(), gd.metrics.ReturnLift(LINE, 0.0, 5.0)])
@pytest.mark.parametrize("step", [0.5, Scripted((0.3, 1.0))])
def test_at_the_end_stands_the_target_itself(metric, step):
    """Weightless points, which a path thins away, included."""
    target = gd.Particles([[4.0], [4.5], [5.0]], [0.5, 0.0, 0.5])
    curriculum = gd.Gradient(SOURCE, target, step=step, threshold=1.0, window=3, metric=metric, explore_steps=10)
    states = walk(curriculum, 30)
    assert states[-1].alpha == 1.0
    assert states[-1].distribution is target


def test_a_pace_reads_the_way_off_the_path():
    """One that goes as far as the mean moves by one: four even stages on a way of length four."""

    @dataclass(frozen=True)
    class Measured(Scripted):
        def alpha(self, state, path):
            here = path(state.alpha).mean()
            alphas = np.linspace(state.alpha, 1.0, 401)
            return next((a for a in alphas if np.abs(path(a).mean() - here) >= 1 - 1e-9), 1.0)

    for metric in (None, Straight()):
        curriculum = gd.Gradient(SOURCE, TARGET, step=Measured(()), metric=metric, explore_steps=10)
        states = [state for state in walk(curriculum, 20) if state.kind == "train"]
        assert [state.alpha for state in states] == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0], abs=0.004)


def test_a_saved_state_goes_on_at_the_same_pace():
    curriculum = gd.Gradient(SOURCE, TARGET, step=Scripted((0.5, 0.25, 1.0)))
    state = walk(curriculum, 2)[-1]
    loaded = curriculum.load(curriculum.save(state))
    assert (loaded.alpha, loaded.moves) == (0.25, 2)
    assert curriculum.update(loaded, report(loaded), RNG).alpha == 1.0
