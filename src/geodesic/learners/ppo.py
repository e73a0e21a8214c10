"""Proximal policy optimisation with Stable-Baselines3's semantics, as pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import optax

from geodesic.checks import as_count, as_flag, as_nonnegative, as_number, as_positive, as_share, check
from geodesic.errors import InvalidInput
from geodesic.learners.base import Key, Measures, Transitions
from geodesic.learners.networks import Params, as_activation, as_net, forward, orthogonal_mlp
from geodesic.learners.normalization import Running, first_moments, merged, normalized

LOG_2PI = math.log(2 * math.pi)


class PPOState(NamedTuple):
    params: Params
    optimiser: Any
    moments: Running = ()


class Samples(NamedTuple):
    """What one minibatch holds; leading axis (n,)."""

    obs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    advantage: jax.Array
    returns: jax.Array


@dataclass(frozen=True)
class PPO:
    """Clipped policy gradient on generalised advantages (Schulman et al. 2017).

    Time limits bootstrap: a truncated step's reward gets gamma V(next_obs) added. The last minibatch of an epoch is
    truncated when the batch size does not divide the rollout. Policy and value have networks of their own. Both are as
    in Stable-Baselines3 of today; with bootstrap=False and shared=True, time limits are ends and both values are read
    off one network, as in its versions before 1.4 and, for a `net_arch` of plain numbers, before 2.0.
    With normalize_observations they are scaled by their running mean and deviation, renewed after every rollout.
    Discrete actions are categorical; continuous ones Gaussian with a state-independent log-std, clipped to the bounds
    only when handed to the environment.
    """

    rollout: int = 2048
    n_envs: int = 1
    batch_size: int = 64
    epochs: int = 10
    learning_rate: float = 3e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy_coef: float = 0.0
    value_coef: float = 0.5
    max_grad_norm: float = 0.5
    net: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    normalize_observations: bool = False
    shared: bool = False
    bootstrap: bool = True

    def __post_init__(self) -> None:
        check(self, rollout=as_count, n_envs=as_count, batch_size=as_count, epochs=as_count)
        check(self, learning_rate=as_nonnegative, gamma=as_share, gae_lambda=as_share, clip=as_nonnegative)
        check(self, entropy_coef=as_number, value_coef=as_nonnegative, max_grad_norm=as_positive)
        check(self, net=as_net, activation=as_activation, normalize_observations=as_flag)
        check(self, shared=as_flag, bootstrap=as_flag)
        if self.rollout * self.n_envs < 2 or self.batch_size < 2:
            raise InvalidInput("expected at least 2 samples in a rollout and in a batch: advantages are normalised")

    def init(self, key: Key, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> PPOState:
        actor, critic = jax.random.split(key)
        n_obs = math.prod(observation_space.shape or ())
        outputs = int(action_space.n) if isinstance(action_space, gym.spaces.Discrete) else action_space.shape[0]  # type: ignore[index]
        hidden = (n_obs, *self.net)
        own = hidden[-1:] if self.shared else hidden
        params: Params = {
            "actor": orthogonal_mlp(actor, (*own, outputs), 0.01),
            "critic": orthogonal_mlp(critic, (*own, 1), 1.0),
        }
        if self.shared:
            params["trunk"] = orthogonal_mlp(jax.random.fold_in(key, 2), hidden, 2**0.5)
        if isinstance(action_space, gym.spaces.Box):
            params["log_std"] = jnp.zeros(outputs)
        return PPOState(
            params, self.optimiser.init(params), first_moments(n_obs) if self.normalize_observations else ()
        )

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return optax.chain(clip_by_global_norm(self.max_grad_norm), optax.adam(self.learning_rate, eps=1e-5))

    def act(self, state: PPOState, obs: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        output = self._actor(state.params, normalized(state.moments, obs))
        if "log_std" not in state.params:
            action = jax.random.categorical(key, output)
            return action, action
        action = output + jnp.exp(state.params["log_std"]) * jax.random.normal(key, output.shape)
        return action, action

    def params(self, state: PPOState) -> Params:
        return state.params

    def policy(self, state: PPOState, obs: jax.Array) -> jax.Array:
        output = self._actor(state.params, normalized(state.moments, obs))
        return output if "log_std" in state.params else output.argmax(axis=-1)

    def learn(self, state: PPOState, transitions: Transitions, key: Key) -> PPOState:
        return self.learn_measured(state, transitions, key)[0]

    def learn_measured(self, state: PPOState, transitions: Transitions, key: Key) -> tuple[PPOState, Measures]:
        """Losses, entropy and KL are means over the minibatches, as Stable-Baselines3 logs them."""
        obs, next_obs = (normalized(state.moments, x) for x in (transitions.obs, transitions.next_obs))
        samples = self.prepare(state.params, transitions._replace(obs=obs, next_obs=next_obs))
        n = self.rollout * self.n_envs
        orders = jax.vmap(lambda k: jax.random.permutation(k, n))(jax.random.split(key, self.epochs))

        def epoch(state: PPOState, order: jax.Array) -> tuple[PPOState, Measures]:
            whole = n // self.batch_size * self.batch_size
            shuffled = jax.tree.map(lambda x: x[order], samples)
            measures: Measures = {}
            if whole:
                batches = jax.tree.map(lambda x: x[:whole].reshape(-1, self.batch_size, *x.shape[1:]), shuffled)
                state, each = jax.lax.scan(self._step, state, batches)
                measures = jax.tree.map(jnp.mean, each)
            if whole < n:
                state, rest = self._step(state, jax.tree.map(lambda x: x[whole:], shuffled))
                measures = measures or rest
            return state, measures

        state, each = jax.lax.scan(epoch, state, orders)
        explained = 1.0 - samples.advantage.var() / samples.returns.var()
        measures = {**jax.tree.map(jnp.mean, each), "explained_variance": explained}
        return state._replace(moments=merged(state.moments, transitions.obs)), measures

    def prepare(self, params: Params, seen: Transitions) -> Samples:
        """Advantages and returns of a rollout, flattened to (rollout * n_envs,).

        delta_t = r_t + gamma V(s_t+1) (1 - done_t) - V(s_t),  A_t = delta_t + gamma lambda (1 - done_t) A_t+1
        """
        values = self._value(params, seen.obs)
        next_values = self._value(params, seen.next_obs)
        reward = seen.reward + self.gamma * next_values * seen.truncated if self.bootstrap else seen.reward
        going_on = 1.0 - jnp.logical_or(seen.terminated, seen.truncated)
        delta = reward + self.gamma * next_values * going_on - values

        def backwards(later: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            advantage = now[0] + self.gamma * self.gae_lambda * now[1] * later
            return advantage, advantage

        _, advantages = jax.lax.scan(backwards, jnp.zeros_like(delta[0]), (delta, going_on), reverse=True)
        log_prob, _ = self._log_prob(params, seen.obs, seen.action)
        samples = Samples(seen.obs, seen.action, log_prob, advantages, advantages + values)
        return Samples(*(x.reshape(-1, *x.shape[2:]) for x in samples))

    def step(self, state: PPOState, batch: Samples) -> PPOState:
        """One gradient step on a minibatch."""
        return self._step(state, batch)[0]

    def _step(self, state: PPOState, batch: Samples) -> tuple[PPOState, Measures]:
        grads, measures = jax.grad(self._loss, has_aux=True)(state.params, batch)
        updates, optimiser = self.optimiser.update(grads, state.optimiser)
        return PPOState(optax.apply_updates(state.params, updates), optimiser, state.moments), measures

    def loss(self, params: Params, batch: Samples) -> jax.Array:
        """-E[min(A ratio, A clip(ratio))] - c_e entropy + c_v (V - R)^2, advantages normalised over the minibatch."""
        return self._loss(params, batch)[0]

    def _loss(self, params: Params, batch: Samples) -> tuple[jax.Array, Measures]:
        log_prob, entropy = self._log_prob(params, batch.obs, batch.action)
        advantage = batch.advantage
        if len(advantage) > 1:  # a sample that is left over alone has no deviation
            advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
        ratio = jnp.exp(log_prob - batch.log_prob)
        clipped = jnp.clip(ratio, 1 - self.clip, 1 + self.clip)
        gain = jnp.minimum(advantage * ratio, advantage * clipped).mean()
        error = jnp.square(batch.returns - self._value(params, batch.obs)).mean()
        measures = {
            "policy_loss": -gain,
            "value_loss": error,
            "entropy": entropy.mean(),
            "kl": (ratio - 1.0 - (log_prob - batch.log_prob)).mean(),
        }
        return -gain - self.entropy_coef * entropy.mean() + self.value_coef * error, measures

    def _actor(self, params: Params, obs: jax.Array) -> jax.Array:
        return forward([*params.get("trunk", ()), *params["actor"]], obs, self.activation)

    def _value(self, params: Params, obs: jax.Array) -> jax.Array:
        return forward([*params.get("trunk", ()), *params["critic"]], obs, self.activation)[..., 0]

    def _log_prob(self, params: Params, obs: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Log-probability of the actions and entropy of the policy."""
        output = self._actor(params, obs)
        if "log_std" not in params:
            log_probs = jax.nn.log_softmax(output)
            chosen = jnp.take_along_axis(log_probs, action[..., None].astype(jnp.int32), axis=-1)[..., 0]
            return chosen, -(jnp.exp(log_probs) * log_probs).sum(axis=-1)
        log_std = params["log_std"]
        z = (action - output) / jnp.exp(log_std)
        log_prob = (-0.5 * z**2 - log_std - 0.5 * LOG_2PI).sum(axis=-1)
        return log_prob, jnp.full_like(log_prob, (0.5 + 0.5 * LOG_2PI + log_std).sum())


def clip_by_global_norm(most: float) -> optax.GradientTransformation:
    """PyTorch's clipping: factor min(1, most / (norm + 1e-6)), where optax divides by the norm itself."""

    def update(grads: Params, state: Any, params: Any = None) -> tuple[Params, Any]:
        factor = jnp.minimum(1.0, most / (optax.global_norm(grads) + 1e-6))
        return jax.tree.map(lambda g: g * factor, grads), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)
