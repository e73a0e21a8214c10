"""The worst contexts: what an agent scores where it is weakest (conditional value at risk over contexts)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geodesic.checks import FloatArray, IntArray, as_number
from geodesic.errors import InvalidInput
from geodesic.records import read_config
from geodesic.runs.config import task_of
from geodesic.runs.run import score_contexts
from geodesic.tasks import Task

CONTEXTS = 100  # drawn from the target, the same for every run
EPISODES = 10  # in each of them, in each of the two evaluations
SEED = 0x74  # of the draw, and of the second evaluation; the first one's is the next


@dataclass(frozen=True, eq=False)
class Tail:
    """The mean score and success of one agent in its worst contexts (k, d), a `share` of those looked at."""

    label: str
    seed: int
    share: float
    score: float
    success: float
    contexts: FloatArray


def worst_contexts(folder: Path, share: float, task: Task | None = None) -> Tail:
    """The tail of a finished run's agent, on the target.

    Contexts are ranked by one evaluation and scored by a second one: those that came out worst in an evaluation are in
    part the unlucky ones, so that their scores in the same evaluation are too low, the more so the less an agent
    differs between contexts.
    """
    check_share(share)
    config = read_config(folder)
    task = task_of(config, task)
    contexts = task.evaluation_particles.sample(np.random.default_rng(SEED), CONTEXTS)
    repeated = np.repeat(contexts, EPISODES, axis=0)
    first, second = (score_contexts(folder, repeated, SEED + k, task) for k in (1, 0))
    chosen = worst(first.scores.reshape(CONTEXTS, EPISODES), share)
    score, success = (
        float(values.reshape(CONTEXTS, EPISODES)[chosen].mean()) for values in (second.scores, second.successes)
    )
    return Tail(config.label, config.seed, share, score, success, contexts[chosen])


def check_share(share: float) -> None:
    if not 0 < as_number(share, "cvar") <= 1:
        raise InvalidInput(f"expected cvar to be a share of the contexts in (0, 1], got {share!r}")


def worst(scores: FloatArray, share: float) -> IntArray:
    """Rows (k,) of the scores (n, m) with the lowest means, the first of equal ones."""
    count = max(1, math.ceil(share * len(scores) - 1e-9))
    return np.argsort(scores.mean(axis=1), kind="stable")[:count]
