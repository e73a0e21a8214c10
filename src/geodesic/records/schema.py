"""What lies in a run folder: the columns of its tables and the arrays of its stages, named once.

    run folder         config.json  episodes.csv  evaluations.csv  stages.csv  curriculum.npz  checkpoint/  summary.json
    comparison folder  comparison.json  runs/<label>/seed-<k>/, each a run folder

In the tables, `return` is undiscounted, `score` is what the task measures (the same, unless it says otherwise).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import Arrays, FloatArray, IntArray, Particles

EPISODES = ("step", "stage", "return", "length", "success", "score")
EVALUATIONS = ("step", "stage", "alpha", "return", "return_std", "success", "score")
STAGES = ("stage", "step", "alpha", "kind", "event", "particles", "infeasible", "distance")
TABLES = {"episodes.csv": EPISODES, "evaluations.csv": EVALUATIONS, "stages.csv": STAGES}
CONTEXT = "context_"  # before the name of a context value, in the columns of episodes.csv that follow
CURRICULUM = ("points", "weights", "offsets", "stage", "step", "alpha")


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


@dataclass(frozen=True, eq=False)
class StageDistribution:
    """What a stage trained on, and the pictures its metric left behind (`snapshot`, empty for most methods)."""

    stage: int
    step: int
    alpha: float
    particles: Particles
    snapshot: Arrays


def pack_stages(stages: list[StageDistribution]) -> Arrays:
    """The arrays of curriculum.npz."""
    arrays: Arrays = {
        "points": np.concatenate([stage.particles.points for stage in stages]),
        "weights": np.concatenate([stage.particles.weights for stage in stages]),
        "offsets": np.cumsum([0, *(len(stage.particles) for stage in stages)]),
        "stage": np.array([stage.stage for stage in stages]),
        "step": np.array([stage.step for stage in stages]),
        "alpha": np.array([stage.alpha for stage in stages]),
    }
    for stage in stages:
        arrays.update({f"snapshot/{stage.stage}/{name}": value for name, value in stage.snapshot.items()})
    return arrays


def unpack_stage(arrays: Arrays, index: int) -> StageDistribution:
    """One stage of curriculum.npz."""
    first, last = (int(offset) for offset in arrays["offsets"][[index, index + 1]])
    stage = int(arrays["stage"][index])
    prefix = f"snapshot/{stage}/"
    return StageDistribution(
        stage=stage,
        step=int(arrays["step"][index]),
        alpha=float(arrays["alpha"][index]),
        particles=Particles(arrays["points"][first:last], arrays["weights"][first:last]),
        snapshot={name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)},
    )


def checkpoint_path(folder: Path) -> Path:
    return folder / "checkpoint" / "latest.npz"


def finished(folder: Path) -> bool:
    """Whether the folder holds a run that came to its end."""
    return (folder / "summary.json").exists()
