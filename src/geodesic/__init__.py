"""Curriculum reinforcement learning along Wasserstein geodesics."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from geodesic import curricula, envs, errors, metrics, records, tasks
from geodesic.contexts import ContextSpace, EpisodeBatch, Particles
from geodesic.contexts.plot import Plot
from geodesic.curricula import (
    AdaptivePace,
    Curriculum,
    FixedStep,
    Gradient,
    Pace,
    PerParticlePace,
    Problem,
    State,
)
from geodesic.envs.gymnasium import ContextWrapper
from geodesic.errors import GeodesicError
from geodesic.tasks import EvaluationSettings, Task, TrainingSettings, check_task
from geodesic.training.teacher import Teacher
from geodesic.transport import Geodesic, barycenter, wasserstein

if TYPE_CHECKING:
    from geodesic import learners as learners
    from geodesic.api import Result, compare, load, train
    from geodesic.envs.cmdp import ContextualMDP
    from geodesic.integrations import rllib as rllib  # left out of __all__, as sb3 is: they need extras
    from geodesic.integrations import sb3 as sb3
    from geodesic.learners.ppo import PPO
    from geodesic.learners.sac import SAC

__version__ = "0.1.0"

# imported on first use, because they need JAX or an extra
_LAZY = {
    "ContextualMDP": "geodesic.envs.cmdp",
    "PPO": "geodesic.learners.ppo",
    "Result": "geodesic.api",
    "SAC": "geodesic.learners.sac",
    "compare": "geodesic.api",
    "learners": "geodesic.learners",
    "load": "geodesic.api",
    "rllib": "geodesic.integrations.rllib",
    "sb3": "geodesic.integrations.sb3",
    "train": "geodesic.api",
}

__all__ = [
    "PPO",
    "SAC",
    "AdaptivePace",
    "ContextSpace",
    "ContextWrapper",
    "ContextualMDP",
    "Curriculum",
    "EpisodeBatch",
    "EvaluationSettings",
    "FixedStep",
    "Geodesic",
    "GeodesicError",
    "Gradient",
    "Pace",
    "Particles",
    "PerParticlePace",
    "Plot",
    "Problem",
    "Result",
    "State",
    "Task",
    "Teacher",
    "TrainingSettings",
    "barycenter",
    "check_task",
    "compare",
    "curricula",
    "envs",
    "errors",
    "learners",
    "load",
    "metrics",
    "records",
    "tasks",
    "train",
    "wasserstein",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_LAZY[name])
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__", "rllib", "sb3"]


envs.register()
