"""Learners by name: PPO and SAC as frozen hyperparameters with pure functions. Imported on use: they need JAX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from geodesic.checks import as_a, as_name
from geodesic.errors import InvalidInput, shown

if TYPE_CHECKING:
    from geodesic.learners.base import Learner

REGISTRY = {
    "ppo": ("PPO", "proximal policy optimisation; any actions"),
    "sac": ("SAC", "soft actor-critic with a replay buffer; continuous actions"),
}
DEFAULT = ("ppo", {"n_envs": 16, "rollout": 128, "batch_size": 256, "normalize_observations": True})

Described = tuple[str, dict[str, Any]]


def learner_class(name: str) -> type[Any]:
    as_name(name, "learner", REGISTRY)
    found: type[Any] = getattr(import_module(f"geodesic.learners.{name}"), REGISTRY[name][0])
    return found


def make(name: str, options: Mapping[str, Any]) -> Learner:
    """A learner's frozen hyperparameters; those not named are Stable-Baselines3's defaults."""
    known = [field.name for field in fields(learner_class(name))]
    for option in as_a(Mapping, options, "options"):  # type: ignore[type-abstract]
        if option not in known:
            raise InvalidInput(f"expected an option of {name} ({', '.join(known)}), got {option!r}")
    made: Learner = learner_class(name)(**options)
    return made


def describe(learner: object) -> Described:
    """A learner as its name and options, whether it is given so, as PPO(...) or SAC(...), or not at all."""
    if learner is None:
        return DEFAULT[0], dict(DEFAULT[1])
    if isinstance(learner, tuple) and len(learner) == 2 and isinstance(learner[1], Mapping):
        return as_name(learner[0], "learner", REGISTRY), dict(learner[1])
    name = type(learner).__name__.lower()
    if name not in REGISTRY or not is_dataclass(learner) or isinstance(learner, type):
        raise InvalidInput(f"expected a learner such as geodesic.PPO(n_envs=8) or geodesic.SAC(), got {shown(learner)}")
    return name, {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(learner).items()}
