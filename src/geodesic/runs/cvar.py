"""Conditional value at risk over contexts: the score of an agent in the contexts where it is worst."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geodesic.checks import FloatArray, IntArray, as_number
from geodesic.errors import InvalidInput
from geodesic.records import check_origin, read_config
from geodesic.runs.run import evaluate_contexts
from geodesic.tasks import Task
from geodesic.training.configure import task_of
from geodesic.training.objects import Objects

CONTEXTS = 100  # drawn from the target, the same for every run
EPISODES = 10  # in each of them, in each of the two evaluations
SEED = 0x74  # of the draw, and of the second evaluation; the first one's is the next


@dataclass(frozen=True, eq=False)
class WorstContexts:
    """The mean score and success of one agent in its worst contexts (k, d), a `fraction` of those looked at."""

    label: str
    seed: int
    fraction: float
    score: float
    success: float
    contexts: FloatArray


def worst_contexts(
    folder: Path, fraction: float, task: Task | None = None, objects: Objects | None = None, trust: bool = False
) -> WorstContexts:
    """Score a finished run's agent in its worst contexts of the target.

    Contexts are ranked by one evaluation and scored by a second one: the worst in an evaluation are partly the unlucky
    ones, so their scores in the same evaluation are biased downwards.
    """
    check_fraction(fraction)
    config = read_config(folder)
    check_origin(folder / "config.json", config, trust, task)
    task = task_of(config, task)
    contexts = task.evaluation_particles.sample(np.random.default_rng(SEED), CONTEXTS)
    repeated = np.repeat(contexts, EPISODES, axis=0)
    first, second = (evaluate_contexts(folder, repeated, SEED + k, task, objects, trust) for k in (1, 0))
    chosen = worst(first.scores(task.score).reshape(CONTEXTS, EPISODES), fraction)
    columns = second.scores(task.score), second.successes
    score, success = (float(column.reshape(CONTEXTS, EPISODES)[chosen].mean()) for column in columns)
    return WorstContexts(config.label, config.seed, fraction, score, success, contexts[chosen])


def check_fraction(fraction: float) -> None:
    """Refuse a fraction outside (0, 1]."""
    if not 0 < as_number(fraction, "cvar") <= 1:
        raise InvalidInput(f"expected cvar to be a fraction of the contexts in (0, 1], got {fraction!r}")


def worst(scores: FloatArray, fraction: float) -> IntArray:
    """Rows (k,) of the scores (n, m) with the lowest means, the first of equal ones."""
    count = max(1, math.ceil(fraction * len(scores) - 1e-9))
    return np.argsort(scores.mean(axis=1), kind="stable")[:count]
