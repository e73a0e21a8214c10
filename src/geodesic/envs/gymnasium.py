"""Contextual environments as ordinary Gymnasium ones: those in JAX, and anyone's.

Both draw the context of an episode at every reset, from a distribution that `set_distribution` replaces, unless
`reset(options={"context": c})` names one; both put it, with the stage of the distribution, into `info`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import as_a, as_array, as_flag, as_integer
from geodesic.contexts import ContextSpace, FloatArray, Particles, Side
from geodesic.errors import InvalidInput, shown
from geodesic.runtime import check_not_forked

if TYPE_CHECKING:
    import jax

    from geodesic.envs.cmdp import ContextualMDP, EnvState

Apply = Callable[..., None]  # apply(env, **context)
Info = dict[str, Any]
Env = gym.Env[Any, Any]
Space = gym.Space[Any]


class ContextDraws:
    """The distribution that episodes take their contexts from, and the context of the one under way."""

    def __init__(self, space: ContextSpace, distribution: Particles) -> None:
        self.space = as_a(ContextSpace, space, "space")
        self.replace(distribution, 0)
        self.context: FloatArray = distribution.points[0]
        self.began = 0
        self.next: FloatArray | None = None  # of the next episode, where it is settled

    def replace(self, distribution: Particles, stage: int) -> None:
        self.space.check(as_a(Particles, distribution, "distribution").points, "distribution")
        self.distribution, self.stage = distribution, as_integer(stage, "stage")

    def begin(self, options: Info | None, rng: np.random.Generator) -> FloatArray:
        """The context of the next episode: the one asked for, else one drawn."""
        if options is not None:
            as_a(dict, options, "options")
        asked, self.next = (options or {}).get("context", self.next), None
        one = None if asked is None else np.atleast_2d(as_array(asked, "context"))
        drawn = self.distribution.sample(rng, 1) if one is None else self.space.check(one)
        self.context, self.began = drawn[0], self.stage
        return self.context

    def info(self) -> Info:
        return {"context": self.context.copy(), "stage": self.began}


class Contextual:
    """What both kinds of environment offer around their draws."""

    draws: ContextDraws
    context_space: ContextSpace

    @property
    def context(self) -> FloatArray:
        return self.draws.context

    @property
    def distribution(self) -> Particles:
        return self.draws.distribution

    @property
    def next_context(self) -> FloatArray | None:
        """The next episode's, where it is settled: a vector environment's `set_attr("next_context", [...])` names one
        for each of its environments before they reset themselves."""
        return self.draws.next

    @next_context.setter
    def next_context(self, context: ArrayLike) -> None:
        self.draws.next = self.context_space.check(np.atleast_2d(context))[0]

    def set_distribution(self, distribution: Particles, stage: int = 0) -> None:
        """Draw the contexts of the next episodes from here; the one under way keeps its own."""
        self.draws.replace(distribution, stage)


def put_context(env: Contextual, **context: float) -> None:
    """`apply` of a task whose environment draws contexts of itself: its next episodes have this one."""
    env.set_distribution(Particles(np.array([[*context.values()]])))


class ContextualEnv(Contextual, gym.Env[NDArray[np.float32], Any]):
    """The Gymnasium side of a contextual MDP in JAX."""

    metadata: Info = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(
        self, mdp: ContextualMDP, space: ContextSpace, distribution: Particles, render_mode: str | None = None
    ) -> None:
        import jax

        if not (render_mode is None or (isinstance(render_mode, str) and render_mode in self.metadata["render_modes"])):
            raise InvalidInput(f"expected render_mode None or 'rgb_array', got {shown(render_mode)}")
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space = mdp.observation_space
        self.action_space = mdp.action_space
        self.context_space = space
        self.draws = ContextDraws(space, distribution)
        self._state: EnvState = None
        self._reset = jax.jit(self.pure_reset)
        self._step = jax.jit(self.pure_step)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[NDArray[np.float32], Info]:
        import jax

        check_not_forked()
        super().reset(seed=_as_seed(seed))
        context = self.draws.begin(options, self.np_random)
        self._steps = 0
        self._key = jax.random.key(int(self.np_random.integers(2**31)))
        self._state, self._key, obs = self._reset(self._key, np.asarray(context, np.float32))
        return np.asarray(obs), self.draws.info()

    def step(self, action: ArrayLike) -> tuple[NDArray[np.float32], float, bool, bool, Info]:
        given = _as_action(action, self.action_space)
        if not self.action_space.contains(given):
            raise InvalidInput(f"expected an action in {self.action_space}, got {shown(action)}")
        if self._state is None:
            raise InvalidInput("expected reset() before the first step(), got none")
        self._state, self._key, obs, reward, terminated, success = self._step(
            self._state, np.asarray(action), self._key, np.asarray(self.context, np.float32)
        )
        self._steps += 1
        truncated = self._steps >= self.mdp.max_steps and not bool(terminated)
        known = {} if np.isnan(float(success)) else {"is_success": bool(success)}
        return np.asarray(obs), float(reward), bool(terminated), truncated, {**self.draws.info(), **known}

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        import jax

        if self.render_mode is None:
            gym.logger.warn("render() without render_mode; try gym.make(..., render_mode='rgb_array')")
            return None
        if self._state is None:
            raise InvalidInput("expected reset() before render(), got none")
        return self.mdp.image(jax.device_get(self._state), self.context)

    def pure_reset(self, key: jax.Array, context: jax.Array) -> tuple[EnvState, jax.Array, jax.Array]:
        """The first state of an episode, the next key and the observation."""
        import jax

        key, start, look = jax.random.split(key, 3)
        state = self.mdp.initial(start, context)
        return state, key, self.mdp.observation(state, look, context)

    def pure_step(self, state: EnvState, action: jax.Array, key: jax.Array, context: jax.Array) -> tuple[Any, ...]:
        """The next state and key, and then observation, reward, whether it is terminal, and success."""
        import jax

        key, move, look = jax.random.split(key, 3)
        next_state = self.mdp.transition(state, action, move, context)
        return (
            next_state,
            key,
            self.mdp.observation(next_state, look, context),
            self.mdp.reward(state, action, next_state, look, context),
            self.mdp.terminal(next_state, look, context),
            self.mdp.success(next_state, context),
        )


class ContextWrapper(Contextual, gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Any Gymnasium environment with a context: named values within bounds, put into it before every reset.

        def apply(env, length):
            env.length = length

        env = ContextWrapper(gym.make("CartPole-v1"), {"length": (0.1, 2.0)}, apply)

    `apply(env, **context)` gets the unwrapped environment. With observe=True the context, scaled to [-1, 1], is
    appended to a Box observation, or is the entry "context" of a Dict one. Contexts are drawn uniformly from the
    space until `set_distribution`, with a generator of their own that `reset(seed=...)` starts anew.
    """

    def __init__(
        self,
        env: Env,
        contexts: ContextSpace | Mapping[str, Side],
        apply: Apply,
        observe: bool = True,
    ) -> None:
        as_a(gym.Env, env, "env")
        as_flag(observe, "observe")
        gym.utils.RecordConstructorArgs.__init__(
            self, _disable_deepcopy=True, contexts=contexts, apply=apply, observe=observe
        )
        gym.Wrapper.__init__(self, env)
        self.context_space = contexts if isinstance(contexts, ContextSpace) else ContextSpace.named(contexts)
        if not callable(apply):
            raise InvalidInput(f"expected apply to be a function apply(env, **context), got {shown(apply)}")
        self.apply = apply
        self.observe = observe
        self._rng = np.random.default_rng()
        self.draws = ContextDraws(self.context_space, self.context_space.uniform(1000, np.random.default_rng(0)))
        if observe:
            self.observation_space = _extended(env.observation_space, self.context_space)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        _as_seed(seed)
        if seed is not None:
            self._rng = np.random.default_rng([seed, 0x637478])
        context = self.draws.begin(options, self._rng)
        self._put(context)
        rest = {key: value for key, value in (options or {}).items() if key != "context"}
        obs, info = self.env.reset(seed=seed, options=rest or None)
        return self._with_context(obs), {**info, **self.draws.info()}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._with_context(obs), reward, terminated, truncated, {**info, **self.draws.info()}

    def _put(self, context: FloatArray) -> None:
        values = {name: float(value) for name, value in zip(self.context_space.names, context)}
        try:
            self.apply(self.env.unwrapped, **values)
        except Exception as error:
            raise InvalidInput(
                f"expected apply(env, {', '.join(values)}) to put a context into {self.env.unwrapped}, "
                f"got {type(error).__name__}: {error}"
            ) from error

    def _with_context(self, obs: Any) -> Any:
        if not self.observe:
            return obs
        scaled = (2 * self.context_space.to_unit(self.context[None])[0] - 1).astype(np.float32)
        if isinstance(obs, dict):
            return {**obs, "context": scaled}
        return np.concatenate([obs, scaled.astype(obs.dtype)])


def _as_seed(seed: object) -> int | None:
    """Gymnasium takes any integer from 0 on."""
    return None if seed is None else as_integer(seed, "seed", 0, 2**63)


def _as_action(action: ArrayLike, space: Space) -> Any:
    """In the type of the action space; not a number that loses its fraction on the way there."""
    given = as_array(action, "an action")
    if isinstance(space, gym.spaces.Discrete) and (given.ndim or given != np.floor(given) or abs(given) > 2**31):
        raise InvalidInput(f"expected an action in {space}, got {shown(action)}")
    return given.astype(space.dtype)


def _extended(space: Space, contexts: ContextSpace) -> Space:
    """The observation space with the context in it."""
    if isinstance(space, gym.spaces.Dict):
        if "context" in space.spaces:
            raise InvalidInput("expected a Dict observation without an entry 'context'; try observe=False")
        box = gym.spaces.Box(-1.0, 1.0, (contexts.dim,), np.float32)
        return gym.spaces.Dict({**space.spaces, "context": box})
    if isinstance(space, gym.spaces.Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating):
        ones = np.ones(contexts.dim, space.dtype)
        return gym.spaces.Box(
            np.concatenate([space.low, -ones]), np.concatenate([space.high, ones]), dtype=cast(Any, space.dtype).type
        )
    raise InvalidInput(
        f"expected a Dict or a one-dimensional Box of floats to append the context to, got {space}; "
        f"try observe=False, or flatten the observation first"
    )
