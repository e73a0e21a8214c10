"""Curricula by name. A method is a frozen dataclass; `build` fills in what the problem states."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from geodesic.curricula.base import Curriculum, Episodes, Problem, State
from geodesic.curricula.fixed import Linear, TargetOnly, Uniform
from geodesic.curricula.gradient import Gradient
from geodesic.errors import InvalidInput, UnknownName

REGISTRY: dict[str, type[Curriculum]] = {
    "gradient": Gradient,
    "target-only": TargetOnly,
    "uniform": Uniform,
    "linear": Linear,
}

__all__ = [
    "REGISTRY",
    "Curriculum",
    "Episodes",
    "Gradient",
    "Linear",
    "Problem",
    "State",
    "TargetOnly",
    "Uniform",
    "build",
]


def build(name: str, problem: Problem, **options: Any) -> Curriculum:
    """The named method on this problem. Options are the method's own hyperparameters and win over the problem's."""
    if name not in REGISTRY:
        raise UnknownName("method", name, REGISTRY)
    method = REGISTRY[name]
    known = [field.name for field in fields(method) if field.init]
    for option in options:
        if option not in known:
            raise InvalidInput(f"expected an option of {name} ({', '.join(known)}), got {option!r}")
    stated = {field.name: getattr(problem, field.name) for field in fields(problem) if field.name in known}
    return method(**{**stated, **options})
