"""Learners by name: PPO and SAC as frozen hyperparameters with pure functions. Imported on use: they need JAX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from geodesic.contexts import as_count, as_number
from geodesic.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from geodesic.learners.base import Learner

REGISTRY = {
    "ppo": ("PPO", "proximal policy optimisation; any actions"),
    "sac": ("SAC", "soft actor-critic with a replay buffer; continuous actions"),
}
DEFAULT = ("ppo", {"n_envs": 16, "rollout": 128, "batch_size": 256, "normalize_observations": True})

Described = tuple[str, dict[str, Any]]


def learner_class(name: str) -> type[Any]:
    if name not in REGISTRY:
        raise UnknownName("learner", name, REGISTRY)
    found: type[Any] = getattr(import_module(f"geodesic.learners.{name}"), REGISTRY[name][0])
    return found


def make(name: str, options: Mapping[str, Any]) -> Learner:
    """A learner's frozen hyperparameters; those not named are Stable-Baselines3's defaults."""
    known = [field.name for field in fields(learner_class(name))]
    for option in options:
        if option not in known:
            raise InvalidInput(f"expected an option of {name} ({', '.join(known)}), got {option!r}")
    defaults = {field.name: field.default for field in fields(learner_class(name))}
    made: Learner = learner_class(name)(**{key: _like(defaults[key], value, key) for key, value in options.items()})
    return made


def _like(default: object, value: object, name: str) -> object:
    """A value of the same kind as an option's default, or an error of ours."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise InvalidInput(f"expected {name} to be true or false, got {value!r}")
        return value
    if isinstance(default, int):
        return as_count(value, name) if value != 0 else 0
    if isinstance(default, float):
        return as_number(value, name)
    if isinstance(default, tuple):
        if not isinstance(value, (list, tuple)):
            raise InvalidInput(f"expected {name} to be a list of layer sizes, got {value!r}")
        return tuple(as_count(size, name) for size in value)
    return value


def describe(learner: object) -> Described:
    """A learner as its name and options, whether it is given so, as PPO(...) or SAC(...), or not at all."""
    if learner is None:
        return DEFAULT[0], dict(DEFAULT[1])
    if isinstance(learner, tuple) and len(learner) == 2 and learner[0] in REGISTRY:
        return learner[0], dict(learner[1])
    name = type(learner).__name__.lower()
    if name not in REGISTRY or not is_dataclass(learner) or isinstance(learner, type):
        raise InvalidInput(f"expected a learner such as geodesic.PPO(n_envs=8) or geodesic.SAC(), got {learner!r:.60}")
    return name, {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(learner).items()}
