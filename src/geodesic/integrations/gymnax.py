"""gymnax's environments as contextual MDPs: `geodesic.envs.from_gymnax`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from geodesic.checks import as_count, as_function, as_name, is_number
from geodesic.contexts import ContextSpace, Side
from geodesic.errors import InvalidInput, MissingExtra, shown
from geodesic.integrations.adapted import Adapted, PutContext, Step

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
    contexts: ContextSpace | Mapping[str, Side] | None = None,
    apply: PutContext | None = None,
    observe: bool = True,
) -> Gymnax:
    """An environment of gymnax, or the one of this name, with a context, for `gd.Task(env=...)`.

        gd.envs.from_gymnax("MountainCar-v0", contexts={"gravity": (0.0, 0.003)})

    Contexts are named after fields of its params. Where one field is not all that a context sets,
    `apply(params, **context)` gives the params with the context in them:

        def put(params, length):  # CartPole keeps a product of the length
            return params.replace(length=length, polemass_length=params.masspole * length)

    params: of everything that is no context (default: the environment's own), the time limit among them.
    """
    if isinstance(env, str):
        env = gymnax.make(as_name(env, "gymnax environment", gymnax.registered_envs))[0]
    if not isinstance(env, Environment):
        raise InvalidInput(
            f"expected an environment of gymnax, without its wrappers, or the name of one, got {shown(env)}"
        )
    if type(env).is_truncated is not Environment.is_truncated:
        raise InvalidInput(f"expected an environment cut off by {LIMIT} alone, got {env.name}, which has is_truncated")
    if contexts is None:
        raise InvalidInput('expected contexts=, such as {"gravity": (5.0, 20.0)}: fields of params, and their bounds')
    return Gymnax(env, env.default_params if params is None else params, contexts, apply, observe)


class Gymnax(Adapted):
    """An environment of gymnax with a context; see `from_gymnax`."""

    def __init__(
        self,
        env: Environment[Any, Any],
        params: Params,
        contexts: ContextSpace | Mapping[str, Side],
        apply: PutContext | None,
        observe: bool,
    ) -> None:
        if type(params) is not type(env.default_params):
            raise InvalidInput(f"expected params of {env.name}, such as env.default_params, got {shown(params)}")
        put = replace_fields if apply is None else as_function(apply, "apply")
        super().__init__(params, contexts, put, observe)
        names = self.context_space.names
        if LIMIT in names:
            raise InvalidInput(f"expected contexts other than {LIMIT}, which is the same in all of them; try params=")
        if apply is None:
            for name in names:
                as_name(name, f"a context of {env.name}", _numbers(params))
        self.env = env
        self.max_steps = as_count(int(getattr(params, LIMIT)), LIMIT)
        self.action_space = spaces.gymnax_space_to_gym_space(env.action_space(params))
        self._labels = getattr(env.observation_space(params), "n", None)  # of an observation that is one of so many
        self.ready()

    def begin(self, rng: jax.Array, physics: Params) -> Step:
        obs, state = self.env.reset_env(rng, physics)
        return Step(state, self._seen(obs), jnp.float32(0), jnp.bool_(False))

    def go(self, inner: Any, action: jax.Array, rng: jax.Array, physics: Params) -> Step:
        obs, state, reward, terminated, _ = self.env.step_env(rng, inner, action, physics)
        return Step(state, self._seen(obs), reward, terminated)

    def _seen(self, obs: jax.Array) -> jax.Array:
        return obs if self._labels is None else jax.nn.one_hot(obs, self._labels)


def replace_fields(params: Params, **context: jax.Array) -> Params:
    """Fields of the params replaced, each in its own type: a field of whole numbers is rounded."""
    new = {}
    for name, value in context.items():
        whole = jnp.issubdtype(jnp.asarray(getattr(params, name)).dtype, jnp.integer)
        new[name] = jnp.round(value).astype(jnp.int32) if whole else value
    return params.replace(**new)


def _numbers(params: Params) -> list[str]:
    """The fields that a context value can stand for."""
    fields = [field.name for field in dataclasses.fields(params) if field.name != LIMIT]
    return [name for name in fields if is_number(getattr(params, name))]
