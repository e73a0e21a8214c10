"""Learners by name: PPO, SAC, registered ones and those that installed packages announce.

The built-in ones are imported when they are used, because they need JAX.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from geodesic.checks import check_instance
from geodesic.errors import InvalidInput, UnknownName, format_error, short_repr
from geodesic.registry import Registry, is_reference, lazy_attributes

if TYPE_CHECKING:
    from geodesic.learners.base import Learner as Learner
    from geodesic.learners.base import Transitions as Transitions

REGISTRY: Registry[type[Any]] = Registry(
    "learner", "geodesic.learners", {"ppo": "geodesic.learners.ppo:PPO", "sac": "geodesic.learners.sac:SAC"}
)
SUMMARIES = {  # here and not only in the docstrings, which cannot be read without importing JAX
    "ppo": "proximal policy optimisation; any actions",
    "sac": "soft actor-critic with a replay buffer; continuous actions",
}
Described = tuple[str, dict[str, Any]]  # a name and options
DEFAULT = ("ppo", {"n_envs": 16, "rollout": 128, "batch_size": 256, "normalize_observations": True})

__all__ = ["REGISTRY", "Learner", "Transitions", "describe", "make", "names", "register"]


__getattr__ = lazy_attributes(__name__, dict.fromkeys(("Learner", "Transitions"), "geodesic.learners.base"))


def __dir__() -> list[str]:
    return __all__


def register(name: str, cls: type[Any]) -> type[Any]:
    """Make a learner available by name in this process.

    Args:
        name: The name, such as "reinforce".
        cls: A class with the methods of `geodesic.learners.base.Learner`. The fields of a dataclass become its options,
            and the first line of its docstring describes it in `geodesic list`.

    Returns:
        The class.

    Raises:
        InvalidInput: If the name is taken, or `cls` is not a class.
    """
    if not isinstance(cls, type):
        raise InvalidInput(f"expected a learner's class, got {short_repr(cls)}")
    return REGISTRY.register(name, cls)


def names() -> dict[str, str]:
    """List the learners; this does not import JAX.

    Returns:
        A one-line description of each, by name.
    """
    return REGISTRY.descriptions(SUMMARIES)


def make(name: str, options: Mapping[str, Any]) -> Learner:
    """Create a learner.

    Args:
        name: A name or a reference, as `Registry.get` takes it.
        options: Values of its fields; the others keep their defaults.

    Returns:
        The learner.

    Raises:
        UnknownName: If there is no such learner.
        InvalidInput: If an option is unknown or has an invalid value.
    """
    cls = REGISTRY.get(name)
    if not isinstance(cls, type) or not all(
        hasattr(cls, each) for each in ("init", "act", "update", "params", "policy")
    ):
        raise InvalidInput(f"expected {name} to be the class of a learner, got {short_repr(cls)}")
    known = [field.name for field in fields(cls)] if is_dataclass(cls) else None
    for option in check_instance(Mapping, options, "options"):  # type: ignore[type-abstract]
        if known is not None and option not in known:
            raise InvalidInput(f"expected an option of {name} ({', '.join(known)}), got {option!r}")
    try:
        return cast("Learner", cls(**options))
    except TypeError as error:
        raise InvalidInput(f"expected options of {name}: {format_error(error)}") from error


def describe(learner: object) -> Described:
    """Describe a learner as a name and options, from which `make` creates it again.

    Args:
        learner: A learner, a pair (name, options), or None for the default one.

    Returns:
        Name and options. The name of an unregistered class is its reference, "module:Class", and its options are those
        fields that JSON can hold; `name in REGISTRY` tells the two cases apart.

    Raises:
        InvalidInput: If it is not a learner.
    """
    if learner is None:
        return DEFAULT[0], dict(DEFAULT[1])
    if isinstance(learner, tuple) and len(learner) == 2 and isinstance(learner[1], Mapping):
        name, options = learner
        if not isinstance(name, str) or not (is_reference(name) or name in REGISTRY.names()):
            raise UnknownName("learner", name, REGISTRY.names())
        return name, dict(options)
    from geodesic.learners.base import Learner

    if isinstance(learner, type) or not isinstance(learner, Learner):
        raise InvalidInput(
            f"expected a learner such as geodesic.PPO(n_envs=8) or geodesic.SAC(), got {short_repr(learner)}"
        )
    cls = type(learner)
    values: dict[str, Any] = asdict(learner) if is_dataclass(learner) else {}
    options = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    found = next((name for name in REGISTRY if REGISTRY.known(name) is cls), None)
    if found is not None:
        return found, options
    return f"{cls.__module__}:{cls.__qualname__}", {key: value for key, value in options.items() if _is_json(value)}


def _is_json(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_json(each) for each in value)
    return value is None or isinstance(value, (str, int, float))
