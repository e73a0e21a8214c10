"""Collecting episodes from environments that are stepped on the host, whoever steps them."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np

from geodesic.contexts import EpisodeBatch


class EpisodeCollector:
    """Episodes that ended since the last batch.

    Environments may add episodes from several threads: each call appends one row, which is atomic.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._rows: list[tuple[Any, ...]] = []  # in the order of the columns of a batch

    def add(
        self,
        context: Any,
        total: float,
        length: int,
        stage: int,
        discounted: float,
        success: float,
        started: int,
        ended: int,
    ) -> None:
        """Add one episode; `total` is its undiscounted return."""
        self._rows.append((np.asarray(context, np.float64), total, length, stage, discounted, success, started, ended))

    def batch(self) -> EpisodeBatch | None:
        """The episodes, in the order in which they ended; None if one of their returns is not finite."""
        rows, self._rows = sorted(self._rows, key=itemgetter(-1)), []
        if not rows:
            return EpisodeBatch.empty(self.dim)
        contexts, returns, *others = (np.array(column) for column in zip(*rows))
        return EpisodeBatch(contexts, returns, *others) if np.isfinite(returns).all() else None
