"""check_task: what it accepts, and the messages of what it finds."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
from problems import Walk, cart_pole, set_context, walk

import geodesic as gd
from extras import each
from geodesic.curricula import REGISTRY
from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean
from geodesic.tasks import catalogue

BOX = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)


@pytest.mark.parametrize("name", each(catalogue.BUILT_IN))
def test_every_built_in_task_passes(name):
    gd.check_task(catalogue.load(name))


@pytest.mark.parametrize("observe_context", [True, False])
def test_cart_pole_with_gravity_and_length_passes(observe_context):
    gd.check_task(cart_pole(observe_context=observe_context))
    gd.check_task(cart_pole(observe_context=observe_context, worst_return=0.0, env=lambda: gym.make("CartPole-v1")))


def test_a_custom_mdp_passes():
    gd.check_task(walk())
    compare = gd.TrainingSettings(compare=("spdl", "wb-spdl", "currot"))
    solves = type("Solves", (Walk,), {"success": lambda self, state, context: jnp.abs(state - context[0]) < 1.0})
    gd.check_task(walk(solves(), worst_return=-200.0, score="success", threshold=0.5, training=compare))


def test_a_custom_layout_passes(tmp_path):
    (tmp_path / "small.txt").write_text("######\n#..#G#\n#....#\n######\n")
    gd.check_task(catalogue.load(f"maze:layout={tmp_path / 'small.txt'}"))


def test_a_value_that_is_no_task_is_refused():
    with pytest.raises(InvalidInput) as caught:
        gd.check_task("maze")
    assert str(caught.value) == "expected a Task, got str"


def broken(**parts):
    """The walk with some of its parts replaced; the first context that is checked is 1."""
    return walk(type("Broken", (Walk,), parts)(), source={"place": 1.0})


def without_context(self, state, action, rng):
    return state


def other_name(env, wrong):
    pass


def without_threshold(task):
    return Euclidean()


class Pair(Walk):
    """A state of two arrays."""

    def initial(self, rng, context):
        return (jnp.float32(0), jnp.int32(0))

    def observation(self, state, rng, context):
        return jnp.stack([state[0], context[0]])

    def terminal(self, state, rng, context):
        return state[1] > 3

    def reward(self, state, action, next_state, rng, context):
        return jnp.float32(-1)


class Listed(Pair):
    def transition(self, state, action, rng, context):
        return [state[0], state[1] + 1]


class Bare(gd.ContextualMDP):
    """Functions, but neither spaces nor a time limit."""

    initial, transition, observation, reward, terminal = (
        getattr(Walk, part) for part in ("initial", "transition", "observation", "reward", "terminal")
    )


def with_parts(**parts):
    return walk(type("Bare", (Bare,), parts)())


AT_ONE = "context place=1 of the source"
IN_JAX = [
    (
        lambda: broken(transition=lambda self, state, action, rng, context: jnp.stack([state, state])),
        "expected transition to keep the state's shapes float32(), got float32(2,)",
    ),
    (
        lambda: broken(transition=lambda self, state, action, rng, context: jnp.int32(state)),
        "expected transition to keep the state's shapes float32(), got int32()",
    ),
    (
        lambda: walk(Listed()),
        "expected transition to keep the state's shapes (float32(), int32()), got [float32(), int32()]",
    ),
    (
        lambda: broken(reward=lambda self, state, action, next_state, rng, context: context),
        "expected reward of shape (), got shape (1,); a context is a vector: try context[0]",
    ),
    (
        lambda: broken(observation=lambda self, state, rng, context: context),
        "expected observation of shape (2,), got shape (1,)",
    ),
    (
        lambda: broken(success=lambda self, state, context: context > 0),
        "expected success of shape (), got shape (1,); a context is a vector: try context[0]",
    ),
    (
        lambda: broken(terminal=lambda self, state, rng, context: state - context[0]),
        "expected terminal to be a boolean, got float32; try a comparison",
    ),
    (
        lambda: with_parts(observation_space=Walk.observation_space, action_space=Walk.action_space),
        "expected the environment to state max_steps, the time limit of an episode, got None",
    ),
    (
        lambda: broken(max_steps=0),
        "expected the environment to state max_steps, the time limit of an episode, got 0",
    ),
    (
        lambda: with_parts(max_steps=9, action_space=Walk.action_space),
        "expected the environment to state observation_space, a Gymnasium space; got None",
    ),
    (
        lambda: with_parts(max_steps=9, observation_space=Walk.observation_space),
        "expected the environment to state action_space, a Gymnasium space; got None",
    ),
    (
        lambda: broken(reward=lambda self, state, action, next_state, rng, context: jnp.log(-1.0 - state**2)),
        f"expected finite rewards, got nan ({AT_ONE})",
    ),
    (
        lambda: broken(reward=lambda self, state, action, next_state, rng, context: None),
        "expected reward to be an array of real numbers, got NoneType",
    ),
    (
        lambda: broken(reward=lambda self, state, action, next_state, rng, context: 1j * state),
        "expected reward to be an array of real numbers, got complex64",
    ),
    (
        lambda: broken(observation=lambda self, state, rng, context: jnp.stack([state, 99 + context[0]])),
        "expected observations in Box(-10.0, 10.0, (2,), float32), got 100 in entry [1]; "
        f"try wider bounds of observation_space ({AT_ONE})",
    ),
    (
        lambda: broken(initial=lambda self, rng, context: jnp.float32(1 / 0)),
        "expected initial(rng, context) to work, got ZeroDivisionError: division by zero",
    ),
    (
        lambda: broken(transition=without_context),
        "expected transition(state, action, rng, context) to work, got TypeError: "
        "without_context() takes 4 positional arguments but 5 were given",
    ),
    (
        lambda: broken(action_space=gym.spaces.MultiDiscrete([2]), transition=lambda self, state, *rest: state),
        "expected a Box or Discrete action space, got MultiDiscrete([2])",
    ),
]


@pytest.mark.parametrize(("make", "message"), IN_JAX)
def test_a_broken_mdp_is_found(make, message):
    task = make()
    with pytest.raises(InvalidInput) as caught:
        gd.check_task(task)
    assert str(caught.value) == message


NO_REWARDS = {
    "none": (None, "None"),
    "array": (np.zeros(3), "array([0., 0., 0.])"),
    "one number in an array": (np.zeros(1), "array([0.])"),
    "complex": (1j, "1j"),
    "string": ("1.0", "'1.0'"),
    "ragged": ([1.0, [2.0]], "[1.0, [2.0]]"),
}


class Noisy(gym.Env):
    """An environment that ignores the seed and has the given fault."""

    observation_space = BOX
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fault):
        self.fault, self.size, self.count = fault, 0.0, 0
        self.noise = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observation(), {}

    def step(self, action):
        if self.fault == "step":
            raise RuntimeError("out of order\nand a second line")
        reward = {"nan": np.nan, "inf": np.inf, "reward": self.noise.random()}.get(self.fault, 0.0)
        reward = NO_REWARDS[self.fault][0] if self.fault in NO_REWARDS else reward
        self.count += 1
        return self.observation(), reward, False, self.count >= 20, {}

    def observation(self):
        value = {"unseeded": self.noise.random(), "outside": 7.0}.get(self.fault, min(self.size, 1.0))
        return np.array([value], np.float64 if self.fault == "dtype" else np.float32)


def grow(env, size):
    env.size += size


def noisy(fault, set_context=grow, **options):
    return gd.Task(
        **{
            "env": lambda: Noisy(fault),
            "contexts": {"size": (0.1, 0.2)},
            "source": {"size": 0.1},
            "target": {"size": 0.2},
            "threshold": 1.0,
            "set_context": set_context,
            "observe_context": False,
            **options,
        }
    )


def fails(**options):
    raise OSError("no simulator here")


SMALL = "(context size=0.1 of the source)"
DIFFERENT = (
    "expected the same seed and context to give the same episode, got another; try a reset that starts from scratch, "
    f"and self.np_random as the only generator {SMALL}"
)
ON_HOST = [
    (lambda: noisy("unseeded"), DIFFERENT),
    (lambda: noisy("reward"), DIFFERENT),
    (lambda: noisy(""), DIFFERENT),  # set_context adds where it should set
    (lambda: noisy("nan"), f"expected finite rewards, got nan {SMALL}"),
    (lambda: noisy("inf"), f"expected finite rewards, got inf {SMALL}"),
    (lambda: noisy("step"), f"expected step to work, got RuntimeError: out of order and a second line {SMALL}"),
    (
        lambda: noisy("outside"),
        "expected observations in Box(-1.0, 1.0, (1,), float32), got 7 in entry [0]; "
        f"try wider bounds of observation_space {SMALL}",
    ),
    (lambda: noisy("dtype"), f"expected observations of type float32, got float64; try .astype(np.float32) {SMALL}"),
    (
        lambda: noisy("", set_context=other_name),
        "expected set_context(env, size) to set the context of <Noisy instance>, "
        f"got TypeError: other_name() got an unexpected keyword argument 'size' {SMALL}",
    ),
    (lambda: noisy("", env=fails), "expected making the environment to work, got OSError: no simulator here"),
    (lambda: noisy("", env=lambda: 3), "expected env() to make a Gymnasium environment, got int"),
    (
        lambda: cart_pole(env="CardPole-v1"),
        "expected env= to make a Gymnasium environment, got NameNotFound: Environment `CardPole` doesn't exist. "
        "Did you mean: `CartPole`?",
    ),
    (
        lambda: cart_pole(env="FrozenLake-v1", set_context=lambda env, **context: None),
        "expected a Dict, an image or a one-dimensional Box of floats to append the context to, got Discrete(16); "
        "try observe_context=False, or flatten the observation first",
    ),
]


@pytest.mark.parametrize(("make", "message"), ON_HOST)
def test_a_broken_gymnasium_environment_is_found(make, message):
    task = make()
    with pytest.raises(InvalidInput) as caught:
        gd.check_task(task)
    assert str(caught.value) == message


@pytest.mark.parametrize("fault", NO_REWARDS)
def test_a_reward_that_is_no_real_number_is_found(fault):
    with pytest.raises(InvalidInput) as caught:
        gd.check_task(noisy(fault))
    expected = f"expected step to return a real number as the reward, got {NO_REWARDS[fault][1]} {SMALL}"
    assert str(caught.value) == expected


@pytest.mark.parametrize("reward", [1, True, np.float32(1), np.bool_(True), np.array(1.0), jnp.float32(1)])
def test_a_reward_may_be_any_real_number(reward, monkeypatch):
    monkeypatch.setitem(NO_REWARDS, "fine", (reward, ""))
    gd.check_task(noisy("fine", set_context=put_size, threshold="auto"))


def put_size(env, size):
    env.size = size


def test_the_same_environment_without_a_fault_passes():
    gd.check_task(noisy("", set_context=put_size))


class Skewed(Euclidean):
    def pairwise(self, x, y):
        return x[:, :1] - y[:, 0]


class Blind(Euclidean):
    def pairwise(self, x, y):
        return np.full((len(x), len(y)), np.nan)


class Narrow(Euclidean):
    def pairwise(self, x, y):
        return np.zeros(3)


def compared(method):
    return walk(training=gd.TrainingSettings(compare=(method,)))


METHODS = [
    (
        lambda: walk(metrics={"mine": Skewed()}),
        "expected metric 'mine' to be symmetric and non-negative, got other distances",
    ),
    (
        lambda: walk(metrics={"mine": Blind()}),
        "expected metric 'mine' to give finite distances (n, n), got shape (10, 10)",
    ),
    (
        lambda: walk(metrics={"mine": Narrow()}),
        "expected metric 'mine' to give finite distances (n, n), got shape (3,)",
    ),
    (
        lambda: walk(metrics={"mine": lambda task, threshold: None}),
        "expected metric 'mine' to be a Metric or a LearnedMetric, got None",
    ),
    (
        lambda: walk(metrics={"mine": without_threshold}),
        "expected making metric 'mine' to work, got TypeError: "
        "without_threshold() takes 1 positional argument but 2 were given",
    ),
    (
        lambda: walk(metrics={"mine": Euclidean([1.0, 2.0])}),
        "expected contexts of dimension 2, got dimension 1",
    ),
    (
        lambda: walk(best_return=lambda contexts: 1 / 0),
        "expected best_return(contexts) to work, got ZeroDivisionError: division by zero",
    ),
    (
        lambda: walk(is_feasible=lambda contexts: contexts > 0),
        "expected is_feasible(contexts) of shape (200,), got shape (200, 1)",
    ),
    (lambda: compared("spdl"), "expected worst_return= in task Walk for the method spdl"),
    (
        lambda: compared("gradients"),
        f"expected method to be one of {', '.join(REGISTRY)}; got 'gradients'; did you mean gradient?",
    ),
    (
        lambda: compared("uniform:metric=l2"),
        "expected a method that uses a metric (auto, gradient), got uniform with metric l2",
    ),
    (
        lambda: compared("gradient:step=3"),
        "expected step in (0, 1], got 3",
    ),
    (
        lambda: walk(best_return=lambda contexts: np.full(len(contexts), -50.0)),
        "expected a threshold that the target can reach (below -50), got -40",
    ),
    (
        lambda: walk(score="success", threshold=1.0),
        "expected a threshold that the target can reach (below 1), got 1",
    ),
    (
        lambda: walk(worst_return=-40.0),
        "expected a threshold above the worst return -40.0, got -40.0",
    ),
]


@pytest.mark.parametrize(("make", "message"), METHODS)
def test_metrics_methods_and_thresholds_that_do_not_fit_are_found(make, message):
    task = make()
    with pytest.raises(InvalidInput) as caught:
        gd.check_task(task)
    assert str(caught.value) == message


def test_the_environment_is_closed():
    closed = []

    class Closing(gym.Wrapper):
        def close(self):
            closed.append(True)
            super().close()

    def set_inner(env, **context):
        set_context(env.unwrapped, **context)

    gd.check_task(cart_pole(env=lambda: Closing(gym.make("CartPole-v1")), set_context=set_inner))
    assert closed == [True]
