"""Optimal transport between distributions over contexts. Knows points and metrics, nothing of learning."""

from geodesic.transport.barycenter import barycenter
from geodesic.transport.geodesic import Geodesic, wasserstein

__all__ = ["Geodesic", "barycenter", "wasserstein"]
