"""GRADIENT as path x pace: a path from source to target, and what decides how far along it the next stage lies."""

from geodesic.curricula.gradient.gradient import Gradient
from geodesic.curricula.gradient.paces import FixedStep, Pace, Path
from geodesic.curricula.gradient.staged import Staged, StagedState

__all__ = ["FixedStep", "Gradient", "Pace", "Path", "Staged", "StagedState"]
