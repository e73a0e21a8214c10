"""Curricula by name. A method is a frozen dataclass; `build` fills in what the problem states."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from geodesic.checks import as_a, as_name
from geodesic.curricula.alp_gmm import ALPGMM
from geodesic.curricula.base import Curriculum, Kind, Problem, State, is_auto
from geodesic.curricula.currot import CURROT
from geodesic.curricula.fixed import Linear, TargetOnly, Uniform
from geodesic.curricula.goal_gan import GoalGAN
from geodesic.curricula.gradient import Gradient
from geodesic.curricula.procurl_target import ProCuRLTarget
from geodesic.curricula.search import Search
from geodesic.curricula.spdl import SPDL
from geodesic.curricula.wb_spdl import WassersteinSPDL
from geodesic.errors import InvalidInput

REGISTRY: dict[str, type[Curriculum[Any]]] = {
    "gradient": Gradient,
    "target-only": TargetOnly,
    "uniform": Uniform,
    "linear": Linear,
    "alp-gmm": ALPGMM,
    "goal-gan": GoalGAN,
    "spdl": SPDL,
    "wb-spdl": WassersteinSPDL,
    "currot": CURROT,
    "procurl-target": ProCuRLTarget,
}

__all__ = [
    "ALPGMM",
    "CURROT",
    "REGISTRY",
    "SPDL",
    "Curriculum",
    "GoalGAN",
    "Gradient",
    "Kind",
    "Linear",
    "ProCuRLTarget",
    "Problem",
    "Search",
    "State",
    "TargetOnly",
    "Uniform",
    "WassersteinSPDL",
    "build",
    "options_of",
]


def build(name: str, problem: Problem, **options: Any) -> Curriculum[Any]:
    """The named method on this problem. Options are the method's own hyperparameters and win over the problem's.

    With the source "auto", a search stands in front of a method that takes one.
    """
    known = options_of(name)
    method = REGISTRY[name]
    for option in options:
        if option not in known:
            raise InvalidInput(f"expected an option of {method.__name__} ({', '.join(known)}), got {option!r}")
    as_a(Problem, problem, "problem")
    stated = {field.name: getattr(problem, field.name) for field in fields(problem) if field.name in known}
    given = {**stated, **options}
    if not is_auto(given.get("source")):
        return method(**given)
    if "source_moments" in given and "source_moments" not in options:
        given["source_moments"] = None  # of the source that was not taken
    threshold = given.get("threshold", problem.threshold)
    return Search(lambda source: method(**{**given, "source": source}), problem.space, threshold)


def options_of(name: str) -> list[str]:
    """The names of a method's hyperparameters."""
    return [field.name for field in fields(REGISTRY[as_name(name, "method", REGISTRY)]) if field.init]
