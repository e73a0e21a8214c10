"""Environments by name.

The table of a built-in task (`geodesic/tasks/NAME.toml`) states its environment's class, its id in Gymnasium and a line
on it. The modules are imported when they are used, because they load JAX.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import gymnasium as gym
import numpy as np

from geodesic.checks import as_name, read_text
from geodesic.errors import InvalidInput, format_error, short_repr
from geodesic.registry import lazy_attributes


@dataclass(frozen=True)
class EnvSpec:
    """What a task's table states of its environment.

    Args:
        reference: The class, as "module:Class".
        gym_id: The environment's id in Gymnasium.
        summary: One line on it.
        on_host: It is a Gymnasium environment, not a contextual MDP in JAX.
    """

    reference: str
    gym_id: str
    summary: str
    on_host: bool = False


def _read_specs() -> dict[str, EnvSpec]:
    folder = resources.files("geodesic").joinpath("tasks")
    found = {}
    for name in sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")):
        facts = tomllib.loads(folder.joinpath(f"{name}.toml").read_text(encoding="utf-8"))["environment"]
        found[name] = EnvSpec(facts.pop("class"), **facts)
    return found


REGISTRY: dict[str, EnvSpec] = _read_specs()

FILES = {"layout": 4096}  # options that may name a file, and the most characters it may have

__all__ = ["REGISTRY", "EnvSpec", "from_brax", "from_gymnax", "make", "make_gymnasium", "make_vector", "register"]


# Adapters of other libraries' environments, by name only: they need extras.
ADAPTERS = {"from_gymnax": "geodesic.integrations.gymnax", "from_brax": "geodesic.integrations.brax"}
__getattr__ = lazy_attributes(__name__, ADAPTERS)


def __dir__() -> list[str]:
    return __all__


def make(name: str, **options: Any) -> Any:
    """Create an environment.

    Args:
        name: A key of `REGISTRY`.
        **options: Arguments of its class.

    Returns:
        The contextual MDP, or the Gymnasium environment if it is not written in JAX.

    Raises:
        UnknownName: If there is no such environment.
        InvalidInput: If an option is unknown or has an invalid value.
    """
    spec = REGISTRY[as_name(name, "environment", REGISTRY)]
    try:
        return resolve_name(spec.reference)(**options)
    except TypeError as error:
        raise InvalidInput(f"expected options of the environment {name}: {format_error(error)}") from error


def option_text(key: str, value: Any) -> Any:
    """The value of an option, with a file replaced by its text, so that a run keeps what it was trained on.

    Args:
        key: The name of the option.
        value: Its value. For an option in `FILES`, a string without a line break is the path of a file.

    Returns:
        The text of the file, or the value itself.

    Raises:
        InvalidInput: If the text is too long, or cannot be read from a regular file.
    """
    if key not in FILES or not isinstance(value, str):
        return value
    if "\n" not in value:
        try:
            text = read_text(Path(value), FILES[key]).strip()
            if "\n" not in text:  # it would be taken for a path, and messages would show it
                raise InvalidInput("expected several lines, got one")
            return text
        except InvalidInput as error:
            raise InvalidInput(
                f"expected a {key} as a string, or a file that holds one, got {short_repr(value)}: {error}"
            ) from error
    if len(value) > FILES[key]:
        raise InvalidInput(f"expected a {key} of at most {FILES[key]} characters, got {len(value)}")
    return value


def make_gymnasium(name: str, render_mode: str | None = None, **options: Any) -> gym.Env[Any, Any]:
    """Create a Gymnasium environment that draws its target contexts; `gymnasium.make` calls this.

    Args:
        name: A key of `REGISTRY`.
        render_mode: None or "rgb_array".
        **options: Arguments of its class.

    Returns:
        The environment.

    Raises:
        InvalidInput: If an argument is invalid.
    """
    from geodesic.envs.cmdp import ContextualEnv

    if name in REGISTRY and REGISTRY[name].on_host:
        env: gym.Env[Any, Any] = make(name, render_mode=render_mode, **options)
        return env
    mdp = make(name, **options)
    return ContextualEnv(mdp, mdp.context_space, mdp.target(np.random.default_rng(0)), render_mode)


def make_vector(
    name: str, num_envs: int, autoreset_mode: Any = "NextStep", **options: Any
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Create many copies of an environment in one compiled program; `gymnasium.make_vec` calls this.

    Args:
        name: The name of an environment in JAX.
        num_envs: Number of copies.
        autoreset_mode: A mode of `gymnasium.vector.AutoresetMode`.
        **options: Arguments of its class.

    Returns:
        The vector environment.

    Raises:
        InvalidInput: If an argument is invalid.
    """
    from geodesic.envs.cmdp import VectorContextualEnv

    mdp = make(name, **options)
    return VectorContextualEnv(mdp, mdp.context_space, mdp.target(np.random.default_rng(0)), num_envs, autoreset_mode)


def register() -> None:
    """Register the environments with Gymnasium; `import geodesic` calls this."""
    for name, spec in REGISTRY.items():
        if spec.gym_id not in gym.registry:
            gym.register(
                spec.gym_id,
                entry_point="geodesic.envs:make_gymnasium",
                vector_entry_point=None if spec.on_host else "geodesic.envs:make_vector",
                kwargs={"name": name},
            )
