"""Methods by name, class, function and object; your own curricula."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import (
    CURROT,
    REGISTRY,
    Curriculum,
    Gradient,
    Search,
    State,
    Uniform,
    build,
    options_of,
    register,
)
from geodesic.errors import CheckpointError, InvalidInput, UnknownName

SPACE = gd.ContextSpace([0.0], [10.0])
SOURCE, TARGET = gd.Particles([[0.0], [1.0]]), gd.Particles([[8.0], [9.0]])
PROBLEM = gd.Problem(SOURCE, TARGET, SPACE, threshold=0.5, score="success")


class Halving(Curriculum):
    """Halves the distance to the target whenever the mean score exceeds the threshold."""

    def __init__(self, source, target, threshold, rate=0.5):
        self.source, self.target, self.threshold, self.rate = source, target, threshold, rate

    def init(self, rng):
        return State(self.source)

    def update(self, state, episodes, rng):
        own = episodes.of_stage(state.stage)
        if not self.has_episodes(state, own, rng) or own.scores(self.score).mean() <= self.threshold:
            return state
        points = state.distribution.points + self.rate * (self.target.points - state.distribution.points)
        return state.replace(
            distribution=gd.Particles(points), stage=state.stage + 1, alpha=1 - self.rate**state.stage, event="halved"
        )


def episodes(state, success=1.0, n=4):
    contexts = state.distribution.sample(np.random.default_rng(0), n)
    stages = np.full(n, state.stage)
    return gd.EpisodeBatch(contexts, np.full(n, -3.0), np.full(n, 5), stages, successes=np.full(n, success))


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(REGISTRY, "_values", dict(REGISTRY._values))
    return register("halving", Halving)


def test_your_own_curriculum_needs_init_and_update_only(registered):
    rng = np.random.default_rng(0)
    for method in (
        "halving",
        Halving,
        lambda problem, **options: Halving(SOURCE, TARGET, problem.threshold, **options),
    ):
        curriculum = build(method, PROBLEM, rate=0.25)
        state = curriculum.init(rng)
        assert curriculum.update(state, episodes(state, 0.5), rng) is state
        after = curriculum.update(state, episodes(state), rng)
        assert (after.stage, after.event) == (1, "halved")
        np.testing.assert_allclose(after.distribution.points, [[2.0], [3.0]])
        again = curriculum.load(curriculum.save(after))
        assert (again.distribution, again.stage, again.event) == (after.distribution, 1, "halved")
        assert curriculum.snapshot(after) == {}
    assert options_of("halving") == ["source", "target", "threshold", "rate"]
    assert Halving.description == "Halves the distance to the target whenever the mean score exceeds the threshold."
    assert Halving.colour is None
    with pytest.raises(InvalidInput, match="expected an option of Halving .*, got 'rat'"):
        build("halving", PROBLEM, rat=0.25)


def test_an_object_is_taken_as_it_is_and_looks_at_the_problems_score():
    given = Gradient(SOURCE, TARGET, threshold=0.5)
    assert build(given, gd.Problem(SOURCE, TARGET, SPACE, threshold=9.0)) is given
    used = build(given, PROBLEM)
    assert (used.score, used.bound_pace(used.init(np.random.default_rng(0))).score, used.pace, given.score) == (
        "success",
        "success",
        given.pace,
        "return",
    )
    chosen = Gradient(SOURCE, TARGET, threshold=0.5, score="discounted_return")
    assert build(chosen, PROBLEM) is chosen
    assert build(Halving(SOURCE, TARGET, 0.5), PROBLEM).score == "success"
    with pytest.raises(InvalidInput, match="expected no options for a Curriculum object, got step"):
        build(given, PROBLEM, step=0.2)


def test_a_score_may_be_an_option():
    assert build("gradient", PROBLEM).score == "success"
    assert build("gradient", PROBLEM, score="return").score == "return"
    assert build("gradient", PROBLEM, source="auto", score="return").score == "return"
    with pytest.raises(UnknownName, match="expected score to be one of return, discounted_return, success; got 'mean'"):
        Gradient(SOURCE, TARGET, score="mean")


def test_a_class_may_treat_options_in_its_own_way():
    class Percent(Uniform):
        @classmethod
        def from_problem(cls, problem, *, percent=100):
            return cls(problem.space, particles=10 * percent)

    assert build(Percent, PROBLEM, percent=5).particles == 50


def test_references_are_methods_too(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import geodesic.curricula as c\n"
        "def method(problem, step=0.5): return c.Gradient(problem.source, problem.target, pace=c.FixedStep(step))\n"
        "class Mine(c.TargetOnly): pass\n"
        "other = 3\n"
        "def wrong(problem): return None\n"
    )
    assert build(f"{file}:method", PROBLEM, step=0.25).pace.step == 0.25
    assert options_of(f"{file}:method") == ["step"]
    assert build(f"{file}:Mine", PROBLEM).target is TARGET
    assert isinstance(build("geodesic.curricula.currot:CURROT", PROBLEM), CURROT)
    for name, message in (
        ("other", "expected a method to be a function"),
        ("wrong", "expected the result of the method"),
    ):
        with pytest.raises(InvalidInput, match=message):
            build(f"{file}:{name}", PROBLEM)
    with pytest.raises(InvalidInput, match="expected a subclass of Curriculum, got <class 'dict'>"):
        build(dict, PROBLEM)
    with pytest.raises(
        UnknownName, match="expected method to be one of auto, gradient, .*; got 'gradint'; did you mean gradient"
    ):
        build("gradint", PROBLEM)


def test_a_class_without_a_source_needs_no_search():
    class Target(Curriculum):
        def __init__(self, target):
            self.target = target

        def init(self, rng):
            return State(self.target, done=True)

        def update(self, state, episodes, rng):
            return state

    unknown = gd.Problem("auto", TARGET, SPACE, threshold=0.5)
    assert isinstance(build(Target, unknown), Target)
    assert isinstance(build(Halving, unknown), Search)


@dataclass(frozen=True)
class Part:
    values: np.ndarray
    here: gd.Particles | None = None
    count: int = 0


@dataclass(frozen=True, repr=False)
class NestedState(State):
    part: Part | None = None
    seen: gd.EpisodeBatch = field(default_factory=lambda: gd.EpisodeBatch.empty(1))
    arrays: dict = field(default_factory=dict)


class Nested(Curriculum[NestedState]):
    def init(self, rng):
        return NestedState(SOURCE)

    def update(self, state, episodes, rng):
        return state


class Erring(Curriculum):
    """Needs value losses, a source and a threshold."""

    follows_threshold = True
    needs_value_losses = True

    def __init__(self, source, threshold):
        self.source, self.threshold = source, threshold

    def init(self, rng):
        return State(self.source)

    def update(self, state, episodes, rng):
        return state


@pytest.mark.parametrize(
    "facts", [{}, {"source": "auto"}, {"threshold": "auto"}, {"source": "auto", "threshold": "auto"}]
)
def test_what_a_method_needs_is_known_before_its_source_and_threshold_are_found(facts):
    for method, needed in ((Erring, True), ("gradient", False)):
        assert build(method, replace(PROBLEM, score="return", **facts)).needs_value_losses is needed


def test_states_of_dataclasses_are_saved_and_loaded():
    curriculum, rng = Nested(), np.random.default_rng(0)
    assert curriculum.state_type is NestedState
    bare = curriculum.init(rng)
    assert curriculum.load(curriculum.save(bare)).part is None
    part = Part(np.arange(3.0), TARGET, 7)
    state = bare.replace(part=part, seen=episodes(bare), arrays={"a": {"b": np.ones(2)}, "c": np.zeros(1)})
    saved = curriculum.save(state)
    assert all(array.dtype != object for array in saved.values())
    loaded = curriculum.load(saved)
    assert (loaded.part.here, loaded.part.count, loaded.part.values.tolist()) == (TARGET, 7, [0.0, 1.0, 2.0])
    assert loaded.seen.successes.tolist() == [1.0] * 4
    assert loaded.arrays["a"]["b"].tolist() == [1.0, 1.0]
    del saved["part/count"]
    with pytest.raises(CheckpointError, match="expected a saved NestedState, got one without 'part/count'"):
        curriculum.load(saved)
