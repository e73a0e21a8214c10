"""Reading run folders back: what figures, tables and pages know of a run.

A file that a run has not written yet reads as empty, and a last line that is still being written is left out. Any
other damage is an error that names the file.
"""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geodesic.checks import FloatArray, IntArray, as_path
from geodesic.curricula import REGISTRY
from geodesic.errors import GeodesicError, InvalidInput
from geodesic.records.checkpoint import Json
from geodesic.records.schema import (
    CONTEXT,
    CURRICULUM,
    EPISODES,
    EVALUATIONS,
    STAGES,
    EpisodeTable,
    EvaluationTable,
    StageDistribution,
    StageTable,
    finished,
    unpack_stage,
)

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
        """The mean training score above which a stage counts as mastered; NaN where the run has none."""
        return self._number("threshold")

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
        curriculum=_curriculum(path / "curriculum.npz"),
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
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise InvalidInput(f"expected {path} to be JSON, got {_first_line(error)}") from error
    wanted = ("name", "method", "label", "seed", "steps")
    missing = wanted if not isinstance(config, dict) else [key for key in wanted if key not in config]
    if missing:
        raise InvalidInput(f"expected {path} to be a run's configuration, got one without {', '.join(missing)}")
    return dict(config)


def _episodes(path: Path) -> EpisodeTable:
    columns = _read_csv(path, EPISODES, more=CONTEXT)
    contexts = [_floats(path, columns, name) for name in columns if name.startswith(CONTEXT)]
    return EpisodeTable(
        steps=_integers(path, columns, "step"),
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
        steps=_integers(path, columns, "step"),
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
        stages=_integers(path, columns, "stage"),
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
        raise InvalidInput(f"expected {path} to be a table in UTF-8, got {_first_line(error)}") from error
    complete = text[: text.rfind("\n") + 1]
    if not complete:
        return {name: [] for name in wanted}
    header, *rows = csv.reader(complete.splitlines())
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
        raise InvalidInput(f"expected numbers in column {name} of {path}, got {_first_line(error)}") from error


def _integers(path: Path, columns: Columns, name: str) -> IntArray:
    values = _floats(path, columns, name)
    if not np.array_equal(values, np.round(values)):
        raise InvalidInput(f"expected whole numbers in column {name} of {path}, got others")
    return values.astype(np.int64)


def _curriculum(path: Path) -> tuple[StageDistribution, ...]:
    if not path.is_file():
        return ()
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"expected {path} to be an archive of arrays, got {_first_line(error)}") from error
    missing = [name for name in CURRICULUM if name not in arrays]
    if missing:
        raise InvalidInput(f"expected {path} to hold {', '.join(CURRICULUM)}, got none of {', '.join(missing)}")
    try:
        return tuple(unpack_stage(arrays, index) for index in range(len(arrays["stage"])))
    except (IndexError, GeodesicError) as error:
        raise InvalidInput(f"expected {path} to hold a distribution per stage, got {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
