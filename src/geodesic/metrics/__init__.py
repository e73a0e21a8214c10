"""Distances between contexts. The learned ones are imported on first use: they need JAX and scikit-learn."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from geodesic.metrics.base import Euclidean, LearnedMetric, Metric
from geodesic.metrics.bisimulation import TabularCMDP, contextual_distance
from geodesic.metrics.graph import Graph, Matrix
from geodesic.metrics.product import Product
from geodesic.metrics.standard import REGISTRY, STANDARD, descriptions, make, register

LAZY = {"ReturnLift": "returns", "ReturnGap": "returns", "Embedding": "embedding"}

__all__ = ["Euclidean", "Graph", "LearnedMetric", "Matrix", "Metric", "Product", "TabularCMDP"]
__all__ += ["contextual_distance"]
__all__ += ["REGISTRY", "STANDARD", "descriptions", "make", "register"]  # metrics by name
__all__ += ["Embedding", "ReturnGap", "ReturnLift"]  # imported on first use


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"geodesic.metrics.{LAZY[name]}"), name)


def __dir__() -> list[str]:
    return __all__
