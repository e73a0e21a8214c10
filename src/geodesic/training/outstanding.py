"""Contexts that were handed out and not yet reported back: in which stage, and in which order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray, IntArray
from geodesic.errors import InvalidInput

TOLERANCE = 1e-6  # of a context's own size: it may have been through float32
PATIENCE = 1000  # reports that may overtake an episode before it no longer holds them up
MOST = 100_000  # contexts that are remembered


class Outstanding:
    """Episodes under way, told apart by their contexts; of equal ones the oldest is meant."""

    def __init__(self, dim: int) -> None:
        self.contexts = np.zeros((0, dim))
        self.stages = np.zeros(0, np.int64)
        self.order = np.zeros(0, np.int64)  # the place of each in the order of beginnings
        self.before = np.zeros(0, np.int64)  # reports before each was handed out
        self.count = 0  # handed out so far
        self.reported = 0

    def add(self, contexts: FloatArray, stage: int) -> None:
        n = len(contexts)
        self.contexts = np.concatenate([self.contexts, contexts])[-MOST:]
        self.stages = np.concatenate([self.stages, np.full(n, stage)])[-MOST:]
        self.order = np.concatenate([self.order, self.count + np.arange(n)])[-MOST:]
        self.before = np.concatenate([self.before, np.full(n, self.reported)])[-MOST:]
        self.count += n

    def take(self, contexts: FloatArray) -> tuple[IntArray, IntArray]:
        """The stage (n,) and the place (n,) in the order of beginnings of contexts that are reported."""
        rows = self._rows(contexts)
        stages, order = self.stages[rows], self.order[rows]
        left = np.delete(np.arange(len(self.order)), rows)
        self.contexts, self.stages = self.contexts[left], self.stages[left]
        self.order, self.before = self.order[left], self.before[left]
        self.reported += len(rows)
        return stages, order

    @property
    def earliest(self) -> int:
        """The place of the oldest episode that is waited for; without one, of the next."""
        waited = self.order[self.reported - self.before <= PATIENCE]
        return int(waited.min()) if len(waited) else self.count

    def start_at(self, count: int) -> None:
        """None under way, after so many were handed out: what a run that was killed goes on with."""
        self.count = count

    def _rows(self, contexts: FloatArray) -> NDArray[np.intp]:
        dim = self.contexts.shape[1]
        if contexts.ndim != 2 or contexts.shape[1] != dim:
            raise InvalidInput(f"expected contexts of shape (n, {dim}), got shape {contexts.shape}")
        unit = 1.0 + np.abs(self.contexts)
        taken = np.zeros(len(self.order))
        rows = np.zeros(len(contexts), np.intp)
        for k, context in enumerate(contexts):
            gaps = (np.abs(self.contexts - context) / unit).max(axis=1) + taken
            if not len(gaps) or not gaps.min() <= TOLERANCE:
                raise InvalidInput(
                    f"expected contexts that sample() gave and that were not reported yet, got {context}"
                )
            rows[k] = gaps.argmin()
            taken[rows[k]] = np.inf
        return rows
