"""Soft actor-critic with Stable-Baselines3's semantics, as pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import optax

from geodesic.checks import as_count, as_flag, as_integer, as_nonnegative, as_share, check
from geodesic.errors import InvalidInput
from geodesic.learners.base import Key, Measures, Transitions
from geodesic.learners.networks import Params, as_activation, as_net, forward
from geodesic.learners.normalization import Running, first_moments, merged, normalized

LOG_2PI = math.log(2 * math.pi)
LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
SQUASH_EPSILON = 1e-6


class Agent(NamedTuple):
    """Everything that a gradient step changes. The two critics are stacked along a leading axis of their arrays."""

    actor: Params
    critic: Params
    target: Params
    log_alpha: jax.Array  # of the entropy coefficient
    actor_optimiser: Any
    critic_optimiser: Any
    alpha_optimiser: Any


class Batch(NamedTuple):
    """Transitions (n, ...); actions scaled to [-1, 1]; done is 1 where the episode truly ended."""

    obs: jax.Array
    action: jax.Array
    next_obs: jax.Array
    reward: jax.Array
    done: jax.Array


class SACState(NamedTuple):
    agent: Agent
    buffer: jax.Array  # (capacity, 2 * n_obs + n_actions + 2), a ring
    steps: jax.Array  # environment steps seen
    low: jax.Array  # bounds of the actions
    high: jax.Array
    moments: Running = ()


@dataclass(frozen=True)
class SAC:
    """Maximum-entropy actor-critic (Haarnoja et al. 2018) with automatic entropy coefficient, target -dim(A).

    `rollout` is Stable-Baselines3's train_freq. Actions are uniform until `learning_starts` steps were seen; as the
    count moves once per rollout, the switch falls on a rollout's start. Time limits bootstrap: only true ends cut the
    value. The buffer holds whole rollouts: `buffer_size` is rounded down to a multiple of rollout * n_envs. It keeps
    observations as they came; with normalize_observations they are scaled when they are drawn.
    """

    rollout: int = 1
    n_envs: int = 1
    gradient_steps: int = 1
    batch_size: int = 256
    buffer_size: int = 1_000_000
    learning_starts: int = 100
    learning_rate: float = 3e-4
    gamma: float = 0.99
    tau: float = 0.005
    net: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    normalize_observations: bool = False

    def __post_init__(self) -> None:
        check(self, rollout=as_count, n_envs=as_count, gradient_steps=as_count, batch_size=as_count)
        check(self, buffer_size=as_count, learning_starts=as_integer, learning_rate=as_nonnegative, gamma=as_share)
        check(self, tau=as_share, net=as_net, activation=as_activation, normalize_observations=as_flag)
        if self.buffer_size < self.rollout * self.n_envs:
            raise InvalidInput(
                f"expected buffer_size to hold a rollout of {self.rollout * self.n_envs} steps, got {self.buffer_size}"
            )

    def init(self, key: Key, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> SACState:
        if not isinstance(action_space, gym.spaces.Box):
            raise InvalidInput(f"expected a Box action space, got {action_space}")
        n_obs, n_act = math.prod(observation_space.shape or ()), math.prod(action_space.shape)
        return SACState(
            self._fresh_agent(key, n_obs, n_act),
            jnp.zeros((self._capacity, 2 * n_obs + n_act + 2)),
            jnp.int32(0),
            jnp.asarray(action_space.low),
            jnp.asarray(action_space.high),
            first_moments(n_obs) if self.normalize_observations else (),
        )

    def act(self, state: SACState, obs: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        """A sampled action, or a uniform one at first; one normal draw z serves both: erf(z / sqrt 2) is uniform."""
        mean, log_std = self._gaussian(state.agent.actor, normalized(state.moments, obs))
        noise = jax.random.normal(key, mean.shape)
        uniform = jax.scipy.special.erf(noise * math.sqrt(0.5))
        scaled = jnp.where(state.steps < self.learning_starts, uniform, jnp.tanh(mean + jnp.exp(log_std) * noise))
        return unscale(scaled, state), scaled

    def params(self, state: SACState) -> Params:
        return state.agent.actor, state.agent.critic, state.agent.log_alpha

    def policy(self, state: SACState, obs: jax.Array) -> jax.Array:
        mean, _ = self._gaussian(state.agent.actor, normalized(state.moments, obs))
        return unscale(jnp.tanh(mean), state)

    def learn(self, state: SACState, transitions: Transitions, key: Key) -> SACState:
        """Store the rollout, then take the gradient steps once more than `learning_starts` steps were seen."""
        return self.learn_measured(state, transitions, key)[0]

    def learn_measured(self, state: SACState, transitions: Transitions, key: Key) -> tuple[SACState, Measures]:
        """The measures are means over the gradient steps, each on the batch that it was taken on."""
        state = self.store(state, transitions)
        index_key, noise_key = jax.random.split(key)
        filled = jnp.minimum(state.steps, self._capacity).astype(jnp.uint32)
        # The remainder's bias is filled / 2^32: far below what randint's second draw costs.
        indices = jax.random.bits(index_key, (self.gradient_steps, self.batch_size)) % filled
        noise = jax.random.normal(noise_key, (self.gradient_steps, 2, self.batch_size, state.low.size))

        def step(agent: Agent, draw: tuple[jax.Array, jax.Array]) -> tuple[Agent, Measures]:
            batch = unpack(state.buffer[draw[0]], state.low.size)
            obs, next_obs = (normalized(state.moments, x) for x in (batch.obs, batch.next_obs))
            return self._update(agent, batch._replace(obs=obs, next_obs=next_obs), draw[1])

        agent, each = jax.lax.scan(step, state.agent, (indices, noise))
        # A select on the agent fuses with its update; the buffer must never pass through one, it would be copied.
        ready = state.steps > self.learning_starts
        state = state._replace(agent=jax.tree.map(lambda new, old: jnp.where(ready, new, old), agent, state.agent))
        return state, {name: jnp.where(ready, values.mean(), jnp.nan) for name, values in each.items()}

    def store(self, state: SACState, seen: Transitions) -> SACState:
        """The rollout's transitions written over the oldest ones of the ring."""
        columns = (seen.obs, seen.action, seen.next_obs, seen.reward[..., None], seen.terminated[..., None])
        rows = jnp.concatenate([c.astype(jnp.float32) for c in columns], axis=-1)
        rows = rows.reshape(self.rollout * self.n_envs, -1)
        buffer = jax.lax.dynamic_update_slice_in_dim(state.buffer, rows, state.steps % self._capacity, 0)
        return state._replace(buffer=buffer, steps=state.steps + len(rows), moments=merged(state.moments, seen.obs))

    def update(self, agent: Agent, batch: Batch, noise: jax.Array) -> Agent:
        """One gradient step of entropy coefficient, critics and actor, in this order; noise (2, n, n_actions).

        target:  y = r + gamma (1 - done) (min_i Q'_i(s', a') - alpha log pi(a' | s')),  a' ~ pi(s') with noise[1]
        losses:  alpha: -log alpha (log pi + target entropy);  Q: sum_i |Q_i(s, a) - y|^2 / 2;
                 pi: alpha log pi(a | s) - min_i Q_i(s, a),  a ~ pi(s) with noise[0], Q after its step
        """
        return self._update(agent, batch, noise)[0]

    def _update(self, agent: Agent, batch: Batch, noise: jax.Array) -> tuple[Agent, Measures]:
        alpha = jnp.exp(agent.log_alpha)
        (action, log_prob), pull_actor = jax.vjp(lambda p: self._sample(p, batch.obs, noise[0]), agent.actor)
        log_alpha, alpha_optimiser = self._descend(
            -(log_prob.mean() - action.shape[-1]), agent.log_alpha, agent.alpha_optimiser
        )

        next_action, next_log_prob = self._sample(agent.actor, batch.next_obs, noise[1])
        next_value = self._critics(agent.target, batch.next_obs, next_action).min(axis=0) - alpha * next_log_prob
        goal = batch.reward + (1.0 - batch.done) * self.gamma * next_value

        def critic_loss(critic: Params) -> jax.Array:
            return 0.5 * jnp.square(self._critics(critic, batch.obs, batch.action) - goal).mean(axis=1).sum()

        critic_error, by_critic = jax.value_and_grad(critic_loss)(agent.critic)
        critic, critic_optimiser = self._descend(by_critic, agent.critic, agent.critic_optimiser)

        against, by_action = jax.value_and_grad(lambda a: -self._critics(critic, batch.obs, a).min(axis=0).mean())(
            action
        )
        (by_actor,) = pull_actor((by_action, jnp.broadcast_to(alpha / len(action), log_prob.shape)))
        actor, actor_optimiser = self._descend(by_actor, agent.actor, agent.actor_optimiser)
        target = jax.tree.map(lambda old, new: (1 - self.tau) * old + self.tau * new, agent.target, critic)
        entropy = -log_prob.mean()
        measures = {
            "critic_loss": critic_error,
            "actor_loss": against - alpha * entropy,
            "entropy": entropy,
            "entropy_coef": alpha,
        }
        return Agent(actor, critic, target, log_alpha, actor_optimiser, critic_optimiser, alpha_optimiser), measures

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)

    @property
    def _capacity(self) -> int:
        whole = self.rollout * self.n_envs
        return self.buffer_size // whole * whole

    def _fresh_agent(self, key: Key, n_obs: int, n_act: int) -> Agent:
        actor_key, *critic_keys = jax.random.split(key, 3)
        actor = torch_mlp(actor_key, (n_obs, *self.net, 2 * n_act))
        pair = [torch_mlp(k, (n_obs + n_act, *self.net, 1)) for k in critic_keys]
        critic = jax.tree.map(lambda *leaves: jnp.stack([jnp.atleast_2d(leaf) for leaf in leaves]), *pair)
        log_alpha = jnp.float32(0.0)
        optimisers = (self.optimiser.init(p) for p in (actor, critic, log_alpha))
        return Agent(actor, critic, jax.tree.map(jnp.copy, critic), log_alpha, *optimisers)

    def _descend(self, gradient: Params, params: Params, optimiser: Any) -> tuple[Params, Any]:
        updates, optimiser = self.optimiser.update(gradient, optimiser)
        return optax.apply_updates(params, updates), optimiser

    def _gaussian(self, actor: Params, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        mean, log_std = jnp.split(forward(actor, obs, self.activation), 2, axis=-1)
        return mean, jnp.clip(log_std, LOG_STD_MIN, LOG_STD_MAX)

    def _sample(self, actor: Params, obs: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Squashed action tanh(mean + std * noise) and its log-probability."""
        mean, log_std = self._gaussian(actor, obs)
        action = jnp.tanh(mean + jnp.exp(log_std) * noise)
        gaussian = -0.5 * jnp.square(noise) - log_std - 0.5 * LOG_2PI
        return action, (gaussian - jnp.log(1.0 - jnp.square(action) + SQUASH_EPSILON)).sum(axis=-1)

    def _critics(self, critic: Params, obs: jax.Array, action: jax.Array) -> jax.Array:
        """Both values, shape (2, n)."""
        return forward(critic, jnp.concatenate([obs, action], axis=-1), self.activation)[..., 0]


def torch_mlp(key: Key, sizes: tuple[int, ...]) -> list[dict[str, jax.Array]]:
    """Layers as torch.nn.Linear starts them: weights and biases uniform within 1 / sqrt(inputs)."""
    layers = []
    for m, n in pairwise(sizes):
        key, kernel, bias = jax.random.split(key, 3)
        bound = 1.0 / math.sqrt(m)
        layers.append(
            {
                "kernel": jax.random.uniform(kernel, (m, n), minval=-bound, maxval=bound),
                "bias": jax.random.uniform(bias, (n,), minval=-bound, maxval=bound),
            }
        )
    return layers


def unpack(rows: jax.Array, n_act: int) -> Batch:
    """Rows of the buffer as a batch."""
    n_obs = (rows.shape[-1] - n_act - 2) // 2
    obs, action, next_obs, ends = jnp.split(rows, (n_obs, n_obs + n_act, 2 * n_obs + n_act), axis=-1)
    return Batch(obs, action, next_obs, ends[..., 0], ends[..., 1])


def unscale(scaled: jax.Array, state: SACState) -> jax.Array:
    """From [-1, 1] to the environment's units."""
    return state.low + 0.5 * (scaled + 1.0) * (state.high - state.low)
