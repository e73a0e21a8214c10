"""SAC equals Stable-Baselines3 step by step, and its buffer is a ring."""

import math
import re

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from stable_baselines3 import SAC as SB3SAC
from stable_baselines3.common.buffers import ReplayBufferSamples
from stable_baselines3.common.logger import Logger

from geodesic.errors import InvalidInput
from geodesic.learners.base import Transitions
from geodesic.learners.networks import torch_mlp
from geodesic.learners.sac import SAC, Batch, unpack

OBS = gym.spaces.Box(-5.0, 5.0, (6,), np.float32)
ACT = gym.spaces.Box(np.array([-10.0, 0.0], np.float32), np.array([10.0, 2.0], np.float32))
SMALL = SAC(rollout=5, batch_size=32, buffer_size=100, learning_starts=10, gamma=0.95, learning_rate=1e-3)


class Silent(gym.Env):
    """Only its spaces are used."""

    observation_space, action_space = OBS, ACT


def linear(module):
    return {"kernel": module.weight.detach().numpy().T.copy(), "bias": module.bias.detach().numpy().copy()}


def actor_of(actor):
    hidden = [linear(m) for m in actor.latent_pi if isinstance(m, torch.nn.Linear)]
    mu, log_std = linear(actor.mu), linear(actor.log_std)
    return [*hidden, {k: np.concatenate([mu[k], log_std[k]], axis=-1) for k in mu}]


def critics_of(critic):
    pair = [[linear(m) for m in net if isinstance(m, torch.nn.Linear)] for net in critic.q_networks]
    return jax.tree.map(lambda *leaves: np.stack([np.atleast_2d(leaf) for leaf in leaves]), *pair)


def random_batch(rng, n):
    return Batch(
        obs=rng.normal(size=(n, 6)).astype(np.float32),
        action=rng.uniform(-1, 1, (n, 2)).astype(np.float32),
        next_obs=rng.normal(size=(n, 6)).astype(np.float32),
        reward=rng.normal(size=n).astype(np.float32),
        done=(rng.random(n) < 0.3).astype(np.float32),
    )


def sb3_update(model, batch, noise, monkeypatch):
    """One call of SB3's own train() on this batch, its Gaussian draws replaced by the given noise."""
    tensors = {k: torch.as_tensor(np.array(v)) for k, v in batch._asdict().items()}
    draws = iter(torch.as_tensor(np.array(noise)))
    samples = ReplayBufferSamples(
        tensors["obs"],
        tensors["action"],
        tensors["next_obs"],
        tensors["done"][:, None],
        tensors["reward"][:, None],
    )
    monkeypatch.setattr(model.replay_buffer, "sample", lambda *args, **kwargs: samples)
    monkeypatch.setattr(torch.distributions.Normal, "rsample", lambda self, *a: self.loc + self.scale * next(draws))
    model.train(gradient_steps=1, batch_size=len(batch.obs))


@pytest.mark.parametrize(
    ("net", "activation", "torch_activation"),
    [((64, 64), "tanh", torch.nn.Tanh), ((32, 32, 32), "relu", torch.nn.ReLU)],
)
def test_updates_equal_stable_baselines3(net, activation, torch_activation, monkeypatch):
    sac = SAC(batch_size=32, gamma=0.95, learning_rate=1e-3, net=net, activation=activation)
    model = SB3SAC(
        "MlpPolicy",
        Silent(),
        gamma=0.95,
        learning_rate=1e-3,
        buffer_size=10,
        seed=0,
        device="cpu",
        policy_kwargs={"net_arch": list(net), "activation_fn": torch_activation},
    )
    model.set_logger(Logger(None, []))
    agent = sac.init(jax.random.key(0), OBS, ACT).agent
    agent = agent._replace(
        actor=actor_of(model.actor), critic=critics_of(model.critic), target=critics_of(model.critic_target)
    )
    agent = jax.tree.map(jnp.asarray, agent)
    step, rng = jax.jit(sac.gradient_step), np.random.default_rng(0)
    for _ in range(8):
        batch, noise = random_batch(rng, 32), rng.normal(size=(2, 32, 2)).astype(np.float32)
        agent, _ = step(agent, batch, noise)
        sb3_update(model, batch, noise, monkeypatch)
        ours = (agent.actor, agent.critic, agent.target, agent.log_alpha)
        theirs = (
            actor_of(model.actor),
            critics_of(model.critic),
            critics_of(model.critic_target),
            model.log_ent_coef.item(),
        )
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5, rtol=0), ours, theirs)


def test_the_first_update_moves_every_parameter():
    """The equality above would also hold between two learners that never change."""
    agent = SMALL.init(jax.random.key(0), OBS, ACT).agent
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2, 32, 2)).astype(np.float32)
    moved, _ = jax.jit(SMALL.gradient_step)(agent, random_batch(rng, 32), noise)
    for before, after in zip(jax.tree.leaves(agent[:4]), jax.tree.leaves(moved[:4])):
        assert (np.asarray(before) != np.asarray(after)).mean() > 0.9


def test_exploration_equals_stable_baselines3_in_law_and_units():
    """The sampled action is low + (tanh(mean + std z) + 1) / 2 (high - low), the stored one its scaled form."""
    state = SMALL.init(jax.random.key(1), OBS, ACT)._replace(steps=jnp.int32(1000))
    obs, key = jnp.ones((3, 6)), jax.random.key(2)
    action, stored = SMALL.act(state, obs, key)
    mean, log_std = SMALL._gaussian(state.agent.actor, obs)
    expected = np.tanh(mean + np.exp(log_std) * jax.random.normal(key, (3, 2)))
    np.testing.assert_allclose(stored, expected, rtol=1e-5)
    np.testing.assert_allclose(action, ACT.low + 0.5 * (expected + 1) * (ACT.high - ACT.low), rtol=1e-5)
    np.testing.assert_allclose(
        SMALL.policy(state, obs), ACT.low + 0.5 * (np.tanh(mean) + 1) * (ACT.high - ACT.low), rtol=1e-5
    )


def test_actions_are_uniform_until_learning_starts():
    state = SMALL.init(jax.random.key(1), OBS, ACT)._replace(steps=jnp.int32(9))
    action, stored = SMALL.act(state, jnp.ones((20_000, 6)), jax.random.key(3))
    fraction = (np.asarray(action) - ACT.low) / (ACT.high - ACT.low)
    counts = np.stack([np.histogram(column, bins=10, range=(0, 1))[0] for column in fraction.T])
    assert np.abs(counts - 2000).max() < 5 * math.sqrt(2000)
    np.testing.assert_allclose(stored, 2 * fraction - 1, atol=1e-6)
    ready = state._replace(steps=jnp.int32(10))
    assert np.std(SMALL.act(ready, jnp.ones((100, 6)), jax.random.key(3))[1] - stored[:100]) > 0.01


def rollout_of(first, n=5, n_envs=1):
    """Transitions that carry their number."""
    number = (first + jnp.arange(n * n_envs, dtype=jnp.float32)).reshape(n, n_envs)
    wide = number[..., None]
    cut = number % 2 == 1
    return Transitions(wide + jnp.zeros(6), wide / 100 + jnp.zeros(2), -number, wide + jnp.ones(6), ~cut, cut)


def test_the_buffer_is_a_ring_and_time_limits_are_not_ends():
    state = SMALL.init(jax.random.key(0), OBS, ACT)
    store = jax.jit(SMALL.store)
    for i in range(23):
        state = store(state, rollout_of(5 * i))
    assert state.steps == 115
    held = unpack(state.buffer, 2)
    expected = np.concatenate([np.arange(100, 115), np.arange(15, 100)])
    np.testing.assert_array_equal(held.reward, -expected)
    np.testing.assert_array_equal(held.obs, np.repeat(expected[:, None], 6, axis=1))
    np.testing.assert_array_equal(held.next_obs, held.obs + 1)
    np.testing.assert_allclose(held.action[:, 0], expected / 100, rtol=1e-6)
    np.testing.assert_array_equal(held.done, expected % 2 == 0)


def test_value_errors_are_temporal_differences():
    """Where all critics are 0, y - Q is the reward, plus what the entropy of the next action is worth."""
    sac = SAC(n_envs=2, rollout=5, gamma=0.5, net=(8,))
    state = sac.init(jax.random.PRNGKey(0), OBS, ACT)
    agent = state.agent._replace(critic=jax.tree.map(jnp.zeros_like, state.agent.critic))
    agent = agent._replace(target=agent.critic, log_alpha=jnp.float32(-100.0))
    seen = rollout_of(1.0, n_envs=2)
    errors = sac.value_errors(state._replace(agent=agent), seen, jax.random.PRNGKey(1))
    np.testing.assert_allclose(errors, seen.reward, rtol=1e-6)
    warm = state._replace(agent=agent._replace(log_alpha=jnp.float32(0.0)))
    differences = np.asarray(sac.value_errors(warm, seen, jax.random.PRNGKey(1)) - seen.reward)
    assert (differences[np.asarray(seen.terminated)] == 0).all()
    assert (differences[np.asarray(seen.truncated)] != 0).all()


def test_several_environments_share_the_buffer():
    sac = SAC(rollout=2, n_envs=3, batch_size=8, buffer_size=20, learning_starts=0)
    state = sac.init(jax.random.key(0), OBS, ACT)
    assert state.buffer.shape == (18, 16)
    state = sac.store(state, rollout_of(0, 2, 3))
    assert state.steps == 6
    np.testing.assert_array_equal(state.buffer[:6, -2], -np.arange(6))


def test_learning_starts_after_the_given_steps_as_in_stable_baselines3():
    """SB3 trains when num_timesteps > learning_starts: with 10 and rollouts of 5, after the third."""
    state, update = SMALL.init(jax.random.key(0), OBS, ACT), jax.jit(SMALL.update)
    changed = []
    for i in range(4):
        following, metrics = update(state, rollout_of(5 * i), jax.random.key(i))
        changed.append(bool((following.agent.log_alpha != state.agent.log_alpha).item()))
        assert np.isnan(metrics["critic_loss"]) == (not changed[-1])
        state = following
    assert changed == [False, False, True, True]


def test_batches_come_from_the_filled_part_only(monkeypatch):
    seen = []
    monkeypatch.setattr(
        SAC, "gradient_step", lambda self, agent, batch, noise: (seen.append(batch.reward), (agent, {}))[1]
    )
    state = SMALL.store(SMALL.init(jax.random.key(0), OBS, ACT), rollout_of(1))
    with jax.disable_jit():
        for i in range(20):
            state, _ = SMALL.update(state, rollout_of(6 + 5 * i), jax.random.key(i))
    first, last = (set(np.asarray(-rewards).tolist()) for rewards in (seen[0], seen[-1]))
    assert first <= set(range(1, 11))
    assert last <= set(range(6, 106))
    assert len(set(np.concatenate(seen).tolist())) > 90


def test_gradient_steps_sets_the_number_of_updates():
    twice = SAC(rollout=5, batch_size=32, buffer_size=100, learning_starts=0, gradient_steps=2)
    state = twice.init(jax.random.key(0), OBS, ACT)
    assert twice.update(state, rollout_of(0), jax.random.key(0))[0].agent.actor_optimiser[0].count == 2


def test_runs_mapped_together_equal_separate_runs():
    keys = jax.random.split(jax.random.key(0), 3)
    states = [SMALL.init(k, OBS, ACT) for k in keys]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    alone, mapped = jax.jit(SMALL.update), jax.jit(jax.vmap(SMALL.update, (0, None, 0)))
    for i in range(4):
        states = [alone(s, rollout_of(5 * i), k)[0] for s, k in zip(states, keys)]
        together, _ = mapped(together, rollout_of(5 * i), keys)
    for run, state in enumerate(states):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a[run], b, atol=1e-5), together, state)  # noqa: B023


def test_layers_are_initialised_as_in_torch():
    layers = torch_mlp(jax.random.key(0), (16, 64, 4))
    for layer, inputs in zip(layers, (16, 64)):
        for values in layer.values():
            assert np.abs(values).max() <= 1 / math.sqrt(inputs)
            np.testing.assert_allclose(np.std(values), 1 / math.sqrt(3 * inputs), rtol=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "elu"}, "expected activation to be one of tanh, relu; got 'elu'; did you mean relu?"),
        ({"rollout": 5, "buffer_size": 4}, "expected buffer_size to hold a rollout of 5 steps, got 4"),
    ],
)
def test_bad_hyperparameters_are_named(options, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        SAC(**options)


def test_discrete_actions_are_refused():
    with pytest.raises(InvalidInput, match="^expected a Box action space, got Discrete\\(3\\)$"):
        SAC().init(jax.random.key(0), OBS, gym.spaces.Discrete(3))
