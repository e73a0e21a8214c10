"""Collecting episodes from environments that are stepped on the host, whoever steps them."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from geodesic.checks import as_array
from geodesic.contexts import EpisodeBatch
from geodesic.errors import InvalidInput, short_repr

SUCCESS_KEYS = ("is_success", "success")  # what environments call it in `info`


def success_of(info: Mapping[str, Any]) -> float:
    """Whether an episode succeeded, from the `info` of its last step; NaN where the environment does not say."""
    for key in SUCCESS_KEYS:
        if info.get(key) is not None:
            value = as_array(info[key], f"info[{key!r}]", "a boolean")
            if value.size != 1:
                raise InvalidInput(f"expected info[{key!r}] to be a boolean, got {short_repr(info[key])}")
            return float(value.item())
    return float("nan")


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
