"""Curriculum reinforcement learning along Wasserstein geodesics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geodesic import curricula, envs, errors, metrics, records, tasks
from geodesic.contexts import ContextSpace, EpisodeBatch, Particles
from geodesic.contexts.plot import Plot
from geodesic.curricula import AdaptivePace, Curriculum, FixedStep, Gradient, Pace, PerParticlePace, Problem, State
from geodesic.envs.gymnasium import ContextWrapper
from geodesic.errors import GeodesicError
from geodesic.registry import lazy_attributes
from geodesic.tasks import EvaluationSettings, Task, TrainingSettings, check_task
from geodesic.training.teacher import Teacher
from geodesic.transport import Geodesic, barycenter, wasserstein

if TYPE_CHECKING:
    from geodesic import learners as learners
    from geodesic.api import BenchmarkResult, Result, benchmark, compare, load, load_benchmark, train
    from geodesic.envs.cmdp import ContextualMDP
    from geodesic.integrations import rllib as rllib  # left out of __all__, as sb3 is: they need extras
    from geodesic.integrations import sb3 as sb3
    from geodesic.learners.ppo import PPO
    from geodesic.learners.sac import SAC

__version__ = "0.1.0"

__all__ = ["Result", "Task", "EvaluationSettings", "TrainingSettings", "Plot", "check_task", "compare", "load", "train"]
__all__ += ["Curriculum", "Problem", "State", "Gradient", "Pace", "FixedStep", "AdaptivePace", "PerParticlePace"]
__all__ += ["PPO", "SAC", "Teacher", "ContextWrapper", "ContextualMDP", "ContextSpace", "EpisodeBatch", "Particles"]
__all__ += ["Geodesic", "barycenter", "wasserstein", "GeodesicError"]
__all__ += ["BenchmarkResult", "benchmark", "load_benchmark"]
__all__ += ["curricula", "envs", "errors", "learners", "metrics", "records", "tasks"]

API = ("BenchmarkResult", "Result", "benchmark", "compare", "load", "load_benchmark", "train")

__getattr__ = lazy_attributes(  # they need JAX or an extra
    __name__,
    {
        "ContextualMDP": "geodesic.envs.cmdp",
        "PPO": "geodesic.learners.ppo",
        "SAC": "geodesic.learners.sac",
        "learners": "geodesic.learners",
        "rllib": "geodesic.integrations.rllib",
        "sb3": "geodesic.integrations.sb3",
        **dict.fromkeys(API, "geodesic.api"),
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__", "rllib", "sb3"]


envs.register()
