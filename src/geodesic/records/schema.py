"""What lies in a run folder: the columns of its tables and the arrays of its stages, named once.

    run folder         config.json  episodes.csv  evaluations.csv  stages.csv  curriculum.npz  summary.json
                       checkpoint/latest.npz  checkpoint/previous.npz  and, while it is being written, .lock
    comparison folder  comparison.json  runs/<label>/seed-<k>/, each a run folder

In the tables, `return` is undiscounted, `score` is what the task measures (the same, unless it says otherwise).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray, IntArray

EPISODES = ("step", "stage", "return", "length", "success", "score")
EVALUATIONS = ("step", "stage", "alpha", "return", "return_std", "success", "score")
STAGES = ("stage", "step", "alpha", "kind", "event", "particles", "infeasible", "distance")
TABLES = {"episodes.csv": EPISODES, "evaluations.csv": EVALUATIONS, "stages.csv": STAGES}
CONTEXT = "context_"  # before the name of a context value, in the columns of episodes.csv that follow


@dataclass(frozen=True, eq=False)
class EpisodeTable:
    """Finished training episodes: arrays (n,), contexts (n, d)."""

    steps: IntArray
    stages: IntArray
    returns: FloatArray
    lengths: IntArray
    successes: FloatArray
    scores: FloatArray
    contexts: FloatArray


@dataclass(frozen=True, eq=False)
class EvaluationTable:
    """Evaluations on the target: arrays (n,); returns, successes and scores are means over its episodes."""

    steps: IntArray
    stages: IntArray
    alphas: FloatArray
    returns: FloatArray
    stds: FloatArray
    successes: FloatArray
    scores: FloatArray


@dataclass(frozen=True, eq=False)
class StageTable:
    """Stages: arrays (n,) of the step at which each began, what it was for (`kinds`) and why it began (`events`)."""

    stages: IntArray
    steps: IntArray
    alphas: FloatArray
    kinds: tuple[str, ...]
    events: tuple[str, ...]
    particles: IntArray
    infeasible: FloatArray
    distances: FloatArray

    @property
    def explores(self) -> NDArray[np.bool_]:
        """Which stages (n,) explored for a metric."""
        return np.array([kind == "explore" for kind in self.kinds], dtype=np.bool_)


def checkpoint_path(folder: Path) -> Path:
    return folder / "checkpoint" / "latest.npz"


def generations(folder: Path) -> list[Path]:
    """Where checkpoints may be, the newest first."""
    return [checkpoint_path(folder), folder / "checkpoint" / "previous.npz"]


def begun(folder: Path) -> bool:
    """Whether there is a run to go on with; one cut off before its first checkpoint has nothing to lose."""
    return os.path.exists(folder / "config.json") and any(map(os.path.exists, generations(folder)))


def finished(folder: Path) -> bool:
    """Whether the folder holds a run that came to its end."""
    return os.path.exists(folder / "summary.json")
