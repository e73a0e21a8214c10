"""Episodes in the order in which they began.

Environments that run side by side report their short episodes first. Where an episode ends early because it succeeds,
the first episodes to come in are the lucky ones, and a curriculum that looks at its last twenty would move on by their
luck. So an episode is held back until all that began no later have ended too. With one environment nothing is held.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geodesic.curricula.base import Episodes


@dataclass(frozen=True)
class Held:
    """Episodes that have ended, oldest beginning first, and the time steps at which they began."""

    episodes: Episodes
    began: NDArray[np.int64]

    @classmethod
    def nothing(cls, dim: int) -> Held:
        return cls(Episodes.empty(dim), np.zeros(0, np.int64))

    def save(self) -> dict[str, NDArray[Any]]:
        """As named arrays."""
        columns = {f"held/{item.name}": getattr(self.episodes, item.name) for item in fields(Episodes)}
        return {**columns, "held/began": self.began}

    @classmethod
    def load(cls, arrays: dict[str, NDArray[Any]]) -> Held:
        """What `save` gave, among other arrays."""
        return cls(Episodes(*(arrays[f"held/{item.name}"] for item in fields(Episodes))), arrays["held/began"])

    def release(self, episodes: Episodes, began: NDArray[np.int64], under_way: int) -> tuple[Episodes, Held]:
        """Add episodes; give out those that began before `under_way`, the earliest beginning still under way."""
        everything = self.episodes.followed_by(episodes)
        times = np.concatenate([self.began, began])
        order = np.argsort(times, kind="stable")
        ready = int((times < under_way).sum())
        return everything[order[:ready]], Held(everything[order[ready:]], times[order[ready:]])
