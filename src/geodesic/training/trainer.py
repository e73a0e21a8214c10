"""The contract of a trainer: what steps agents through distributions. It knows nothing of curricula or folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import Arrays, Episodes, FloatArray, IntArray, Particles
from geodesic.records.archive import Headers

Policy = Callable[[NDArray[np.float32]], NDArray[Any]]  # observation -> action, as the Gymnasium environment has them


@dataclass(frozen=True, eq=False)
class Report:
    """What ended in one run since the last report: episodes, in the order in which they ended, and about each

    returns: undiscounted (the episodes' own are in the task's measure); ended: the environment step of the run;
    began: the time step of its environment. under_way: the earliest beginning among those that go on. finite: whether
    the agent's parameters and returns still are; a run that is not is lost, and the rest of its report says nothing.
    measures: what the learner says of its updates, such as losses, for who looks on; NaN where there were none.
    """

    episodes: Episodes
    returns: FloatArray
    ended: IntArray
    began: IntArray
    under_way: int
    finite: bool = True
    measures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Episodes (n,) on the target: undiscounted returns, successes, and scores in the task's measure."""

    returns: FloatArray
    successes: FloatArray
    scores: FloatArray


class Trainer(Protocol):
    """One or more runs that train at once. Each is its own: it would do the same alone."""

    @property
    def segment_steps(self) -> int:
        """Environment steps of a run in one segment."""

    def prepare(self, runs: int) -> None:
        """What takes long before so many runs can begin, such as compiling, may start now."""

    def begin(self, seeds: Sequence[int], distributions: Sequence[Particles]) -> None:
        """Fresh agents, on the first stages."""

    def shapes(self) -> Headers:
        """Names, types and shapes of what `save` gives for one run, but for those that begin with `open`."""

    @property
    def open(self) -> str | None:
        """The beginning of names that only an environment knows."""

    def restore(self, arrays: Sequence[Arrays], distributions: Sequence[Particles], stages: Sequence[int]) -> None:
        """Agents and environments as `save` gave them, on the stages that they are in."""

    def save(self) -> list[Arrays]:
        """Everything that decides the rest of each run, as named arrays."""

    def enter(self, run: int, distribution: Particles, stage: int) -> None:
        """Episodes of this run that begin from now on draw their contexts here."""

    def start_segment(self) -> None:
        """Set a segment of training going; what it needs from the host can be done meanwhile."""

    def finish_segment(self, before: int) -> list[Report]:
        """Wait for it: what ended in each run. before: environment steps of a run until the segment's start."""

    def evaluate(self, seeds: Sequence[int], step: int) -> list[Evaluation]:
        """Each run's policy on the target."""

    def policy(self, arrays: Arrays, stochastic: bool = False, seed: int = 0) -> Policy:
        """The agent in what `save` gave of one run."""

    def score(self, arrays: Arrays, contexts: FloatArray, seed: int) -> Evaluation:
        """The same agent: an episode in each of the contexts (n, d)."""
