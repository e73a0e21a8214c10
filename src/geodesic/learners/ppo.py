"""Proximal policy optimisation with Stable-Baselines3's semantics, as pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import optax

from geodesic.checks import Boolean, Count, Fraction, NonNegative, Number, Positive, Size, as_size, check_fields
from geodesic.errors import InvalidInput
from geodesic.learners import networks
from geodesic.learners.base import Hyperparameters, Key, Metrics, Transitions
from geodesic.learners.networks import LOG_2PI, Activation, Net, Params, Running, forward, merge_moments, normalize


class PPOState(NamedTuple):
    """Everything that training changes.

    Args:
        params: Networks by name: "actor", "critic", with `shared` "trunk", and for continuous actions "log_std".
        optimiser: State of the optimiser.
        moments: Running moments of observations, empty unless they are normalised.
    """

    params: Params
    optimiser: Any
    moments: Running = ()


class Samples(NamedTuple):
    """A minibatch.

    Args:
        obs: Observations (n, d), normalised.
        action: Actions (n, ...).
        log_prob: Log-probabilities (n,) of the actions under the policy that took them.
        advantage: Generalised advantages (n,).
        returns: Targets (n,) of the value function.
    """

    obs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    advantage: jax.Array
    returns: jax.Array


@dataclass(frozen=True)
class PPO(Hyperparameters):
    """Proximal policy optimisation: clipped policy gradient on generalised advantages (Schulman et al. 2017).

    The defaults are Stable-Baselines3's. Discrete actions are categorical. Continuous actions are Gaussian with a
    state-independent log-std and are clipped to the bounds only when they reach the environment. The last minibatch of
    an epoch is truncated if `batch_size` does not divide the rollout.

    With `shared=True` and `bootstrap=False` the update is that of older Stable-Baselines3 versions: time limits ended
    episodes before 1.4, and a `net_arch` of plain integers was one shared network before 2.0.

    Args:
        rollout: Steps of each environment between two updates (`n_steps`).
        n_envs: Number of environments stepped together.
        batch_size: Samples in a minibatch.
        epochs: Passes over the rollout in each update (`n_epochs`).
        learning_rate: Step size of Adam.
        gamma: Discount factor.
        gae_lambda: Decay of generalised advantage estimation.
        clip: The probability ratio is clipped to [1 - clip, 1 + clip] (`clip_range`).
        entropy_coef: Weight of the entropy bonus (`ent_coef`).
        value_coef: Weight of the value loss (`vf_coef`).
        max_grad_norm: Gradients are clipped to this global norm.
        net: Sizes of the hidden layers of policy and value network.
        activation: "tanh" or "relu".
        normalize_observations: Scale observations by their running mean and deviation, which are updated after every
            rollout.
        shared: Policy and value share one network and differ only in their last layer.
        bootstrap: Add gamma V(next_obs) to the reward of a step that a time limit cut off; otherwise such a step counts
            as the end of the episode.

    Raises:
        InvalidInput: If a value is out of range, or a rollout or batch has fewer than 2 samples.

    Example:
        >>> from geodesic import PPO
        >>> PPO(n_envs=8, net=(32, 32)).batch_size
        64
    """

    rollout: Count = 2048
    n_envs: networks.Envs = 1
    batch_size: Size = 64
    epochs: Count = 10
    learning_rate: NonNegative = 3e-4
    gamma: Fraction = 0.99
    gae_lambda: Fraction = 0.95
    clip: NonNegative = 0.2
    entropy_coef: Number = 0.0
    value_coef: NonNegative = 0.5
    max_grad_norm: Positive = 0.5
    net: Net = (64, 64)
    activation: Activation = "tanh"
    normalize_observations: Boolean = False
    shared: Boolean = False
    bootstrap: Boolean = True

    def __post_init__(self) -> None:
        check_fields(self)
        as_size(self.rollout * self.n_envs, "rollout * n_envs")
        if self.rollout * self.n_envs < 2 or self.batch_size < 2:
            raise InvalidInput("expected at least 2 samples in a rollout and in a batch: advantages are normalised")

    def init(self, key: Key, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> PPOState:
        """Create networks and optimiser; see `Learner.init`."""
        actor, critic = jax.random.split(key)
        n_obs = math.prod(observation_space.shape or ())
        outputs = int(action_space.n) if isinstance(action_space, gym.spaces.Discrete) else action_space.shape[0]  # type: ignore[index]
        hidden = (n_obs, *self.net)
        own = hidden[-1:] if self.shared else hidden
        params: Params = {"actor": networks.orthogonal_mlp(actor, (*own, outputs), 0.01)}
        params["critic"] = networks.orthogonal_mlp(critic, (*own, 1), 1.0)
        if self.shared:
            params["trunk"] = networks.orthogonal_mlp(jax.random.fold_in(key, 2), hidden, 2**0.5)
        if isinstance(action_space, gym.spaces.Box):
            params["log_std"] = jnp.zeros(outputs)
        moments = networks.initial_moments(n_obs) if self.normalize_observations else ()
        return PPOState(params, self.optimiser.init(params), moments)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """Adam behind PyTorch's gradient clipping."""
        return optax.chain(clip_by_global_norm(self.max_grad_norm), optax.adam(self.learning_rate, eps=1e-5))

    def act(self, state: PPOState, obs: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        """Sample actions; the stored ones are the same. See `Learner.act`."""
        output = self._actor(state.params, normalize(state.moments, obs))
        if "log_std" in state.params:
            action = output + jnp.exp(state.params["log_std"]) * jax.random.normal(key, output.shape)
        else:
            action = jax.random.categorical(key, output)
        return action, action

    def params(self, state: PPOState) -> Params:
        """Return the networks' parameters."""
        return state.params

    def policy(self, state: PPOState, obs: jax.Array) -> jax.Array:
        """Return the most likely actions."""
        output = self._actor(state.params, normalize(state.moments, obs))
        return output if "log_std" in state.params else output.argmax(axis=-1)

    def network(self, state: PPOState) -> networks.ActingNetwork:
        """Return the network that `policy` evaluates, from which policies are exported.

        Args:
            state: The learner's state.

        Returns:
            Its layers, and how their output becomes an action.
        """
        layers = [*state.params.get("trunk", ()), *state.params["actor"]]
        return networks.ActingNetwork(layers, self.activation, state.moments, squash=False)

    def update(self, state: PPOState, transitions: Transitions, key: Key) -> tuple[PPOState, Metrics]:
        """Take the gradient steps of all epochs on one rollout; see `Learner.update`.

        Losses, entropy and KL are means over the minibatches, as Stable-Baselines3 logs them.
        """
        obs, next_obs = (normalize(state.moments, x) for x in (transitions.obs, transitions.next_obs))
        samples = self.prepare(state.params, transitions._replace(obs=obs, next_obs=next_obs))
        n = self.rollout * self.n_envs
        orders = jax.vmap(lambda k: jax.random.permutation(k, n))(jax.random.split(key, self.epochs))

        def epoch(state: PPOState, order: jax.Array) -> tuple[PPOState, Metrics]:
            whole = n // self.batch_size * self.batch_size
            shuffled = jax.tree.map(lambda x: x[order], samples)
            metrics: Metrics = {}
            if whole:
                batches = jax.tree.map(lambda x: x[:whole].reshape(-1, self.batch_size, *x.shape[1:]), shuffled)
                state, each = jax.lax.scan(self.gradient_step, state, batches)
                metrics = jax.tree.map(jnp.mean, each)
            if whole < n:
                state, rest = self.gradient_step(state, jax.tree.map(lambda x: x[whole:], shuffled))
                metrics = metrics or rest
            return state, metrics

        state, each = jax.lax.scan(epoch, state, orders)
        explained = 1.0 - samples.advantage.var() / samples.returns.var()
        metrics = {**jax.tree.map(jnp.mean, each), "explained_variance": explained}
        return state._replace(moments=merge_moments(state.moments, transitions.obs)), metrics

    def value_errors(self, state: PPOState, transitions: Transitions, key: Key) -> jax.Array:
        """Compute the generalised advantage of every step, which the update learns from.

        Args:
            state: The learner's state before the update.
            transitions: The rollout.
            key: Not used.

        Returns:
            The advantages (rollout, n_envs).
        """
        obs, next_obs = (normalize(state.moments, x) for x in (transitions.obs, transitions.next_obs))
        samples = self.prepare(state.params, transitions._replace(obs=obs, next_obs=next_obs))
        return samples.advantage.reshape(self.rollout, self.n_envs)

    def prepare(self, params: Params, transitions: Transitions) -> Samples:
        """Compute advantages and returns of a rollout.

        delta_t = r_t + gamma V(s_t+1) (1 - done_t) - V(s_t),  A_t = delta_t + gamma lambda (1 - done_t) A_t+1

        Args:
            params: The networks' parameters.
            transitions: The rollout, with normalised observations.

        Returns:
            The samples, flattened to (rollout * n_envs,).
        """
        values = self._value(params, transitions.obs)
        next_values = self._value(params, transitions.next_obs)
        reward = transitions.reward
        if self.bootstrap:
            reward = reward + self.gamma * next_values * transitions.truncated
        continues = 1.0 - jnp.logical_or(transitions.terminated, transitions.truncated)
        delta = reward + self.gamma * next_values * continues - values

        def backwards(later: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            advantage = now[0] + self.gamma * self.gae_lambda * now[1] * later
            return advantage, advantage

        _, advantages = jax.lax.scan(backwards, jnp.zeros_like(delta[0]), (delta, continues), reverse=True)
        log_prob, _ = self._log_prob(params, transitions.obs, transitions.action)
        samples = Samples(transitions.obs, transitions.action, log_prob, advantages, advantages + values)
        return Samples(*(x.reshape(-1, *x.shape[2:]) for x in samples))

    def gradient_step(self, state: PPOState, batch: Samples) -> tuple[PPOState, Metrics]:
        """Take one gradient step.

        Args:
            state: Networks and optimiser.
            batch: A minibatch.

        Returns:
            The next state, and the parts of the loss by name.
        """
        grads, metrics = jax.grad(self.loss, has_aux=True)(state.params, batch)
        updates, optimiser = self.optimiser.update(grads, state.optimiser)
        return PPOState(optax.apply_updates(state.params, updates), optimiser, state.moments), metrics

    def loss(self, params: Params, batch: Samples) -> tuple[jax.Array, Metrics]:
        """Compute the loss of a minibatch; a subclass may override it.

        -E[min(A ratio, A clip(ratio))] - c_e entropy + c_v (V - R)^2, advantages normalised over the minibatch.

        Args:
            params: The networks' parameters.
            batch: The minibatch.

        Returns:
            The loss, and its parts by name.
        """
        log_prob, entropy = self._log_prob(params, batch.obs, batch.action)
        advantage = batch.advantage
        if len(advantage) > 1:  # a single sample has no deviation
            advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
        ratio = jnp.exp(log_prob - batch.log_prob)
        clipped = jnp.clip(ratio, 1 - self.clip, 1 + self.clip)
        gain = jnp.minimum(advantage * ratio, advantage * clipped).mean()
        error = jnp.square(batch.returns - self._value(params, batch.obs)).mean()
        kl = (ratio - 1.0 - (log_prob - batch.log_prob)).mean()
        metrics = {"policy_loss": -gain, "value_loss": error, "entropy": entropy.mean(), "kl": kl}
        return -gain - self.entropy_coef * entropy.mean() + self.value_coef * error, metrics

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


def clip_by_global_norm(max_norm: float) -> optax.GradientTransformation:
    """PyTorch's clipping: factor min(1, max_norm / (norm + 1e-6)), where optax divides by the norm itself."""

    def update(grads: Params, state: Any, params: Any = None) -> tuple[Params, Any]:
        # Not optax's norm: its name differs between the versions that we support.
        norm = jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(grads)))
        factor = jnp.minimum(1.0, max_norm / (norm + 1e-6))
        return jax.tree.map(lambda g: g * factor, grads), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)
