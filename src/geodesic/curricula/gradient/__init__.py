"""GRADIENT as path x pace: a path from source to target, and what decides how far along it the next stage lies."""

from geodesic.curricula.gradient.auto import Auto
from geodesic.curricula.gradient.gate import Gate
from geodesic.curricula.gradient.gradient import Gradient
from geodesic.curricula.gradient.paces import FixedStep, Pace, Path
from geodesic.curricula.gradient.staged import Staged, StagedState

__all__ = ["Auto", "FixedStep", "Gate", "Gradient", "Pace", "Path", "Staged", "StagedState"]
