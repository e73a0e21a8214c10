"""Optimal transport between distributions over contexts: distances, geodesics and barycenters."""

from geodesic.transport.barycenter import barycenter
from geodesic.transport.geodesic import Geodesic, Knots, Trajectories, Values, wasserstein

__all__ = ["Geodesic", "Knots", "Trajectories", "Values", "barycenter", "wasserstein"]
