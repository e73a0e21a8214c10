"""Contexts: weighted point sets of them, the space they live in, and the episodes that an agent spent in them."""

from geodesic.checks import Array, Arrays, FloatArray, IntArray
from geodesic.contexts.episodes import SCORE_NAMES, SCORES, EpisodeBatch, Score, ValueLoss
from geodesic.contexts.particles import Moments, Particles, are_drawn_from, rows_of
from geodesic.contexts.plot import Box, Plot
from geodesic.contexts.space import BoundedSpace, ContextSpace, as_bounded
from geodesic.contexts.values import Real, Side

__all__ = ["Array", "Arrays", "FloatArray", "IntArray"]
__all__ += ["BoundedSpace", "ContextSpace", "Moments", "Particles", "Real", "Side"]
__all__ += ["are_drawn_from", "as_bounded", "rows_of"]
__all__ += ["SCORE_NAMES", "SCORES", "EpisodeBatch", "Score", "ValueLoss"]
__all__ += ["Box", "Plot"]
