"""What every environment keeps: one definition, three users."""

import gymnasium as gym
import jax
import numpy as np
import pytest

import geodesic as gd
from geodesic import envs
from geodesic.experiments.config import configure, curriculum_of, learner_of, table

NAMES = list(envs.REGISTRY)


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def rollout(env, actions, context):
    obs, _ = env.reset(seed=5, options={"context": context})
    seen = [obs]
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        seen.append(np.append(obs, reward))
        if terminated or truncated:
            break
    return np.concatenate([np.ravel(part) for part in seen])


def test_source_and_target_lie_in_the_space(name):
    mdp = envs.make(name)
    for particles in (mdp.source(np.random.default_rng(0)), mdp.target(np.random.default_rng(0))):
        mdp.context_space.check(particles.points)
        assert particles.dim == mdp.context_space.dim


def test_the_same_seed_gives_the_same_episode(name):
    env = gym.make(envs.REGISTRY[name].gym_id).unwrapped
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(60)]
    context = env.mdp.source(np.random.default_rng(3)).sample(np.random.default_rng(0), 1)[0]
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
        assert steps <= env.mdp.max_steps
        assert env.mdp.worst_return - 1e-6 <= total <= env.mdp.best_return(context[None])[0] + 1e-6


def test_its_observations_are_in_their_space(name):
    mdp = envs.make(name)
    context = mdp.target(np.random.default_rng(0)).points[0].astype(np.float32)
    key = jax.random.PRNGKey(0)
    state = mdp.initial(key, context)
    obs = np.asarray(mdp.observation(state, key, context))
    assert mdp.observation_space.contains(obs)
    assert obs.dtype == np.float32
    assert np.asarray(mdp.success(state, context)).dtype == bool


def test_a_context_outside_is_refused_by_its_gymnasium_face(name):
    env = gym.make(envs.REGISTRY[name].gym_id).unwrapped
    with pytest.raises(gd.GeodesicError, match="expected context inside"):
        env.reset(options={"context": env.context_space.high + 1.0})
    with pytest.raises(gd.GeodesicError, match="expected context of dimension"):
        env.reset(options={"context": np.zeros(7)})
    with pytest.raises(gd.GeodesicError, match="expected context to be finite"):
        env.reset(options={"context": np.full(env.context_space.dim, np.nan)})


def test_its_table_names_what_exists(name):
    """Every method, metric and learner option of the table can be built."""
    mdp = envs.make(name)
    values = table(name)
    for label in values["compare"]:
        config = configure(name, label)
        assert curriculum_of(config, mdp).init(np.random.default_rng(0)).stage == 0
    for metric in values["metrics"]:
        curriculum_of(configure(name, "gradient", metric=metric), mdp)
    learner = learner_of(configure(name))
    assert learner.rollout * learner.n_envs * values["segment"] > 0
