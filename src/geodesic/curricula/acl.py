"""ACL: automated curriculum learning, a bandit that is rewarded with learning progress (Graves et al., ICML 2017)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import Count, Fraction, Positive, Size
from geodesic.contexts import BoundedSpace, EpisodeBatch, FloatArray
from geodesic.curricula.base import Curriculum, State
from geodesic.curricula.cells import Cells


@dataclass(frozen=True, repr=False)
class ACLState(State):
    """A `State` with the bandit.

    Args:
        logits: The logarithm of each arm's weight (k,).
        seen: Whether there was an episode in each cell (k,).
        last: The last score in it (k,).
        most: The most progress so far.
        played: How many episodes there have been.
        fresh: Episodes since the last update of the distribution.
    """

    logits: FloatArray = field(default_factory=lambda: np.zeros(0))
    seen: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    last: FloatArray = field(default_factory=lambda: np.zeros(0))
    most: float = 0.0
    played: int = 0
    fresh: int = 0


@dataclass(frozen=True)
class ACL(Curriculum[ACLState]):
    """A bandit over cells of contexts (EXP3.S) whose reward is learning progress.

    After the t-th episode, in cell i of k, with pi = (1 - uniform) w / sum(w) + uniform / k:

        progress = |score - last score in i|
        r = 2 progress / (most progress so far) - 1
        w_i <- w_i exp(rate r / pi_i)
        w <- (1 - a) w + a mean(w),  a = 1 / (t + 1)

    Every `episodes_per_update` episodes, pi becomes the distribution over cells; within a cell contexts are uniform.
    Cells are the contexts of a discrete space, else those of a grid (`Cells`). Noise looks like progress: cells whose
    outcome is a matter of luck keep their weight for ever.

    Differs from the paper, as in the benchmark of CURROT's authors: progress is a change of the score, where the
    paper's is one of the learner's loss or of its complexity; and it is scaled by its range, where the paper clips it
    to its quantiles of 20 and 80 %, which are equal while most episodes of all cells fail. Differs from that benchmark:
    contexts are drawn from whole cells instead of their centres, pi includes the uniform part in the bandit's update as
    well, and the distribution follows the bandit after several episodes instead of each.

    Args:
        space: Where contexts live; bounded.
        cells: The largest number of cells of a continuous space.
        rate: The bandit's learning rate; the benchmark's values are between 0.01 and 0.05.
        uniform: The probability of a uniform cell.
        episodes_per_update: How many episodes come between two updates.
        particles: How many contexts a stage has, about: as many in each cell.
        score: The score of an episode that progress is measured in.
    """

    colour: ClassVar[str | None] = "#B15928"

    space: BoundedSpace
    cells: Size = 100
    rate: Positive = 0.025
    uniform: Fraction = 0.2
    episodes_per_update: Count = 20
    particles: Size = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        len(self.partition)  # refuses too few cells

    @cached_property
    def partition(self) -> Cells:
        """The cells."""
        return Cells(self.space, self.cells)

    def init(self, rng: np.random.Generator) -> ACLState:
        """All cells alike."""
        k = len(self.partition)
        return ACLState(
            self.partition.particles(np.full(k, 1 / k), self.particles, rng),
            logits=np.zeros(k),
            seen=np.zeros(k, np.bool_),
            last=np.zeros(k),
        )

    def update(self, state: ACLState, episodes: EpisodeBatch, rng: np.random.Generator) -> ACLState:
        """The state after more episodes, with new weights after every `episodes_per_update` of them."""
        if not self.has_episodes(state, episodes, rng):
            return state
        state = self._rewarded(state, episodes)
        if state.fresh < self.episodes_per_update:
            return state
        return state.replace(
            distribution=self.partition.particles(self.chances(state.logits), self.particles, rng),
            stage=state.stage + 1,
            event="reweighted",
            fresh=0,
        )

    def chances(self, logits: FloatArray) -> FloatArray:
        """Compute how likely each cell is.

        Args:
            logits: The logarithm of each arm's weight (k,).

        Returns:
            The probabilities (k,).
        """
        weights = np.exp(logits - logits.max())
        return np.asarray((1 - self.uniform) * weights / weights.sum() + self.uniform / len(weights))

    def _rewarded(self, state: ACLState, episodes: EpisodeBatch) -> ACLState:
        """The state after the bandit has been rewarded for these episodes, one by one."""
        logits, seen, last, most = state.logits.copy(), state.seen.copy(), state.last.copy(), state.most
        cells = self.partition.index(episodes.contexts)
        for t, (cell, score) in enumerate(zip(cells, episodes.scores(self.score).tolist()), start=state.played + 1):
            progress = abs(score - last[cell]) if seen[cell] else 0.0
            seen[cell], last[cell], most = True, score, max(most, float(progress))
            if most > 0:
                logits[cell] += self.rate * (2 * progress / most - 1) / self.chances(logits)[cell]
            weights = np.exp(logits - logits.max())
            logits = np.log(weights + (weights.mean() - weights) / (t + 1))
        count = len(episodes)
        return state.replace(
            logits=logits, seen=seen, last=last, most=most, played=state.played + count, fresh=state.fresh + count
        )
