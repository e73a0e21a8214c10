"""The books of an executor: which jobs wait, how often each was tried, and what failed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from geodesic.runs.executors.base import Job, Listen, Update, unfinished

TRIES = 3
STOP_SECONDS = 60.0  # that jobs have to reach the end of their segment when they are asked to stop


class Ledger:
    """A job whose worker is lost waits again, before the others; after `TRIES` attempts it counts as failed."""

    def __init__(self, jobs: Sequence[Job], listen: Listen) -> None:
        self.jobs = list(jobs)
        self.failed: dict[str, str] = {}
        self._listen = listen
        self._waiting = deque(range(len(jobs)))
        self._tries = [0] * len(jobs)

    def __bool__(self) -> bool:
        """Whether a job waits."""
        return bool(self._waiting)

    def next(self) -> int:
        """The job that is to be tried now."""
        index = self._waiting.popleft()
        self._tries[index] += 1
        return index

    def hear(self, update: Update) -> None:
        """From a worker; to who listens."""
        self.failed.update(update.failed)
        self._listen(self.jobs[update.job], update)

    def lose(self, index: int, reason: str) -> None:
        """The job's worker is lost: again, from the last checkpoints, or never more."""
        if self._tries[index] < TRIES:
            self._waiting.appendleft(index)
            return
        why = f"its worker {reason}, {TRIES} times"
        self.hear(Update(index, ended=True, failed=dict.fromkeys(unfinished(self.jobs[index]), why)))
