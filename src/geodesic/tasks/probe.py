"""Short episodes with random actions in a task's environment, to find what is wrong with it before training."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from geodesic.checks import explain_errors
from geodesic.contexts import ContextSpace, FloatArray
from geodesic.envs.gymnasium import ContextWrapper, Env, Info, find_sampler, receiver_of, success_of
from geodesic.errors import InvalidInput, short_repr
from geodesic.tasks.task import Task

Row = tuple[bytes, float, bool]  # of one step: what was observed before it, the reward, and whether the episode ended
NAMED = 4  # context values in a message, at most


class Place(NamedTuple):
    """A context that is tried, and where it is from, in words."""

    context: FloatArray
    where: str


class Trace(NamedTuple):
    """An episode, or the beginning of one; the success is NaN if it is not known."""

    rows: list[Row]
    ended: bool
    total: float
    discounted: float
    success: float

    def score(self, kind: str) -> float:
        """The score of this kind."""
        return {"return": self.total, "discounted_return": self.discounted, "success": self.success}[kind]


class Probe:
    """Plays a task's environment with random actions, and checks everything that it returns.

    strict: whether observations must lie within the bounds and have the type of their space, which training does not
    need.
    """

    def __init__(self, task: Task, env: Env, strict: bool = True) -> None:
        self.task, self.env, self.strict = task, env, strict
        self.episodes = self.steps = self.longest = 0
        self.created: list[tuple[Any, str]] = []  # attributes that `set_context` makes, with their owner
        self._sampler = cast(Any, find_sampler(env))
        wrapped = isinstance(self._sampler, ContextWrapper)
        self._receiver: Any = receiver_of(self._sampler.env) if wrapped else None
        if self._receiver is not None:
            self._sampler.env = Tap(self._sampler.env)
        self._spaces = self._own_spaces()

    def play(self, place: Place, limit: int, seed: int = 0) -> Trace:
        """Play an episode, or its first `limit` steps: the same again for the same context and seed.

        Its observations lack the context that the wrapper appends. For an environment in JAX they are the states,
        since an observation may include a context that changes nothing.
        """
        task = self.task
        rows: list[Row] = []
        obs, total, discounted, ended, info = self._reset(place, seed), 0.0, 0.0, False, Info()
        self.env.action_space.seed(seed)
        while len(rows) < limit and not ended:
            seen = self._seen(obs)
            with self._blaming(place, "step"):
                obs, reward, terminated, truncated, info = self.env.step(self.env.action_space.sample())
                number, ended = as_reward(reward), as_flag(terminated, "terminated") or as_flag(truncated, "truncated")
                self._check_observation(obs)
            discounted += task.discount ** len(rows) * number
            total += number
            rows.append((seen, number, ended))
        self.episodes, self.steps, self.longest = (
            self.episodes + 1,
            self.steps + len(rows),
            max(self.longest, len(rows)),
        )
        with self._blaming(place, "step"):
            return Trace(rows, ended, total, discounted, success_of(info) if ended else np.nan)

    def effect(self) -> str:
        """Say, for the end of a message, why a context may have changed nothing."""
        if self._receiver is None:
            return "let initial, transition, reward or terminal use the context"
        base = self._receiver.unwrapped
        for owner, name in self.created:
            if owner is not base and hasattr(base, name):
                return (
                    f"set_context sets {name} of {type(owner).__name__}, which does not use it; "
                    f"try env.unwrapped.{name}, that of {type(base).__name__}"
                )
            near = get_close_matches(name, {*dir(owner), *dir(base)} - {new for _, new in self.created}, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            return f"set_context makes a new attribute {name} of {type(owner).__name__}{hint}"
        return "let set_context change what reset and step use, and all that is computed from it"

    def _reset(self, place: Place, seed: int) -> Any:
        """The first observation of an episode."""
        with self._blaming(place, "reset"):
            if self._receiver is not None and not self.episodes:
                self._note_created(place.context)
            obs, info = self.env.reset(seed=seed, options={"context": place.context})
            if not np.array_equal(info["context"], place.context):
                raise InvalidInput(f"expected this context in force after reset, got {info['context']}")
            for name, first, now in zip(("observation", "action"), self._spaces, self._own_spaces()):
                if first != now:
                    raise InvalidInput(
                        f"expected the same {name} space in all contexts, got {first} and then {now}; try the largest "
                        "one, and mask what a context does not have"
                    )
            self._check_observation(obs)
        return obs

    def _note_created(self, context: FloatArray) -> None:
        """Call `set_context` alone, and note the attributes that it makes."""
        layers = self._receiver, self._receiver.unwrapped
        before = [set(dir(layer)) for layer in layers]
        self._sampler._set_context(context)
        new = [(layer, set(dir(layer)) - known) for layer, known in zip(layers, before)]
        self.created = [(layer, name) for layer, names in new for name in sorted(names)]

    def _seen(self, obs: Any) -> bytes:
        """What tells two contexts apart before a step."""
        if self.task.in_jax:
            import jax

            leaves = jax.tree.leaves(self._sampler._state)
            keys = [jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
            plain = [jax.random.key_data(leaf) if key else leaf for leaf, key in zip(leaves, keys)]
            return b"".join(np.asarray(leaf).tobytes() for leaf in plain)
        if self._receiver is not None:
            space, obs = self._sampler.env.observation_space, self._sampler.env.last
        else:
            space = self.env.observation_space
        return np.asarray(gym.spaces.flatten(space, obs)).tobytes()

    def _own_spaces(self) -> tuple[Any, Any]:
        inner = self.env if self._receiver is None else self._sampler.env
        return inner.observation_space, inner.action_space

    def _check_observation(self, obs: Any) -> None:
        fault = fault_of(self.env.observation_space, obs, self.strict)
        if fault:
            raise InvalidInput(fault)

    @contextmanager
    def _blaming(self, place: Place, what: str) -> Iterator[None]:
        """Turn any exception into an error that names the context."""
        try:
            with explain_errors(f"expected {what} to work, got "):
                yield
        except InvalidInput as error:
            raise InvalidInput(f"{error} ({describe(self.task.space, place)})") from error


class Tap(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps the last observation below a `ContextWrapper`, and checks what `reset` and `step` return."""

    last: Any = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Start an episode."""
        given: Any = self.env.reset(seed=seed, options=options)
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], dict)):
            raise InvalidInput(f"expected reset to return (observation, info), got {short_repr(given)}")
        self.last = given[0]
        return given

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Take a step."""
        given: Any = self.env.step(action)
        if not (isinstance(given, tuple) and len(given) == 5 and isinstance(given[4], dict)):
            raise InvalidInput(
                f"expected step to return (observation, reward, terminated, truncated, info), got {short_repr(given)}"
            )
        self.last = given[0]
        return given


def fault_of(space: Any, obs: Any, strict: bool) -> str:
    """Say what is wrong with an observation; empty if nothing is.

    strict: see `Probe`.
    """
    if isinstance(space, gym.spaces.Box):
        array = np.asarray(obs)
        if array.shape != space.shape:
            return f"expected observations of shape {space.shape}, got shape {array.shape}"
        if array.dtype.kind == "f" and np.isnan(array).any():
            return f"expected observations without NaN, got NaN in entry {_first(np.isnan(array))}"
        if strict and not np.can_cast(array.dtype, np.dtype(space.dtype)):
            return f"expected observations of type {space.dtype}, got {array.dtype}; try .astype(np.{space.dtype})"
        outside = (array < space.low) | (array > space.high)
        if strict and outside.any():
            got = f"{array[outside][0]:.4g} in entry {_first(outside)}"
            return f"expected observations in {short_repr(space)}, got {got}; try wider bounds of observation_space"
    elif not space.contains(obs):
        return f"expected observations in {short_repr(space)}, got {short_repr(obs)}; try another observation_space"
    return ""


def _first(flags: NDArray[np.bool_]) -> list[int]:
    """The index of the first entry that is true."""
    return [int(place) for place in np.argwhere(flags)[0]]


def as_reward(value: object) -> float:
    """A reward, which may be a number of NumPy or JAX."""
    array = np.asarray(value, object if isinstance(value, (list, tuple)) else None)
    if array.shape != () or array.dtype.kind not in "biuf":
        raise InvalidInput(f"expected step to return a real number as the reward, got {short_repr(value)}")
    if not np.isfinite(array):
        raise InvalidInput(f"expected finite rewards, got {value}")
    return float(array)


def as_flag(value: object, name: str) -> bool:
    """Whether an episode ended; a boolean of NumPy or JAX will do."""
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "biu":
        raise InvalidInput(f"expected step to return a boolean as {name}, got {short_repr(value)}")
    return bool(array)


def describe(space: ContextSpace, place: Place) -> str:
    """A context in words, with where it is from."""
    pairs = [f"{name}={value:.4g}" for name, value in zip(space.names, place.context.tolist())]
    return f"context {', '.join(pairs[:NAMED])}{', ...' if len(pairs) > NAMED else ''} {place.where}"


@contextmanager
def unchanged_randomness() -> Iterator[None]:
    """Keep the global generators of NumPy and Python as they are, whatever an environment does with them."""
    numpy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(numpy)  # noqa: NPY002
        random.setstate(python)


def guarded(work: Callable[[], Any], what: str) -> Any:
    """Turn any exception in a user's code into an error that says where it happened."""
    with explain_errors(f"expected {what} to work, got "):
        return work()
