"""Contexts: weighted point sets of them, the space they live in, and the episodes that an agent spent in them."""

from geodesic.checks import Array, Arrays, FloatArray, IntArray, as_count, as_number, as_points, as_vector
from geodesic.contexts.episodes import Episodes
from geodesic.contexts.particles import Particles
from geodesic.contexts.space import ContextSpace, Side, as_bounded

__all__ = [
    "Array",
    "Arrays",
    "ContextSpace",
    "Episodes",
    "FloatArray",
    "IntArray",
    "Particles",
    "Side",
    "as_bounded",
    "as_count",
    "as_number",
    "as_points",
    "as_vector",
]
