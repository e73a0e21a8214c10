"""What a run is: one flat description, kept in config.json, from which the run can be repeated."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from types import NoneType
from typing import Any, Self

import numpy as np

from geodesic.contexts import as_count
from geodesic.errors import InvalidInput

PACKAGES = ("geodesic-rl", "numpy", "scipy", "jax", "jaxlib", "optax", "pot", "scikit-learn", "gymnasium")
KINDS: dict[Any, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, NoneType),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "list[str]": (list,),
    "dict[str, Any]": (dict,),
}
LARGEST_SEED = 2**31
COUNTS = ("steps", "segment", "eval_every", "eval_episodes")


@dataclass(frozen=True)
class RunConfig:
    """Everything needed to repeat a run.

    task: how it is found (a name, module:object, file.py:object), or the name of an object that was handed over, which
    only its owner can find again (`portable` is false then); contexts: the names of its context values; label: the
    method, with what else sets this run apart; segment: learner iterations between two looks at the curriculum;
    eval_every: segments between two evaluations. A loop of one's own (backend "own") has no learner of ours.
    """

    task: str
    name: str
    portable: bool
    contexts: list[str]
    method: str
    label: str
    seed: int
    steps: int
    threshold: float
    solved: float
    measure: str
    discount: float
    metric: str | None
    backend: str
    learner: str | None
    segment: int
    eval_every: int
    eval_episodes: int
    eval_policy: str
    options: dict[str, Any] = field(default_factory=dict)
    learner_options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As JSON has it: numbers, words, lists and objects only."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=_plain))
        return plain

    def replace(self, **changes: Any) -> Self:
        return replace(self, **changes)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RunConfig:
        missing = [item.name for item in fields(cls) if item.name not in values]
        if missing:
            raise InvalidInput(f"expected a run's config.json, got one without {', '.join(missing)}")
        for item in fields(cls):
            if not isinstance(values[item.name], KINDS[item.type]):
                raise InvalidInput(f"expected {item.name} of a run to be {item.type}, got {values[item.name]!r:.60}")
            if isinstance(values[item.name], bool) and item.type != "bool":
                raise InvalidInput(f"expected {item.name} of a run to be {item.type}, got {values[item.name]!r}")
        for name in COUNTS:
            as_count(values[name], name)
        if not 0 <= values["seed"] < LARGEST_SEED:
            raise InvalidInput(f"expected seed to be an integer in [0, 2^31), got {values['seed']!r:.40}")
        if not all(isinstance(name, str) for name in values["contexts"]):
            raise InvalidInput(f"expected contexts of a run to be names, got {values['contexts']!r:.60}")
        return cls(**{item.name: values[item.name] for item in fields(cls)})


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise InvalidInput(f"expected options that can be written to a run's config.json, got {value!r:.60}")


@cache
def versions() -> dict[str, str]:
    """The versions that a run's numbers depend on."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
