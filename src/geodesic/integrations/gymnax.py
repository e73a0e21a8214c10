"""gymnax's environments as contextual MDPs: `geodesic.envs.from_gymnax`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from geodesic.checks import as_count, as_function, as_name, is_number
from geodesic.envs.gymnasium import Contexts
from geodesic.errors import InvalidInput, MissingExtra, short_repr
from geodesic.integrations.adapted import Adapted, SetContext, Step

try:
    import gymnax
    from gymnax.environments import spaces
    from gymnax.environments.environment import Environment
except ImportError as error:
    raise MissingExtra("gymnax", "gymnax") from error

Params = Any  # a dataclass of gymnax's; each environment has its own
LIMIT = "max_steps_in_episode"


def from_gymnax(
    env: Any,
    params: Params = None,
    contexts: Contexts | None = None,
    set_context: SetContext | None = None,
    observe_context: bool = True,
) -> Gymnax:
    """Convert an environment of gymnax to a contextual MDP, for `gd.Task(...)`.

        gd.envs.from_gymnax("MountainCar-v0", contexts={"gravity": (0.0, 0.003)})

    By default contexts are named after fields of the environment's params. If a context changes more than one field,
    give a function:

        def set_context(params, length):  # CartPole also stores a product of the length
            return params.replace(length=length, polemass_length=params.masspole * length)

    Args:
        env: The environment without its wrappers, or its name.
        params: Its params, the time limit among them; by default the environment's own.
        contexts: What each context value can be, as `ContextSpace.of` takes it.
        set_context: A function `set_context(params, **context)` that returns the params with the context. Integers and
            categories are int32, a category by its place in the list.
        observe_context: Append the context to the observation: numbers and integers scaled to [-1, 1], categories
            one-hot.

    Returns:
        The contextual MDP.

    Raises:
        InvalidInput: If an argument is invalid.
    """
    if isinstance(env, str):
        env = gymnax.make(as_name(env, "gymnax environment", gymnax.registered_envs))[0]
    if not isinstance(env, Environment):
        raise InvalidInput(
            f"expected an environment of gymnax, without its wrappers, or the name of one, got {short_repr(env)}"
        )
    if type(env).is_truncated is not Environment.is_truncated:
        raise InvalidInput(f"expected an environment cut off by {LIMIT} alone, got {env.name}, which has is_truncated")
    if contexts is None:
        raise InvalidInput('expected contexts=, such as {"gravity": (5.0, 20.0)}: fields of params, and their bounds')
    return Gymnax(env, env.default_params if params is None else params, contexts, set_context, observe_context)


class Gymnax(Adapted):
    """An environment of gymnax with a context; `from_gymnax` creates it.

    Args:
        env: The environment.
        params: Its params.
        contexts: What each context value can be, as `ContextSpace.of` takes it.
        set_context: A function `set_context(params, **context)`, or None to replace fields.
        observe_context: Append the context to the observation.
    """

    def __init__(
        self, env: Any, params: Params, contexts: Contexts, set_context: SetContext | None, observe_context: bool
    ) -> None:
        if type(params) is not type(env.default_params):
            raise InvalidInput(f"expected params of {env.name}, such as env.default_params, got {short_repr(params)}")
        setter = replace_fields if set_context is None else as_function(set_context, "set_context")
        super().__init__(params, contexts, setter, observe_context)
        names = self.context_space.names
        if LIMIT in names:
            raise InvalidInput(f"expected contexts other than {LIMIT}, which is the same in all of them; try params=")
        if set_context is None:
            for name in names:
                as_name(name, f"a context of {env.name}", _numbers(params))
        self.env = env
        self.max_steps = as_count(int(getattr(params, LIMIT)), LIMIT)
        self.action_space = spaces.gymnax_space_to_gym_space(env.action_space(params))
        self._n_labels = getattr(env.observation_space(params), "n", None)  # number of values of a discrete observation
        self.trace()

    def reset_env(self, rng: jax.Array, physics: Params) -> Step:
        """Start an episode with these params."""
        obs, state = self.env.reset_env(rng, physics)
        return Step(state, self._vector(obs), jnp.float32(0), jnp.bool_(False))

    def step_env(self, inner: Any, action: jax.Array, rng: jax.Array, physics: Params) -> Step:
        """Take one step with these params."""
        obs, state, reward, terminated, _ = self.env.step_env(rng, inner, action, physics)
        return Step(state, self._vector(obs), reward, terminated)

    def _vector(self, obs: jax.Array) -> jax.Array:
        return obs if self._n_labels is None else jax.nn.one_hot(obs, self._n_labels)


def replace_fields(params: Params, **context: jax.Array) -> Params:
    """Replace fields of the params; an integer field gets a rounded value."""
    new = {}
    for name, value in context.items():
        integer = jnp.issubdtype(jnp.asarray(getattr(params, name)).dtype, jnp.integer)
        new[name] = jnp.round(value).astype(jnp.int32) if integer else value.astype(jnp.float32)
    return params.replace(**new)


def _numbers(params: Params) -> list[str]:
    """The fields that a context can replace."""
    fields = [field.name for field in dataclasses.fields(params) if field.name != LIMIT]
    return [name for name in fields if is_number(getattr(params, name))]
