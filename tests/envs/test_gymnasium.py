"""Contexts in any Gymnasium environment, and contextual MDPs as Gymnasium environments."""

import warnings

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.monitor import Monitor

import geodesic as gd
from geodesic.envs.cmdp import ContextualEnv, VectorContextualEnv
from geodesic.envs.gymnasium import set_attributes, success_of, time_limit
from geodesic.errors import InvalidInput
from mixed_walk import mixed_walk

CONTEXTS = {"gravity": (5.0, 15.0, "m/s²"), "length": (0.25, 1.25, "m")}


def set_context(env, gravity, length):
    env.gravity = gravity
    env.length = length
    env.polemass_length = env.masspole * length  # which CartPole computes only in its constructor


def cart_pole(**options):
    return gd.ContextWrapper(gym.make("CartPole-v1"), CONTEXTS, set_context, **options)


class Recorder(gym.Env):
    """Records the weight and the options of every reset; any observation space."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, space, value):
        self.observation_space, self.value = space, value
        self.weight, self.seen = None, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen.append((self.weight, options))
        return self.value, {"own": "entry"}

    def step(self, action):
        return self.value, 1.0, False, False, {"own": "entry", "stage": "overwritten"}


def set_weight(env, weight):
    env.weight = weight


def recorder(space=None, value=None, **options):
    box = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    inner = Recorder(box if space is None else space, np.zeros(2, np.float32) if value is None else value)
    return gd.ContextWrapper(inner, {"weight": (0.0, 4.0)}, set_weight, **options)


def rollout(env, actions):
    return np.stack([env.step(action)[0] for action in actions])


def test_the_context_is_in_place_before_the_inner_environment_resets():
    env = recorder()
    for weight in (1.0, 3.0):
        env.reset(options={"context": [weight]})
    assert env.unwrapped.seen == [(1.0, None), (3.0, None)]


def test_the_dynamics_are_those_of_the_context():
    """Against a plain CartPole whose attributes are set by hand: the same seed gives the same episode."""
    actions = [0, 1, 1, 0, 0, 1, 0, 1, 1, 1]
    env, plain = cart_pole(), gym.make("CartPole-v1")
    env.reset(seed=7, options={"context": [12.0, 1.0]})
    plain.unwrapped.gravity, plain.unwrapped.length, plain.unwrapped.polemass_length = 12.0, 1.0, 0.1
    plain.reset(seed=7)
    heavy = rollout(env, actions)
    np.testing.assert_array_equal(heavy[:, :4], rollout(plain, actions))
    env.reset(seed=7, options={"context": [9.8, 0.5]})
    usual = gym.make("CartPole-v1")
    usual.reset(seed=7)
    light = rollout(env, actions)
    np.testing.assert_array_equal(light[:, :4], rollout(usual, actions))
    assert np.abs(heavy - light)[:, :4].max() > 0.01


def test_contexts_do_not_change_the_environments_own_randomness():
    env, plain = cart_pole(), gym.make("CartPole-v1")
    np.testing.assert_array_equal(env.reset(seed=3)[0][:4], plain.reset(seed=3)[0])
    np.testing.assert_array_equal(env.reset()[0][:4], plain.reset()[0])


def test_the_context_is_appended_to_the_observation_between_minus_one_and_one():
    env = cart_pole()
    assert env.observation_space.shape == (6,)
    assert env.observation_space.dtype == np.float32
    np.testing.assert_array_equal(env.observation_space.low[4:], [-1, -1])
    np.testing.assert_array_equal(env.observation_space.high[4:], [1, 1])
    for context, scaled in (([5.0, 1.25], [-1, 1]), ([15.0, 0.25], [1, -1]), ([10.0, 1.0], [0, 0.5])):
        obs, _ = env.reset(seed=0, options={"context": context})
        after, *_ = env.step(0)
        for seen in (obs, after):
            np.testing.assert_allclose(seen[4:], scaled, atol=1e-7)
            assert env.observation_space.contains(seen)
    for seed in range(20):
        assert env.observation_space.contains(env.reset(seed=seed)[0])


def test_a_dict_observation_gets_an_entry():
    box = gym.spaces.Box(-9.0, 9.0, (3,), np.float64)
    env = recorder(gym.spaces.Dict({"arm": box}), {"arm": np.zeros(3)})
    assert env.observation_space["context"] == gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    assert env.observation_space["arm"] == box
    obs, _ = env.reset(options={"context": [3.0]})
    after, *_ = env.step(0)
    for seen in (obs, after):
        assert seen["context"].tolist() == [0.5]
        assert seen["context"].dtype == np.float32
        assert env.observation_space.contains(seen)


def test_the_observations_dtype_stays():
    env = recorder(gym.spaces.Box(-9.0, 9.0, (2,), np.float64), np.zeros(2))
    assert env.observation_space.dtype == np.float64
    assert env.reset()[0].dtype == np.float64


@pytest.mark.parametrize(
    ("space", "value", "named"),
    [
        (gym.spaces.Discrete(5), 3, "Discrete(5)"),
        (gym.spaces.Box(0, 255, (4, 4), np.uint8), np.zeros((4, 4), np.uint8), "Box(0, 255, (4, 4), uint8)"),
        (gym.spaces.Box(0, 9, (3,), np.int64), np.zeros(3, np.int64), "Box(0, 9, (3,), int64)"),
    ],
)
def test_an_observation_that_cannot_be_extended_is_refused_unless_the_context_is_unobserved(space, value, named):
    with pytest.raises(InvalidInput) as caught:
        recorder(space, value)
    assert str(caught.value) == (
        f"expected a Dict, an image or a one-dimensional Box of floats to append the context to, got {named}; "
        "try observe_context=False, or flatten the observation first"
    )
    env = recorder(space, value, observe_context=False)
    assert env.observation_space is space
    assert env.reset(options={"context": [2.0]})[0] is value
    assert env.step(0)[0] is value
    assert env.unwrapped.weight == 2.0


def test_without_a_distribution_contexts_cover_the_space():
    env = recorder()
    drawn = [env.reset(seed=0 if k == 0 else None)[1]["context"][0] for k in range(400)]
    counts = np.histogram(drawn, bins=4, range=(0, 4))[0]
    assert np.abs(counts - 100).max() < 5 * np.sqrt(100)


def test_the_same_seed_gives_the_same_contexts_and_another_seed_others():
    def contexts(seed):
        env = cart_pole()
        first = env.reset(seed=seed)[1]["context"]
        return [first.tolist(), *(env.reset()[1]["context"].tolist() for _ in range(5))]

    assert contexts(1) == contexts(1)
    assert contexts(1) != contexts(2)
    assert len({tuple(context) for context in contexts(1)}) == 6


def test_contexts_come_from_the_distribution_that_was_set():
    env = cart_pole()
    env.set_distribution(gd.Particles([[6.0, 0.5], [7.0, 0.5], [8.0, 0.5]], [0.5, 0.5, 0.0]))
    drawn = {env.reset(seed=seed)[1]["context"][0] for seed in range(30)}
    assert drawn == {6.0, 7.0}
    with pytest.raises(InvalidInput) as caught:
        env.set_distribution(gd.Particles([[6.0, 0.5], [20.0, 0.5]]))
    assert str(caught.value) == "expected distribution inside low [5.0, 0.25], high [15.0, 1.25], got [20.0, 0.5]"
    assert env.distribution.points[:, 0].tolist() == [6.0, 7.0, 8.0]


def test_a_context_in_the_options_is_used_once():
    env = cart_pole()
    env.set_distribution(gd.Particles([[6.0, 0.5]]))
    _, info = env.reset(seed=0, options={"context": np.array([11.0, 0.75])})
    np.testing.assert_array_equal(info["context"], [11.0, 0.75])
    assert (env.unwrapped.gravity, env.unwrapped.length) == (11.0, 0.75)
    np.testing.assert_array_equal(env.context, [11.0, 0.75])
    np.testing.assert_array_equal(env.reset()[1]["context"], [6.0, 0.5])


def test_set_context_receives_your_outermost_wrapper_without_those_of_libraries():
    class Wind(gym.Wrapper):
        pass

    received = []

    def keep(env, weight):
        received.append(env)

    made = gym.make("CartPole-v1")
    mine = Wind(made)
    for env in (made, mine, gym.wrappers.TimeAwareObservation(mine), Monitor(made), Monitor(mine)):
        gd.ContextWrapper(env, {"weight": (0, 1)}, keep).reset()
    assert received == [made.unwrapped, mine, mine, made.unwrapped, mine]


def test_other_options_reach_the_inner_environment():
    env = recorder()
    env.reset(options={"context": [1.0], "level": 3})
    env.reset(options={"level": 4})
    assert [options for _, options in env.unwrapped.seen] == [{"level": 3}, {"level": 4}]


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ([20.0, 0.5], "expected context inside low [5.0, 0.25], high [15.0, 1.25], got [20.0, 0.5]"),
        ([9.8], "expected context of dimension 2, got dimension 1"),
        ([9.8, np.nan], "expected context to be finite, got 1 NaN or infinite values"),
        ("heavy", "expected context to be numbers, got 'heavy'"),
    ],
)
def test_a_context_outside_is_refused(context, message):
    with pytest.raises(InvalidInput) as caught:
        cart_pole().reset(options={"context": context})
    assert str(caught.value) == message


def test_a_distribution_replaced_mid_episode_leaves_the_episode_its_context_and_stage():
    env = cart_pole()
    env.set_distribution(gd.Particles([[6.0, 0.5]]), stage=4)
    _, first = env.reset(seed=0)
    env.set_distribution(gd.Particles([[12.0, 1.0]]), stage=5)
    obs, *_, info = env.step(0)
    for seen in (first, info):
        np.testing.assert_array_equal(seen["context"], [6.0, 0.5])
        assert seen["stage"] == 4
    assert env.unwrapped.gravity == 6.0
    np.testing.assert_allclose(obs[4:], [-0.8, -0.5], atol=1e-6)
    _, after = env.reset()
    np.testing.assert_array_equal(after["context"], [12.0, 1.0])
    assert after["stage"] == 5


def test_info_keeps_the_environments_entries_and_a_copy_of_the_context():
    env = recorder()
    _, info = env.reset(options={"context": [1.0]})
    *_, later = env.step(0)
    assert (info["own"], info["stage"]) == ("entry", 0)
    assert (later["own"], later["stage"]) == ("entry", 0)
    info["context"][0] = 99.0
    assert env.step(0)[-1]["context"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: gd.ContextWrapper(gym.make("CartPole-v1"), CONTEXTS, None),
            "expected set_context to be a function, got None",
        ),
        (
            lambda: gd.ContextWrapper(gym.make("CartPole-v1"), [(0, 1)], set_context),
            "expected contexts as {name: (low, high)}, got [(0, 1)]",
        ),
        (
            lambda: gd.ContextWrapper(gym.make("CartPole-v1"), {"mass": (0, 1)}, set_context).reset(),
            "expected set_context(env, mass) to set the context of <CartPoleEnv<CartPole-v1>>, "
            "got TypeError: set_context() got an unexpected keyword argument 'mass'",
        ),
        (
            lambda: gd.ContextWrapper(gym.make("CartPole-v1"), {"x": (2, 2)}, lambda env, x: 1 / (x - 2)).reset(),
            "expected set_context(env, x) to set the context of <CartPoleEnv<CartPole-v1>>, "
            "got ZeroDivisionError: float division by zero",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message


def test_contexts_may_be_a_context_space():
    space = gd.ContextSpace.discrete([[1.0], [3.0]], ("weight",))
    env = gd.ContextWrapper(
        Recorder(gym.spaces.Box(-1.0, 1.0, (2,), np.float32), np.zeros(2, np.float32)), space, set_weight
    )
    assert env.context_space is space
    assert {env.reset(seed=seed)[1]["context"][0] for seed in range(20)} == {1.0, 3.0}


def complaints(env):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=True)
    return {str(warning.message) for warning in seen if "different from the unwrapped version" not in str(warning)}


@pytest.mark.parametrize("observe_context", [True, False])
def test_gymnasiums_checker_adds_no_complaint_to_the_plain_environments(observe_context):
    assert complaints(cart_pole(observe_context=observe_context)) <= complaints(gym.make("CartPole-v1").unwrapped)


def test_gymnasium_recreates_it_from_its_spec():
    env = cart_pole()
    again = env.spec.make()
    assert isinstance(again, gd.ContextWrapper)
    np.testing.assert_array_equal(env.reset(seed=5)[0], again.reset(seed=5)[0])


class Counter(gd.ContextualMDP):
    """Counts its steps in units of the context and ends at four; reports no success and has no picture."""

    observation_space = gym.spaces.Box(0.0, 100.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    max_steps = 3

    def initial(self, rng, params=None):
        return jnp.float32(0)

    def transition(self, state, action, rng, params=None):
        return state + params[0]

    def observation(self, state, rng, params=None):
        return state[None]

    def reward(self, state, action, next_state, rng, params=None):
        return next_state - state

    def terminal(self, state, rng, params=None):
        return state >= 4.0


def counter(render_mode=None):
    return ContextualEnv(Counter(), gd.ContextSpace([1.0], [4.0]), gd.Particles([[1.0], [4.0]]), render_mode)


def test_an_mdp_in_jax_steps_terminates_and_truncates():
    env = counter()
    for context, expected in (
        ([1.0], [(1.0, False, False), (1.0, False, False), (1.0, False, True)]),
        ([2.0], [(2.0, False, False), (2.0, True, False)]),
        ([4.0], [(4.0, True, False)]),
    ):
        obs, info = env.reset(seed=0, options={"context": context})
        assert (obs.tolist(), info["context"].tolist(), info["stage"]) == ([0.0], context, 0)
        assert [env.step(0)[1:4] for _ in expected] == expected


def test_unknown_success_is_not_in_info():
    env = counter()
    env.reset(seed=0)
    assert "is_success" not in env.step(0)[-1]


def test_rendering_without_an_image_says_what_to_add():
    env = counter("rgb_array")
    env.reset(seed=0)
    with pytest.raises(InvalidInput) as caught:
        env.render()
    assert str(caught.value) == (
        "expected an environment that can be drawn; add image(state, context) -> uint8 (h, w, 3) to Counter"
    )


def test_actions_outside_and_unknown_render_modes_are_refused():
    env = counter()
    env.reset(seed=0)
    with pytest.raises(InvalidInput) as caught:
        env.step(5)
    assert str(caught.value) == "expected an action in Discrete(2), got 5"
    with pytest.raises(InvalidInput) as caught:
        counter("human")
    assert str(caught.value) == "expected render_mode None or 'rgb_array', got 'human'"


def test_gymnasiums_checker_accepts_an_mdp():
    assert complaints(counter()) == set()


@pytest.mark.parametrize(
    ("info", "value"),
    [
        ({"is_success": True}, 1.0),
        ({"is_success": np.False_}, 0.0),
        ({"success": 1}, 1.0),
        ({"success": 0.5, "other": 3}, 0.5),
        ({"is_success": False, "success": True}, 0.0),
        ({"is_success": None, "success": True}, 1.0),
        ({"success": np.array([True])}, 1.0),
    ],
)
def test_success_is_read_under_either_name(info, value):
    assert success_of(info) == value


def test_success_is_unknown_where_the_environment_does_not_report_it():
    assert np.isnan(success_of({}))
    assert np.isnan(success_of({"is_success": None}))


@pytest.mark.parametrize("value", ["yes", [True, False], {}, object()])
def test_a_success_that_is_no_boolean_is_refused(value):
    with pytest.raises(InvalidInput, match=r"expected info\['success'\] to be a boolean, got "):
        success_of({"success": value})


def test_the_time_limit_of_an_environment_is_found_where_it_says_so():
    made = gym.make("CartPole-v1")
    assert time_limit(made) == time_limit(gym.wrappers.RecordEpisodeStatistics(made)) == time_limit(cart_pole()) == 500
    assert time_limit(gym.wrappers.TimeLimit(made, 7)) == 7
    assert time_limit(made.unwrapped) is None
    made.unwrapped.max_steps = 30
    assert time_limit(made.unwrapped) == 30


MIXED = {"weight": (0.0, 4.0), "wind": ["none", "steady", "gusts"], "ice": [False, True], "crates": range(1, 6)}
VALUES = {"weight": 3.0, "wind": "gusts", "ice": True, "crates": 2}


def set_mixed(env, **context):
    env.weight = context


def mixed(space=None, value=None, **options):
    box = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    inner = Recorder(box if space is None else space, np.zeros(2, np.float32) if value is None else value)
    return gd.ContextWrapper(inner, MIXED, set_mixed, **options)


def test_set_context_gets_floats_integers_and_categories():
    env = mixed()
    env.reset(options={"context": [3.0, 2, 1, 2]})
    ((received, _),) = env.unwrapped.seen
    assert received == VALUES
    assert [type(value) for value in received.values()] == [float, str, bool, int]


def test_a_context_may_be_stated_by_name():
    env = mixed()
    for given in (VALUES, dict(reversed(VALUES.items()))):
        _, info = env.reset(options={"context": given})
        assert env.unwrapped.seen[-1] == (VALUES, None)
        assert info["context"].tolist() == [3, 2, 1, 2]
        assert env.context_space.decode(info["context"]) == VALUES
    with pytest.raises(InvalidInput, match="expected wind of context to be one of none, steady, gusts; got 'gust'"):
        env.reset(options={"context": {**VALUES, "wind": "gust"}})
    with pytest.raises(InvalidInput, match=r"expected context inside weight 0 \.\.\. 4, .* got \[3.0, 1.5, 1.0, 2.0\]"):
        env.reset(options={"context": [3.0, 1.5, 1.0, 2.0]})


def test_numbers_and_integers_are_observed_scaled_and_categories_one_hot():
    seen = [0.5, 0, 0, 1, 0, 1, -0.5]  # weight, three winds, ice no or yes, crates
    env = mixed()
    assert env.observation_space.shape == (9,)
    obs, _ = env.reset(options={"context": VALUES})
    assert obs.tolist() == [0, 0, *seen]
    assert env.observation_space.contains(obs)
    env = mixed(gym.spaces.Dict({"own": gym.spaces.Discrete(2)}), {"own": 1})
    assert env.observation_space["context"].shape == (7,)
    assert env.reset(options={"context": VALUES})[0]["context"].tolist() == seen
    unseen = mixed(observe_context=False)
    assert unseen.reset(options={"context": VALUES})[0].shape == (2,)


def test_contexts_that_are_drawn_are_valid_and_reach_vector_environments():
    envs = gym.vector.SyncVectorEnv([mixed] * 3)
    _, infos = envs.reset(seed=0)
    space = envs.envs[0].context_space
    assert space.contains(infos["context"]).all()
    assert [env.unwrapped.seen[-1][0] for env in envs.envs] == [space.decode(context) for context in infos["context"]]
    envs.reset(options={"context": VALUES})
    assert [env.unwrapped.seen[-1][0] for env in envs.envs] == [VALUES] * 3


def test_jax_environments_take_contexts_by_name_and_get_numbers():
    task = mixed_walk()
    named = {"place": 3.0, "steering": "mirrored", "cost": 2}
    env = task.make()
    obs, _ = env.reset(seed=0, options={"context": named})
    assert obs.tolist() == [0, 3, 1, 2]
    assert env.step(1)[0][0] == -1.0
    several = VectorContextualEnv(task.env, task.space, task.target_particles, 2)
    assert several.reset(seed=0, options={"context": named})[0].tolist() == [[0, 3, 1, 2]] * 2


CLASSIC = {  # an attribute that each environment reads at every step, and another value of it
    "CartPole-v1": ("gravity", 30.0),
    "MountainCar-v0": ("gravity", 0.01),
    "MountainCarContinuous-v0": ("power", 0.005),
    "Acrobot-v1": ("LINK_MASS_1", 3.0),
    "Pendulum-v1": ("m", 3.0),
}


@pytest.mark.parametrize("name", CLASSIC)
def test_attributes_by_name_change_the_dynamics_of_classic_control(name):
    attribute, value = CLASSIC[name]
    envs = [gym.make(name), gym.make(name)]
    set_attributes(envs[1], **{attribute: value})
    seen = []
    for env in envs:
        env.reset(seed=0)
        env.action_space.seed(0)
        seen.append(np.array([env.step(env.action_space.sample())[0] for _ in range(5)]))
    assert np.abs(seen[0] - seen[1]).max() > 1e-6


def test_attributes_by_name_also_change_what_cart_pole_computes_from_them():
    env = gym.make("CartPole-v1")
    set_attributes(env, length=2.0, masspole=0.5)
    assert env.unwrapped.polemass_length == 1.0
    assert env.unwrapped.total_mass == 1.5
