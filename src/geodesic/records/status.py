"""The status of a run, read from the last lines of its tables: cheap enough to poll while another process writes."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

from geodesic.checks import MOST
from geodesic.errors import CheckpointError, GeodesicError, printable
from geodesic.records.files import open_plain, read_json
from geodesic.records.lock import held_by
from geodesic.records.schema import EPISODES, EVALUATIONS, STAGES, finished

DEEPEST = 5  # folders below the one that is watched
MOST_RUNS = 10**5  # of a comparison that have not started
LAST_BYTES = 4096  # bytes, more than a few lines of any table
RUNNING, FINISHED, STOPPED, FAILED, WAITING = "running", "finished", "stopped", "failed", "waiting"


@dataclass(frozen=True)
class RunStatus:
    """The progress and state of one run; NaN where a number is not known yet.

    age: seconds between its start and its last row; score: of the last evaluation on the target; reason: of a failure.
    """

    name: str
    state: str
    step: int = 0
    steps: int = 0
    stage: int = 0
    alpha: float = math.nan
    score: float = math.nan
    age: float = math.nan
    reason: str = ""


def run_status(folder: Path, failures: dict[str, str] | None = None) -> RunStatus:
    """The status of the run in a folder. failures: name of a run -> reason, from its comparison."""
    config = read_json(folder / "config.json")
    name = printable(f"{config.get('label')} seed {config.get('seed')}")
    stage, evaluation = _last(folder / "stages.csv", STAGES), _last(folder / "evaluations.csv", EVALUATIONS)
    episode = _last(folder / "episodes.csv", EPISODES)
    step = max(_count(row, "step") for row in (stage, evaluation, episode))
    steps = config.get("steps")
    whole = steps if isinstance(steps, int) and 0 <= steps <= MOST else 0
    reason = (failures or {}).get(name, "")
    if finished(folder):
        state, step = FINISHED, whole
    elif held_by(folder):
        state, reason = RUNNING, ""
    else:
        state = FAILED if reason else STOPPED
    at, score = _count(stage, "stage"), _number(evaluation, "score")
    return RunStatus(name, state, min(step, whole), whole, at, _number(stage, "alpha"), score, _age(folder), reason)


def run_statuses(folder: Path) -> list[RunStatus]:
    """The status of the run in a folder, or of every run of the comparison in it, including those not started yet.

    Of a folder that is neither, those of the runs and comparisons below it; their names begin with where they are.
    """
    found = []
    for place in run_places(folder):
        own = [run_status(place)] if (place / "config.json").exists() else _comparison(place)
        if place != folder:
            where = printable(str(place.relative_to(folder)))
            own = [replace(each, name=f"{where} {each.name}" if len(own) > 1 else where) for each in own]
        found += own
    return found


def run_places(folder: Path) -> list[Path]:
    """The folder, if it is that of a run or a comparison; else those below it, a few levels deep, links excluded."""
    if _is_place(folder):
        return [folder]
    found = []
    for path, names, _ in os.walk(folder):
        here = Path(path)
        if _is_place(here):
            found.append(here)
        if _is_place(here) or len(here.relative_to(folder).parts) >= DEEPEST:
            names.clear()
        names[:] = sorted(name for name in names if not name.startswith("."))
    return found


def _is_place(folder: Path) -> bool:
    """Whether a folder is that of a run or a comparison."""
    known = any((folder / name).exists() for name in ("config.json", "comparison.json", "failures.json"))
    return known or any(folder.glob("runs/*/seed-*"))


def _comparison(folder: Path) -> list[RunStatus]:
    """The status of every run of a comparison; nothing if there is none."""
    failures = _json(folder / "failures.json")
    reasons = {name: printable(str(reason)) for name, reason in failures.items()}
    found: dict[str, RunStatus] = {}
    for path in sorted(folder.glob("runs/*/seed-*"), key=lambda path: (path.parent.name, _seed(path))):
        try:
            one = run_status(path, reasons)
        except (FileNotFoundError, GeodesicError):  # is just being created
            continue
        found[one.name] = one
    planned = _json(folder / "comparison.json").get("runs")
    planned = planned[:MOST_RUNS] if isinstance(planned, list) else []
    names = [printable(name) for name in planned if isinstance(name, str)]
    waiting = {
        name: RunStatus(name, FAILED if name in reasons else WAITING, reason=reasons.get(name, "")) for name in names
    }
    return list({**waiting, **found}.values())


def _seed(path: Path) -> int:
    number = path.name.removeprefix("seed-")
    return int(number) if number.isdecimal() else 0


def _json(path: Path) -> dict[str, object]:
    try:
        return read_json(path)
    except (FileNotFoundError, CheckpointError):
        return {}


def _last(path: Path, columns: tuple[str, ...]) -> dict[str, str]:
    """The last complete line of a table."""
    try:
        with open_plain(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
            lines = file.read(LAST_BYTES).decode("utf-8", "replace").split("\n")[:-1]
    except (OSError, ValueError):  # nothing yet, or not a file
        return {}
    return dict(zip(columns, lines[-1].split(","))) if lines else {}


def _number(row: dict[str, str], name: str) -> float:
    try:
        return float(row[name])
    except (KeyError, ValueError):  # nothing yet, or the header
        return math.nan


def _count(row: dict[str, str], name: str) -> int:
    """A step or a stage; 0 if there is none yet, or an impossible one."""
    number = _number(row, name)
    return int(number) if 0 <= number <= MOST else 0


def _age(folder: Path) -> float:
    try:
        run_exists = (folder / "config.json").stat().st_mtime
        return max(path.stat().st_mtime for path in folder.glob("*.csv")) - run_exists
    except (OSError, ValueError):
        return math.nan
