"""The best policy of a run so far, judged by its evaluations on the target."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from geodesic.checks import as_name
from geodesic.contexts import Arrays
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.records import Checkpoint, checkpoint
from geodesic.records.checkpoint import Json

BEST = "best/"  # prefix of a checkpoint's arrays; the rest of a name is that of the array that it replaces
WHICH = ("best", "last")  # policies of a run
WINDOW = 3  # evaluations that a policy is judged by


@dataclass
class BestPolicy:
    """The policy with the best smoothed evaluation, and what is needed to find a better one.

    A policy counts as much as the mean of its evaluation and the two before it, but no more than its own evaluation: a
    lucky one needs good neighbours, and a policy that has just collapsed gains nothing from those before it. The
    latest of equal ones is kept.

    arrays: by the names that they have in a checkpoint, those that the policy's actions depend on; empty if no policy
    was kept.
    """

    recent: list[float] = field(default_factory=list)  # scores of the last evaluations
    score: float = math.nan
    step: int = 0
    arrays: Arrays = field(default_factory=dict)

    def update(self, step: int, score: float, policy: Arrays) -> None:
        """Keep the policy that got this score in an evaluation, if it is the best one."""
        self.recent = [*self.recent, score][-WINDOW:]
        if not policy or math.isnan(score):
            return
        smoothed = min(score, float(np.nanmean(self.recent)))
        if not smoothed < self.score:  # which is NaN before the first one
            self.score, self.step, self.arrays = smoothed, step, policy

    def save(self) -> tuple[Arrays, Json]:
        """Arrays and JSON for a checkpoint."""
        meta = {"recent": self.recent, "score": self.score, "step": self.step}
        return {BEST + name: array for name, array in self.arrays.items()}, {"best": meta}

    @classmethod
    def load(cls, found: Checkpoint) -> BestPolicy:
        """What `save` gave."""
        arrays = best_arrays(found)
        if not all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f"):
            raise CheckpointError(f"damaged checkpoint {found.path}: its best policy has values that are not finite")
        recent, score = found.numbers("best", "recent"), found.number("best", "score")
        return cls(recent[-WINDOW:], score, found.count("best", "step"), arrays)


def best_arrays(found: Checkpoint) -> Arrays:
    """The arrays of the best policy in a checkpoint, by the names of those that they replace."""
    return {name.removeprefix(BEST): array for name, array in found.arrays.items() if name.startswith(BEST)}


def with_policy(found: Checkpoint, which: str) -> Arrays:
    """The arrays of a checkpoint, with the best or the last policy among them."""
    best = best_arrays(found) if as_name(which, "which", WHICH) == "best" else {}
    if which == "best" and not best:
        raise _never_evaluated(found)
    return {**found.arrays, **best}


def policy_arrays(folder: Path, names: Collection[str], which: str) -> tuple[Arrays, Checkpoint]:
    """The arrays of these names of the best or the last policy in a run folder, and the checkpoint without others."""
    prefix = BEST if as_name(which, "which", WHICH) == "best" else ""
    found = checkpoint.load_newest(folder, only=[prefix + name for name in names])
    missing = [name for name in names if prefix + name not in found.arrays]
    if prefix and len(missing) == len(names):
        raise _never_evaluated(found)
    if missing:
        raise CheckpointError(f"expected the {which} policy to have {missing[0]!r:.80}, got none in {found.path}")
    return {name: found.arrays[prefix + name] for name in names}, found


def _never_evaluated(found: Checkpoint) -> InvalidInput:
    return InvalidInput(
        f"expected a run that was evaluated on the target, got none in {found.path.parent.parent}; try which='last'"
    )
