"""Where a run stands, read from the last lines of its folder: cheap enough to look every second, whoever is writing."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from geodesic.errors import CheckpointError, GeodesicError
from geodesic.records.files import read_json
from geodesic.records.lock import held_by
from geodesic.records.schema import EPISODES, EVALUATIONS, STAGES, finished

TAIL = 4096  # bytes, more than a few lines of any table
RUNNING, FINISHED, STOPPED, FAILED, WAITING = "running", "finished", "stopped", "failed", "waiting"


@dataclass(frozen=True)
class Standing:
    """One run: where it is, and what became of it. NaN is what is not known yet.

    age: seconds between its beginning and its last row; score: of the last evaluation on the target.
    """

    name: str
    state: str
    step: int = 0
    steps: int = 0
    stage: int = 0
    alpha: float = math.nan
    score: float = math.nan
    age: float = math.nan
    why: str = ""


def standing(folder: Path, failures: dict[str, str] | None = None) -> Standing:
    """The run in this folder. failures: name of a run -> why, where its comparison tells."""
    config = read_json(folder / "config.json")
    name = f"{config.get('label')} seed {config.get('seed')}"
    stage, evaluation = _last(folder / "stages.csv", STAGES), _last(folder / "evaluations.csv", EVALUATIONS)
    episode = _last(folder / "episodes.csv", EPISODES)
    step = max(int(_number(row, "step", 0.0)) for row in (stage, evaluation, episode))
    steps = config.get("steps")
    whole = steps if isinstance(steps, int) else 0
    why = (failures or {}).get(name, "")
    if finished(folder):
        state, step = FINISHED, whole
    elif held_by(folder):
        state, why = RUNNING, ""
    else:
        state = FAILED if why else STOPPED
    at, score = int(_number(stage, "stage", 0.0)), _number(evaluation, "score")
    return Standing(name, state, min(step, whole), whole, at, _number(stage, "alpha"), score, _age(folder), why)


def standings(folder: Path) -> list[Standing]:
    """The run in this folder, or every run of the comparison in it, those that have not begun too."""
    if (folder / "config.json").exists():
        return [standing(folder)]
    failures = _json(folder / "failures.json")
    told = {name: str(why) for name, why in failures.items()}
    found: dict[str, Standing] = {}
    for path in sorted(folder.glob("runs/*/seed-*"), key=lambda path: (path.parent.name, _seed(path))):
        try:
            one = standing(path, told)
        except (FileNotFoundError, GeodesicError):  # just being made
            continue
        found[one.name] = one
    planned = _json(folder / "comparison.json").get("runs")
    names = [name for name in planned if isinstance(name, str)] if isinstance(planned, list) else []
    waiting = {name: Standing(name, FAILED if name in told else WAITING, why=told.get(name, "")) for name in names}
    return list({**waiting, **found}.values())


def _seed(path: Path) -> int:
    number = path.name.removeprefix("seed-")
    return int(number) if number.isdigit() else 0


def _json(path: Path) -> dict[str, object]:
    try:
        return read_json(path)
    except (FileNotFoundError, CheckpointError):
        return {}


def _last(path: Path, columns: tuple[str, ...]) -> dict[str, str]:
    """The last whole line of a table."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().decode("utf-8", "replace").split("\n")[:-1]
    except OSError:
        return {}
    return dict(zip(columns, lines[-1].split(","))) if lines else {}


def _number(row: dict[str, str], name: str, default: float = math.nan) -> float:
    try:
        return float(row[name])
    except (KeyError, ValueError):  # nothing yet, or the header
        return default


def _age(folder: Path) -> float:
    try:
        begun = (folder / "config.json").stat().st_mtime
        return max(path.stat().st_mtime for path in folder.glob("*.csv")) - begun
    except (OSError, ValueError):
        return math.nan
