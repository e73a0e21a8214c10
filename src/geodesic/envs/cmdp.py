"""Contextual MDPs in JAX, on Gymnasium's functional interface, and as its environments and vector environments.

The context is the functional interface's `params`: it may set the initial state, the reward and the dynamics. One
definition serves the compiled trainer, Gymnasium (`ContextualEnv`, `VectorContextualEnv`) and the exact metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import as_array, as_count, as_name
from geodesic.contexts import ContextSpace, FloatArray, Particles, Plot
from geodesic.envs.gymnasium import ContextSampler, Info, as_episode_seed, as_render_mode
from geodesic.errors import InvalidInput, short_repr
from geodesic.runtime import check_not_forked, set_xla_flags

set_xla_flags()

EnvState = Any  # a pytree of arrays
Mask = NDArray[np.bool_]
Seeds = int | Sequence[int | None] | None


class ContextualMDP(FuncEnv[EnvState, jax.Array, jax.Array, jax.Array, jax.Array, None, jax.Array]):
    """Base class of environments in JAX.

    A context is a float32 vector (d,). It holds numbers and integers themselves, and a category by its place in the
    list of categories.

    A subclass sets the three attributes below and implements these functions, which must be pure and handle one
    environment at a time:

        initial(rng, context) -> state                          transition(state, action, rng, context) -> next state
        observation(state, rng, context) -> array               reward(state, action, next_state, rng, context)
        terminal(state, rng, context) -> whether this state, after a step, ends the episode

    It may override `success`, `image` and `plot`, and describe the problem by any of these, which a `Task` uses unless
    it is given others: context_space, worst_return, source(rng), target(rng), evaluation(rng), best_return(contexts),
    is_feasible(contexts), metric(name).

    Attributes:
        observation_space: Space of one observation.
        action_space: Space of one action.
        max_steps: Steps after which an episode is truncated.
    """

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    max_steps: int

    def success(self, state: EnvState, context: jax.Array) -> jax.Array:
        """Return whether the task is solved.

        Args:
            state: The last state of an episode.
            context: Its context (d,).

        Returns:
            1 or 0; NaN if the environment cannot tell.
        """
        return jnp.full((), jnp.nan, jnp.float32)

    def image(self, state: EnvState, context: FloatArray) -> NDArray[np.uint8]:
        """Draw a state.

        Args:
            state: The state.
            context: The context (d,) of the episode.

        Returns:
            A picture (height, width, 3).

        Raises:
            InvalidInput: If the environment does not override this.
        """
        raise InvalidInput(
            f"expected an environment that can be drawn; add image(state, context) -> uint8 (h, w, 3) to "
            f"{type(self).__name__}"
        )

    def plot(self) -> Plot:
        """Describe how its contexts are drawn.

        Returns:
            The description.
        """
        return Plot()


class ContextualEnv(ContextSampler, gym.Env[NDArray[np.float32], Any]):
    """A contextual MDP written in JAX as a Gymnasium environment.

    Args:
        mdp: The contextual MDP.
        space: The space that contexts lie in.
        distribution: Where contexts are drawn from until `set_distribution`.
        render_mode: None or "rgb_array".

    Raises:
        InvalidInput: If an argument is invalid.
    """

    metadata: Info = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(
        self, mdp: ContextualMDP, space: ContextSpace, distribution: Particles, render_mode: str | None = None
    ) -> None:
        super().__init__(space, distribution)
        self.mdp = mdp
        self.render_mode = as_render_mode(render_mode)
        self.observation_space = mdp.observation_space
        self.action_space = mdp.action_space
        self._state: EnvState = None
        self._reset = jax.jit(self.pure_reset)
        self._step = jax.jit(self.pure_step)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[NDArray[np.float32], Info]:
        """Start an episode; `options={"context": c}` names its context."""
        check_not_forked()
        super().reset(seed=as_episode_seed(seed))
        context = self.start_episode(options, self.np_random)
        self._steps = 0
        self._key = jax.random.key(int(self.np_random.integers(2**31)))
        self._state, self._key, obs = self._reset(self._key, np.asarray(context, np.float32))
        return np.asarray(obs), self.episode_info()

    def step(self, action: ArrayLike) -> tuple[NDArray[np.float32], float, bool, bool, Info]:
        """Take one step; `info` has "is_success" if the MDP reports success."""
        _check_action(action, self.action_space)
        if self._state is None:
            raise InvalidInput("expected reset() before the first step(), got none")
        self._state, self._key, obs, reward, terminated, success = self._step(
            self._state, np.asarray(action), self._key, np.asarray(self.context, np.float32)
        )
        self._steps += 1
        truncated = self._steps >= self.mdp.max_steps and not bool(terminated)
        known = {} if np.isnan(float(success)) else {"is_success": bool(success)}
        return np.asarray(obs), float(reward), bool(terminated), truncated, {**self.episode_info(), **known}

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """Return a picture (height, width, 3) of the current state, or None without a render mode."""
        if self.render_mode is None:
            gym.logger.warn("render() without render_mode; try gym.make(..., render_mode='rgb_array')")
            return None
        if self._state is None:
            raise InvalidInput("expected reset() before render(), got none")
        return self.mdp.image(jax.device_get(self._state), self.context)

    def pure_reset(self, key: jax.Array, context: jax.Array) -> tuple[EnvState, jax.Array, jax.Array]:
        """Return the first state of an episode, the next key and the observation, as a pure function."""
        key, start, look = jax.random.split(key, 3)
        state = self.mdp.initial(start, context)
        return state, key, self.mdp.observation(state, look, context)

    def pure_step(self, state: EnvState, action: jax.Array, key: jax.Array, context: jax.Array) -> tuple[Any, ...]:
        """Return next state, key, observation, reward, whether it is terminal, and success, as a pure function."""
        key, move, look = jax.random.split(key, 3)
        next_state = self.mdp.transition(state, action, move, context)
        obs = self.mdp.observation(next_state, look, context)
        reward = self.mdp.reward(state, action, next_state, look, context)
        terminated = self.mdp.terminal(next_state, look, context)
        return next_state, key, obs, reward, terminated, self.mdp.success(next_state, context)


class VectorContextualEnv(gym.vector.VectorEnv[NDArray[np.float32], Any, Any]):
    """Several copies of one contextual MDP.

    Contexts, seeds, `info` and the auto-reset modes are those of Gymnasium's SyncVectorEnv around as many
    `ContextualEnv`s. `reset(options={"context": c})` states the context of all episodes, as an array (d,) or as values
    by name, or of each (n, d); with "reset_mask" in the options, of each episode that is reset.

    Args:
        mdp: The contextual MDP.
        space: The space that contexts lie in.
        distribution: Where contexts are drawn from until `set_distribution`.
        num_envs: Number of copies.
        autoreset_mode: A mode of `gymnasium.vector.AutoresetMode`.

    Raises:
        InvalidInput: If an argument is invalid.
    """

    def __init__(
        self,
        mdp: ContextualMDP,
        space: ContextSpace,
        distribution: Particles,
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.num_envs = as_count(num_envs, "num_envs")
        mode = getattr(autoreset_mode, "value", autoreset_mode)
        self.autoreset_mode = AutoresetMode(as_name(mode, "autoreset_mode", [each.value for each in AutoresetMode]))
        self.metadata = {**ContextualEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self.max_steps = mdp.max_steps
        self.single_observation_space, self.single_action_space = mdp.observation_space, mdp.action_space
        self.observation_space = gym.vector.utils.batch_space(mdp.observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(mdp.action_space, num_envs)
        self.context_space = space
        self.samplers = [ContextSampler(space, distribution) for _ in range(num_envs)]
        self._rngs = [np.random.default_rng() for _ in range(num_envs)]
        self._steps = np.zeros(num_envs, np.int64)
        self._ended = np.zeros(num_envs, np.bool_)  # episodes that have ended and were not reset yet
        self._contexts = np.zeros((num_envs, space.dim), np.float32)
        single = ContextualEnv(mdp, space, distribution)
        self._first_reset = jax.jit(jax.vmap(single.pure_reset))
        self._reset = jax.jit(partial(_reset_where, single))
        self._step = jax.jit(jax.vmap(single.pure_step))
        self._current: Any = None  # states, keys and observations

    @property
    def contexts(self) -> FloatArray:
        """Contexts (n, d) of the current episodes."""
        return np.stack([sampler.context for sampler in self.samplers])

    def set_distribution(self, distribution: Particles, stage: int = 0) -> None:
        """Draw the contexts of the next episodes from another distribution; the current episodes keep theirs.

        Args:
            distribution: Particles inside the context space.
            stage: The stage that the distribution belongs to, reported in `info`.

        Raises:
            InvalidInput: If a particle lies outside the context space.
        """
        for sampler in self.samplers:
            sampler.set_distribution(distribution, stage)

    def reset(self, *, seed: Seeds = None, options: Info | None = None) -> tuple[NDArray[np.float32], Info]:  # type: ignore[override]
        """Start episodes, all of them or those in `options["reset_mask"]`."""
        options = dict(options or {})
        mask = _as_mask(options.pop("reset_mask", None), self.num_envs)
        for index, own in enumerate(_as_seeds(seed, self.num_envs)):
            if own is not None:
                self._rngs[index] = gym.utils.seeding.np_random(own)[0]
        self._start_episodes(mask, options.get("context"))
        return np.array(self._current[2]), self._info(mask)

    def step(self, actions: Any) -> tuple[NDArray[np.float32], FloatArray, Mask, Mask, Info]:
        """Step every episode, and reset those that ended as the auto-reset mode says."""
        given = np.asarray(actions, self.action_space.dtype)
        if not self.action_space.contains(given):
            raise InvalidInput(f"expected actions in {self.action_space}, got {short_repr(actions)}")
        if self._current is None:
            raise InvalidInput("expected reset() before the first step(), got none")
        before = self._ended.copy()
        *current, reward, terminated, success = self._step(self._current[0], given, self._current[1], self._contexts)
        self._current, self._steps = current, self._steps + 1
        terminated = np.array(terminated)
        truncated = (self._steps >= self.max_steps) & ~terminated
        reward = np.array(reward, np.float64)
        everywhere = stepped = np.ones(self.num_envs, np.bool_)
        if self.autoreset_mode is AutoresetMode.NEXT_STEP and before.any():  # these are reset; their action is ignored
            self._start_episodes(before)
            reward[before], terminated[before], truncated[before], stepped = 0.0, False, False, ~before
        self._ended = terminated | truncated
        final: Info = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._ended.any():
            stepped = ~self._ended
            final = self._restart(self._ended.copy(), np.asarray(success))
        info = self._info(everywhere, np.asarray(success), stepped)
        return np.array(self._current[2]), reward, terminated, truncated, {**info, **final}

    def _restart(self, ended: Mask, success: NDArray[np.float32]) -> Info:
        """Reset episodes that ended; return their last observation and info under Gymnasium's names."""
        last, final_info = np.array(self._current[2]), self._info(ended, success, ended)
        final_obs = np.full(self.num_envs, None, dtype=object)
        for index in np.flatnonzero(ended):
            final_obs[index] = last[index]
        self._start_episodes(ended)
        return {"final_obs": final_obs, "_final_obs": ended, "final_info": final_info, "_final_info": ended.copy()}

    def _start_episodes(self, mask: Mask, contexts: Any = None) -> None:
        """Start episodes where the mask is true, with these contexts or drawn ones."""
        indices = np.flatnonzero(mask)
        seeds = np.zeros(self.num_envs, np.int64)
        for index, context in zip(indices, self._as_contexts(contexts, len(indices))):
            rng = self._rngs[index]
            self._contexts[index] = self.samplers[index].start_episode({"context": context}, rng)
            seeds[index] = rng.integers(2**31)
        keys = jax.vmap(jax.random.PRNGKey)(seeds)
        if self._current is None:
            self._current = self._first_reset(keys, self._contexts)
        else:
            self._current = self._reset(self._current, keys, self._contexts, mask)
        self._steps[mask], self._ended[mask] = 0, False

    def _as_contexts(self, contexts: Any, n: int) -> Sequence[FloatArray | None]:
        """The given context of each of n episodes, None where it is to be drawn."""
        if contexts is None:
            return [None] * n
        points = self.context_space.check(self.context_space.as_contexts(contexts), "context")
        if len(points) not in (1, n):
            raise InvalidInput(f"expected one context, or one for each of the {n} that are reset, got {len(points)}")
        return list(np.broadcast_to(points, (n, points.shape[1])))

    def _info(self, mask: Mask, success: NDArray[np.float32] | None = None, stepped: Mask | None = None) -> Info:
        """Context and stage where the mask is true; success of the episodes that were stepped, if it is known."""
        stages = np.array([sampler.episode_stage for sampler in self.samplers])
        info = {"context": np.where(mask[:, None], self.contexts, 0.0), "_context": mask.copy()}
        info |= {"stage": np.where(mask, stages, 0), "_stage": mask.copy()}
        if success is not None and stepped is not None and stepped.any() and not np.isnan(success).any():
            info |= {"is_success": (success > 0) & stepped, "_is_success": stepped.copy()}
        return info


def _reset_where(env: ContextualEnv, current: Any, keys: jax.Array, contexts: jax.Array, mask: jax.Array) -> Any:
    """New episodes where the mask is true, the current ones elsewhere."""
    new = jax.vmap(env.pure_reset)(keys, contexts)
    return jax.tree.map(lambda a, b: jnp.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, tuple(current))


def _as_seeds(seed: Seeds, n: int) -> Sequence[int | None]:
    if seed is None or isinstance(seed, int):
        return [None if seed is None else seed + index for index in range(n)]
    if len(seed) != n:
        raise InvalidInput(f"expected a seed, or one for each of the {n} environments, got {len(seed)}")
    return seed


def _as_mask(mask: Any, n: int) -> Mask:
    if mask is None:
        return np.ones(n, np.bool_)
    given = np.asarray(mask)
    if given.shape != (n,) or given.dtype != np.bool_ or not given.any():
        raise InvalidInput(f"expected reset_mask of {n} booleans with one that is true, got {short_repr(mask)}")
    return given


def _check_action(action: ArrayLike, space: gym.Space[Any]) -> None:
    """Check an action; a number that would lose its fraction in the type of its space is refused."""
    given = as_array(action, "an action")
    broken = isinstance(space, gym.spaces.Discrete) and (given.ndim or given != np.floor(given) or abs(given) > 2**31)
    if broken or not space.contains(given.astype(space.dtype)):
        raise InvalidInput(f"expected an action in {space}, got {short_repr(action)}")
