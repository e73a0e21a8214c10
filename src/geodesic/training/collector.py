"""Collecting episodes from environments that are stepped on the host, whoever steps them."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import EpisodeBatch, FloatArray


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


class ErrorSums:
    """Sums of |e| and max(e, 0) along the episodes of n environments, e the learner's value error of a step.

    running: those (n, 2) of the episodes that have not ended.
    """

    def __init__(self, n: int, running: FloatArray | None = None) -> None:
        self.running = np.zeros((n, 2)) if running is None else np.array(running, np.float64)

    def add(self, errors: FloatArray, ended: NDArray[np.bool_]) -> FloatArray:
        """Add steps (t, n); return the sums (k, 2) of the episodes that ended, in the order of steps, then places."""
        found: list[FloatArray] = []
        for each, over in zip(np.stack([np.abs(errors), np.maximum(errors, 0.0)], axis=-1), ended):
            self.running += each
            found.extend(self.running[over])
            self.running[over] = 0.0
        return np.array(found).reshape(-1, 2)
