"""Run folders with known content, for tests that read or draw them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np


def write_table(path: Path, header: list[str], rows: list[list[Any]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def write_run(
    folder: Path,
    env: str = "point-mass",
    method: str = "gradient",
    label: str | None = None,
    seed: int = 0,
    steps: int = 1000,
    threshold: float = 40.0,
    metric: str | None = None,
    returns: list[float] | None = None,
    reached: int | None = None,
    stages: int = 3,
    points: list[np.ndarray] | None = None,
    weights: list[np.ndarray] | None = None,
    snapshots: dict[int, dict[str, np.ndarray]] | None = None,
    events: list[str] | None = None,
    infeasible: list[float] | None = None,
) -> Path:
    """A run of `steps` steps with equally spaced evaluations, of which those up to `reached` were written."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    curve = [0.0, 20.0, 50.0, 60.0] if returns is None else returns
    config = {
        "env": env, "method": method, "label": label or method, "learner": "jax", "seed": seed, "steps": steps,
        "threshold": threshold, "metric": metric, "options": {}, "versions": {},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    begin = [steps * k // stages for k in range(stages)]
    alphas = [k / max(1, stages - 1) for k in range(stages)]
    clouds = points if points is not None else [rng.normal((3 * a, 4), 0.5, (20, 2)) for a in alphas]
    shares = weights if weights is not None else [np.full(len(cloud), 1 / len(cloud)) for cloud in clouds]

    def stage_at(step: float) -> int:
        return sum(start < step for start in begin) - 1

    at = [round(steps * (k + 1) / len(curve)) for k in range(len(curve))]
    write_table(
        folder / "evaluations.csv",
        ["step", "stage", "alpha", "return", "return_std", "success"],
        [
            [step, stage_at(step), alphas[stage_at(step)], value, 1.0, float(value > threshold)]
            for step, value in zip(at, curve)
            if step <= (steps if reached is None else reached)
        ],
    )
    ends = np.linspace(steps / 100, steps, 100).astype(int)
    height = np.interp(ends, at, curve)
    dim = clouds[0].shape[1]
    rows = []
    for step, value in zip(ends, height):
        stage = stage_at(step)
        context = clouds[stage][rng.choice(len(clouds[stage]), p=shares[stage])]
        rows.append([step, stage, value + rng.normal(), 10, int(value > threshold), *context])
    write_table(
        folder / "episodes.csv",
        ["step", "stage", "return", "length", "success", *(f"context_{k}" for k in range(dim))],
        rows,
    )
    why = events or ["start", *["mastered"] * (stages - 1)]
    bad = infeasible or [0.0] * stages
    write_table(
        folder / "stages.csv",
        ["stage", "step", "alpha", "event", "particles", "infeasible", "distance"],
        [[k, begin[k], alphas[k], why[k], len(clouds[k]), bad[k], "nan"] for k in range(stages)],
    )
    extra = {f"snapshot/{k}/{name}": a for k, named in (snapshots or {}).items() for name, a in named.items()}
    np.savez(
        folder / "curriculum.npz",
        points=np.concatenate(clouds),
        weights=np.concatenate(shares),
        offsets=np.cumsum([0, *(len(cloud) for cloud in clouds)]),
        stage=np.arange(stages),
        step=np.array(begin),
        alpha=np.array(alphas),
        **extra,
    )
    if reached is None:
        (folder / "summary.json").write_text("{}")
    return folder


def write_comparison(folder: Path, labels: dict[str, dict[str, Any]], seeds: int = 3, **options: Any) -> Path:
    """Runs of each label, which its own options tell apart; `returns` may be a function of the seed."""
    for label, own in labels.items():
        for seed in range(seeds):
            given = {**options, **own}
            if callable(given.get("returns")):
                given["returns"] = given["returns"](seed)
            write_run(folder / "runs" / label / f"seed-{seed}", label=label, seed=seed, **given)
    return folder
