"""The content of a run folder: the columns of its tables and the arrays of its stages.

    run folder         config.json  episodes.csv  evaluations.csv  stages.csv  curriculum.npz  summary.json
                       checkpoint/latest.npz  checkpoint/previous.npz  and, while it is being written, .lock
    comparison folder  comparison.json  runs/<label>/seed-<k>/, each a run folder

In the tables, `return` is undiscounted and `score` is of the task's kind.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import Array, Arrays, FloatArray, IntArray, Particles
from geodesic.errors import CheckpointError, GeodesicError, InvalidInput, format_error
from geodesic.records.archive import Headers, add_to, read_archive
from geodesic.records.files import LONGEST

FILE = "curriculum.npz"
CURRICULUM = {"points": 2, "weights": 1, "offsets": 1, "stage": 1, "step": 1, "alpha": 1}  # and their dimensions
SNAPSHOT = "snapshot/"
MOST_DETAILS = 10**7  # numbers of the details of all stages, by name and stage
_DETAIL = re.compile(r"([^=;]+)=(-?\d+(?:\.\d+)?(?:e[-+]\d+)?)(?:; |$)")
CONTEXT = "context_"  # before the name of a context value, in the columns of episodes.csv that follow


def _column(name: str, kind: str = "number") -> dict[str, str]:
    """A field's column in the file: of numbers, integers, integers that increase from row to row, or strings."""
    return {"column": name, "kind": kind}


@dataclass(frozen=True, eq=False)
class EpisodeTable:
    """Finished training episodes: arrays (n,), contexts (n, d)."""

    steps: IntArray = field(metadata=_column("step", "increasing"))
    stages: IntArray = field(metadata=_column("stage", "integer"))
    returns: FloatArray = field(metadata=_column("return"))
    lengths: IntArray = field(metadata=_column("length", "integer"))
    successes: FloatArray = field(metadata=_column("success"))
    scores: FloatArray = field(metadata=_column("score"))
    contexts: FloatArray


@dataclass(frozen=True, eq=False)
class EvaluationTable:
    """Evaluations on the target: arrays (n,); returns, successes and scores are means over its episodes."""

    steps: IntArray = field(metadata=_column("step", "increasing"))
    stages: IntArray = field(metadata=_column("stage", "integer"))
    alphas: FloatArray = field(metadata=_column("alpha"))
    returns: FloatArray = field(metadata=_column("return"))
    stds: FloatArray = field(metadata=_column("return_std"))
    successes: FloatArray = field(metadata=_column("success"))
    scores: FloatArray = field(metadata=_column("score"))


@dataclass(frozen=True, eq=False)
class StageTable:
    """Stages: arrays (n,) of the step at which each began, its kind (train or explore) and why it began (`events`).

    `details` are numbers that describe the curriculum at that moment (`Curriculum.scalars`), as `name=value; ...`.
    """

    stages: IntArray = field(metadata=_column("stage", "increasing"))
    steps: IntArray = field(metadata=_column("step", "integer"))
    alphas: FloatArray = field(metadata=_column("alpha"))
    kinds: tuple[str, ...] = field(metadata=_column("kind", "string"))
    events: tuple[str, ...] = field(metadata=_column("event", "string"))
    particles: IntArray = field(metadata=_column("particles", "integer"))
    infeasible: FloatArray = field(metadata=_column("infeasible"))
    distances: FloatArray = field(metadata=_column("distance"))
    details: tuple[str, ...] = field(metadata=_column("details", "string"))

    def numbers(self) -> dict[str, FloatArray]:
        """The numbers (n,) of the details by name; NaN for stages without one."""
        found: dict[str, FloatArray] = {}
        for index, text in enumerate(self.details):
            for name, value in _DETAIL.findall(text):
                if name not in found and (len(found) + 1) * len(self.details) > MOST_DETAILS:
                    raise InvalidInput(f"expected details of stages with the same names, got {len(found) + 1} names")
                found.setdefault(name, np.full(len(self.details), np.nan))[index] = float(value)
        return found

    @property
    def explores(self) -> NDArray[np.bool_]:
        """Which stages (n,) explored."""
        return np.array([kind == "explore" for kind in self.kinds], dtype=np.bool_)


Table = EpisodeTable | EvaluationTable | StageTable


def format_details(numbers: Mapping[str, float]) -> str:
    """Numbers as a string that `StageTable.numbers` reads; those that are not finite are left out."""
    known = {re.sub("[=;]", " ", name): value for name, value in numbers.items() if math.isfinite(value)}
    return "; ".join(f"{name}={value:.6g}" for name, value in known.items())


def columns_of(table: type[Table]) -> dict[str, tuple[str, str]]:
    """The column and its kind for each field of a table that has one."""
    known = (item for item in fields(table) if item.metadata)
    return {item.name: (item.metadata["column"], item.metadata["kind"]) for item in known}


EPISODES, EVALUATIONS, STAGES = (
    tuple(column for column, _ in columns_of(table).values()) for table in (EpisodeTable, EvaluationTable, StageTable)
)
TABLES = {"episodes.csv": EPISODES, "evaluations.csv": EVALUATIONS, "stages.csv": STAGES}


def checkpoint_path(folder: Path) -> Path:
    """The path of the newest checkpoint."""
    return folder / "checkpoint" / "latest.npz"


def generations(folder: Path) -> list[Path]:
    """The paths of checkpoints, the newest first."""
    return [checkpoint_path(folder), folder / "checkpoint" / "previous.npz"]


def run_exists(folder: Path) -> bool:
    """Whether there is a run to resume; one interrupted before its first checkpoint has nothing to lose."""
    return os.path.exists(folder / "config.json") and any(map(os.path.exists, generations(folder)))


def finished(folder: Path) -> bool:
    """Whether the folder holds a finished run."""
    return os.path.exists(folder / "summary.json")


@dataclass(frozen=True, eq=False)
class StageDistribution:
    """The distribution of a stage, and arrays that picture its metric (`snapshot`, empty for most methods)."""

    stage: int
    step: int
    alpha: float
    particles: Particles
    snapshot: Arrays


def pack_stages(stages: list[StageDistribution]) -> Arrays:
    """The arrays of curriculum.npz."""
    arrays: Arrays = {
        "points": _compact(np.concatenate([stage.particles.points for stage in stages])),
        "weights": np.concatenate([stage.particles.weights for stage in stages]),
        "offsets": np.cumsum([0, *(len(stage.particles) for stage in stages)]),
        "stage": np.array([stage.stage for stage in stages]),
        "step": np.array([stage.step for stage in stages]),
        "alpha": np.array([stage.alpha for stage in stages]),
    }
    for stage in stages:
        arrays.update({f"{SNAPSHOT}{stage.stage}/{name}": value for name, value in stage.snapshot.items()})
    return arrays


def _compact(points: FloatArray) -> Array:
    """The same points in an eighth of the space, if all values are small integers, as of levels."""
    with np.errstate(invalid="ignore"):
        small = points.astype(np.int8)
    return small if small.astype(points.dtype).tobytes() == points.tobytes() else points


def read_stages(path: Path, checked: bool = False) -> list[StageDistribution]:
    """Read the stages in a curriculum.npz from any source; checked: whether it must have a checksum."""
    arrays = read_archive(path, partial(_check, path), checked, most=LONGEST)
    try:
        snapshots: dict[str, Arrays] = {}
        for name, value in arrays.items():
            if name.startswith(SNAPSHOT):
                stage, _, part = name.removeprefix(SNAPSHOT).partition("/")
                snapshots.setdefault(stage, {})[part] = value
        return [_unpack(arrays, snapshots, index) for index in range(len(arrays["stage"]))]
    except (ValueError, OverflowError, GeodesicError) as error:
        raise CheckpointError(f"expected {path} to hold a distribution per stage, got {format_error(error)}") from error


def add_stage(digest: hashlib.blake2b, stage: StageDistribution) -> None:
    """Add a stage to the digest of all stages so far."""
    digest.update(f"{stage.stage} {stage.step} {stage.alpha!r};".encode())
    add_to(digest, "points", stage.particles.points)
    add_to(digest, "weights", stage.particles.weights)
    for name in sorted(stage.snapshot):
        add_to(digest, name, np.asarray(stage.snapshot[name]))


def _check(path: Path, headers: Headers) -> None:
    missing = [name for name in CURRICULUM if name not in headers]
    if missing:
        raise CheckpointError(f"expected {path} to hold {', '.join(CURRICULUM)}, got none of {', '.join(missing)}")
    strange = [name for name in headers if name not in CURRICULUM and not name.startswith(SNAPSHOT)]
    wrong = [
        name
        for name, dimensions in CURRICULUM.items()
        if headers[name].dtype.kind not in "if" or len(headers[name].shape) != dimensions
    ]
    if strange or wrong:
        raise CheckpointError(f"expected {path} to hold stages, got {', '.join([*strange, *wrong])!r:.80} in it")
    n = headers["stage"].shape[0]
    sizes = {name: headers[name].shape[0] - (name == "offsets") for name in ("offsets", "step", "alpha")}
    if set(sizes.values()) != {n} or headers["points"].shape[0] != headers["weights"].shape[0]:
        raise CheckpointError(f"expected {path} to hold {n} stages, got {sizes}")


def _unpack(arrays: Arrays, snapshots: Mapping[str, Arrays], index: int) -> StageDistribution:
    first, last = (int(offset) for offset in arrays["offsets"][[index, index + 1]])
    if not 0 <= first <= last <= len(arrays["points"]):
        raise ValueError(f"particles {first} to {last} of {len(arrays['points'])}")
    stage = int(arrays["stage"][index])
    return StageDistribution(
        stage=stage,
        step=int(arrays["step"][index]),
        alpha=float(arrays["alpha"][index]),
        particles=Particles(arrays["points"][first:last], arrays["weights"][first:last]),
        snapshot=snapshots.get(str(stage), {}),
    )
