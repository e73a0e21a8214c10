"""Distances between contexts. The learned ones are imported on first use: they need JAX and scikit-learn."""

from __future__ import annotations

from geodesic.metrics.base import Euclidean, LearnedMetric, Metric
from geodesic.metrics.bisimulation import TabularCMDP, contextual_distance
from geodesic.metrics.edit import EditDistance
from geodesic.metrics.graph import Graph, Matrix
from geodesic.metrics.practice import Practice
from geodesic.metrics.product import Product
from geodesic.metrics.standard import REGISTRY, STANDARD, descriptions, make, register
from geodesic.registry import lazy_attributes

__all__ = ["EditDistance", "Euclidean", "Graph", "LearnedMetric", "Matrix", "Metric", "Practice", "Product"]
__all__ += ["TabularCMDP", "contextual_distance"]
__all__ += ["REGISTRY", "STANDARD", "descriptions", "make", "register"]  # metrics by name
__all__ += ["Embedding", "ReturnGap", "ReturnLift"]  # imported on first use


__getattr__ = lazy_attributes(
    __name__,
    {"Embedding": "geodesic.metrics.embedding"}
    | dict.fromkeys(("ReturnGap", "ReturnLift"), "geodesic.metrics.returns"),
)


def __dir__() -> list[str]:
    return __all__
