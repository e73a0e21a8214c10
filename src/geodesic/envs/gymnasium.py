"""Gymnasium environments with a context: yours in a wrapper, and what ours share with it.

All draw a context at every reset from a distribution that `set_distribution` replaces, unless
`reset(options={"context": c})` states one, as an array or as values by name. All report the context, as an array, and
the stage of its distribution in `info`; `context_space.decode` translates the array to values by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import as_array, as_boolean, as_function, as_integer, check_instance
from geodesic.contexts import ContextSpace, FloatArray, Particles, Real, Side
from geodesic.errors import InvalidInput, format_error, short_repr

SetContext = Callable[..., None]  # set_context(env, **context)
Contexts = ContextSpace | Mapping[str, Side] | gym.Space[Any]  # what `ContextSpace.of` takes
LIBRARIES = ("gymnasium", "stable_baselines3")  # whose wrappers have no contexts
SMALLEST_IMAGE = 36  # pixels; smaller grids are taken as vectors
SUCCESS_KEYS = ("is_success", "success")  # what environments call it in `info`
Info = dict[str, Any]
Env = gym.Env[Any, Any]
Space = gym.Space[Any]


class ContextSampler:
    """Draws the context of each episode and keeps that of the current one; the base of environments that do so.

    Args:
        space: The space that contexts must lie in.
        distribution: Where contexts are drawn from; its stage is 0.

    Attributes:
        context_space: The space that contexts lie in.
        distribution: The distribution that contexts are drawn from.
        stage: Its stage.
        context: Context (d,) of the current episode.
        episode_stage: Stage of the distribution that the current episode's context was drawn from.
        next_context: Context (d,) of the next episode if it is fixed, else None. `set_attr("next_context", contexts)`
            of a vector environment fixes one for each of its environments before they reset themselves.
    """

    context_space: ContextSpace

    def __init__(self, space: ContextSpace, distribution: Particles) -> None:
        self.context_space = check_instance(ContextSpace, space, "space")
        self.set_distribution(distribution)
        self.context: FloatArray = distribution.points[0]
        self.episode_stage = 0
        self.next_context: ArrayLike | None = None

    def set_distribution(self, distribution: Particles, stage: int = 0) -> None:
        """Draw the contexts of the next episodes from another distribution; the current episode keeps its context.

        Args:
            distribution: Particles inside the context space.
            stage: The stage that the distribution belongs to, reported in `info`.

        Raises:
            InvalidInput: If a particle lies outside the context space.
        """
        self.context_space.check(check_instance(Particles, distribution, "distribution").points, "distribution")
        self.distribution, self.stage = distribution, as_integer(stage, "stage")

    def start_episode(self, options: Info | None, rng: np.random.Generator) -> FloatArray:
        """Return the context of a new episode: the one in the options, else `next_context`, else a draw."""
        if options is not None:
            check_instance(dict, options, "options")
        given, self.next_context = (options or {}).get("context", self.next_context), None
        if given is None:
            points = self.distribution.sample(rng, 1)
        else:
            points = self.context_space.check(self.context_space.as_contexts(given))
        self.context, self.episode_stage = points[0], self.stage
        return self.context

    def episode_info(self) -> Info:
        """Return the current episode's entries of `info`."""
        return {"context": self.context.copy(), "stage": self.episode_stage}


def find_sampler(env: Env) -> ContextSampler | None:
    """The wrapper, or the environment within its wrappers, that draws contexts."""
    while isinstance(env, gym.Wrapper) and not isinstance(env, ContextSampler):
        env = env.env
    return env if isinstance(env, ContextSampler) else None


def put_context(env: ContextSampler, **context: Real) -> None:
    """Let the next episodes of a contextual environment have this context; the `set_context` of a `Task` around it."""
    values = dict(zip(env.context_space.names, context.values()))
    env.set_distribution(Particles(env.context_space.encode(values)[None]))


def set_attributes(env: Env, **context: Real) -> None:
    """Put a context into an environment by setting its attributes of these names; a `Task`'s usual `set_context`.

    This suits environments that read their attributes at every step, such as Gymnasium's classic control: gravity of
    CartPole and MountainCar, g, m and l of Pendulum, LINK_MASS_1 of Acrobot. CartPole's total mass and the product of
    mass and length are computed again. If an environment keeps other values that depend on them, write a `set_context`.

    Args:
        env: The environment, with or without wrappers.
        **context: The values by name.
    """
    bare: Any = env.unwrapped
    for name, value in context.items():
        setattr(bare, name, value)
    if hasattr(bare, "polemass_length"):
        bare.total_mass, bare.polemass_length = bare.masspole + bare.masscart, bare.masspole * bare.length


def has_attributes(env: Env, names: Sequence[str]) -> bool:
    """Whether the environment below all wrappers has values of all these names."""
    return all(not callable(getattr(env.unwrapped, name, callable)) for name in names)


class ContextWrapper(ContextSampler, gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Any Gymnasium environment with a context: named values within bounds, set before every reset.

    Contexts are drawn uniformly from the space until `set_distribution`, with a generator that `reset(seed=...)` seeds
    and that is independent of the environment's.

    Args:
        env: The environment.
        contexts: What each context value can be, as `ContextSpace.of` takes it.
        set_context: A function `set_context(env, **context)`, which gets each value as a float, an integer or a
            category. It receives the environment that you made, without the
            wrappers of Gymnasium and Stable-Baselines3 around it: your own outermost wrapper if there is one, else the
            environment itself. `env.unwrapped` is the environment below all wrappers.
        observe_context: Append the context to a Box observation, or add it to a Dict observation as the entry
            "context": numbers and integers scaled to [-1, 1], categories one-hot. An image becomes a Dict of "image"
            and "context".

    Raises:
        InvalidInput: If an argument is invalid, or the observation space cannot take the context.

    Example:
        >>> import gymnasium as gym
        >>> def set_context(env, length):
        ...     env.length = length
        >>> env = ContextWrapper(gym.make("CartPole-v1"), {"length": (0.1, 2.0)}, set_context)
        >>> obs, info = env.reset(seed=0, options={"context": [1.5]})
        >>> env.unwrapped.length, info["context"].tolist(), obs.shape
        (1.5, [1.5], (5,))
    """

    def __init__(self, env: Env, contexts: Contexts, set_context: SetContext, observe_context: bool = True) -> None:
        check_instance(gym.Env, env, "env")
        as_boolean(observe_context, "observe_context")
        gym.utils.RecordConstructorArgs.__init__(
            self, _disable_deepcopy=True, contexts=contexts, set_context=set_context, observe_context=observe_context
        )
        gym.Wrapper.__init__(self, env)
        space = ContextSpace.of(contexts)
        ContextSampler.__init__(self, space, space.uniform(1000, np.random.default_rng(0)))
        self.set_context = as_function(set_context, "set_context")
        self.observe_context = observe_context
        self._receiver = receiver_of(env)
        self._rng = np.random.default_rng()
        if observe_context:
            self.observation_space = _extended(env.observation_space, space)
            self._scaled = self._observed(self.context)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Set the next context and start an episode.

        Args:
            seed: Seeds the draws of contexts and the inner environment.
            options: `"context"` states the context, as an array or as values by name; the other options reach the
                inner environment.

        Returns:
            The observation, and `info` with the context and its stage.

        Raises:
            InvalidInput: If the seed or the context is invalid, or `set_context` failed.
        """
        as_episode_seed(seed)
        if seed is not None:
            self._rng = np.random.default_rng([seed, 0x637478])
        self._set_context(self.start_episode(options, self._rng))
        if self.observe_context:  # the same at every step
            self._scaled = self._observed(self.context)
        rest = {key: value for key, value in (options or {}).items() if key != "context"}
        obs, info = self.env.reset(seed=seed, options=rest or None)
        return self._with_context(obs), {**info, **self.episode_info()}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Take one step of the inner environment.

        Args:
            action: The action.

        Returns:
            What the inner environment returns, with the context in observation and `info`.
        """
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._with_context(obs), reward, terminated, truncated, {**info, **self.episode_info()}

    def _set_context(self, context: FloatArray) -> None:
        values = self.context_space.decode(context)
        try:
            self.set_context(self._receiver, **values)
        except Exception as error:
            inner = isinstance(error, AttributeError) and isinstance(self._receiver, gym.Wrapper)
            raise InvalidInput(
                f"expected set_context(env, {', '.join(values)}) to set the context of {self._receiver}, "
                f"got {format_error(error)}{'; try env.unwrapped, below the wrappers' if inner else ''}"
            ) from error

    def _with_context(self, obs: Any) -> Any:
        if not self.observe_context:
            return obs
        if isinstance(obs, dict):
            return {**obs, "context": self._scaled.copy()}
        if obs.ndim > 1:
            return {"image": obs, "context": self._scaled.copy()}
        return np.concatenate([obs, self._scaled], dtype=obs.dtype)

    def _observed(self, context: FloatArray) -> NDArray[np.float32]:
        """The context as the agent observes it."""
        return np.asarray(self.context_space.observe(context[None])[0], np.float32)


def receiver_of(env: Env) -> Env:
    """What `set_context` receives: the environment without the wrappers of Gymnasium and Stable-Baselines3 around it.

    Args:
        env: The environment with its wrappers.

    Returns:
        The outermost wrapper of another origin, else the environment itself.
    """
    while isinstance(env, gym.Wrapper) and type(env).__module__.partition(".")[0] in LIBRARIES:
        env = env.env
    return env


def success_of(info: Mapping[str, Any]) -> float:
    """Whether an episode succeeded, from the `info` of its last step; NaN where the environment does not say."""
    for key in SUCCESS_KEYS:
        if info.get(key) is not None:
            value = as_array(info[key], f"info[{key!r}]", "a boolean")
            if value.size != 1:
                raise InvalidInput(f"expected info[{key!r}] to be a boolean, got {short_repr(info[key])}")
            return float(value.item())
    return float("nan")


def time_limit(env: Env) -> int | None:
    """The steps after which an environment truncates its episodes, where it says so; None if it does not."""
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, gym.wrappers.TimeLimit):
            return int(layer._max_episode_steps)
        layer = layer.env
    stated = (getattr(layer, name, None) for name in ("max_steps", "max_episode_steps", "_max_episode_steps"))
    return next((steps for steps in stated if isinstance(steps, int) and steps > 0), None)


def is_image(space: Space) -> bool:
    """Whether observations are images of a size that needs convolutions: bytes, 36 or more along two axes."""
    shape = space.shape if isinstance(space, gym.spaces.Box) and space.dtype == np.uint8 else ()
    return sum(side >= SMALLEST_IMAGE for side in shape or ()) >= 2


def has_image(space: Space) -> bool:
    """Whether observations are images, or have one as an entry."""
    return is_image(space) or (isinstance(space, gym.spaces.Dict) and any(map(is_image, space.values())))


def as_episode_seed(seed: object) -> int | None:
    """Check a seed: Gymnasium takes any integer from 0."""
    return None if seed is None else as_integer(seed, "seed", 0, 2**63)


def as_render_mode(value: object) -> str | None:
    """Check the render mode of an environment that only makes pictures."""
    if value is None or (isinstance(value, str) and value == "rgb_array"):
        return value
    raise InvalidInput(f"expected render_mode None or 'rgb_array', got {short_repr(value)}")


def _extended(space: Space, contexts: ContextSpace) -> Space:
    """The observation space with the context added."""
    if isinstance(space, gym.spaces.Dict):
        if "context" in space.spaces:
            raise InvalidInput("expected a Dict observation without an entry 'context'; try observe_context=False")
        box = gym.spaces.Box(-1.0, 1.0, (contexts.relaxed.dim,), np.float32)
        return gym.spaces.Dict({**space.spaces, "context": box})
    if isinstance(space, gym.spaces.Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating):
        ones = np.ones(contexts.relaxed.dim, space.dtype)
        low, high = np.concatenate([space.low, -ones]), np.concatenate([space.high, ones])
        return gym.spaces.Box(low, high, dtype=cast(Any, space.dtype).type)
    if is_image(space):
        box = gym.spaces.Box(-1.0, 1.0, (contexts.relaxed.dim,), np.float32)
        return gym.spaces.Dict({"image": space, "context": box})
    raise InvalidInput(
        f"expected a Dict, an image or a one-dimensional Box of floats to append the context to, got {space}; "
        f"try observe_context=False, or flatten the observation first"
    )
