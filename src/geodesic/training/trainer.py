"""The interface of a trainer: what steps agents through distributions. It knows nothing of curricula or folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from geodesic.contexts import Arrays, EpisodeBatch, FloatArray, Particles
from geodesic.contexts.episodes import score_column
from geodesic.records.archive import Headers
from geodesic.records.checkpoint import Json

Policy = Callable[[Any], Any]  # observation -> action, as the Gymnasium environment has them


class SegmentResult(NamedTuple):
    """What one run gave in a segment of training.

    episodes: those that ended, in the order in which they ended. earliest_running: the earliest start among the
    episodes still running. metrics: what the learner reports of its updates, such as losses; NaN without an update.
    """

    episodes: EpisodeBatch
    earliest_running: int
    metrics: dict[str, float]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Episodes (n,) on the target: undiscounted returns, successes and discounted returns; NaN where unknown."""

    returns: FloatArray
    successes: FloatArray
    discounted: FloatArray

    def scores(self, kind: str) -> FloatArray:
        """Scores (n,) of this kind; see `EpisodeBatch.scores`."""
        return score_column(kind, self.returns, self.discounted, self.successes)


class Trainer(Protocol):
    """One or more runs that train at once. Each run gives the same numbers as it would alone.

    segment_steps: environment steps of a run in one segment. unchecked: prefix of checkpoint keys exempt from shape
    checks. description: how the arrays of a policy act, a `Network` as JSON; or why that cannot be described.
    """

    segment_steps: int
    unchecked: str | None = None
    description: Json | str = "a trainer without a description"

    def prepare(self, runs: int) -> None:
        """Start slow preparations for this many runs, such as compiling, in the background."""

    def begin(self, seeds: Sequence[int], distributions: Sequence[Particles]) -> None:
        """Create fresh agents, on the first stages."""

    def shapes(self) -> Headers:
        """Names, types and shapes of what `save` gives for one run, except names that begin with `unchecked`."""

    def restore(
        self, arrays: Sequence[Arrays], distributions: Sequence[Particles], stages: Sequence[int], step: int
    ) -> None:
        """Restore agents and environments from what `save` gave, on the stages that they are in.

        step: environment steps of each run so far.
        """

    def save(self) -> list[Arrays]:
        """Everything that decides the rest of each run, as named arrays."""

    def save_policies(self) -> list[Arrays]:
        """Those of the arrays of `save` that the actions of each run depend on."""

    def enter(self, run: int, distribution: Particles, stage: int) -> None:
        """Draw the contexts of this run's next episodes from here."""

    def start_segment(self) -> None:
        """Start a segment of training, if the caller can work on the host meanwhile; else `finish_segment` does it."""
        return

    def finish_segment(self, before: int) -> list[SegmentResult | None]:
        """Wait for the segment; None for a run whose parameters or returns are no longer finite.

        before: environment steps of a run before the segment.
        """

    def evaluate(self, seeds: Sequence[int], step: int) -> list[Evaluation]:
        """Evaluate each run's policy on the target."""

    def policy(self, arrays: Arrays, stochastic: bool = False, seed: int = 0) -> Policy:
        """The agent in what `save` gave for one run."""

    def evaluate_contexts(self, arrays: Arrays, contexts: FloatArray, seed: int) -> Evaluation:
        """Play that agent for one episode in each of the contexts (n, d)."""
