"""Run folders with known content, for tests that read or plot them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geodesic.contexts import Particles
from geodesic.curricula.base import Threshold
from geodesic.records.config import RunConfig
from geodesic.records.schema import CONTEXT, EPISODES, EVALUATIONS, STAGES, StageDistribution, pack_stages


def write_table(path: Path, header: Sequence[str], rows: list[list[Any]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def write_run(
    folder: Path,
    task: str = "mine",
    method: str = "gradient",
    label: str | None = None,
    seed: int = 0,
    steps: int = 1000,
    threshold: Threshold = 40.0,
    solved: float | None = None,
    score: str = "return",
    metric: str | None = None,
    returns: list[float] | None = None,
    reached: int | None = None,
    stages: int = 3,
    alphas: list[float] | None = None,
    contexts: list[str] | None = None,
    points: list[np.ndarray] | None = None,
    weights: list[np.ndarray] | None = None,
    snapshots: dict[int, dict[str, np.ndarray]] | None = None,
    kinds: list[str] | None = None,
    events: list[str] | None = None,
    infeasible: list[float] | None = None,
    details: list[str] | None = None,
    begins: list[int] | None = None,
) -> Path:
    """A run of `steps` steps with equally spaced evaluations, of which those up to `reached` were written.

    An episode succeeds if its return is above `solved`. Scores are returns, or successes if that is the kind of score.
    With threshold "auto" and no `solved`, no level is stated and nothing succeeds.
    """
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    curve = [0.0, 20.0, 50.0, 60.0] if returns is None else returns
    stated = None if isinstance(threshold, str) else threshold
    stated = stated if solved is None else solved
    level = np.inf if stated is None else stated
    stages = stages if alphas is None else len(alphas)
    begin = begins or [steps * k // stages for k in range(stages)]
    alphas = alphas or [k / max(1, stages - 1) for k in range(stages)]
    clouds = points if points is not None else [rng.normal((3 * a, 4), 0.5, (20, 2)) for a in alphas]
    fractions = weights if weights is not None else [np.full(len(cloud), 1 / len(cloud)) for cloud in clouds]
    names = contexts or [str(k) for k in range(clouds[0].shape[1])]
    config = RunConfig(
        task=task, name=task, contexts=names, method=method, label=label or method, seed=seed,
        steps=steps, threshold=threshold, solved=stated, score=score, discount=0.99, metric=metric,
        backend="jax", learner="ppo", segment=1, eval_every=1, eval_episodes=1, eval_policy="deterministic",
    )  # fmt: skip
    (folder / "config.json").write_text(json.dumps({**config.to_json(), "versions": {}}))

    def stage_at(step: float) -> int:
        return sum(start < step for start in begin) - 1

    def score_of(value: float) -> float:
        return float(value > level) if score == "success" else value

    at = [round(steps * (k + 1) / len(curve)) for k in range(len(curve))]
    write_table(
        folder / "evaluations.csv",
        EVALUATIONS,
        [
            [step, stage_at(step), alphas[stage_at(step)], value, 1.0, float(value > level), score_of(value)]
            for step, value in zip(at, curve)
            if step <= (steps if reached is None else reached)
        ],
    )
    ends = np.linspace(steps / 100, steps, 100).astype(int)
    height = np.interp(ends, at, curve)
    rows = []
    for step, value in zip(ends, height):
        stage = stage_at(step)
        context = clouds[stage][rng.choice(len(clouds[stage]), p=fractions[stage])]
        earned = value + rng.normal()
        rows.append([step, stage, earned, 10, int(value > level), score_of(earned), *context])
    write_table(folder / "episodes.csv", [*EPISODES, *(CONTEXT + name for name in names)], rows)
    reasons = events or ["start", *["mastered"] * (stages - 1)]
    all_kinds = kinds or ["train"] * stages
    described = details or [""] * stages
    fractions_infeasible = infeasible or [0.0] * stages
    write_table(
        folder / "stages.csv",
        STAGES,
        [
            [
                k,
                begin[k],
                alphas[k],
                all_kinds[k],
                reasons[k],
                len(clouds[k]),
                fractions_infeasible[k],
                "nan",
                described[k],
            ]
            for k in range(stages)
        ],
    )
    arrays = snapshots or {}
    distributions = [
        StageDistribution(k, begin[k], alphas[k], Particles(clouds[k], fractions[k]), arrays.get(k, {}))
        for k in range(stages)
    ]
    np.savez(folder / "curriculum.npz", **pack_stages(distributions))
    if reached is None:
        (folder / "summary.json").write_text("{}")
    return folder


def write_comparison(folder: Path, labels: dict[str, dict[str, Any]], seeds: int = 3, **options: Any) -> Path:
    """Runs of each label with its options; `returns` may be a function of the seed."""
    for label, own in labels.items():
        for seed in range(seeds):
            given = {**options, **own}
            if callable(given.get("returns")):
                given["returns"] = given["returns"](seed)
            write_run(folder / "runs" / label / f"seed-{seed}", label=label, seed=seed, **given)
    return folder


def write_benchmark(folder: Path, tasks: dict[str, int], labels: dict[str, dict[str, Any]], seeds: int = 3) -> Path:
    """Runs of each label on these tasks, with their steps, as `geodesic benchmark --suite fast` leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmark.json").write_text('{"suite": "fast"}')
    for task, steps in tasks.items():
        write_comparison(folder / task, labels, seeds, task=task, steps=steps)
    return folder
