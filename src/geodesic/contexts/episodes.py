"""Episodes: contexts, and what the agent earned there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from geodesic.contexts.arrays import Array, FloatArray, IntArray, as_points, as_vector
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
        points = np.array(contexts, dtype=np.float64)
        if points.size:
            points = as_points(points, "contexts")
        elif points.ndim != 2:
            points = points.reshape(0, 1)
        n = len(points)
        object.__setattr__(self, "returns", as_vector(returns, "returns", n) if n else np.zeros(0))
        object.__setattr__(self, "lengths", _whole(lengths, "lengths", n))
        object.__setattr__(self, "stages", _whole(stages, "stages", n))
        if (self.lengths < 0).any():
            raise InvalidInput(f"expected lengths >= 0, got {self.lengths.min()}")
        flags = np.full(n, np.nan) if successes is None else np.array(successes, dtype=np.float64)
        if flags.shape != (n,):
            raise InvalidInput(f"expected successes of shape ({n},), got shape {flags.shape}")
        object.__setattr__(self, "contexts", points)
        object.__setattr__(self, "successes", flags)

    def __len__(self) -> int:
        return len(self.returns)

    def __repr__(self) -> str:
        mean = f", mean return {self.returns.mean():.4g}" if len(self) else ""
        return f"Episodes({len(self)}{mean})"

    def __getitem__(self, which: Any) -> Episodes:
        return self._of(column[which] for column in self.columns())

    @classmethod
    def empty(cls, dim: int) -> Episodes:
        return cls(np.zeros((0, dim)), [], [], [])

    def of_stage(self, stage: int) -> Episodes:
        """The episodes that began in this stage."""
        return self[self.stages == stage]

    def followed_by(self, other: Episodes) -> Episodes:
        if not len(self) or not len(other):
            return other if len(other) else self
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


def _whole(values: ArrayLike, name: str, n: int) -> IntArray:
    """Whole numbers (n,), whatever type they come in."""
    vector = as_vector(values, name, n) if n else np.zeros(0)
    broken = vector[vector != np.floor(vector)]
    if broken.size:
        raise InvalidInput(f"expected {name} to be whole numbers, got {broken[0]:g}")
    return vector.astype(np.int64)
