"""The contract of every built-in environment."""

import tomllib
from importlib import resources
from pkgutil import resolve_name

import gymnasium as gym
import jax
import numpy as np
import pytest

import geodesic as gd
from extras import each
from geodesic import envs, learners
from geodesic.contexts.plot import Plot
from geodesic.envs.cmdp import ContextualMDP

IN_JAX = [name for name, spec in envs.REGISTRY.items() if not spec.on_host]


@pytest.fixture(params=each(envs.REGISTRY))
def name(request):
    return request.param


def facts(env):
    """What describes the problem: the MDP, or the environment itself on the host."""
    return getattr(env, "mdp", env)


def rollout(env, actions, context):
    obs, _ = env.reset(seed=5, options={"context": context})
    seen = [obs]
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        seen.append(np.append(obs, reward))
        if terminated or truncated:
            break
    return np.concatenate([np.ravel(part) for part in seen])


def test_the_registry_finds_the_class_and_gymnasium_knows_it(name):
    spec = envs.REGISTRY[name]
    cls = resolve_name(spec.reference)
    assert issubclass(cls, gym.Env) == spec.on_host
    assert spec.gym_id in gym.registry


def test_each_environment_has_a_task_file(name):
    values = tomllib.loads(resources.files("geodesic.tasks").joinpath(f"{name}.toml").read_text())
    assert values["algorithm"] in learners.REGISTRY


def test_its_plot_fits_its_contexts(name):
    env = envs.make(name)
    plot = env.plot()
    assert isinstance(plot, Plot)
    plot.check(env.context_space)


def test_source_and_target_lie_in_the_space(name):
    mdp = envs.make(name)
    for particles in (mdp.source(np.random.default_rng(0)), mdp.target(np.random.default_rng(0))):
        mdp.context_space.check(particles.points)
        assert particles.dim == mdp.context_space.dim


def test_the_same_seed_gives_the_same_episode(name):
    env = gym.make(envs.REGISTRY[name].gym_id).unwrapped
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(60)]
    context = facts(env).source(np.random.default_rng(3)).sample(np.random.default_rng(0), 1)[0]
    np.testing.assert_array_equal(rollout(env, actions, context), rollout(env, actions, context))


def test_returns_stay_between_the_bounds_it_states(name):
    env = gym.make(envs.REGISTRY[name].gym_id).unwrapped
    rng = np.random.default_rng(0)
    env.action_space.seed(1)
    for seed, context in enumerate(env.context_space.uniform(8, rng).sample(rng, 8)):
        env.reset(seed=seed, options={"context": context})
        total, ended, steps = 0.0, False, 0
        while not ended:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, steps, ended = total + reward, steps + 1, terminated or truncated
        assert steps <= facts(env).max_steps
        assert facts(env).worst_return - 1e-6 <= total <= facts(env).best_return(context[None])[0] + 1e-6


@pytest.mark.parametrize("name", IN_JAX)
def test_its_observations_are_in_their_space(name):
    mdp = envs.make(name)
    context = mdp.target(np.random.default_rng(0)).points[0].astype(np.float32)
    key = jax.random.PRNGKey(0)
    state = mdp.initial(key, context)
    obs = np.asarray(mdp.observation(state, key, context))
    assert mdp.observation_space.contains(obs)
    assert obs.dtype == np.float32
    assert np.asarray(mdp.success(state, context)).dtype == bool


def test_a_context_outside_is_refused(name):
    env = gym.make(envs.REGISTRY[name].gym_id).unwrapped
    with pytest.raises(gd.GeodesicError, match="expected context inside"):
        env.reset(options={"context": env.context_space.high + 1.0})
    with pytest.raises(gd.GeodesicError, match="expected context of dimension"):
        env.reset(options={"context": np.zeros(7)})
    with pytest.raises(gd.GeodesicError, match="expected context to be finite"):
        env.reset(options={"context": np.full(env.context_space.dim, np.nan)})


@pytest.mark.parametrize("name", IN_JAX)
def test_its_facts_are_in_its_units(name):
    """What a task uses: a space with names, a target within reach, and its metrics."""
    mdp = envs.make(name)
    assert isinstance(mdp, ContextualMDP)
    assert not any(word.isdigit() for word in mdp.context_space.names)
    target = mdp.target(np.random.default_rng(0))
    assert mdp.worst_return < target.weights @ mdp.best_return(target.points)
    metric = gd.tasks.load(name).make_metric()
    assert metric.pairwise(target.points[:2], target.points[:3]).shape == (2, 3)
    assert mdp.metric("unknown") is None


def test_an_unknown_name_is_refused():
    for make in (envs.make, envs.make_gymnasium):
        with pytest.raises(gd.GeodesicError) as caught:
            make("atari")
        assert str(caught.value) == f"expected environment to be one of {', '.join(envs.REGISTRY)}; got 'atari'"


def test_its_render_mode_is_checked_and_its_context_and_stage_are_in_info(name):
    with pytest.raises(gd.GeodesicError, match="expected render_mode None or 'rgb_array', got 'human'"):
        envs.make_gymnasium(name, render_mode="human")
    env = envs.make_gymnasium(name)
    old, new = (env.context_space.draw(1, np.random.default_rng(seed)) for seed in (1, 2))
    env.set_distribution(gd.Particles(old), stage=3)
    _, info = env.reset(seed=0)
    env.set_distribution(gd.Particles(new), stage=4)
    *_, later = env.step(env.action_space.sample())
    for seen in (info, later):
        np.testing.assert_array_equal(seen["context"], old[0])
        assert seen["stage"] == 3
    _, info = env.reset()
    np.testing.assert_array_equal(info["context"], new[0])
    assert info["stage"] == 4
