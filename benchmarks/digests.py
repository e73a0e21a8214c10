"""Whether a change moved a result: digests of short runs of every method on every task, recorded and compared.

    python -m benchmarks.digests --record before.json      # on the commit before the change
    python -m benchmarks.digests --against before.json     # after it; exit code 1 if anything differs

Runs go through the command line, so any two commits that share it can be compared. What a digest covers is what the
runs have in common: columns that only one side has are left out (`COLUMNS`), and a stage that explores is one, whether
a column says so or its event. Digests are of one machine: other processors round differently.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import io
import json
import sys
import tempfile
from pathlib import Path

from geodesic.cli import main as geodesic

COLUMNS = {
    "evaluations.csv": ("step", "stage", "alpha", "return", "return_std", "success"),
    "stages.csv": ("stage", "step", "alpha", "event", "particles", "infeasible", "distance"),
    "episodes.csv": ("step", "stage", "return", "length", "success"),
}
OTHERS = ("target-only", "uniform", "linear:window=5", "alp-gmm:fit_rate=40", "goal-gan:fit_rate=20")
GAUSSIAN = ("spdl:steps_per_iteration=500", "wb-spdl:episodes_per_update=10", "currot:episodes_per_update=10")
RUNS = {
    "maze": (4000, -60.0, ("gradient:window=5", "gradient:window=5:step=0.3:metric=l2", "gradient:metric=graph")),
    "point-mass": (15000, 2.0, ("gradient:window=5", "gradient:window=5:max_stage_steps=1500")),
    "u-maze": (
        19840,
        -0.99,
        (
            "gradient:window=5",
            "gradient:metric=embedding:explore_steps=2000:window=5",
            "gradient:metric=return-lift:explore_steps=2000:window=5:step=0.1",
        ),
    ),
}


def rows(path: Path) -> list[list[str]]:
    """The columns that both sides have, with the word for exploration where older files have it."""
    with path.open() as file:
        table = list(csv.DictReader(file))
    if path.name == "stages.csv":
        for row in table:
            row["event"] = "explore" if row.get("kind") == "explore" else row["event"]
    names = COLUMNS[path.name]
    contexts = [name for name in (table[0] if table else {}) if name.startswith("context_")]
    if path.name == "episodes.csv" and not contexts and table:
        contexts = list(table[0])[len(names) :]
    return [[row[name] for name in (*names, *contexts)] for row in table]


def digest(folder: Path) -> dict[str, str]:
    found = {name: rows(folder / name) for name in COLUMNS}
    return {
        name: f"{len(table)} rows, {hashlib.sha256(json.dumps(table).encode()).hexdigest()[:16]}"
        for name, table in found.items()
    }


def quietly(arguments: list[str]) -> None:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        code = geodesic(arguments)
    if code:
        raise SystemExit(f"geodesic {' '.join(arguments)} ended with {code}: {shown.getvalue()[-400:]}")


def record(work: Path) -> dict[str, dict[str, str]]:
    digests = {}
    for env, (steps, threshold, own) in RUNS.items():
        for method in (*own, *OTHERS, *GAUSSIAN):
            folder = work / env / method
            budget = ["--steps", str(steps), "--threshold", str(threshold), "--seed", "3"]
            quietly(["run", env, "--method", method, *budget, "--out", str(folder)])
            digests[f"{env} {method}"] = digest(folder)
            print(env, method, digests[f"{env} {method}"], flush=True)
    together = work / "together"
    methods = "gradient:step=0.2:window=5,linear:window=5,uniform"
    budget = "--seeds 1 --first-seed 5 --steps 2000 --threshold -60 --workers 1 --at-once 3"
    quietly(["compare", "maze", "--methods", methods, *budget.split(), "--out", str(together)])
    for folder in sorted((together / "runs").glob("*/seed-*")):
        digests[f"three at once {folder.parent.name}"] = digest(folder)
    return digests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        digests = record(Path(work))
    if options.record:
        options.record.write_text(json.dumps(digests, indent=1) + "\n")
    if not options.against:
        return 0
    before = json.loads(options.against.read_text())
    moved = [name for name in before if digests.get(name) != before[name]]
    for name in moved:
        print(f"moved: {name}: {before[name]} -> {digests.get(name)}")
    print(f"{len(before) - len(moved)} of {len(before)} runs are what they were")
    return int(bool(moved))


if __name__ == "__main__":
    sys.exit(main())
