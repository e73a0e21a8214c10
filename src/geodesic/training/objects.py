"""The parts of a run that were passed as objects rather than by name, and how other processes get them."""

from __future__ import annotations

import hashlib
import inspect
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import CodeType
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator

from geodesic import curricula, learners, metrics, tasks
from geodesic.curricula.base import is_auto
from geodesic.errors import InvalidInput, format_error
from geodesic.registry import Registry
from geodesic.tasks.task import Task

REGISTRIES: tuple[Registry[Any], ...] = (curricula.REGISTRY, metrics.REGISTRY, learners.REGISTRY, tasks.REGISTRY)

# of a task; its training, thresholds and score are in the rest of a configuration
FACTS: tuple[str, ...] = ("env", "set_context", "observe_context", "space", "source_particles", "target_particles")
FACTS += ("evaluation_particles", "source_moments", "target_moments", "least", "metrics")


@dataclass(frozen=True, eq=False)
class Objects:
    """The parts of a run that were passed as objects and that no name leads to; other processes get them pickled.

    Args:
        task: The task, if it has no reference.
        method: A `Curriculum` or a function `Problem -> Curriculum`.
        metric: A `Metric` or a `LearnedMetric`.
        learner: A learner whose class is not registered.
    """

    task: Task | None = None
    method: Any = None
    metric: Any = None
    learner: Any = None

    @property
    def fingerprints(self) -> dict[str, str]:
        """A fingerprint of each part that is there."""
        return {name: fingerprint(part) for name, part in vars(self).items() if part is not None}


def fingerprint(value: object) -> str:
    """The class or function of an object, and a digest of its content: the same again for an equal object.

    The content is the code of functions and classes, and what pickling would keep of an object: a class whose objects
    cache results outside of a `cached_property` can leave them out of its `__getstate__`.
    """
    named = value if hasattr(value, "__qualname__") else type(value)
    content = hashlib.blake2b(repr(_content(value)).encode(), digest_size=6).hexdigest()
    return f"{named.__module__}.{named.__qualname__} {content}"  # type: ignore[attr-defined]


def _content(value: Any, parents: tuple[int, ...] = ()) -> Any:
    """What makes up an object, as nested lists of strings; an object inside itself is cut off."""
    if id(value) in parents:
        return "..."
    inner = partial(_content, parents=(*parents, id(value)))
    if isinstance(value, type):
        return value.__qualname__, [(name, inner(member)) for name, member in _members(value)]
    if isinstance(value, int):
        return hex(value)  # repr refuses long ones
    if value is None or isinstance(value, (str, bytes, float)):
        return repr(value)
    if isinstance(value, (gym.Env, gym.Space)):  # they have generators, whose state changes
        return str(value)
    if isinstance(value, Task):
        return inner([is_auto(value.source), *(getattr(value, name) for name in FACTS)])
    if hasattr(value, "__array__"):
        array = np.ascontiguousarray(value)
        content = inner(array.tolist()) if array.dtype.hasobject else hashlib.blake2b(array.tobytes()).hexdigest()
        return array.shape, array.dtype.str, content
    if isinstance(value, Mapping):
        return [(inner(key), inner(each)) for key, each in value.items()]
    if isinstance(value, (list, tuple)):
        return [inner(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(repr(inner(each)) for each in value)
    if inspect.isfunction(value) or inspect.ismethod(value):
        attributes = [getattr(value, name, None) for name in ("__defaults__", "__kwdefaults__", "__self__")]
        variables = [inspect.getclosurevars(value).nonlocals, *attributes]
        return value.__qualname__, inner([value.__code__, *variables])
    if isinstance(value, CodeType):
        return value.co_code.hex(), value.co_names, inner(value.co_consts)
    return inner(_state(value))


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """The functions and public values of a class and of its bases in the same module; none of this library's."""
    own = () if kind.__module__.partition(".")[0] == "geodesic" else kind.__mro__
    for name, member in (item for base in own if base.__module__ == kind.__module__ for item in vars(base).items()):
        for attribute in ("__wrapped__", "fget", "func"):  # of decorated functions and of properties
            member = getattr(member, attribute, member)
        if inspect.isfunction(member) or not (name.startswith("_") or hasattr(member, "__get__")):
            yield name, member


def _state(value: object) -> Any:
    """The class of an object and what pickling would keep of it, without cached results."""
    kind = type(value)
    try:
        reduced: Any = value.__reduce_ex__(4)
    except Exception:  # such as a lock, which cannot be pickled
        return kind
    if isinstance(reduced, str):
        return reduced
    _, arguments, state, *items = (*reduced, None) if len(reduced) == 2 else reduced
    if isinstance(state, dict):
        cached = [name for name in state if isinstance(getattr(kind, name, None), cached_property)]
        state = {name: part for name, part in state.items() if name not in cached}
    own = (part for part in arguments if part is not kind)
    return [kind, *own, state, *(list(each) for each in items if isinstance(each, Iterator))]


def pack(objects: Sequence[Objects]) -> bytes | None:
    """What only this process has, for other processes: objects, and what was registered; None if there is nothing."""
    added = [registry.added for registry in REGISTRIES]
    if not any(own.fingerprints for own in objects) and not any(added):
        return None
    import cloudpickle

    try:
        packed: bytes = cloudpickle.dumps((list(objects), _environments(objects), added))
    except Exception as error:
        raise InvalidInput(
            f"expected objects that can be sent to other processes, got {format_error(error)}; try making what cannot "
            "be pickled inside a function"
        ) from error
    return packed


def _environments(objects: Sequence[Objects]) -> list[EnvSpec]:
    """The registered environments that the tasks name: other processes do not run the script that registered them."""
    known = (gym.registry.get(own.task.env) for own in objects if own.task and isinstance(own.task.env, str))
    specs = [spec for spec in known if spec is not None]
    local = (str(spec.entry_point).startswith("__main__:") for spec in specs)
    return [replace(spec, entry_point=load_env_creator(spec.entry_point)) if own else spec  # type: ignore[arg-type]
            for spec, own in zip(specs, local)]  # fmt: skip


def unpack(packed: bytes | None) -> Sequence[Objects] | None:
    """What `pack` gave; environments and other parts that this process does not know are registered."""
    if packed is None:
        return None
    objects, environments, added = pickle.loads(packed)
    for spec in environments:
        gym.registry.setdefault(spec.id, spec)
    for registry, values in zip(REGISTRIES, added):
        for name in values.keys() - set(registry):
            registry.register(name, values[name])
    return cast(Sequence[Objects], objects)
