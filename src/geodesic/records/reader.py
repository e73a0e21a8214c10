"""Reading run folders back: what figures, tables and pages know of a run.

A file that a run has not written yet reads as empty, and a last line that is still being written is left out. Any
other damage is an error that names the file.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType

import numpy as np

from geodesic.checks import FloatArray, IntArray, as_path, is_number
from geodesic.curricula import REGISTRY
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.records.archive import first_line
from geodesic.records.checkpoint import Json
from geodesic.records.files import read_json
from geodesic.records.schema import (
    CONTEXT,
    EPISODES,
    EVALUATIONS,
    STAGES,
    EpisodeTable,
    EvaluationTable,
    StageTable,
    finished,
)
from geodesic.records.stages import FILE, StageDistribution, read_stages

CONFIGURED: dict[str, type] = {"name": str, "method": str, "label": str, "seed": int, "steps": int}
AND_MAYBE: dict[str, tuple[type, ...]] = {
    "threshold": (int, float, NoneType),
    "solved": (int, float, NoneType),
    "contexts": (list,),
}
LARGEST = 2.0**62

Columns = dict[str, list[str]]


@dataclass(frozen=True, eq=False)
class RunResult:
    """One run, as its folder tells it."""

    folder: Path
    config: Json
    episodes: EpisodeTable
    evaluations: EvaluationTable
    stages: StageTable
    curriculum: tuple[StageDistribution, ...]
    finished: bool

    @property
    def task(self) -> str:
        """What figures and tables call its task."""
        return str(self.config["name"])

    @property
    def method(self) -> str:
        return str(self.config["method"])

    @property
    def label(self) -> str:
        """What figures and tables call this run."""
        return str(self.config["label"])

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def steps(self) -> int:
        """Environment steps that the run was asked for."""
        return int(self.config["steps"])

    @property
    def threshold(self) -> float:
        """The mean training score above which a stage counts as mastered; NaN where the run has none.

        One that is an option of its method is the one in force.
        """
        own = self.config.get("options")
        level = own.get("threshold") if isinstance(own, dict) else None
        return float(level) if is_number(level) else self._number("threshold")

    @property
    def solved(self) -> float:
        """The mean score above which the target counts as solved; NaN where the run has none."""
        return self._number("solved")

    @property
    def measure(self) -> str:
        """What scores are: return, discounted or success."""
        return str(self.config.get("measure", "return"))

    @property
    def contexts(self) -> tuple[str, ...]:
        """The names of the context values."""
        return tuple(map(str, self.config.get("contexts", ())))

    @property
    def metric(self) -> str | None:
        value = self.config.get("metric")
        return None if value is None else str(value)

    @property
    def explored(self) -> set[int]:
        """The stages that explored for a metric."""
        return set(self.stages.stages[self.stages.explores].tolist())

    def _number(self, key: str) -> float:
        value = self.config.get(key)
        return float("nan") if value is None else float(value)

    def in_force(self, step: float) -> StageDistribution | None:
        """The stage whose distribution was trained on at this step."""
        begun = [stage for stage in self.curriculum if stage.step <= step]
        return begun[-1] if begun else None


def load_run(folder: str | Path) -> RunResult:
    """A run folder, of a run that has ended or is still going."""
    path = as_path(folder)
    return RunResult(
        folder=path,
        config=_config(path / "config.json"),
        episodes=_episodes(path / "episodes.csv"),
        evaluations=_evaluations(path / "evaluations.csv"),
        stages=_stages(path / "stages.csv"),
        curriculum=_curriculum(path / FILE),
        finished=finished(path),
    )


def load_comparison(folder: str | Path) -> list[RunResult]:
    """Every run of a comparison that has begun: methods as the registry lists them, then labels, then seeds."""
    seeds = [path for path in as_path(folder).glob("runs/*/seed-*") if path.is_dir() and any(path.iterdir())]
    if not seeds:
        raise InvalidInput(f"expected {folder} to hold runs at runs/<label>/seed-<k>, got none")
    rank = {method: index for index, method in enumerate(REGISTRY)}
    runs = [load_run(path) for path in seeds]
    return sorted(runs, key=lambda run: (rank.get(run.method, len(rank)), run.label, run.seed))


def by_label(runs: Iterable[RunResult]) -> dict[str, list[RunResult]]:
    """The runs of each label, labels in order of appearance."""
    groups: dict[str, list[RunResult]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    return groups


def _config(path: Path) -> Json:
    if not path.is_file():
        raise InvalidInput(f"expected {path.parent} to be a run folder with a config.json, got none")
    config = read_json(path)
    wrong = [name for name, kind in CONFIGURED.items() if not isinstance(config.get(name), kind)]
    wrong += [name for name, kinds in AND_MAYBE.items() if name in config and not isinstance(config[name], kinds)]
    if wrong:
        raise InvalidInput(f"expected {path} to be a run's configuration, got one without {', '.join(wrong)}")
    return config


def _episodes(path: Path) -> EpisodeTable:
    columns = _read_csv(path, EPISODES, more=CONTEXT)
    contexts = [_floats(path, columns, name) for name in columns if name.startswith(CONTEXT)]
    return EpisodeTable(
        steps=_increasing(path, columns, "step"),
        stages=_integers(path, columns, "stage"),
        returns=_floats(path, columns, "return"),
        lengths=_integers(path, columns, "length"),
        successes=_floats(path, columns, "success"),
        scores=_floats(path, columns, "score"),
        contexts=np.stack(contexts, axis=1) if contexts else np.zeros((len(columns["step"]), 0)),
    )


def _evaluations(path: Path) -> EvaluationTable:
    columns = _read_csv(path, EVALUATIONS)
    return EvaluationTable(
        steps=_increasing(path, columns, "step"),
        stages=_integers(path, columns, "stage"),
        alphas=_floats(path, columns, "alpha"),
        returns=_floats(path, columns, "return"),
        stds=_floats(path, columns, "return_std"),
        successes=_floats(path, columns, "success"),
        scores=_floats(path, columns, "score"),
    )


def _stages(path: Path) -> StageTable:
    columns = _read_csv(path, STAGES)
    return StageTable(
        stages=_increasing(path, columns, "stage"),
        steps=_integers(path, columns, "step"),
        alphas=_floats(path, columns, "alpha"),
        kinds=tuple(columns["kind"]),
        events=tuple(columns["event"]),
        particles=_integers(path, columns, "particles"),
        infeasible=_floats(path, columns, "infeasible"),
        distances=_floats(path, columns, "distance"),
    )


def _read_csv(path: Path, wanted: tuple[str, ...], more: str | None = None) -> Columns:
    """Columns of strings; a run adds whole lines, so what follows the last line end is not yet written."""
    if not path.is_file():
        return {name: [] for name in wanted}
    try:
        text = path.read_bytes().decode("utf-8")
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidInput(f"expected {path} to be a table in UTF-8, got {first_line(error)}") from error
    complete = text[: text.rfind("\n") + 1]
    if not complete:
        return {name: [] for name in wanted}
    try:
        header, *rows = csv.reader(complete.splitlines())
    except csv.Error as error:
        raise InvalidInput(f"expected {path} to be a table, got {first_line(error)}") from error
    extra = header[len(wanted) :]
    if tuple(header[: len(wanted)]) != wanted or not all(more and name.startswith(more) for name in extra):
        raise InvalidInput(f"expected {path} to have the columns {','.join(wanted)}, got {','.join(header):.80}")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InvalidInput(f"expected {len(header)} values in line {number} of {path}, got {len(row)}")
    return {name: [row[index] for row in rows] for index, name in enumerate(header)}


def _floats(path: Path, columns: Columns, name: str) -> FloatArray:
    """A column of numbers; an empty field is NaN."""
    try:
        return np.array([float(value or "nan") for value in columns[name]], dtype=np.float64)
    except ValueError as error:
        raise InvalidInput(f"expected numbers in column {name} of {path}, got {first_line(error)}") from error


def _integers(path: Path, columns: Columns, name: str) -> IntArray:
    values = _floats(path, columns, name)
    if not (np.abs(values) < LARGEST).all() or not np.array_equal(values, np.round(values)):
        raise InvalidInput(f"expected whole numbers in column {name} of {path}, got others")
    return values.astype(np.int64)


def _increasing(path: Path, columns: Columns, name: str) -> IntArray:
    """Whole numbers that grow from line to line, as those that one writer leaves do."""
    values = _integers(path, columns, name)
    back = np.flatnonzero(np.diff(values) <= 0)
    if len(back):
        before, after = values[back[0]], values[back[0] + 1]
        raise CheckpointError(
            f"damaged file {path}: expected {name} to grow from line to line, got {after} after {before} in line "
            f"{back[0] + 3}; two processes may have written it"
        )
    return values


def _curriculum(path: Path) -> tuple[StageDistribution, ...]:
    return tuple(read_stages(path)) if path.exists() else ()
