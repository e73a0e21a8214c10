"""Paces: the paper's fixed step, and your own."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import AdaptivePace, FixedStep, Linear, Pace, PerParticlePace, build
from geodesic.errors import InvalidInput, UnknownName

SOURCE, TARGET = gd.Particles([[0.0], [1.0]]), gd.Particles([[4.0], [5.0]])
LINE = gd.ContextSpace([0.0], [5.0])
RNG = np.random.default_rng(0)
PROBLEM = gd.Problem(SOURCE, TARGET, LINE, threshold=5.0)


@dataclass(frozen=True)
class Scripted(Pace):
    """A stage ends after its first episodes, and the next lies where the script says; None: where this one does."""

    script: tuple[float | None, ...]
    window: int = 2
    memory: int = 0

    def stage_status(self, state):
        return "as written" if len(state.recent) else ""

    def next_alpha(self, state, path):
        place = self.script[min(state.moves, len(self.script) - 1)]
        return state.alpha if place is None else place


@dataclass(frozen=True)
class Straight:
    """A learned metric that is always Euclidean; it keeps the episodes it was fitted to."""

    space: gd.ContextSpace = LINE
    memory: int = 6
    fitted: tuple[list, ...] = ([],)

    def fit(self, episodes, rng, anchors=None):
        self.fitted[0].append((episodes, anchors))
        return gd.metrics.Euclidean()


def report(state, n=3, value=9.0):
    return gd.EpisodeBatch(np.zeros((n, 1)), np.full(n, value), np.full(n, 10), np.full(n, state.stage))


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


@pytest.mark.parametrize("step", [0.1, 0.05, 0.2, 1 / 3, 1 / 7, 0.3, 1.0, 1])
def test_alphas_are_multiples_of_the_step_and_end_at_one_exactly(step):
    states = walk(gd.Gradient(SOURCE, TARGET, pace=FixedStep(step, window=3)), 100)
    last = int(np.ceil(1 / step - 1e-9))
    assert [state.alpha for state in states] == [k * step for k in range(last)] + [1.0]
    assert [state.moves for state in states] == list(range(last + 1))
    assert states[-1].done


@pytest.mark.parametrize("step", [0.25, 0.3, 1 / 3])
def test_under_a_learned_metric_they_are_the_same(step):
    known = walk(gd.Gradient(SOURCE, TARGET, pace=FixedStep(step, window=3)), 50)
    refitted = walk(gd.Gradient(SOURCE, TARGET, Straight(), FixedStep(step, window=3), explore_steps=10), 50)
    trained = [state for state in refitted if state.kind == "train"]
    assert [state.position for state in trained] == [state.alpha for state in known]
    assert [state.alpha for state in trained] == pytest.approx([state.alpha for state in known])
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
@pytest.mark.parametrize("make", [FixedStep, lambda **given: build("gradient", PROBLEM, **given)])
def test_refusals(make, options, message):
    with pytest.raises(InvalidInput) as caught:
        make(**options)
    assert str(caught.value) == message


def test_only_a_pace_is_a_pace():
    for wrong in (0.1, "adaptive", FixedStep):
        with pytest.raises(InvalidInput, match="expected pace to be Pace, got "):
            gd.Gradient(SOURCE, TARGET, pace=wrong)
    with pytest.raises(
        UnknownName, match="expected pace to be one of fixed, compounding, adaptive, particles; got 'adaptiv'"
    ):
        build("gradient", PROBLEM, pace="adaptiv")
    with pytest.raises(InvalidInput, match="expected a pace that moves the whole distribution, got PerParticlePace"):
        build("linear", PROBLEM, pace="particles")


def test_the_status_is_why_a_stage_ended():
    pace = FixedStep(0.5, threshold=1.0, window=2, max_stage_steps=100)
    state = gd.Gradient(SOURCE, TARGET, pace=pace).init(RNG)
    for recent, steps, stage_status in (
        ([], 0, ""),
        ([2.0], 10, ""),
        ([1.0, 1.0], 20, ""),
        ([1.0, 1.1], 20, "mastered"),
        ([0.0, 0.0], 100, "step cap"),
        ([9.0, 9.0], 100, "mastered"),
        ([], 99, ""),
    ):
        assert pace.stage_status(state.replace(recent=np.array(recent), steps=steps)) == stage_status


def test_your_own_pace_moves_anywhere_and_may_go_back():
    states = walk(gd.Gradient(SOURCE, TARGET, pace=Scripted((0.5, 0.25, 0.0, 0.75, 1.0))), 10)
    assert [state.alpha for state in states] == [0.0, 0.5, 0.25, 0.0, 0.75, 1.0]
    assert [state.moves for state in states] == [0, 1, 2, 3, 4, 5]
    assert [state.done for state in states] == [False] * 5 + [True]
    assert [state.event for state in states] == ["start"] + ["as written"] * 5
    for state in states:
        np.testing.assert_allclose(state.distribution.points, SOURCE.points + 4 * state.alpha)
    assert states[3].distribution is SOURCE
    assert states[-1].distribution is TARGET


def test_your_own_pace_is_for_every_staged_method():
    states = walk(Linear(SOURCE, TARGET, pace=Scripted((0.5, 1.0))), 10)
    assert [state.alpha for state in states] == [0.0, 0.5, 1.0]
    assert states[1].distribution.mean()[0] == pytest.approx(2.5)


def test_a_pace_may_overshoot_the_ends():
    states = walk(gd.Gradient(SOURCE, TARGET, pace=Scripted((0.5, -3.0, 1.7))), 10)
    assert [state.alpha for state in states] == [0.0, 0.5, 0.0, 1.0]
    assert states[2].distribution is SOURCE
    assert states[3].distribution is TARGET
    assert states[3].done


def test_a_pace_that_stays_continues_the_same_stage():
    curriculum = gd.Gradient(SOURCE, TARGET, pace=Scripted((None,)))
    state = curriculum.init(RNG)
    for k in range(1, 4):
        state = curriculum.update(state, report(state), RNG)
        assert (state.stage, state.moves, state.steps) == (0, 0, 30 * k)
        assert state.recent.tolist() == [9.0, 9.0]
    assert state.distribution is SOURCE


def test_under_a_learned_metric_a_pace_that_stays_goes_back_to_training():
    learned = Straight(fitted=([],))
    curriculum = gd.Gradient(SOURCE, TARGET, pace=Scripted((0.5, None)), metric=learned, explore_steps=10)
    states = walk(curriculum, 6)
    assert [state.kind for state in states] == ["train", "explore"] * 3 + ["train"]
    assert [state.alpha for state in states] == pytest.approx([0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5])
    assert [state.moves for state in states] == [0, 0, 1, 1, 1, 1, 1]
    assert [state.stage for state in states] == list(range(7))
    assert [state.event for state in states] == ["start"] + ["as written"] * 6
    for later in (states[4], states[6]):
        assert later.distribution is states[2].distribution
        assert (later.steps, later.recent.size) == (0, 0)
    assert len(learned.fitted[0]) == 3


def test_under_a_learned_metric_a_pace_may_go_back():
    curriculum = gd.Gradient(SOURCE, TARGET, pace=Scripted((0.5, 0.25, 0.0, 1.0)), metric=Straight(), explore_steps=10)
    states = [state for state in walk(curriculum, 20) if state.kind == "train"]
    assert [state.alpha for state in states] == pytest.approx([0.0, 0.5, 0.25, 0.0, 1.0])
    for state in states:
        np.testing.assert_allclose(state.distribution.points, SOURCE.points + 4 * state.alpha)
    assert states[3].distribution is SOURCE
    assert states[4].distribution is TARGET


def test_a_learned_metric_sees_its_latest_episodes_and_both_ends_of_the_path():
    learned = Straight(memory=4, fitted=([],))
    curriculum = gd.Gradient(SOURCE, TARGET, pace=Scripted((0.5, 1.0), memory=9), metric=learned, explore_steps=60)
    state = curriculum.init(RNG)
    for value in range(12):
        if not state.done:
            state = curriculum.update(state, report(state, value=float(value)), RNG)
    (first, around), (second, later) = learned.fitted[0]
    assert first.returns.tolist() == [1.0, 2.0, 2.0, 2.0]
    assert second.returns.tolist() == [4.0, 5.0, 5.0, 5.0]
    np.testing.assert_array_equal(around, np.concatenate([SOURCE.points, TARGET.points]))
    np.testing.assert_array_equal(later, np.concatenate([SOURCE.points + 2.0, TARGET.points]))
    assert len(state.seen) == 9


@pytest.mark.parametrize("metric", [None, Straight(), gd.metrics.ReturnLift(LINE, 0.0, 5.0)])
@pytest.mark.parametrize("pace", [FixedStep(0.5, window=3), Scripted((0.3, 1.0))])
def test_at_the_end_is_the_target_itself(metric, pace):
    """Weightless points, which a path thins away, included."""
    target = gd.Particles([[4.0], [4.5], [5.0]], [0.5, 0.0, 0.5])
    curriculum = gd.Gradient(SOURCE, target, metric, pace, threshold=1.0, explore_steps=10)
    states = walk(curriculum, 30)
    assert states[-1].alpha == 1.0
    assert states[-1].distribution is target


def test_a_pace_can_use_the_path():
    """One that goes until the mean has moved by one: four even stages on a path of length four."""

    @dataclass(frozen=True)
    class Measured(Scripted):
        def next_alpha(self, state, path):
            here = path(state.alpha).mean()
            alphas = np.linspace(state.alpha, 1.0, 401)
            return next((a for a in alphas if np.abs(path(a).mean() - here) >= 1 - 1e-9), 1.0)

    for metric in (None, Straight()):
        curriculum = gd.Gradient(SOURCE, TARGET, pace=Measured(()), metric=metric, explore_steps=10)
        states = [state for state in walk(curriculum, 20) if state.kind == "train"]
        assert [state.alpha for state in states] == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0], abs=0.004)


def test_a_saved_state_continues_at_the_same_pace():
    curriculum = gd.Gradient(SOURCE, TARGET, pace=Scripted((0.5, 0.25, 1.0)))
    state = walk(curriculum, 2)[-1]
    loaded = curriculum.load(curriculum.save(state))
    assert (loaded.alpha, loaded.moves) == (0.25, 2)
    assert curriculum.update(loaded, report(loaded), RNG).alpha == 1.0


class Doubling(Pace):
    """A pace in a few lines."""

    window = 3

    def stage_status(self, state):
        return "mastered" if len(state.recent) >= 3 and state.recent.mean() > self.threshold else ""

    def next_alpha(self, state, path):
        return max(2 * state.alpha, 0.125)


@pytest.mark.parametrize("pace", [Doubling, Doubling()])
@pytest.mark.parametrize("metric", [None, Straight()])
def test_a_pace_in_a_few_lines_works_under_known_and_learned_metrics(pace, metric):
    curriculum = build("gradient", replace(PROBLEM, metric=metric), pace=pace, explore_steps=10)
    states = [state for state in walk(curriculum, 20) if state.kind == "train"]
    assert [state.alpha for state in states] == pytest.approx([0.0, 0.125, 0.25, 0.5, 1.0])
    assert states[-1].done
    assert states[-1].distribution is TARGET
    assert walk(build("linear", PROBLEM, pace=pace), 20)[-1].done
    assert walk(replace(curriculum, threshold=9.0), 20)[-1].alpha == 0.0  # the threshold is the curriculum's


def test_the_options_of_a_pace_are_options_of_the_method():
    assert build("gradient", PROBLEM, step=0.3, window=5, max_stage_steps=9).pace == FixedStep(0.3, 5, 9)
    assert build("linear", PROBLEM, pace="fixed", step=0.3).pace == FixedStep(0.3)
    adaptive = build("gradient", PROBLEM, pace="adaptive", stride=0.1, window=5, memory=50, bandwidth=0.1, success=0.5)
    assert adaptive.pace == AdaptivePace(0.1, 5, 50, 0.1, 0.5)
    assert build("gradient", PROBLEM, pace="particles").pace == PerParticlePace(0.1)
    assert build("gradient", PROBLEM, pace="particles", step=0.2).pace == PerParticlePace(0.2)
    assert build("gradient", PROBLEM, pace="particles", step=0.2, stride=0.3).pace == PerParticlePace(0.3)
    with pytest.raises(InvalidInput, match="expected an option of Gradient .*step, window.*, got 'gate'"):
        build("gradient", PROBLEM, gate=True)


@pytest.mark.parametrize(
    ("method", "options", "unused"),
    [
        ("gradient", {"stride": 0.5}, "stride"),
        ("linear", {"stride": 0.5}, "stride"),
        ("gradient", {"pace": "fixed", "memory": 3}, "memory"),
        ("gradient", {"pace": "adaptive", "step": 0.5}, "step"),
        ("gradient", {"pace": "adaptive", "max_stage_steps": 5}, "max_stage_steps"),
        ("gradient", {"pace": FixedStep, "stride": 0.5}, "stride"),
        ("gradient", {"pace": FixedStep(), "step": 0.5}, "step"),
    ],
)
def test_an_option_that_the_pace_does_not_have_is_refused(method, options, unused):
    with pytest.raises(InvalidInput, match=f"expected an option of .*, got '{unused}'"):
        build(method, PROBLEM, **options)


def test_a_threshold_goes_to_a_pace_without_one():
    for own, given in ((None, 5.0), (7.0, 7.0)):
        curriculum = gd.Gradient(SOURCE, TARGET, pace=FixedStep(threshold=own), threshold=5.0)
        assert curriculum.bound_pace(curriculum.init(RNG)).threshold == given
        assert curriculum.pace.threshold is own
    with pytest.raises(InvalidInput, match=r"expected a threshold, got none; try FixedStep\(threshold=...\)"):
        FixedStep(window=1).stage_status(gd.Gradient(SOURCE, TARGET).init(RNG).replace(recent=np.ones(1)))


def test_a_pace_may_be_in_a_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import geodesic.curricula as c\n"
        "class Mine(c.FixedStep):\n"
        "    def __init__(self, gain=1.0): super().__init__(step=gain / 10)\n"
        "ready = Mine(4)\n"
    )
    assert build("gradient", PROBLEM, pace=f"{file}:Mine", gain=3).pace.step == pytest.approx(0.3)
    assert build("gradient", PROBLEM, pace=f"{file}:Mine").pace.step == pytest.approx(0.1)
    assert build("gradient", PROBLEM, pace=f"{file}:ready").pace.step == pytest.approx(0.4)
    with pytest.raises(InvalidInput, match="expected an option of Gradient .*gain.*, got 'gian'"):
        build("gradient", PROBLEM, pace=f"{file}:Mine", gian=3)


def test_compounding_steps_are_algorithm_4_as_printed():
    """alpha grows by the step and the source moves along, so that each stage covers k * step of what remains."""
    curriculum = build("gradient", PROBLEM, pace="compounding", step=0.1, window=3)
    states = walk(curriculum, 11)
    remaining = np.cumprod([1 - 0.1 * k for k in range(1, 10)])
    assert [state.alpha for state in states] == pytest.approx([0, *(1 - remaining), 1])
    assert [round(state.alpha, 2) for state in states[1:6]] == [0.1, 0.28, 0.5, 0.7, 0.85]
    np.testing.assert_allclose(states[2].distribution.points, SOURCE.points + 4 * 0.28)
    assert states[-1].done
    assert states[-1].distribution is TARGET
