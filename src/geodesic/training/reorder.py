"""Episodes in the order in which they began.

Environments that run in parallel report their short episodes first. Where an episode ends early because it succeeds,
the first episodes to arrive are the lucky ones, and a curriculum that looks at its last twenty would advance by their
luck. So an episode waits until all episodes that began no later have ended too. With one environment none waits.
"""

from __future__ import annotations

import numpy as np

from geodesic.contexts import EpisodeBatch


def release(waiting: EpisodeBatch, episodes: EpisodeBatch, earliest_running: int) -> tuple[EpisodeBatch, EpisodeBatch]:
    """Add episodes to those that wait; return those that began before the earliest running one, and the others.

    Both are in the order in which they began.
    """
    everything = waiting.concatenate(episodes)
    order = np.argsort(everything.started, kind="stable")
    ready = int((everything.started < earliest_running).sum())
    return everything[order[:ready]], everything[order[ready:]]
