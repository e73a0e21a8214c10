"""Episodes: contexts, and what the agent earned there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import (
    Array,
    FloatArray,
    IntArray,
    as_a,
    as_array,
    as_count,
    as_points,
    as_successes,
    as_vector,
    as_whole,
)
from geodesic.errors import InvalidInput

COLUMNS = ("contexts", "returns", "lengths", "stages", "successes")


@dataclass(frozen=True, eq=False, repr=False)
class Episodes:
    """What an agent reports back: the episodes that ended, oldest first.

    contexts (n, d); returns (n,), in the measure that the task looks at; lengths (n,), in environment steps; stages
    (n,), the stage in which each episode began; successes (n,), 0 or 1, NaN where the environment does not say.
    """

    contexts: FloatArray
    returns: FloatArray
    lengths: IntArray
    stages: IntArray
    successes: FloatArray

    def __init__(
        self,
        contexts: ArrayLike,
        returns: ArrayLike,
        lengths: ArrayLike,
        stages: ArrayLike,
        successes: ArrayLike | None = None,
    ) -> None:
        points = as_array(contexts, "contexts", "an array of numbers of shape (n, d)")
        if points.size:
            points = as_points(points, "contexts")
        elif points.ndim != 2:
            points = points.reshape(0, 1)
        n = len(points)
        object.__setattr__(self, "contexts", points)
        object.__setattr__(self, "returns", as_vector(returns, "returns", n))
        object.__setattr__(self, "lengths", as_whole(lengths, "lengths", n))
        object.__setattr__(self, "stages", as_whole(stages, "stages", n))
        object.__setattr__(self, "successes", as_successes(successes, n))
        if (self.lengths < 0).any():
            raise InvalidInput(f"expected lengths >= 0, got {self.lengths.min()}")

    def __len__(self) -> int:
        return len(self.returns)

    def __repr__(self) -> str:
        mean = f", mean return {self.returns.mean():.4g}" if len(self) else ""
        return f"Episodes({len(self)}{mean})"

    def __getitem__(self, which: Any) -> Episodes:
        rows = slice(which, which + 1 or None) if isinstance(which, int) and -len(self) <= which < len(self) else which
        return self._of(column[rows] for column in self.columns())

    @classmethod
    def empty(cls, dim: int) -> Episodes:
        return cls(np.zeros((0, as_count(dim, "dim"))), [], [], [])

    def of_stage(self, stage: int) -> Episodes:
        """The episodes that began in this stage."""
        return self[self.stages == stage]

    def followed_by(self, other: Episodes) -> Episodes:
        if not len(self) or not len(as_a(Episodes, other, "episodes")):
            return other if len(other) else self
        if self.contexts.shape[1] != other.contexts.shape[1]:
            dims = f"{self.contexts.shape[1]} and {other.contexts.shape[1]}"
            raise InvalidInput(f"expected episodes in contexts of one dimension, got {dims}")
        pairs = zip(self.columns(), other.columns())
        return self._of(np.concatenate(pair) for pair in pairs)

    @classmethod
    def _of(cls, columns: Iterable[Array]) -> Episodes:
        """Parts of episodes that were checked already: nothing is looked at again."""
        made = object.__new__(cls)
        for name, column in zip(COLUMNS, columns):
            object.__setattr__(made, name, column)
        return made

    def columns(self) -> tuple[Array, ...]:
        """The arrays, in the order of COLUMNS."""
        return self.contexts, self.returns, self.lengths, self.stages, self.successes
