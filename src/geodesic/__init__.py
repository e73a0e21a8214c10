"""Curriculum reinforcement learning along Wasserstein geodesics."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from geodesic import curricula, envs, metrics, tasks
from geodesic.contexts import ContextSpace, Episodes, Particles
from geodesic.curricula import Curriculum, Gradient, Problem, State
from geodesic.envs.gymnasium import ContextWrapper
from geodesic.errors import GeodesicError
from geodesic.tasks import Drawing, Task, check_task
from geodesic.training.teacher import Teacher
from geodesic.transport import Geodesic, barycenter, wasserstein

if TYPE_CHECKING:
    from geodesic.api import Result, train
    from geodesic.envs.cmdp import ContextualMDP
    from geodesic.integrations import rllib as rllib  # left out of __all__, as sb3 is: they need extras
    from geodesic.integrations import sb3 as sb3
    from geodesic.learners.ppo import PPO
    from geodesic.learners.sac import SAC

__version__ = "0.1.0"

# What needs JAX, a trainer or an extra is imported when it is first asked for.
_ON_USE = {
    "ContextualMDP": "geodesic.envs.cmdp",
    "PPO": "geodesic.learners.ppo",
    "SAC": "geodesic.learners.sac",
    "Result": "geodesic.api",
    "train": "geodesic.api",
    "rllib": "geodesic.integrations.rllib",
    "sb3": "geodesic.integrations.sb3",
}

__all__ = [
    "PPO",
    "SAC",
    "ContextSpace",
    "ContextWrapper",
    "ContextualMDP",
    "Curriculum",
    "Drawing",
    "Episodes",
    "Geodesic",
    "GeodesicError",
    "Gradient",
    "Particles",
    "Problem",
    "Result",
    "State",
    "Task",
    "Teacher",
    "barycenter",
    "check_task",
    "curricula",
    "envs",
    "metrics",
    "tasks",
    "train",
    "wasserstein",
]


def __getattr__(name: str) -> Any:
    if name not in _ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_ON_USE[name])
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)


envs.register()
