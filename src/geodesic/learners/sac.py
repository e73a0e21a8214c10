"""Soft actor-critic with Stable-Baselines3's semantics, as pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import optax

from geodesic.checks import Boolean, Count, Fraction, Natural, NonNegative, Size, as_size, check_fields
from geodesic.errors import InvalidInput
from geodesic.learners import networks
from geodesic.learners.base import Hyperparameters, Key, Metrics, Transitions
from geodesic.learners.networks import LOG_2PI, Activation, Net, Params, Running, forward, merge_moments, normalize

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
SQUASH_EPSILON = 1e-6


class Agent(NamedTuple):
    """Everything that a gradient step changes.

    Args:
        actor: Policy network.
        critic: The two critics, stacked along a leading axis of their arrays.
        target: Their target networks.
        log_alpha: Logarithm of the entropy coefficient.
        actor_optimiser: State of the actor's optimiser.
        critic_optimiser: State of the critics' optimiser.
        alpha_optimiser: State of the entropy coefficient's optimiser.
    """

    actor: Params
    critic: Params
    target: Params
    log_alpha: jax.Array
    actor_optimiser: Any
    critic_optimiser: Any
    alpha_optimiser: Any


class Batch(NamedTuple):
    """A batch of transitions.

    Args:
        obs: Observations (n, d).
        action: Actions (n, n_actions), scaled to [-1, 1].
        next_obs: Observations (n, d) after the step.
        reward: Rewards (n,).
        done: 1 where the episode terminated (n,); a time limit is 0.
    """

    obs: jax.Array
    action: jax.Array
    next_obs: jax.Array
    reward: jax.Array
    done: jax.Array


class SACState(NamedTuple):
    """Everything that training changes, and the bounds of the actions.

    Args:
        agent: Networks and optimisers.
        buffer: Replay buffer (capacity, 2 * n_obs + n_actions + 2), a ring.
        steps: Environment steps seen.
        low: Lower bounds of the actions.
        high: Upper bounds of the actions.
        moments: Running moments of observations, empty unless they are normalised.
    """

    agent: Agent
    buffer: jax.Array
    steps: jax.Array
    low: jax.Array
    high: jax.Array
    moments: Running = ()


@dataclass(frozen=True)
class SAC(Hyperparameters):
    """Soft actor-critic (Haarnoja et al. 2018) with automatic entropy coefficient; the target entropy is -dim(A).

    The defaults are Stable-Baselines3's, except for the network. Actions are continuous. Time limits bootstrap: only
    terminations cut the value. The step count moves once per rollout, so the switch at `learning_starts` falls on a
    rollout's start.

    Args:
        rollout: Steps of each environment between two updates (`train_freq`).
        n_envs: Number of environments stepped together.
        gradient_steps: Gradient steps in each update.
        batch_size: Transitions in a batch.
        buffer_size: Transitions in the replay buffer, rounded down to a multiple of rollout * n_envs.
        learning_starts: Until this many environment steps, actions are uniform and nothing is learned.
        learning_rate: Step size of Adam, for actor, critics and entropy coefficient.
        gamma: Discount factor.
        tau: Weight of the critics in each update of their target networks.
        net: Sizes of the hidden layers of actor and critics.
        activation: "tanh" or "relu".
        normalize_observations: Scale observations by their running mean and deviation. The buffer keeps them unscaled;
            they are scaled when a batch is drawn.

    Raises:
        InvalidInput: If a value is out of range, or the buffer is smaller than a rollout.

    Example:
        >>> from geodesic import SAC
        >>> SAC(rollout=5, learning_rate=1e-3).tau
        0.005
    """

    rollout: Count = 1
    n_envs: networks.Envs = 1
    gradient_steps: Count = 1
    batch_size: Size = 256
    buffer_size: Size = 1_000_000
    learning_starts: Natural = 100
    learning_rate: NonNegative = 3e-4
    gamma: Fraction = 0.99
    tau: Fraction = 0.005
    net: Net = (64, 64)
    activation: Activation = "tanh"
    normalize_observations: Boolean = False

    def __post_init__(self) -> None:
        check_fields(self)
        as_size(self.rollout * self.n_envs, "rollout * n_envs")
        as_size(self.gradient_steps * self.batch_size, "gradient_steps * batch_size")
        if self.buffer_size < self.rollout * self.n_envs:
            raise InvalidInput(
                f"expected buffer_size to hold a rollout of {self.rollout * self.n_envs} steps, got {self.buffer_size}"
            )

    def init(self, key: Key, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> SACState:
        """Create the agent and an empty buffer; see `Learner.init`."""
        if not isinstance(action_space, gym.spaces.Box):
            raise InvalidInput(f"expected a Box action space, got {action_space}")
        n_obs, n_act = math.prod(observation_space.shape or ()), math.prod(action_space.shape)
        actor_key, *critic_keys = jax.random.split(key, 3)
        actor = networks.torch_mlp(actor_key, (n_obs, *self.net, 2 * n_act))
        pair = [networks.torch_mlp(k, (n_obs + n_act, *self.net, 1)) for k in critic_keys]
        critic = jax.tree.map(lambda *leaves: jnp.stack([jnp.atleast_2d(leaf) for leaf in leaves]), *pair)
        log_alpha = jnp.float32(0.0)
        optimisers = (self.optimiser.init(p) for p in (actor, critic, log_alpha))
        agent = Agent(actor, critic, jax.tree.map(jnp.copy, critic), log_alpha, *optimisers)
        buffer = jnp.zeros((self._capacity, 2 * n_obs + n_act + 2))
        low, high = jnp.asarray(action_space.low), jnp.asarray(action_space.high)
        moments = networks.initial_moments(n_obs) if self.normalize_observations else ()
        return SACState(agent, buffer, jnp.int32(0), low, high, moments)

    def act(self, state: SACState, obs: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        """Sample actions, uniformly until `learning_starts`; the stored ones are scaled to [-1, 1]. See `Learner.act`.

        One normal draw z serves both cases, as erf(z / sqrt 2) is uniform.
        """
        mean, log_std = self._gaussian(state.agent.actor, normalize(state.moments, obs))
        noise = jax.random.normal(key, mean.shape)
        uniform = jax.scipy.special.erf(noise * math.sqrt(0.5))
        scaled = jnp.where(state.steps < self.learning_starts, uniform, jnp.tanh(mean + jnp.exp(log_std) * noise))
        return unscale(scaled, state), scaled

    def params(self, state: SACState) -> Params:
        """Return the parameters of actor, critics and entropy coefficient."""
        return state.agent.actor, state.agent.critic, state.agent.log_alpha

    def policy(self, state: SACState, obs: jax.Array) -> jax.Array:
        """Return the mean actions."""
        mean, _ = self._gaussian(state.agent.actor, normalize(state.moments, obs))
        return unscale(jnp.tanh(mean), state)

    def network(self, state: SACState) -> networks.ActingNetwork:
        """Return the network that `policy` evaluates, from which policies are exported.

        Args:
            state: The learner's state.

        Returns:
            Its layers, and how their output becomes an action.
        """
        return networks.ActingNetwork(state.agent.actor, self.activation, state.moments, squash=True)

    def update(self, state: SACState, transitions: Transitions, key: Key) -> tuple[SACState, Metrics]:
        """Store one rollout, then take gradient steps if more than `learning_starts` steps were seen.

        The metrics are means over the gradient steps, NaN where none was taken. See `Learner.update`.
        """
        state = self.store(state, transitions)
        index_key, noise_key = jax.random.split(key)
        filled = jnp.minimum(state.steps, self._capacity).astype(jnp.uint32)
        # The remainder's bias is filled / 2^32: far below what randint's second draw costs.
        indices = jax.random.bits(index_key, (self.gradient_steps, self.batch_size)) % filled
        noise = jax.random.normal(noise_key, (self.gradient_steps, 2, self.batch_size, state.low.size))

        def step(agent: Agent, draw: tuple[jax.Array, jax.Array]) -> tuple[Agent, Metrics]:
            batch = unpack(state.buffer[draw[0]], state.low.size)
            obs, next_obs = (normalize(state.moments, x) for x in (batch.obs, batch.next_obs))
            return self.gradient_step(agent, batch._replace(obs=obs, next_obs=next_obs), draw[1])

        agent, each = jax.lax.scan(step, state.agent, (indices, noise))
        # A select on the agent fuses with its update; a select on the buffer would copy it.
        ready = state.steps > self.learning_starts
        state = state._replace(agent=jax.tree.map(lambda new, old: jnp.where(ready, new, old), agent, state.agent))
        return state, {name: jnp.where(ready, values.mean(), jnp.nan) for name, values in each.items()}

    def store(self, state: SACState, transitions: Transitions) -> SACState:
        """Write a rollout over the oldest transitions of the buffer.

        Args:
            state: The learner's state.
            transitions: The rollout.

        Returns:
            The state with them.
        """
        obs, action, reward, next_obs, terminated, _ = transitions
        columns = (obs, action, next_obs, reward[..., None], terminated[..., None])
        rows = jnp.concatenate([c.astype(jnp.float32) for c in columns], axis=-1)
        rows = rows.reshape(self.rollout * self.n_envs, -1)
        buffer = jax.lax.dynamic_update_slice_in_dim(state.buffer, rows, state.steps % self._capacity, 0)
        return state._replace(buffer=buffer, steps=state.steps + len(rows), moments=merge_moments(state.moments, obs))

    def value_errors(self, state: SACState, transitions: Transitions, key: Key) -> jax.Array:
        """Compute the temporal difference error y - min_i Q_i(s, a) of every step, with y as in `gradient_step`.

        Args:
            state: The learner's state before the update.
            transitions: The rollout.
            key: A JAX random key, for the next action.

        Returns:
            The errors (rollout, n_envs).
        """
        obs, action, reward, next_obs, terminated, _ = (x.reshape(-1, *x.shape[2:]) for x in transitions)
        obs, next_obs = (normalize(state.moments, x) for x in (obs, next_obs))
        batch = Batch(obs, action, next_obs, reward, terminated.astype(jnp.float32))
        target = self._target_value(state.agent, batch, jax.random.normal(key, action.shape))
        errors = target - self._critics(state.agent.critic, obs, action).min(axis=0)
        return errors.reshape(self.rollout, self.n_envs)

    def gradient_step(self, agent: Agent, batch: Batch, noise: jax.Array) -> tuple[Agent, Metrics]:
        """Take one gradient step of entropy coefficient, critics and actor, in this order.

        target:  y = r + gamma (1 - done) (min_i Q'_i(s', a') - alpha log pi(a' | s')),  a' ~ pi(s') with noise[1]
        losses:  alpha: -log alpha (log pi + target entropy);  Q: sum_i |Q_i(s, a) - y|^2 / 2;
                 pi: alpha log pi(a | s) - min_i Q_i(s, a),  a ~ pi(s) with noise[0], Q after its step

        Args:
            agent: Networks and optimisers.
            batch: Transitions with normalised observations.
            noise: Standard normal draws (2, n, n_actions).

        Returns:
            The agent after the step, and the metrics of the step.
        """
        alpha = jnp.exp(agent.log_alpha)
        (action, log_prob), pull_actor = jax.vjp(lambda p: self._sample(p, batch.obs, noise[0]), agent.actor)
        by_alpha = -(log_prob.mean() - action.shape[-1])
        log_alpha, alpha_optimiser = self._descend(by_alpha, agent.log_alpha, agent.alpha_optimiser)

        target_value = self._target_value(agent, batch, noise[1])

        def critic_loss(critic: Params) -> jax.Array:
            return 0.5 * jnp.square(self._critics(critic, batch.obs, batch.action) - target_value).mean(axis=1).sum()

        critic_error, by_critic = jax.value_and_grad(critic_loss)(agent.critic)
        critic, critic_optimiser = self._descend(by_critic, agent.critic, agent.critic_optimiser)

        def actor_loss(action: jax.Array) -> jax.Array:
            return -self._critics(critic, batch.obs, action).min(axis=0).mean()

        against, by_action = jax.value_and_grad(actor_loss)(action)
        (by_actor,) = pull_actor((by_action, jnp.broadcast_to(alpha / len(action), log_prob.shape)))
        actor, actor_optimiser = self._descend(by_actor, agent.actor, agent.actor_optimiser)
        target = jax.tree.map(lambda old, new: (1 - self.tau) * old + self.tau * new, agent.target, critic)
        entropy = -log_prob.mean()
        metrics = {"critic_loss": critic_error, "actor_loss": against - alpha * entropy}
        metrics |= {"entropy": entropy, "entropy_coef": alpha}
        return Agent(actor, critic, target, log_alpha, actor_optimiser, critic_optimiser, alpha_optimiser), metrics

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """Adam, the same for all three losses."""
        return optax.adam(self.learning_rate)

    @property
    def _capacity(self) -> int:
        whole = self.rollout * self.n_envs
        return self.buffer_size // whole * whole

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

    def _target_value(self, agent: Agent, batch: Batch, noise: jax.Array) -> jax.Array:
        """y = r + gamma (1 - done) (min_i Q'_i(s', a') - alpha log pi(a' | s')) with a' from this noise."""
        action, log_prob = self._sample(agent.actor, batch.next_obs, noise)
        value = self._critics(agent.target, batch.next_obs, action).min(axis=0) - jnp.exp(agent.log_alpha) * log_prob
        return batch.reward + (1.0 - batch.done) * self.gamma * value

    def _critics(self, critic: Params, obs: jax.Array, action: jax.Array) -> jax.Array:
        """Both values, shape (2, n)."""
        return forward(critic, jnp.concatenate([obs, action], axis=-1), self.activation)[..., 0]


def unpack(rows: jax.Array, n_act: int) -> Batch:
    """Split rows of the buffer into a batch."""
    n_obs = (rows.shape[-1] - n_act - 2) // 2
    obs, action, next_obs, ends = jnp.split(rows, (n_obs, n_obs + n_act, 2 * n_obs + n_act), axis=-1)
    return Batch(obs, action, next_obs, ends[..., 0], ends[..., 1])


def unscale(scaled: jax.Array, state: SACState) -> jax.Array:
    """Convert actions from [-1, 1] to the environment's units."""
    return state.low + 0.5 * (scaled + 1.0) * (state.high - state.low)
