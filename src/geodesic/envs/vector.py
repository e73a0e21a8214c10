"""A contextual MDP in JAX as a Gymnasium vector environment: all its episodes are stepped by one compiled program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from geodesic.contexts import ContextSpace, FloatArray, Particles, as_count
from geodesic.envs.gymnasium import ContextDraws, ContextualEnv, Info
from geodesic.errors import InvalidInput, UnknownName
from geodesic.runtime import prepare

if TYPE_CHECKING:
    from geodesic.envs.cmdp import ContextualMDP

prepare()

Mask = NDArray[np.bool_]
Seeds = int | Sequence[int | None] | None


class VectorContextualEnv(gym.vector.VectorEnv[NDArray[np.float32], Any, Any]):
    """As many episodes as `num_envs` of one contextual MDP.

    Contexts, seeds, `info` and the auto-reset modes are those of Gymnasium's SyncVectorEnv around as many
    `ContextualEnv`s. `reset(options={"context": c})` names the context of all episodes (d,), or of each (n, d); with
    "reset_mask" in the options, of each that is reset.
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
        self.autoreset_mode = _mode(autoreset_mode)
        self.metadata = {**ContextualEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self.max_steps = mdp.max_steps
        self.single_observation_space, self.single_action_space = mdp.observation_space, mdp.action_space
        self.observation_space = gym.vector.utils.batch_space(mdp.observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(mdp.action_space, num_envs)
        self.context_space = space
        self.draws = [ContextDraws(space, distribution) for _ in range(num_envs)]
        self._rngs = [np.random.default_rng() for _ in range(num_envs)]
        self._steps = np.zeros(num_envs, np.int64)
        self._over = np.zeros(num_envs, np.bool_)  # episodes that have ended and were not begun anew
        self._contexts = np.zeros((num_envs, space.dim), np.float32)
        one = ContextualEnv(mdp, space, distribution)
        self._first = jax.jit(jax.vmap(one.pure_reset))
        self._begin = jax.jit(partial(_begin, one))
        self._step = jax.jit(jax.vmap(one.pure_step))
        self._held: Any = None  # states, keys and observations

    @property
    def contexts(self) -> FloatArray:
        """Of the episodes under way (n, d)."""
        return np.stack([draws.context for draws in self.draws])

    def set_distribution(self, distribution: Particles, stage: int = 0) -> None:
        """Draw the contexts of the next episodes from here; those under way keep their own."""
        for draws in self.draws:
            draws.replace(distribution, stage)

    def reset(self, *, seed: Seeds = None, options: Info | None = None) -> tuple[NDArray[np.float32], Info]:  # type: ignore[override]
        options = dict(options or {})
        mask = _mask(options.pop("reset_mask", None), self.num_envs)
        for index, own in enumerate(_seeds(seed, self.num_envs)):
            if own is not None:
                self._rngs[index] = gym.utils.seeding.np_random(own)[0]
        self._renew(mask, options.get("context"))
        return np.array(self._held[2]), self._info(mask)

    def step(self, actions: Any) -> tuple[NDArray[np.float32], FloatArray, Mask, Mask, Info]:
        given = np.asarray(actions, self.action_space.dtype)
        if not self.action_space.contains(given):
            raise InvalidInput(f"expected actions in {self.action_space}, got {actions!r:.60}")
        if self._held is None:
            raise InvalidInput("expected reset() before the first step(), got none")
        ended = self._over.copy()
        *held, reward, terminated, success = self._step(self._held[0], given, self._held[1], self._contexts)
        self._held, self._steps = held, self._steps + 1
        terminated = np.array(terminated)
        truncated = (self._steps >= self.max_steps) & ~terminated
        reward = np.array(reward, np.float64)
        everywhere = stepped = np.ones(self.num_envs, np.bool_)
        if self.autoreset_mode is AutoresetMode.NEXT_STEP and ended.any():  # the action of these is not looked at
            self._renew(ended)
            reward[ended], terminated[ended], truncated[ended], stepped = 0.0, False, False, ~ended
        self._over = terminated | truncated
        final: Info = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._over.any():
            stepped = ~self._over
            final = self._final(self._over.copy(), np.asarray(success))
        info = self._info(everywhere, np.asarray(success), stepped)
        return np.array(self._held[2]), reward, terminated, truncated, {**info, **final}

    def _final(self, over: Mask, success: NDArray[np.float32]) -> Info:
        """Begin anew what has ended; its last observation and info go under the names that Gymnasium has for them."""
        last, final_info = np.array(self._held[2]), self._info(over, success, over)
        final_obs = np.full(self.num_envs, None, dtype=object)
        for index in np.flatnonzero(over):
            final_obs[index] = last[index]
        self._renew(over)
        return {"final_obs": final_obs, "_final_obs": over, "final_info": final_info, "_final_info": over.copy()}

    def _renew(self, mask: Mask, asked: Any = None) -> None:
        """Begin episodes where the mask says."""
        places = np.flatnonzero(mask)
        named = self._named(asked, len(places))
        seeds = np.zeros(self.num_envs, np.int64)
        for place, own in zip(places, named):
            rng = self._rngs[place]
            self._contexts[place] = self.draws[place].begin(None if own is None else {"context": own}, rng)
            seeds[place] = rng.integers(2**31)
        keys = jax.vmap(jax.random.PRNGKey)(seeds)
        if self._held is None:
            self._held = self._first(keys, self._contexts)
        else:
            self._held = self._begin(self._held, keys, self._contexts, mask)
        self._steps[mask], self._over[mask] = 0, False

    def _named(self, asked: Any, n: int) -> Sequence[FloatArray | None]:
        """The context that was asked for, of each episode that begins."""
        if asked is None:
            return [None] * n
        points = self.context_space.check(np.atleast_2d(asked), "context")
        if len(points) not in (1, n):
            raise InvalidInput(f"expected one context, or one for each of the {n} that are reset, got {len(points)}")
        return list(np.broadcast_to(points, (n, points.shape[1])))

    def _info(self, mask: Mask, success: NDArray[np.float32] | None = None, stepped: Mask | None = None) -> Info:
        """Context and stage where the mask says; success of episodes that were stepped, where it is known."""
        stages = np.array([draws.began for draws in self.draws])
        info = {"context": np.where(mask[:, None], self.contexts, 0.0), "_context": mask.copy()}
        info |= {"stage": np.where(mask, stages, 0), "_stage": mask.copy()}
        if success is not None and stepped is not None and stepped.any() and not np.isnan(success).any():
            info |= {"is_success": (success > 0) & stepped, "_is_success": stepped.copy()}
        return info


def _begin(one: ContextualEnv, held: Any, keys: jax.Array, contexts: jax.Array, mask: jax.Array) -> Any:
    """Fresh episodes where the mask says, the others as they are."""
    fresh = jax.vmap(one.pure_reset)(keys, contexts)
    return jax.tree.map(lambda a, b: jnp.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b), fresh, tuple(held))


def _mode(mode: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise UnknownName("autoreset_mode", mode, [each.value for each in AutoresetMode]) from None


def _seeds(seed: Seeds, n: int) -> Sequence[int | None]:
    if seed is None or isinstance(seed, int):
        return [None if seed is None else seed + index for index in range(n)]
    if len(seed) != n:
        raise InvalidInput(f"expected a seed, or one for each of the {n} environments, got {len(seed)}")
    return seed


def _mask(mask: Any, n: int) -> Mask:
    if mask is None:
        return np.ones(n, np.bool_)
    given = np.asarray(mask)
    if given.shape != (n,) or given.dtype != np.bool_ or not given.any():
        raise InvalidInput(f"expected reset_mask of {n} booleans with one that is true, got {mask!r:.60}")
    return given
