"""Curricula: how the training distribution moves from source to target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from geodesic.checks import as_function, check_instance
from geodesic.contexts import Particles
from geodesic.curricula.acl import ACL
from geodesic.curricula.adr import ADR
from geodesic.curricula.alp_gmm import ALPGMM
from geodesic.curricula.auto_threshold import AutoThreshold
from geodesic.curricula.base import AUTO, ENOUGH, Curriculum, Kind, Problem, State, is_auto, parameter_names
from geodesic.curricula.currot import CURROT
from geodesic.curricula.doraemon import DORAEMON
from geodesic.curricula.fixed import Linear, TargetOnly, Uniform
from geodesic.curricula.goal_gan import GoalGAN
from geodesic.curricula.gradient.gradient import Gradient
from geodesic.curricula.gradient.paces import AdaptivePace, FixedStep, Pace, PerParticlePace
from geodesic.curricula.hedged import HedgedGradient
from geodesic.curricula.learnability import Learnability
from geodesic.curricula.learning_progress import LearningProgress
from geodesic.curricula.plr import PLR
from geodesic.curricula.procurl_target import ProCuRLTarget
from geodesic.curricula.search import Search
from geodesic.curricula.spdl import SPDL
from geodesic.curricula.spgl import SPGL
from geodesic.curricula.vds import VDS
from geodesic.curricula.wb_spdl import WassersteinSPDL
from geodesic.errors import InvalidInput, short_repr
from geodesic.registry import Registry

EASY = 200  # contexts of the whole space that are probed where there is no source

# What `register` and `build` take: a subclass of `Curriculum`, a function `Problem -> Curriculum`, or a `Curriculum`.
Method = type[Curriculum[Any]] | Callable[..., Curriculum[Any]] | Curriculum[Any]

REGISTRY: Registry[Method] = Registry(
    "method",
    "geodesic.curricula",
    {
        "auto": HedgedGradient,
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
        "adr": ADR,
        "learning-progress": LearningProgress,
        "learnability": Learnability,
        "doraemon": DORAEMON,
        "acl": ACL,
        "plr": PLR,
        "vds": VDS,
        "spgl": SPGL,
    },
)

__all__ = ["Curriculum", "Kind", "Method", "Problem", "State"]
__all__ += [
    "ACL",
    "ADR",
    "ALPGMM",
    "CURROT",
    "DORAEMON",
    "PLR",
    "SPDL",
    "SPGL",
    "VDS",
    "GoalGAN",
    "Gradient",
    "Learnability",
    "LearningProgress",
]
__all__ += ["Linear", "ProCuRLTarget", "TargetOnly", "Uniform"]
__all__ += ["AutoThreshold", "HedgedGradient", "Search", "WassersteinSPDL"]
__all__ += ["AdaptivePace", "FixedStep", "Pace", "PerParticlePace"]
__all__ += ["REGISTRY", "build", "options_of", "register"]  # methods by name


def __dir__() -> list[str]:
    return __all__


def register(name: str, method: Method) -> Method:
    """Make a method available by name in this process.

    Args:
        name: The name, as in `method="mine:option=3"`.
        method: A subclass of `Curriculum`, a function `Problem -> Curriculum`, or a `Curriculum`.

    Returns:
        The method.

    Raises:
        InvalidInput: If the name is taken or not allowed.
    """
    return REGISTRY.register(name, method)


def build(method: str | Method, problem: Problem, **options: Any) -> Curriculum[Any]:
    """A curriculum for a problem.

    If the source is `"auto"` and the method takes a source, a `Search` for one comes first. If the threshold is
    `"auto"` and the method has one, it is 0.8 for successes, and an `AutoThreshold` finds it for returns.

    Args:
        method: A registered name, `"package.module:Name"`, `"path/file.py:Name"`, a subclass of `Curriculum`, a
            function `Problem -> Curriculum`, or a `Curriculum`, which takes no options.
        problem: What is known about the task. A curriculum that looks at the default score gets the problem's.
        **options: The method's hyperparameters; they take precedence over the problem's facts.

    Returns:
        The curriculum.

    Raises:
        InvalidInput: If the method is unknown, or an option is unknown or has an invalid value.

    Example:
        >>> import geodesic as gd
        >>> space = gd.ContextSpace([0.0], [5.0])
        >>> problem = gd.Problem(gd.Particles([[0.0]]), gd.Particles([[4.0]]), space, threshold=3.0)
        >>> gd.curricula.build("gradient", problem, step=0.25).pace.step
        0.25
    """
    check_instance(Problem, problem, "problem")
    found = REGISTRY.get(method) if isinstance(method, str) else method
    if isinstance(found, Curriculum) or not is_auto(options.get("threshold", problem.threshold)):
        return _with_source(found, problem, options)
    rest = {name: value for name, value in options.items() if name != "threshold"}
    rates = problem.score == "success"
    made = _with_source(found, replace(problem, threshold=ENOUGH if rates else 0.0), rest)
    if rates or not hasattr(made, "threshold"):
        return made
    if not made.follows_threshold:
        following = [name for name in REGISTRY if getattr(REGISTRY.known(name), "follows_threshold", False)]
        raise InvalidInput(
            f"expected a number as the threshold of {type(made).__name__}, got {AUTO!r}; try threshold=..., or one of "
            f"the methods {', '.join(following)}"
        )
    source = options.get("source", problem.source)
    easy = source if isinstance(source, Particles) else problem.space.uniform(EASY, np.random.default_rng(0))
    box = problem.space.bounded_around(np.concatenate([easy.points, problem.target.points]))
    return AutoThreshold(made, easy, problem.target, box, score=made.score)


def _with_source(found: Method, problem: Problem, options: dict[str, Any]) -> Curriculum[Any]:
    """The curriculum, after a search for its source if there is none."""
    takes_source = not isinstance(found, type) or (
        "source" in (kind := _as_class(found)).option_names() and not kind.searches
    )
    if isinstance(found, Curriculum) or not (takes_source and is_auto(options.get("source", problem.source))):
        return _make(found, problem, options)
    rest = {name: value for name, value in options.items() if name != "source"}

    def on(source: Particles) -> Curriculum[Any]:
        return _make(found, replace(problem, source=source, source_moments=None), rest)

    trial = on(problem.target)  # invalid options are refused here, not when a source has been found
    search = Search(on, problem.space, getattr(trial, "threshold", 0.0), score=trial.score)
    object.__setattr__(search, "needs_value_losses", trial.needs_value_losses)
    return search


def _make(method: Method, problem: Problem, options: dict[str, Any]) -> Curriculum[Any]:
    """The curriculum of a class or a function, or the object itself, looking at the problem's score."""
    if isinstance(method, Curriculum):
        if options:
            raise InvalidInput(f"expected no options for a Curriculum object, got {', '.join(options)}")
        made = method
    else:
        make = _as_class(method).from_problem if isinstance(method, type) else as_function(method, "a method")
        made = check_instance(Curriculum, make(problem, **options), "the result of the method")  # type: ignore[type-abstract]
    return made if "score" in options or made.score != "return" else made.with_score(problem.score)


def _as_class(method: type) -> type[Curriculum[Any]]:
    if not issubclass(method, Curriculum):
        raise InvalidInput(f"expected a subclass of Curriculum, got {short_repr(method)}")
    return method


def options_of(method: str | Method, **options: Any) -> list[str]:
    """The names of a method's options.

    Args:
        method: As in `build`.
        **options: Options that are chosen: those that have no effect beside them are left out.

    Returns:
        The names; none for a `Curriculum` object.

    Raises:
        InvalidInput: If there is no such method.
    """
    found = REGISTRY.get(method) if isinstance(method, str) else method
    if isinstance(found, Curriculum):
        return []
    return (
        _as_class(found).option_names(**options)
        if isinstance(found, type)
        else parameter_names(as_function(found, "a method"))[1:]
    )
