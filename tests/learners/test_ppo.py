"""PPO equals Stable-Baselines3: the same weights and data give the same update."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch as th
from stable_baselines3 import PPO as ReferencePPO
from stable_baselines3.common.buffers import RolloutBuffer

from geodesic.errors import InvalidInput
from geodesic.integrations.sb3.legacy import shared_policy
from geodesic.learners.base import Transitions
from geodesic.learners.ppo import PPO, PPOState

N_OBS, ROLLOUT, N_ENVS = 5, 30, 2
SPACES = {"discrete": gym.spaces.Discrete(3), "continuous": gym.spaces.Box(-1.0, 1.0, (2,), np.float32)}


class Nowhere(gym.Env):
    """Only its spaces are used."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (N_OBS,), np.float32)

    def __init__(self, kind):
        self.action_space = SPACES[kind]

    def reset(self, *, seed=None, options=None):
        return np.zeros(N_OBS, np.float32), {}

    def step(self, action):
        return np.zeros(N_OBS, np.float32), 0.0, False, False, {}


def pair(kind, **options):
    """A reference learner and ours with the same weights."""
    settings = {"learning_rate": 1e-3, "gamma": 0.97, "gae_lambda": 0.9, **options}
    legacy = {name: settings.pop(name) for name in ("shared", "bootstrap") if name in settings}
    reference = ReferencePPO(
        "MlpPolicy",
        vector_env(kind),
        policy_kwargs=shared_policy([64, 64], th.nn.Tanh) if legacy.get("shared") else None,
        n_steps=ROLLOUT,
        ent_coef=0.1,
        batch_size=settings.pop("batch_size", ROLLOUT * N_ENVS),
        n_epochs=settings.pop("epochs", 1),
        seed=0,
        device="cpu",
        **settings,
    )
    ours = PPO(
        rollout=ROLLOUT,
        n_envs=N_ENVS,
        entropy_coef=0.1,
        batch_size=reference.batch_size,
        epochs=reference.n_epochs,
        **settings,
        **legacy,
    )
    params = from_torch(reference)
    return reference, ours, PPOState(params, ours.optimiser.init(params))


def vector_env(kind):
    from stable_baselines3.common.vec_env import DummyVecEnv

    return DummyVecEnv([lambda: Nowhere(kind)] * N_ENVS)


def from_torch(reference):
    policy = reference.policy

    def layers(*modules):
        linear = [m for module in modules for m in module.modules() if isinstance(m, th.nn.Linear)]
        return [
            {"kernel": jnp.array(m.weight.detach().numpy().T), "bias": jnp.array(m.bias.detach().numpy())}
            for m in linear
        ]

    params = {
        "actor": layers(policy.mlp_extractor.policy_net, policy.action_net),
        "critic": layers(policy.mlp_extractor.value_net, policy.value_net),
        "trunk": layers(policy.features_extractor),
    }
    params = {name: own for name, own in params.items() if own}
    if hasattr(policy, "log_std"):
        params["log_std"] = jnp.array(policy.log_std.detach().numpy())
    return params


def rollout(kind, rng):
    """Random data with terminations and time limits."""
    obs = rng.normal(size=(ROLLOUT, N_ENVS, N_OBS)).astype(np.float32)
    action = rng.integers(3, size=(ROLLOUT, N_ENVS)) if kind == "discrete" else rng.normal(size=(ROLLOUT, N_ENVS, 2))
    terminated = rng.random((ROLLOUT, N_ENVS)) < 0.1
    truncated = (rng.random((ROLLOUT, N_ENVS)) < 0.1) & ~terminated
    next_obs = np.concatenate([obs[1:], rng.normal(size=(1, N_ENVS, N_OBS)).astype(np.float32)])
    other = rng.normal(size=next_obs.shape).astype(np.float32)
    next_obs = np.where((terminated | truncated)[..., None], other, next_obs)
    reward = rng.normal(size=(ROLLOUT, N_ENVS)).astype(np.float32)
    return Transitions(
        obs,
        np.asarray(action, np.float32 if kind == "continuous" else np.int32),
        reward,
        next_obs,
        terminated,
        truncated,
    )


def fill(reference, seen, bootstrap=True):
    """The reference's buffer as its collect_rollouts would have filled it."""
    policy, buffer = reference.policy, reference.rollout_buffer
    assert isinstance(buffer, RolloutBuffer)
    buffer.reset()
    started = np.ones(N_ENVS)
    with th.no_grad():
        for t in range(ROLLOUT):
            action = th.as_tensor(seen.action[t])
            values, log_prob, _ = policy.evaluate_actions(th.as_tensor(seen.obs[t]), action)
            after = policy.predict_values(th.as_tensor(seen.next_obs[t])).numpy().ravel()
            reward = seen.reward[t] + bootstrap * reference.gamma * after * seen.truncated[t]
            stored = seen.action[t].reshape(N_ENVS, -1)
            buffer.add(seen.obs[t], stored, reward, started, values, log_prob)
            started = (seen.terminated[t] | seen.truncated[t]).astype(np.float32)
        last = policy.predict_values(th.as_tensor(seen.next_obs[-1]))
        buffer.compute_returns_and_advantage(last_values=last, dones=started)


@pytest.mark.parametrize("legacy", [{}, {"shared": True, "bootstrap": False}], ids=["current", "legacy"])
@pytest.mark.parametrize("kind", SPACES)
def test_one_update_equals_stable_baselines(kind, legacy):
    reference, ours, state = pair(kind, **legacy)
    seen = rollout(kind, np.random.default_rng(0))
    fill(reference, seen, ours.bootstrap)
    samples = ours.prepare(state.params, Transitions(*map(jnp.asarray, seen)))
    np.testing.assert_allclose(
        samples.advantage.reshape(ROLLOUT, N_ENVS), reference.rollout_buffer.advantages, atol=1e-5
    )
    np.testing.assert_allclose(samples.returns.reshape(ROLLOUT, N_ENVS), reference.rollout_buffer.returns, atol=1e-5)
    errors = ours.value_errors(state, Transitions(*map(jnp.asarray, seen)), jax.random.PRNGKey(0))
    np.testing.assert_allclose(errors, reference.rollout_buffer.advantages, atol=1e-5)
    after, metrics = ours.update(state, Transitions(*map(jnp.asarray, seen)), jax.random.PRNGKey(0))
    assert {"policy_loss", "value_loss", "entropy", "kl", "explained_variance"} == metrics.keys()
    reference._setup_learn(1)
    reference.train()
    for (place, got), want in zip(jax.tree.leaves_with_path(after.params), jax.tree.leaves(from_torch(reference))):
        np.testing.assert_allclose(got, want, atol=1e-5, err_msg=str(place))
    moved = max(
        float(np.abs(a - b).max()) for a, b in zip(jax.tree.leaves(after.params), jax.tree.leaves(state.params))
    )
    assert moved > 5e-4  # the two learners did not both stand still


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")  # the last one is shorter on purpose
@pytest.mark.parametrize("batch_size", [50, 59])
def test_several_minibatch_steps_in_the_same_order_equal_stable_baselines(monkeypatch, batch_size):
    """Two epochs of 60 samples: the last minibatch of an epoch has 10, or only 1; Adam's state carries over."""
    reference, ours, state = pair("discrete", batch_size=batch_size, epochs=2)
    seen = rollout("discrete", np.random.default_rng(1))
    fill(reference, seen)
    key = jax.random.PRNGKey(3)
    orders = [np.asarray(jax.random.permutation(k, ROLLOUT * N_ENVS)) for k in jax.random.split(key, 2)]
    # the reference flattens environment by environment, we step by step
    place = np.arange(ROLLOUT * N_ENVS).reshape(N_ENVS, ROLLOUT).T.ravel()
    theirs = iter([place[order] for order in orders])
    monkeypatch.setattr(np.random, "permutation", lambda n: next(theirs))
    after, _ = ours.update(state, Transitions(*map(jnp.asarray, seen)), key)
    reference._setup_learn(1)
    reference.train()
    for got, want in zip(jax.tree.leaves(after.params), jax.tree.leaves(from_torch(reference))):
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_initial_weights_are_orthogonal_with_the_references_gains():
    state = PPO().init(jax.random.PRNGKey(0), Nowhere("discrete").observation_space, SPACES["discrete"])
    for name, gain in (("actor", 0.01), ("critic", 1.0)):
        *_, hidden, last = state.params[name]
        np.testing.assert_allclose(hidden["kernel"].T @ hidden["kernel"], 2 * np.eye(64), atol=1e-5)
        np.testing.assert_allclose(
            last["kernel"].T @ last["kernel"], gain**2 * np.eye(last["kernel"].shape[1]), atol=1e-5
        )
        assert not hidden["bias"].any()


def test_a_shared_network_is_initialised_as_in_stable_baselines():
    """Each hidden layer exists once, with a gain of sqrt(2); the heads are unchanged."""
    wide = PPO(net=(32, 16), shared=True)
    state = wide.init(jax.random.PRNGKey(0), Nowhere("discrete").observation_space, SPACES["discrete"])
    assert [layer["kernel"].shape for layer in state.params["trunk"]] == [(5, 32), (32, 16)]
    assert [state.params[head][0]["kernel"].shape for head in ("actor", "critic")] == [(16, 3), (16, 1)]
    last = state.params["trunk"][-1]["kernel"]
    np.testing.assert_allclose(last.T @ last, 2 * np.eye(16), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(state.params["critic"][0]["kernel"]), 1.0, atol=1e-5)


def test_refusals():
    with pytest.raises(InvalidInput, match="expected at least 2 samples in a rollout and in a batch"):
        PPO(rollout=1)
    with pytest.raises(InvalidInput, match="expected activation to be one of tanh, relu; got 'sine'"):
        PPO(activation="sine")
