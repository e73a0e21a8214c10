"""The search for a source: from the whole space to where the agent is good enough."""

import gymnasium as gym
import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import CURROT, REGISTRY, Gradient, Search, build, options_of
from geodesic.curricula.search import SearchState
from geodesic.errors import InvalidInput, RunWarning

SPACE = gd.ContextSpace([-1.0, 0.0], [3.0, 10.0])
TARGET = gd.Particles.gaussian([2.5, 9.0], 0.1, 50, np.random.default_rng(0), SPACE.low, SPACE.high)
CELLS = np.stack(np.meshgrid(np.arange(9.0), np.arange(9.0)), axis=-1).reshape(-1, 2)
GRID = gd.metrics.Matrix(np.abs(CELLS[:, None] - CELLS).sum(axis=2), CELLS)
SOURCED = [name for name in REGISTRY if "source" in options_of(name) and not REGISTRY.get(name).searches]
FAST = {"goal-gan": {"pretrain_steps": 5, "fit_steps": 2}}


def problem(source="auto", **facts):
    return gd.Problem(source, TARGET, SPACE, 5.0, **facts)


def corner(contexts):
    """Good in a hundredth of the space only; elsewhere all alike."""
    return np.where((SPACE.to_unit(contexts) < 0.1).all(axis=1), 10.0, 0.0)


def run(curriculum, score, updates, seed=0, n=20):
    rng = np.random.default_rng(seed)
    states = [curriculum.init(rng)]
    for _ in range(updates):
        contexts = states[-1].distribution.sample(rng, n)
        episodes = gd.EpisodeBatch(contexts, score(contexts), np.full(n, 10), np.full(n, states[-1].stage))
        states.append(curriculum.update(states[-1], episodes, rng))
    return states


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_the_only_corner_in_which_the_agent_earns_anything(seed):
    states = run(build("gradient", problem()), corner, 20, seed)
    found = states[-1].found
    assert found is not None
    assert corner(found.points).mean() >= 4.0
    assert states[0].kind == "explore"
    assert abs(states[0].distribution.mean() - [1.0, 5.0]).max() < 0.8  # everywhere
    first = next(state for state in states if state.found is not None)
    assert (first.kind, first.event, first.alpha) == ("train", "source found", 0.0)
    assert first.distribution == found


def test_it_finds_a_corner_of_a_discrete_space():
    target = gd.Particles.categorical(CELLS.sum(axis=1) >= 15, CELLS)
    stated = gd.Problem("auto", target, gd.ContextSpace.discrete(CELLS), 5.0, GRID)
    states = run(build("gradient", stated), lambda c: np.where(c.sum(axis=1) <= 1, 10.0, 0.0), 30)
    assert states[-1].found is not None
    assert states[-1].found.points.sum(axis=1).mean() < 3.0


def test_it_follows_a_slope_and_its_noise_shrinks():
    states = run(build("gradient", problem()), lambda c: 6.0 - 8.0 * SPACE.to_unit(c).mean(axis=1), 30)
    searched = [state for state in states if state.found is None]
    spreads = [SPACE.to_unit(state.distribution.points).std() for state in searched]
    assert spreads[-1] < spreads[0]
    assert states[-1].found is not None


def test_where_the_agent_is_good_everywhere_the_source_is_the_whole_space():
    states = run(build("gradient", problem()), lambda c: np.full(len(c), 9.0), 12)
    assert states[1].found == states[0].distribution
    assert states[-1].alpha == 1.0
    assert states[-1].distribution is TARGET


def test_where_it_is_good_nowhere_the_search_continues():
    states = run(build("gradient", problem()), lambda c: np.zeros(len(c)), 12)
    assert states[-1].found is None
    assert [state.stage for state in states] == list(range(13))
    assert states[-1].event == "searching, 200 of 200 episodes kept"


@pytest.mark.parametrize("name", SOURCED)
def test_every_method_that_takes_a_source_can_be_searched_for(name):
    moments = (np.array([1.0, 1.0]), np.eye(2))
    curriculum = build(name, problem(source_moments=moments), **FAST.get(name, {}))
    assert isinstance(curriculum, Search)
    state = run(curriculum, lambda c: np.full(len(c), 9.0), 3)[-1]
    inner = curriculum.after(state.found)
    assert isinstance(inner, REGISTRY.get(name))
    assert inner.source is state.found
    assert getattr(inner, "source_moments", None) is None
    assert state.stage >= 1


def test_methods_without_a_source_or_with_their_own_search_are_built_at_once():
    for name in set(REGISTRY) - set(SOURCED):
        assert isinstance(build(name, problem()), REGISTRY.get(name))


def test_the_source_may_be_an_option():
    source = gd.Particles([[0.0, 1.0]])
    assert isinstance(build("currot", problem(source), source="auto"), Search)
    assert isinstance(build("currot", problem(), source=source), CURROT)
    direct = Search(lambda found: Gradient(found, TARGET, threshold=5.0), SPACE, 5.0, particles=30)
    assert len(direct.init(np.random.default_rng(0)).distribution) == 30


def test_a_method_refuses_auto_and_names_build():
    with pytest.raises(
        InvalidInput, match=r"expected source to be Particles, got 'auto'; try geodesic.curricula.build"
    ):
        gd.Gradient("auto", TARGET)
    with pytest.raises(InvalidInput, match="expected a bounded context space"):
        build("gradient", gd.Problem("auto", TARGET, gd.ContextSpace([-1.0, 0.0], [3.0, np.inf]), 5.0))


def test_late_episodes_of_the_search_do_not_count_for_the_method():
    curriculum = build("gradient", problem())
    state = next(s for s in run(curriculum, lambda c: np.full(len(c), 9.0), 2) if s.found is not None)
    old = gd.EpisodeBatch(SPACE.draw(50, np.random.default_rng(1)), np.full(50, 9.0), np.full(50, 10), np.zeros(50))
    assert curriculum.update(state, old, np.random.default_rng(2)).stage == state.stage


class Corner(gym.Env):
    """One step, which succeeds in the lower left of the contexts only; the agent is as good as can be."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)
    x = y = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        good = self.x < 0.1 and self.y < 0.1
        return np.zeros(1, np.float32), float(good), True, False, {"is_success": good}


def set_context(env, x, y):
    env.x, env.y = x, y


def corner_task(**facts):
    contexts = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    given = {"source": "auto", "target": {"x": (0.0, 0.05), "y": (0.0, 0.05)}, "threshold": 0.5, **facts}
    return gd.Task(Corner, contexts, set_context=set_context, **given)


@pytest.mark.parametrize(
    ("method", "score"),
    [
        ("gradient", "return"),
        ("currot:episodes_per_update=20", "return"),
        ("gradient:pace=adaptive", "discounted_return"),
        ("gradient:pace=particles:stride=0.5", "return"),
        ("gradient:pace=particles:stride=0.5", "discounted_return"),
        ("gradient:pace=particles:stride=0.5", "success"),
    ],
)
def test_only_the_target_has_to_be_known(method, score):
    """From the whole space into the only corner that can be solved, and on to the target, with any score."""
    task = corner_task(score=score)
    with pytest.warns(RunWarning, match="nothing to learn"):  # any action succeeds in the corner
        gd.check_task(task)
    teacher, env = gd.Teacher(task, method), task.make()
    for _ in range(100):
        contexts = teacher.sample(20)
        rewards = []
        for context in contexts:
            env.reset(options={"context": context})
            rewards.append(env.step(0)[1])
        unlike = [-100.0] * 20  # only the score counts
        returns = rewards if score == "return" else unlike
        teacher.report(contexts, returns, [1] * 20, successes=rewards, discounted=rewards)
        if teacher.alpha == 1.0:
            break
    assert teacher.alpha == 1.0


def test_the_source_may_be_an_option_of_a_task():
    task = gd.tasks.load("point-mass:source=auto")
    assert isinstance(gd.Teacher(task, "spdl").state, SearchState)
    low, high = task.source_particles.points.min(axis=0), task.source_particles.points.max(axis=0)
    assert (high - low > 0.9 * task.space.sides).all()
    assert isinstance(gd.Teacher(corner_task(source=None), "gradient").state, SearchState)  # the default


def test_wrong_options_are_refused_before_the_search():
    with pytest.raises(InvalidInput, match="expected an option of Gradient"):
        build("gradient", problem(), wrong=1)
    with pytest.raises(InvalidInput, match="expected epsilon to be positive"):
        build("currot", problem(), epsilon=-1.0)


def test_a_function_gets_a_source_that_was_found():
    curriculum = build(lambda facts: Gradient(facts.source, facts.target, threshold=facts.threshold), problem())
    assert isinstance(curriculum, Search)
    assert run(curriculum, lambda c: np.full(len(c), 9.0), 12)[-1].alpha == 1.0
