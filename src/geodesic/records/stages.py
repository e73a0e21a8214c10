"""What each stage trained on: curriculum.npz, and a digest over its stages so far."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geodesic.contexts import Arrays, Particles
from geodesic.errors import CheckpointError, GeodesicError
from geodesic.records.archive import Archive, Headers, add_to, first_line

FILE = "curriculum.npz"
CURRICULUM = {"points": 2, "weights": 1, "offsets": 1, "stage": 1, "step": 1, "alpha": 1}  # and their dimensions
SNAPSHOT = "snapshot/"


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
        arrays.update({f"{SNAPSHOT}{stage.stage}/{name}": value for name, value in stage.snapshot.items()})
    return arrays


def read_stages(path: Path, sealed: bool = False) -> list[StageDistribution]:
    """The stages in a curriculum.npz, which may come from anywhere, or from a version that did not seal it."""
    with Archive(path, sealed) as archive:
        _check(path, archive.headers)
        arrays = archive.read()
    try:
        return [_unpack(arrays, index) for index in range(len(arrays["stage"]))]
    except (ValueError, OverflowError, GeodesicError) as error:
        raise CheckpointError(f"expected {path} to hold a distribution per stage, got {first_line(error)}") from error


def add_stage(digest: hashlib.blake2b, stage: StageDistribution) -> None:
    """One more stage, to a digest over all so far."""
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


def _unpack(arrays: Arrays, index: int) -> StageDistribution:
    first, last = (int(offset) for offset in arrays["offsets"][[index, index + 1]])
    if not 0 <= first <= last <= len(arrays["points"]):
        raise ValueError(f"particles {first} to {last} of {len(arrays['points'])}")
    stage = int(arrays["stage"][index])
    prefix = f"{SNAPSHOT}{stage}/"
    return StageDistribution(
        stage=stage,
        step=int(arrays["step"][index]),
        alpha=float(arrays["alpha"][index]),
        particles=Particles(arrays["points"][first:last], arrays["weights"][first:last]),
        snapshot={name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)},
    )
