"""Distances between contexts. The learned ones are imported on use: they need JAX and scikit-learn."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from geodesic.metrics.base import Metric, Recipe
from geodesic.metrics.bisimulation import TabularCMDP, contextual_distance
from geodesic.metrics.euclidean import Euclidean
from geodesic.metrics.graph import Graph, Matrix

LEARNED = {
    "ReturnLift": "geodesic.metrics.returns",
    "ReturnGap": "geodesic.metrics.returns",
    "Embedding": "geodesic.metrics.embedding",
}

__all__ = [
    "Embedding",
    "Euclidean",
    "Graph",
    "Matrix",
    "Metric",
    "Recipe",
    "ReturnGap",
    "ReturnLift",
    "TabularCMDP",
    "contextual_distance",
]


def __getattr__(name: str) -> Any:
    if name not in LEARNED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LEARNED[name]), name)
