"""Episodes in the order in which they began.

Environments that run side by side report their short episodes first. Where an episode ends early because it succeeds,
the first episodes to come in are the lucky ones, and a curriculum that looks at its last twenty would move on by their
luck. So an episode waits until all that began no later have ended too. With one environment none does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geodesic.contexts import Arrays, Episodes, IntArray
from geodesic.contexts.episodes import COLUMNS

PREFIX = "waiting/"


@dataclass(frozen=True)
class Waiting:
    """Episodes that have ended, oldest beginning first, and the time steps at which they began."""

    episodes: Episodes
    began: IntArray

    @classmethod
    def nothing(cls, dim: int) -> Waiting:
        return cls(Episodes.empty(dim), np.zeros(0, np.int64))

    def save(self) -> Arrays:
        """As named arrays."""
        columns = zip(COLUMNS, self.episodes.columns())
        return {PREFIX + "began": self.began, **{PREFIX + name: column for name, column in columns}}

    @classmethod
    def load(cls, arrays: Arrays) -> Waiting:
        """What `save` gave, among other arrays."""
        return cls(Episodes(*(arrays[PREFIX + name] for name in COLUMNS)), arrays[PREFIX + "began"])

    def release(self, episodes: Episodes, began: IntArray, under_way: int) -> tuple[Episodes, Waiting]:
        """Add episodes; give out those that began before `under_way`, the earliest beginning still under way."""
        if not len(episodes) and not len(self.episodes):
            return episodes, self
        everything = self.episodes.followed_by(episodes)
        times = np.concatenate([self.began, began])
        order = np.argsort(times, kind="stable")
        ready = int((times < under_way).sum())
        return everything[order[:ready]], Waiting(everything[order[ready:]], times[order[ready:]])
