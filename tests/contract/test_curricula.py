"""The contract of every curriculum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import REGISTRY, Curriculum, build
from geodesic.metrics import Embedding, Graph, LearnedMetric, Matrix, Metric, ReturnLift

FAST: dict[str, dict[str, Any]] = {
    "alp-gmm": {"fit_rate": 30},
    "goal-gan": {"pretrain_steps": 20, "fit_steps": 5, "noise": 0.05},
    "spdl": {"steps_per_iteration": 200},
    "wb-spdl": {"episodes_per_update": 20, "n_particles": 30},
    "currot": {"episodes_per_update": 20, "n_particles": 30},
    "learning-progress": {"probe": 40},
    "plr": {"buffer": 60},
    "spgl": {"steps_per_iteration": 200},
    "doraemon": {"episodes_per_update": 30},
}


def box(d: int) -> gd.Problem:
    rng = np.random.default_rng(d)
    space = gd.ContextSpace(np.arange(d) - 1.0, np.arange(d) + 3.0)
    return gd.Problem(
        source=gd.Particles.gaussian(space.low + 1.0, 0.4, 60, rng, space.low, space.high),
        target=gd.Particles.gaussian(space.high - 0.5, 0.1, 60, rng, space.low, space.high),
        space=space,
        threshold=5.0,
    )


def grid() -> gd.Problem:
    cells = np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0)), axis=-1).reshape(-1, 2)
    near, far = (cells.sum(axis=1) <= 2).astype(float), (cells.sum(axis=1) >= 8).astype(float)
    return gd.Problem(
        source=gd.Particles.categorical(near, cells),
        target=gd.Particles.categorical(far, cells),
        space=gd.ContextSpace.discrete(cells),
        threshold=5.0,
        metric=gd.metrics.Matrix(np.abs(cells[:, None] - cells).sum(axis=2), cells),
    )


def mixed(sides: dict[str, Any], easy: dict[str, Any], hard: dict[str, Any]) -> gd.Problem:
    """A problem whose contexts have integers or categories."""
    rng, space = np.random.default_rng(0), gd.ContextSpace.of(sides)
    source, target = (space.uniform(60, rng, ends) for ends in (easy, hard))
    return gd.Problem(source, target, space, threshold=5.0)


WEATHER = {"gravity": (2.0, 60.0), "opponent": ["passive", "random", "chaser"], "obstacles": range(10)}
EASY = {"gravity": (5.0, 10.0), "opponent": "passive", "obstacles": (0, 1)}
HARD = {"gravity": (40.0, 50.0), "opponent": ["random", "chaser"], "obstacles": (6, 9)}


def refitted(
    learned: Callable[[gd.Problem], LearnedMetric], method: str = "gradient", **options: Any
) -> Callable[[gd.Problem], Curriculum[Any]]:
    """A method under a metric that is fitted to the episodes."""
    return lambda problem: build(method, replace(problem, metric=learned(problem)), explore_steps=200, **options)


def found(method: str, *facts: str) -> Callable[[gd.Problem], Curriculum[Any]]:
    """A method that finds some of a problem's facts during training."""
    return lambda problem: build(method, replace(problem, **dict.fromkeys(facts, "auto")), **FAST.get(method, {}))


@dataclass(frozen=True)
class Nearest:
    """A metric that is fitted at once: a graph of the contexts seen, or the support of a discrete space."""

    problem: gd.Problem
    memory: int = 50

    @property
    def space(self) -> gd.ContextSpace:
        return self.problem.space

    def fit(self, episodes: gd.EpisodeBatch, rng: np.random.Generator, anchors: Any = None) -> Metric:
        if self.space.support is not None:
            return Matrix(np.abs(self.space.support[:, None] - self.space.support).sum(axis=2), self.space.support)
        return Graph.knn(np.unique(np.concatenate([episodes.contexts, anchors]), axis=0), 8)


CURRICULA: dict[str, Callable[[gd.Problem], Curriculum[Any]]] = {
    **{name: lambda problem, name=name: build(name, problem, **FAST.get(name, {})) for name in REGISTRY},
    "gradient, adaptive": lambda problem: build("gradient", problem, pace="adaptive"),
    "gradient, compounding": lambda problem: build("gradient", problem, pace="compounding"),
    "gradient, particles": lambda problem: build("gradient", problem, pace="particles"),
    "learnability, measured": lambda problem: build("learnability", problem, rollouts=1, candidates=20),
    "linear, adaptive": lambda problem: build("linear", problem, pace="adaptive"),
    **{f"{name}, source found": found(name, "source") for name in ("auto", "gradient", "currot", "spdl")},
    **{f"{name}, threshold found": found(name, "threshold") for name in ("auto", "gradient", "linear")},
    **{f"{name}, both found": found(name, "source", "threshold") for name in ("auto", "gradient")},
    "auto, refitted": refitted(Nearest, "auto"),
    "gradient, return-lift": refitted(lambda p: ReturnLift(p.space, p.worst_return, p.threshold)),
    "gradient, embedding": refitted(lambda p: Embedding(p.space, p.worst_return, contexts=60, epochs=5)),
    "gradient, refitted, adaptive": refitted(Nearest, pace="adaptive"),
    "gradient, refitted, particles": refitted(Nearest, pace="particles"),
}
PROBLEMS: dict[str, Callable[[], gd.Problem]] = {
    "1-D": lambda: box(1),
    "2-D": lambda: box(2),
    "3-D": lambda: box(3),
    "discrete": grid,
    "number, category, integer": lambda: mixed(WEATHER, EASY, HARD),
}
REFUSALS = {  # of methods, and of what
    "spdl": "expected contexts without categories for SPDL",
    "spgl": "expected contexts without categories for SPGL",
    "adr": "expected contexts without categories for ADR",
    "doraemon": "expected contexts without categories for DORAEMON",
    "return-lift": "expected numbers as contexts, got integers or categories; try Embedding or Product",
}


@pytest.fixture(params=PROBLEMS)
def problem(request: pytest.FixtureRequest) -> gd.Problem:
    return PROBLEMS[request.param]()


@pytest.fixture(params=CURRICULA)
def curriculum(request: pytest.FixtureRequest, problem: gd.Problem) -> Curriculum:
    return built(request.param, problem)


def built(name: str, problem: gd.Problem) -> Curriculum[Any]:
    """A curriculum; one that does not know such contexts is refused in one line."""
    for method, message in REFUSALS.items():
        if problem.space.mixed and name.split(", ")[0 if method in REGISTRY else -1] == method:
            with pytest.raises(gd.GeodesicError, match=message) as caught:
                CURRICULA[name](problem)
            assert "\n" not in str(caught.value)
            pytest.skip("refused")
    return CURRICULA[name](problem)


def report(state: gd.State, rng: np.random.Generator, n: int = 15) -> gd.EpisodeBatch:
    """Episodes of an agent that masters most contexts."""
    contexts = state.distribution.sample(rng, n)
    returns = np.where(rng.random(n) < 0.8, 10.0, 0.0) + rng.normal(size=n)
    lengths, losses = rng.integers(10, 30, n), np.abs(returns - 8.0)
    stages = np.full(n, state.stage)
    return gd.EpisodeBatch(
        contexts, np.maximum(returns, 0.0), lengths, stages, value_l1=losses, positive_value_loss=losses / 2
    )


def trail(curriculum: Curriculum, rounds: int = 14, seed: int = 0) -> list[gd.State]:
    rng = np.random.default_rng(seed)
    states = [curriculum.init(rng)]
    for _ in range(rounds):
        states.append(curriculum.update(states[-1], report(states[-1], rng), rng))
    return states


def frozen(curriculum: Curriculum, state: gd.State) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in curriculum.save(state).items()}


def test_contexts_stay_in_the_space_and_stages_count_distributions(curriculum: Curriculum, problem: gd.Problem) -> None:
    states = trail(curriculum)
    for before, after in pairwise(states):
        assert problem.space.contains(after.distribution.points).all()
        assert 0.0 <= after.alpha <= 1.0
        assert after.stage - before.stage == (before.distribution is not after.distribution)


def test_the_same_inputs_give_the_same_states(curriculum: Curriculum) -> None:
    first, second = trail(curriculum), trail(curriculum)
    assert [frozen(curriculum, state) for state in first] == [frozen(curriculum, state) for state in second]


def test_empty_feedback_changes_nothing(curriculum: Curriculum, problem: gd.Problem) -> None:
    for state in trail(curriculum)[::4]:
        rng = np.random.default_rng(1)
        after = curriculum.update(state, gd.EpisodeBatch.empty(problem.space.dim), rng)
        assert frozen(curriculum, after) == frozen(curriculum, state)
        assert rng.bit_generator.state == np.random.default_rng(1).bit_generator.state


def test_update_does_not_change_its_arguments(curriculum: Curriculum) -> None:
    state = trail(curriculum)[-1]
    episodes = report(state, np.random.default_rng(2), n=60)
    before, columns = frozen(curriculum, state), [np.copy(column) for column in episodes.columns()]
    curriculum.update(state, episodes, np.random.default_rng(3))
    assert frozen(curriculum, state) == before
    for column, copy in zip(episodes.columns(), columns):
        np.testing.assert_array_equal(column, copy)


def test_a_saved_state_loads_to_the_same_bytes_and_continues_alike(curriculum: Curriculum) -> None:
    for state in trail(curriculum)[::7]:
        loaded = curriculum.load(curriculum.save(state))
        assert type(loaded) is type(state)
        assert frozen(curriculum, loaded) == frozen(curriculum, state)
        for field in fields(state):
            assert type(getattr(loaded, field.name)) is type(getattr(state, field.name)), field.name
        episodes = report(state, np.random.default_rng(4), n=60)
        ahead = [curriculum.update(s, episodes, np.random.default_rng(5)) for s in (state, loaded)]
        assert frozen(curriculum, ahead[0]) == frozen(curriculum, ahead[1])


def test_episodes_of_earlier_stages_are_no_error(curriculum: Curriculum, problem: gd.Problem) -> None:
    state = trail(curriculum)[-1]
    episodes = report(state, np.random.default_rng(6))
    old = episodes.with_stages(np.zeros(len(episodes)))
    after = curriculum.update(state, old, np.random.default_rng(7))
    assert problem.space.contains(after.distribution.points).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda d: {"episodes": gd.EpisodeBatch(np.zeros((2, d + 1)), [0, 0], [1, 1], [0, 0])},
            "contexts of dimension",
        ),
        (lambda d: {"episodes": [1, 2]}, "expected episodes to be EpisodeBatch, got list"),
        (lambda d: {"rng": 0}, "expected rng to be a numpy.random.Generator, got 0"),
        (lambda d: {"state": None}, "State, got NoneType"),
    ],
)
def test_invalid_arguments_of_update_are_refused(
    curriculum: Curriculum, problem: gd.Problem, wrong: Any, message: str
) -> None:
    state = trail(curriculum, rounds=0)[0]
    given = {"state": state, "episodes": report(state, np.random.default_rng(0)), "rng": np.random.default_rng(0)}
    with pytest.raises(gd.GeodesicError, match=message):
        curriculum.update(**{**given, **wrong(problem.space.dim)})


def test_the_repr_of_a_state_is_one_short_line(curriculum: Curriculum) -> None:
    for state in trail(curriculum):
        assert repr(state).startswith(f"{type(state).__name__}(stage {state.stage}, alpha ")
        assert len(repr(state)) < 120, repr(state)
        assert len(repr(state.distribution)) < 120
        assert "\n" not in repr(state)


def test_snapshots_are_arrays(curriculum: Curriculum) -> None:
    for array in curriculum.snapshot(trail(curriculum)[-1]).values():
        assert isinstance(array, np.ndarray)
        assert array.dtype != object


@pytest.mark.parametrize("name", [name for name in CURRICULA if name not in ("target-only", "uniform")])
def test_adaptive_methods_do_change_their_distribution(name: str, problem: gd.Problem) -> None:
    last = trail(built(name, problem))[-1]
    assert last.stage >= 2 or (name.startswith("auto") and last.alpha == 1.0)  # which may go to the target at once


@pytest.mark.parametrize("name", list(REGISTRY))
def test_build_refuses_options_that_a_method_does_not_have(name: str) -> None:
    with pytest.raises(gd.GeodesicError, match="expected an option of .* got 'wrong'"):
        build(name, box(2), wrong=1)


def test_every_method_is_built_from_the_problem_alone(problem: gd.Problem) -> None:
    for name in set(REGISTRY) - (set(REFUSALS) if problem.space.mixed else set()):
        assert isinstance(build(name, problem), Curriculum)


def test_a_curriculum_looks_at_its_score_only(problem: gd.Problem) -> None:
    """With the successes as its score, a curriculum moves as it does on returns equal to them."""
    for name in sorted({"gradient", "alp-gmm", "currot", "procurl-target"}):
        plain, scored = (
            build(name, replace(problem, threshold=0.5, score=score), **FAST.get(name, {}))
            for score in ("return", "success")
        )
        assert scored.score == "success"
        rngs = [np.random.default_rng(0), np.random.default_rng(0)]
        states = [plain.init(rngs[0]), scored.init(rngs[1])]
        for _ in range(10):
            given = report(states[0], np.random.default_rng(states[0].stage), n=15)
            successes = (given.returns > 5).astype(float)
            pairs = ((successes, None), (np.full(15, -9.0), successes))
            batches = [gd.EpisodeBatch(given.contexts, r, given.lengths, given.stages, successes=s) for r, s in pairs]
            states = [c.update(s, e, rng) for c, s, e, rng in zip((plain, scored), states, batches, rngs)]
            assert states[0].distribution == states[1].distribution
        assert states[0].stage > 0


def test_every_method_has_a_description_and_a_colour_of_its_own() -> None:
    methods = [REGISTRY.get(name) for name in REGISTRY]
    assert all(method.description.endswith(".") and "\n" not in method.description for method in methods)
    assert len({method.colour for method in methods}) == len(methods)
