"""Learning progress: train where the success rate changes, up or down (Kanitscheider et al., 2021; Syllabus)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import Count, Fraction, Size
from geodesic.contexts import BoundedSpace, EpisodeBatch, FloatArray
from geodesic.curricula.base import Curriculum, RecentState
from geodesic.curricula.cells import Cells

REWEIGHT = 0.1  # the success rate that is moved to one half, so that progress counts most where success is rare
MOST = 0.75  # of the success rate of the untrained agent, as in Syllabus


@dataclass(frozen=True, repr=False)
class LearningProgressState(RecentState):
    """A `State` with the average score in each cell.

    Args:
        seen: Whether there was an episode in it (k,).
        fast: The average (k,) that follows new episodes sooner.
        slow: The one (k,) that follows them later.
        untrained: The mean score (k,) of the untrained agent; empty before it is known.
    """

    seen: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    fast: FloatArray = field(default_factory=lambda: np.zeros(0))
    slow: FloatArray = field(default_factory=lambda: np.zeros(0))
    untrained: FloatArray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class LearningProgress(Curriculum[LearningProgressState]):
    """Contexts in cells whose success rate changes, whether it rises or falls.

    After each episode in a cell, of success rate p, with a = `rate`:

        p_fast <- a p + (1 - a) p_fast
        p_slow <- a p_fast + (1 - a) p_slow
        n(p) = max(p - p_untrained, 0) / (1 - p_untrained)
        f(x) = x (1 - t) / (x + t (1 - 2 x)),  t = 0.1
        progress = |f(n(p_fast)) - f(n(p_slow))|

    The cells with progress are weighed by the sigmoid of its z-score among them; the others, and all of them with
    probability `uniform`, alike. Within a cell contexts are uniform. Cells are the contexts of a discrete space, else
    those of a grid (`Cells`). A cell that is forgotten shows progress as well, so it is trained on again. Noise also
    looks like progress: cells whose outcome is a matter of luck keep their weight for ever.

    Differs from the original: contexts may be continuous; rates are averages of training episodes, where theirs are
    evaluations of all tasks, and start at a cell's first episode. So p_untrained is subtracted from the averages, as it
    would not change single successes; it is the mean over the first `probe` episodes in a cell together with one
    pseudo-episode of the mean over all, at most 0.75, where theirs is a random policy's. Scores other than successes
    are scaled to the range of all scores so far.

    Args:
        space: Where contexts live; bounded.
        cells: The largest number of cells of a continuous space.
        rate: How fast the averages follow new episodes.
        uniform: The probability of a uniform cell.
        probe: How many episodes the first stage takes, in which all cells are alike.
        episodes_per_update: How many episodes come between two updates after it.
        particles: How many contexts a stage has, about: as many in each cell.
        score: The score of an episode that progress is measured in.
    """

    colour: ClassVar[str | None] = "#66A61E"

    space: BoundedSpace
    cells: Size = 100
    rate: Fraction = 0.1
    uniform: Fraction = 0.25
    probe: Count = 100
    episodes_per_update: Count = 40
    particles: Size = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        len(self.partition)  # refuses too few cells

    @cached_property
    def partition(self) -> Cells:
        """The cells."""
        return Cells(self.space, self.cells)

    def init(self, rng: np.random.Generator) -> LearningProgressState:
        """All cells alike."""
        k = len(self.partition)
        return LearningProgressState(
            self.partition.particles(np.full(k, 1 / k), self.particles, rng),
            recent=EpisodeBatch.empty(self.space.dim),
            seen=np.zeros(k, np.bool_),
            fast=np.zeros(k),
            slow=np.zeros(k),
        )

    def update(
        self, state: LearningProgressState, episodes: EpisodeBatch, rng: np.random.Generator
    ) -> LearningProgressState:
        """The state after more episodes, with new weights after every `episodes_per_update` of them."""
        if not self.has_episodes(state, episodes, rng):
            return state
        state = self._averaged(state.absorb(episodes, self.probe + len(episodes), self.score), episodes)
        if not len(state.untrained):
            if state.fresh < self.probe:
                return state
            state = state.replace(untrained=self._untrained(state.recent))
        elif state.fresh < self.episodes_per_update:
            return state
        return state.replace(
            distribution=self.partition.particles(self.chances(self.progress(state)), self.particles, rng),
            stage=state.stage + 1,
            event="reweighted",
            fresh=0,
        )

    def progress(self, state: LearningProgressState) -> FloatArray:
        """Compute the progress in each cell.

        Args:
            state: The state, after the probe.

        Returns:
            The progress (k,), in [0, 1]; 0 where there was no episode.
        """
        span = state.high - state.low if state.high > state.low else np.inf
        untrained = np.minimum((state.untrained - state.low) / span, MOST)
        ends = []
        for average in (state.fast, state.slow):
            rate = np.maximum((average - state.low) / span - untrained, 0) / (1 - untrained)
            ends.append(rate * (1 - REWEIGHT) / (rate + REWEIGHT * (1 - 2 * rate)))
        return np.asarray(np.abs(ends[0] - ends[1]))

    def chances(self, progress: FloatArray) -> FloatArray:
        """Compute how likely each cell is.

        Args:
            progress: The progress in each cell (k,).

        Returns:
            The probabilities (k,).
        """
        some = progress > 0
        if not some.any():
            return np.full(len(progress), 1 / len(progress))
        spread = progress[some].std()
        weights = np.zeros(len(progress))
        weights[some] = 1 / (1 + np.exp((progress[some].mean() - progress[some]) / (spread if spread > 0 else 1.0)))
        return np.asarray((1 - self.uniform) * weights / weights.sum() + self.uniform / len(weights))

    def _averaged(self, state: LearningProgressState, episodes: EpisodeBatch) -> LearningProgressState:
        """The state with averages that have followed these episodes, one by one."""
        seen, fast, slow = state.seen.copy(), state.fast.copy(), state.slow.copy()
        for cell, score in zip(self.partition.index(episodes.contexts), episodes.scores(self.score).tolist()):
            if not seen[cell]:
                seen[cell], fast[cell], slow[cell] = True, score, score
            fast[cell] += self.rate * (score - fast[cell])
            slow[cell] += self.rate * (fast[cell] - slow[cell])
        return state.replace(seen=seen, fast=fast, slow=slow)

    def _untrained(self, episodes: EpisodeBatch) -> FloatArray:
        """The mean score (k,) in each cell, drawn to the mean of all by one pseudo-episode."""
        scores, cells = episodes.scores(self.score), self.partition.index(episodes.contexts)
        sums, counts = (np.bincount(cells, each, len(self.partition)) for each in (scores, np.ones(len(scores))))
        return np.asarray((sums + scores.mean()) / (counts + 1))
