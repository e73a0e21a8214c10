"""Environments of brax and MuJoCo Playground with a context behave as in their libraries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from segments import two_segments

import geodesic as gd
from extras import needs, needs_brax
from geodesic.errors import InvalidInput

BOX = {"gravity": (1.0, 40.0, "m/s²")}


def set_context(sys, gravity):
    return sys.replace(gravity=jnp.stack([0.0, 0.0, -gravity]))


def pendulum(env="inverted_pendulum", **options):
    return gd.envs.from_brax(env, **{"contexts": BOX, "set_context": set_context, **options})


@pytest.fixture(scope="module")
def compiled():
    mdp = pendulum(observe_context=False)
    return mdp, jax.jit(mdp.initial), jax.jit(mdp.transition)


@needs_brax
def test_default_gravity_gives_the_librarys_episode(compiled):
    mdp, first, step = compiled
    key, action, context = jax.random.PRNGKey(1), np.array([0.3], np.float32), np.array([9.81], np.float32)
    state, theirs, own = first(key, context), jax.jit(mdp.env.reset)(key), jax.jit(mdp.env.step)
    for _ in range(200):
        theirs, state = own(theirs, action), step(state, action, key, context)
        np.testing.assert_allclose(state.obs, theirs.obs, rtol=1e-4, atol=1e-5)
        assert bool(mdp.terminal(state, key, context)) == bool(theirs.done)
        assert float(state.reward) == float(theirs.reward)
        if theirs.done:
            break
    assert theirs.done


@needs_brax
def test_the_context_changes_the_dynamics(compiled):
    _, first, step = compiled
    key, action = jax.random.PRNGKey(1), np.array([0.0], np.float32)
    tips = []
    for gravity in (9.81, 40.0):
        context = np.array([gravity], np.float32)
        state = first(key, context)
        for _ in range(20):
            state = step(state, action, key, context)
        tips.append(abs(float(state.obs[1])))
    assert tips[1] > 3 * tips[0]


@needs_brax
def test_an_environment_keeps_its_own_physics(compiled):
    mdp, first, _ = compiled
    first(jax.random.PRNGKey(0), np.array([20.0], np.float32))
    assert float(mdp.env.sys.gravity[2]) == pytest.approx(-9.81)


@needs_brax
def test_wrappers_are_removed_and_their_time_limit_is_kept():
    from brax import envs

    wrapped = pendulum(envs.create("inverted_pendulum", episode_length=30))
    assert (type(wrapped.env).__name__, wrapped.max_steps) == ("InvertedPendulum", 30)
    assert pendulum().max_steps == 1000
    assert pendulum(max_steps=7).max_steps == 7


@needs_brax
@pytest.mark.slow
def test_it_is_valid_and_a_second_segment_compiles_nothing():
    mdp = pendulum(max_steps=50)
    gd.check_task(gd.Task(mdp, source={"gravity": (2.0, 5.0)}, target={"gravity": 30.0}, threshold=30.0))
    programs, state, log = two_segments(mdp, gd.PPO(n_envs=4, rollout=32, epochs=1, batch_size=64))
    assert programs == 1
    assert np.asarray(log.ended).any()
    assert bool(state.finite.all())


@needs("mujoco_playground", "playground")
@pytest.mark.slow
def test_an_environment_of_the_playground():
    from mujoco_playground import registry

    def set_gravity(model, gravity):
        return model.tree_replace({"opt.gravity": jnp.stack([0.0, 0.0, -gravity])})

    env = registry.load("CartpoleBalance", config_overrides={"impl": "jax"})
    mdp = gd.envs.from_brax(env, contexts=BOX, set_context=set_gravity)
    assert mdp.max_steps == 1000
    key, action = jax.random.PRNGKey(1), np.array([0.3], np.float32)
    context = np.array([9.81], np.float32)
    state, theirs = jax.jit(mdp.initial)(key, context), jax.jit(env.reset)(key)
    step, own = jax.jit(mdp.transition), jax.jit(env.step)
    for _ in range(20):
        theirs, state = own(theirs, action), step(state, action, key, context)
    np.testing.assert_allclose(state.obs, theirs.obs, rtol=1e-4, atol=1e-5)
    programs, _, _ = two_segments(mdp, gd.PPO(n_envs=4, rollout=16, epochs=1, batch_size=32))
    assert programs == 1


@needs_brax
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"contexts": None},
            'expected contexts=, such as {"gravity": (5.0, 20.0)}: name and bounds of each value',
        ),
        (
            {"set_context": None},
            "expected set_context=, a function set_context(sys, **context) that returns a sys with the context",
        ),
        (
            {"contexts": {"mass": (1.0, 2.0)}},
            "expected set_context(System, mass) to return the physics with the context, "
            "got TypeError: set_context() got an unexpected keyword argument 'mass'",
        ),
        ({"max_steps": 0}, "expected max_steps to be a positive integer, got 0"),
        ({"env": "pendulum"}, "expected the name of an environment of brax, got 'pendulum'"),
        (
            {"env": 3},
            "expected an environment of brax or MuJoCo Playground, or the name of one of brax's, got 3",
        ),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(InvalidInput) as refused:
        pendulum(**options)
    assert str(refused.value) == message


@needs_brax
def test_a_repeated_action_is_refused():
    from brax import envs

    with pytest.raises(InvalidInput) as refused:
        pendulum(envs.create("inverted_pendulum", action_repeat=4))
    assert str(refused.value) == "expected an environment without action_repeat, got 4; try max_steps="
