"""A contextual MDP, written once in JAX on Gymnasium's functional interface, and its ordinary Gymnasium face.

The context is the functional interface's `params`: it may set the initial state, the reward and the dynamics. The same
definition serves the compiled trainer, Gymnasium code and the exact metrics.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from numpy.typing import ArrayLike, NDArray

from geodesic.distributions import ContextSpace, FloatArray, Particles
from geodesic.errors import InvalidInput, UnknownName
from geodesic.metrics.base import Metric

EnvState = Any  # a pytree of arrays


class ContextualMDP(FuncEnv[EnvState, jax.Array, jax.Array, jax.Array, jax.Array, None, jax.Array]):
    """Base of the JAX environments. A context is a float32 vector (d,) in `context_space`.

    Subclasses implement `initial`, `transition`, `observation`, `reward`, `terminal` (pure, one environment at a
    time), and `success`. `terminal` and `success` look at the state after a step.
    """

    name: ClassVar[str]
    max_steps: ClassVar[int]
    context_space: ContextSpace
    worst_return: float

    def success(self, state: EnvState, context: jax.Array) -> jax.Array:
        """Whether the task is solved in this state; read when an episode ends."""
        raise NotImplementedError

    def source(self, rng: np.random.Generator) -> Particles:
        """The easy distribution the curriculum starts from."""
        raise NotImplementedError

    def target(self, rng: np.random.Generator) -> Particles:
        """The hard distribution it is after."""
        raise NotImplementedError

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """An upper bound (n,) on the return in each context, so that thresholds out of reach are refused."""
        raise NotImplementedError

    def metric(self, name: str) -> Metric | None:
        """The named exact distance between contexts; None is the Euclidean one, which every space has."""
        if name != "l2":
            raise UnknownName(f"metric of {self.name}", name, ["l2"])
        return None

    def is_feasible(self, contexts: FloatArray) -> NDArray[np.bool_]:
        """Which contexts (n, d) can be solved at all. For reports only: curricula do not see it."""
        return np.ones(len(contexts), dtype=np.bool_)

    def image(self, state: EnvState, context: FloatArray) -> NDArray[np.uint8]:
        """A picture (height, width, 3) of the state."""
        raise NotImplementedError


class ContextualEnv(gym.Env[NDArray[np.float32], Any]):
    """The Gymnasium face of a contextual MDP.

    The context comes from `reset(options={"context": c})`; without one it is drawn from `distribution`, which starts as
    the environment's target and can be replaced by `set_distribution`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(self, mdp: ContextualMDP, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidInput(f"expected render_mode None or 'rgb_array', got {render_mode!r}")
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space = mdp.observation_space
        self.action_space = mdp.action_space
        self.context_space = mdp.context_space
        self.distribution = mdp.target(np.random.default_rng(0))
        self._reset = jax.jit(self._pure_reset)
        self._step = jax.jit(self._pure_step)

    def set_distribution(self, distribution: Particles) -> None:
        """Draw the contexts of the next episodes from here."""
        self.context_space.check(distribution.points, "distribution")
        self.distribution = distribution

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        asked = (options or {}).get("context")
        self.context = self._draw() if asked is None else self.context_space.check(np.atleast_2d(asked))[0]
        self._steps = 0
        self._key = jax.random.key(int(self.np_random.integers(2**31)))
        self._state, self._key, obs = self._reset(self._key, jnp.asarray(self.context, jnp.float32))
        return np.asarray(obs), {"context": self.context.copy()}

    def step(self, action: ArrayLike) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(np.asarray(action, self.action_space.dtype)):
            raise InvalidInput(f"expected an action in {self.action_space}, got {action!r}")
        self._state, self._key, obs, reward, terminated, success = self._step(
            self._state, jnp.asarray(action), self._key, jnp.asarray(self.context, jnp.float32)
        )
        self._steps += 1
        truncated = self._steps >= self.mdp.max_steps and not bool(terminated)
        info = {"context": self.context.copy(), "is_success": bool(success)}
        return np.asarray(obs), float(reward), bool(terminated), truncated, info

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        if self.render_mode is None:
            gym.logger.warn("render() without render_mode; try gym.make(..., render_mode='rgb_array')")
            return None
        return self.mdp.image(jax.device_get(self._state), self.context)

    def _draw(self) -> FloatArray:
        return np.asarray(self.distribution.sample(self.np_random, 1)[0])

    def _pure_reset(self, key: jax.Array, context: jax.Array) -> tuple[EnvState, jax.Array, jax.Array]:
        key, start, look = jax.random.split(key, 3)
        state = self.mdp.initial(start, context)
        return state, key, self.mdp.observation(state, look, context)

    def _pure_step(self, state: EnvState, action: jax.Array, key: jax.Array, context: jax.Array) -> tuple[Any, ...]:
        key, move, look = jax.random.split(key, 3)
        following = self.mdp.transition(state, action, move, context)
        return (
            following,
            key,
            self.mdp.observation(following, look, context),
            self.mdp.reward(state, action, following, look, context),
            self.mdp.terminal(following, look, context),
            self.mdp.success(following, context),
        )
