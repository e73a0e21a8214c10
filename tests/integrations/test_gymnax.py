"""gymnax's environments with a context behave as in gymnax, and run in the compiled program."""

import importlib
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from segments import two_segments

import geodesic as gd
from extras import needs_gymnax
from geodesic.contexts import Particles
from geodesic.envs.cmdp import VectorContextualEnv
from geodesic.errors import InvalidInput, MissingExtra
from geodesic.records import load_run

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
BOX = {"length": (0.05, 1.0), "gravity": (2.0, 30.0)}


def set_context(params, length, gravity):
    return params.replace(length=length, polemass_length=params.masspole * length, gravity=gravity)


def cartpole(**options):
    return gd.envs.from_gymnax("CartPole-v1", **{"contexts": BOX, "set_context": set_context, **options})


@needs_gymnax
@pytest.mark.parametrize(
    ("name", "field", "action"), [("CartPole-v1", "gravity", 1), ("Pendulum-v1", "g", np.array([1.5], np.float32))]
)
def test_default_params_give_the_librarys_episode(name, field, action):
    """Equal up to rounding until the end of the episode, with the same end."""
    import gymnax

    env, params = gymnax.make(name)
    mdp = gd.envs.from_gymnax(env, contexts={field: (1.0, 20.0)}, observe_context=False)
    context = np.array([getattr(params, field)], np.float32)
    step, own = jax.jit(mdp.transition), jax.jit(env.step)
    key = jax.random.PRNGKey(3)
    state, (_, theirs) = jax.jit(mdp.initial)(key, context), jax.jit(env.reset)(key, params)
    for steps in range(1, 300):
        key, now = jax.random.split(key)
        _, theirs, reward, terminated, truncated, info = own(now, theirs, action, params)
        state = step(state, action, jax.random.split(now)[0], context)
        np.testing.assert_allclose(state.obs, info["final_observation"], rtol=1e-5, atol=1e-6)
        assert float(state.reward) == pytest.approx(float(reward), rel=1e-5)
        assert bool(mdp.terminal(state, now, context)) == bool(terminated)
        assert (steps >= mdp.max_steps) == bool(truncated)
        if terminated or truncated:
            break
    assert steps < 299


@needs_gymnax
def test_the_context_changes_the_dynamics():
    mdp = cartpole(observe_context=False)
    env = mdp.env
    key, action = jax.random.PRNGKey(0), 1
    state = mdp.initial(key, np.array([0.5, 9.8], np.float32))
    heavy = np.array([0.1, 25.0], np.float32)
    params = env.default_params.replace(length=heavy[0], polemass_length=0.1 * heavy[0], gravity=heavy[1])
    expected = env.step_env(key, state.inner, action, params)[0]
    np.testing.assert_allclose(mdp.transition(state, action, key, heavy).obs, expected, rtol=1e-6)
    light = mdp.transition(state, action, key, np.array([0.5, 9.8], np.float32)).obs
    assert np.abs(light - expected).max() > 0.1


@needs_gymnax
def test_a_time_limit_truncates_and_does_not_terminate():
    task = gd.Task(
        gd.envs.from_gymnax("MountainCar-v0", contexts={"gravity": (0.0, 0.003)}),
        source={"gravity": 0.001},
        target={"gravity": 0.0025},
        threshold=-150.0,
    )
    env = task.make()
    obs, info = env.reset(seed=0)
    assert obs.shape == (3,)
    assert obs[-1] == pytest.approx(2 * 0.0025 / 0.003 - 1)
    assert info["context"] == pytest.approx([0.0025])
    ends = [env.step(1)[2:4] for _ in range(200)]
    assert set(ends[:-1]) == {(False, False)}
    assert ends[-1] == (False, True)


@needs_gymnax
def test_a_vector_equals_single_environments():
    mdp, context = cartpole(), np.array([0.2, 20.0])
    target = Particles(context[None])
    many = VectorContextualEnv(mdp, mdp.context_space, target, 3)
    seen, _ = many.reset(seed=5)
    actions = np.array([0, 1, 1])
    after = many.step(actions)[0]
    for place in range(3):
        one = gd.Task(mdp, source=target, target=target, threshold=60.0).make()
        np.testing.assert_allclose(one.reset(seed=5 + place)[0], seen[place], rtol=1e-6)
        np.testing.assert_allclose(one.step(actions[place])[0], after[place], rtol=1e-6)


@needs_gymnax
def test_a_second_segment_compiles_nothing_and_episodes_end():
    programs, state, log = two_segments(cartpole(), gd.PPO(n_envs=4, rollout=64, epochs=1, batch_size=64))
    assert programs == 1
    assert np.asarray(log.ended).any()
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(state.slots.env))


@needs_gymnax
@pytest.mark.slow
def test_sac_learns_in_the_same_program():
    mdp = gd.envs.from_gymnax("Pendulum-v1", contexts={"g": (2.0, 20.0), "m": (0.5, 2.0)})
    learner = gd.SAC(n_envs=2, rollout=8, learning_starts=32, batch_size=16, buffer_size=512)
    programs, state, _ = two_segments(mdp, learner)
    assert programs == 1
    assert bool(state.finite.all())


@needs_gymnax
def test_integer_fields_are_rounded_and_discrete_observations_are_one_hot():
    pong = gd.envs.from_gymnax("Pong-misc", contexts={"paddle_y_speed": (1.0, 3.0)})
    fields = pong.set_context(pong.physics, paddle_y_speed=jnp.float32(1.6))
    assert (int(fields.paddle_y_speed), fields.paddle_y_speed.dtype) == (2, jnp.int32)
    lake = gd.envs.from_gymnax(
        "FrozenLake-misc", contexts={"unused": (0.0, 1.0)}, set_context=lambda params, unused: params
    )
    state = lake.initial(jax.random.key(0), np.zeros(1, np.float32))
    np.testing.assert_array_equal(
        lake.observation(state, None, np.zeros(1, np.float32)), np.r_[1.0, np.zeros(15), -1.0]
    )


@needs_gymnax
@pytest.mark.slow
def test_the_example_is_valid_and_trains(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    task = importlib.import_module("cartpole_gymnax").task
    gd.check_task(task)
    learner = gd.PPO(n_envs=8, rollout=128, epochs=4, batch_size=256, normalize_observations=True)
    gd.train(task, "gradient:step=0.5:window=5", learner=learner, steps=12_000, threshold=15.0, out=tmp_path)
    run = load_run(next(tmp_path.rglob("config.json")).parent)
    assert run.finished
    assert run.stages.stages[-1] >= 1
    assert run.evaluations.scores[-1] > run.evaluations.scores[0]


@needs_gymnax
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"contexts": {"lenght": (0.1, 1.0)}, "set_context": None},
            "expected a context of CartPole-v1 to be one of gravity, masscart, masspole, total_mass, length, "
            "polemass_length, force_mag, tau, theta_threshold_radians, x_threshold; got 'lenght'; "
            "did you mean length?",
        ),
        (
            {"contexts": {"max_steps_in_episode": (1.0, 500.0)}, "set_context": None},
            "expected contexts other than max_steps_in_episode, which is the same in all of them; try params=",
        ),
        (
            {"contexts": None},
            'expected contexts=, such as {"gravity": (5.0, 20.0)}: fields of params, and their bounds',
        ),
        ({"set_context": 3}, "expected set_context to be a function, got 3"),
        ({"observe_context": "yes"}, "expected observe_context to be a boolean, got 'yes'"),
        ({"params": {}}, "expected params of CartPole-v1, such as env.default_params, got {}"),
        (
            {"contexts": {"mass": (0.1, 1.0)}},
            "expected set_context(EnvParams, mass) to return the physics with the context, "
            "got TypeError: set_context() got an unexpected keyword argument 'mass'",
        ),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(InvalidInput) as refused:
        cartpole(**options)
    assert str(refused.value) == message


@needs_gymnax
@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("CartPole-v0", "; got 'CartPole-v0'; did you mean CartPole-v1?"),
        (3, "expected an environment of gymnax, without its wrappers, or the name of one, got 3"),
    ],
)
def test_other_environments_are_refused(env, message):
    with pytest.raises(InvalidInput) as refused:
        gd.envs.from_gymnax(env, contexts=BOX)
    assert str(refused.value).endswith(message)


@needs_gymnax
def test_contexts_of_another_dimension_are_refused():
    task = gd.Task(cartpole(), {"length": (0.1, 1.0)}, {"length": 0.5}, {"length": 0.2}, threshold=60.0)
    with pytest.raises(InvalidInput) as refused:
        gd.check_task(task)
    assert str(refused.value) == "expected contexts of length, gravity, shape (2,), got (1,)"


@needs_gymnax
def test_a_context_must_not_set_a_shape():
    def set_shape(params, gravity):
        return params.replace(gravity=jnp.zeros(int(gravity)))

    with pytest.raises(
        InvalidInput, match=r"^expected set_context\(EnvParams, gravity\) to return the physics .* got Concretiz"
    ):
        cartpole(contexts={"gravity": (1.0, 2.0)}, set_context=set_shape)


@pytest.mark.parametrize("package", ["gymnax", "brax"])
def test_a_missing_extra_is_named(monkeypatch, package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"geodesic.integrations.{package}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra) as refused:
        getattr(gd.envs, f"from_{package}")("any", contexts={"c": (0.0, 1.0)})
    assert str(refused.value) == f"{package} is not installed; try: pip install 'geodesic-rl[{package}]'"
    monkeypatch.delitem(sys.modules, f"geodesic.integrations.{package}", raising=False)
