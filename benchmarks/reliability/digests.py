"""Detect changed results: digests of short runs of every method on every built-in task, recorded and compared.

    python -m benchmarks.reliability.digests --record before.json     # on the commit before the change
    python -m benchmarks.reliability.digests --against before.json    # after it; exit code 1 if anything differs

Runs go through the command line, so any two commits that share it can be compared. A digest covers the numbers in
`episodes.csv`, `evaluations.csv` and `stages.csv` and the distributions in `curriculum.npz`, but no names of columns
and no prose. A method that the task refuses is recorded as refused. Digests are specific to one machine: other
processors round differently.
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

import numpy as np

from geodesic.cli import main as geodesic

COLUMNS = {
    "evaluations.csv": ("step", "stage", "alpha", "return", "return_std", "success", "score"),
    "stages.csv": ("stage", "step", "alpha", "kind", "particles", "infeasible", "distance"),
    "episodes.csv": ("step", "stage", "return", "length", "success", "score"),
}
METHODS = (
    "gradient:window=5",
    "gradient:pace=adaptive:window=5",
    "gradient:pace=particles:window=5",
    "gradient:source=auto:window=5",
    "auto:path_window=5",
    "target-only",
    "uniform",
    "linear:window=5",
    "alp-gmm:fit_rate=20",
    "goal-gan:fit_rate=10",
    "spdl:steps_per_iteration=500",
    "wb-spdl:episodes_per_update=10",
    "currot:episodes_per_update=10",
    "procurl-target",
    "adr:window=2",
    "learning-progress:probe=20",
    "learnability:episodes_per_update=10",
    "doraemon:episodes_per_update=10",
    "acl:episodes_per_update=10",
    "plr:buffer=20:episodes_per_update=10",
    "vds:episodes_per_update=10",
    "spgl:steps_per_iteration=500",
    "learnability:rollouts=1:candidates=20",
)
LEARNED = "explore_steps=2000:window=5"
# task -> (steps, threshold, methods beyond METHODS)
RUNS = {
    "maze": (4000, -60.0, ("gradient:window=5:step=0.3:metric=l2", "gradient:metric=graph")),
    "point-mass": (15000, 2.0, ("gradient:window=5:max_stage_steps=1500",)),
    "u-maze": (
        19840,
        -0.99,
        (
            f"gradient:metric=embedding:{LEARNED}",
            f"gradient:metric=return-lift:{LEARNED}:step=0.1",
            f"gradient:metric=embedding-raw:{LEARNED}",
            f"gradient:metric=embedding:{LEARNED}:pace=adaptive",
            f"gradient:metric=embedding:{LEARNED}:pace=particles",
        ),
    ),
    "e-maze": (12000, -0.01, ("gradient:window=5:metric=policy-returns:explore_steps=2000",)),
    "sparse-goal": (8000, 0.01, ()),
    "point-mass-bimodal": (16384, 0.5, ()),
    "point-mass-nd": (16384, 0.5, ()),
    "unlock-pickup": (8192, 0.01, ()),
    "fetch-push": (2500, -49.9, ()),
    "levels": (8192, 0.3, ()),
}


def numbers(path: Path) -> list[list[str]]:
    """The rows of a table without their prose, contexts included."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    names = COLUMNS[path.name]
    contexts = [name for name in (rows[0] if rows else {}) if name.startswith("context_")]
    return [[row[name] for name in (*names, *contexts)] for row in rows]


def digest(folder: Path) -> dict[str, str]:
    """Digests of the files of a run."""
    found = {}
    for name in COLUMNS:
        table = numbers(folder / name)
        found[name] = f"{len(table)} rows, {hashlib.sha256(json.dumps(table).encode()).hexdigest()[:16]}"
    with np.load(folder / "curriculum.npz") as arrays:
        parts = hashlib.sha256()
        for name in ("points", "weights", "offsets"):
            values = arrays[name].astype(np.float64) if name == "points" else np.ascontiguousarray(arrays[name])
            parts.update(values.tobytes())
    return {**found, "curriculum.npz": parts.hexdigest()[:16]}


def run_quietly(arguments: list[str]) -> str:
    """Run a command; return "" if it succeeded and what it printed if it was refused as bad usage."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = geodesic(arguments)
    if code not in (0, 2):
        raise SystemExit(f"geodesic {' '.join(arguments)} ended with {code}: {output.getvalue()[-400:]}")
    return output.getvalue() if code else ""


def record(work: Path, tasks: list[str]) -> dict[str, dict[str, str]]:
    """Train every run, and return its digests by name."""
    digests = {}
    for env in tasks:
        steps, threshold, own = RUNS[env]
        for method in (*METHODS, *own):
            folder = work / env / method
            budget = ["--steps", str(steps), "--threshold", str(threshold), "--seed", "3"]
            refusal = run_quietly(["run", env, "--method", method, *budget, "--out", str(folder)])
            digests[f"{env} {method}"] = {"refused": "yes"} if refusal else digest(folder)
            print(env, method, refusal.strip() or digests[f"{env} {method}"], flush=True)
    if "maze" in tasks:
        together = work / "together"
        methods = "gradient:step=0.2:window=5,linear:window=5,uniform"
        budget = "--seeds 1 --first-seed 5 --steps 2000 --threshold -60 --workers 1 --at-once 3"
        refusal = run_quietly(["compare", "maze", "--methods", methods, *budget.split(), "--out", str(together)])
        if refusal:
            raise SystemExit(refusal)
        for folder in sorted((together / "runs").glob("*/seed-*")):
            digests[f"three at once {folder.parent.name}"] = digest(folder)
    return digests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, metavar="FILE")
    parser.add_argument("--tasks", default=",".join(RUNS), help="names separated by commas (default: all)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        digests = record(Path(work), options.tasks.split(","))
    if options.record:
        options.record.write_text(json.dumps(digests, indent=1) + "\n")
    if not options.against:
        return 0
    before = {name: found for name, found in json.loads(options.against.read_text()).items() if name in digests}
    moved = [name for name in before if digests[name] != before[name]]
    for name in moved:
        print(f"moved: {name}: {before[name]} -> {digests[name]}")
    print(f"{len(before) - len(moved)} of {len(before)} runs are unchanged")
    return int(bool(moved))


if __name__ == "__main__":
    sys.exit(main())
