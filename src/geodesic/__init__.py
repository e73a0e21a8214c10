"""Curriculum reinforcement learning along Wasserstein geodesics."""

from geodesic import curricula, envs, metrics
from geodesic.curricula import Curriculum, Episodes, Gradient, Problem, State
from geodesic.distributions import ContextSpace, Particles
from geodesic.errors import GeodesicError
from geodesic.transport import Geodesic, barycenter, wasserstein

__version__ = "0.1.0"

__all__ = [
    "ContextSpace",
    "Curriculum",
    "Episodes",
    "Geodesic",
    "GeodesicError",
    "Gradient",
    "Particles",
    "Problem",
    "State",
    "barycenter",
    "curricula",
    "envs",
    "metrics",
    "wasserstein",
]

envs.register()
