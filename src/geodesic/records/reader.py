"""Reading run folders: everything that figures, tables and pages know of a run.

A file that a run has not written yet reads as empty, and a last line that is still being written is left out. Any
other damage is an error that names the file.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from geodesic.checks import FloatArray, IntArray, as_path
from geodesic.curricula import REGISTRY
from geodesic.errors import CheckpointError, InvalidInput, format_error, printable, short_repr
from geodesic.records.config import RunConfig, read_config
from geodesic.records.files import LONGEST, open_plain, read_json
from geodesic.records.schema import (
    CONTEXT,
    FILE,
    EpisodeTable,
    EvaluationTable,
    StageDistribution,
    StageTable,
    columns_of,
    finished,
    read_stages,
)

LARGEST = 2.0**62

Columns = dict[str, list[str]]
T = TypeVar("T", EpisodeTable, EvaluationTable, StageTable)


@dataclass(frozen=True, eq=False)
class RunResult:
    """One run, read from its folder.

    Args:
        folder: The run folder.
        config: The configuration of the run.
        episodes: Every finished episode.
        evaluations: Every evaluation.
        stages: When each stage began, and why.
        curriculum: The distribution of each stage.
        finished: Whether the run is finished.
        versions: The versions of the packages that it was written with.
    """

    folder: Path
    config: RunConfig
    episodes: EpisodeTable
    evaluations: EvaluationTable
    stages: StageTable
    curriculum: tuple[StageDistribution, ...]
    finished: bool
    versions: dict[str, str]

    @property
    def task(self) -> str:
        """What figures and tables call its task."""
        return printable(self.config.name)

    @property
    def method(self) -> str:
        """The name of its method."""
        return self.config.method

    @property
    def label(self) -> str:
        """What figures and tables call this run."""
        return printable(self.config.label)

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.config.seed

    @property
    def steps(self) -> int:
        """Its budget in environment steps."""
        return self.config.steps

    @property
    def reached_step(self) -> int:
        """The last recorded step; a run whose budget is no multiple of its segments ends a little later."""
        if self.finished:
            return self.steps
        ends = [table[-1] for table in (self.episodes.steps, self.evaluations.steps, self.stages.steps) if len(table)]
        return min(int(max(ends, default=0)), self.steps)

    @property
    def threshold(self) -> float:
        """The mean training score above which a stage is mastered; an option of the method comes first."""
        return self.config.stated_threshold

    @property
    def solved(self) -> float:
        """The mean score above which the target counts as solved; NaN if none is stated."""
        return math.nan if self.config.solved is None else self.config.solved

    @property
    def score(self) -> str:
        """The kind of its scores."""
        return self.config.score

    @property
    def score_name(self) -> str:
        """What its scores are, in words."""
        return self.config.score_name

    @property
    def contexts(self) -> tuple[str, ...]:
        """The names of the context values."""
        return tuple(map(printable, self.config.contexts))

    @property
    def categories(self) -> dict[str, list[str]]:
        """The categories of each context value that has some."""
        named = self.config.categories.items()
        return {printable(name): list(map(printable, values)) for name, values in named}

    @property
    def metric(self) -> str | None:
        """The name of its metric, if its method uses one."""
        return self.config.metric

    @property
    def explored(self) -> set[int]:
        """The stages that explored for a metric."""
        return set(self.stages.stages[self.stages.explores].tolist())

    def in_force(self, step: float) -> StageDistribution | None:
        """Find the stage whose distribution was trained on at a step.

        Args:
            step: An environment step of the run.

        Returns:
            The stage; None before the first one.
        """
        started = [stage for stage in self.curriculum if stage.step <= step]
        return started[-1] if started else None


def load_run(folder: str | Path) -> RunResult:
    """Read a run folder, whether the run is finished or not.

    Args:
        folder: The run folder.

    Returns:
        The configuration, the tables and the stages of the run.

    Raises:
        InvalidInput: If the folder is not that of a run, or a table in it is damaged.
        CheckpointError: If another file in it is damaged.
    """
    path = as_path(folder)
    episodes, evaluations, stages = read_tables(path)
    run = RunResult(
        folder=path,
        config=read_config(path),
        episodes=episodes,
        evaluations=evaluations,
        stages=stages,
        curriculum=tuple(read_stages(path / FILE)) if (path / FILE).exists() else (),
        finished=finished(path),
        versions=_versions(path),
    )
    d, tables = len(run.contexts), [each.particles.points for each in run.curriculum[:1]]
    for points in [*tables, run.episodes.contexts]:
        if len(points) and points.shape[1] != d:
            raise CheckpointError(f"damaged run {path}: expected contexts of {d} values, got {points.shape[1]}")
    return run


def read_tables(folder: Path) -> tuple[EpisodeTable, EvaluationTable, StageTable]:
    """The episodes, evaluations and stages of a run folder."""
    return (
        _read_table(folder / "episodes.csv", EpisodeTable),
        _read_table(folder / "evaluations.csv", EvaluationTable),
        _read_table(folder / "stages.csv", StageTable),
    )


def _versions(folder: Path) -> dict[str, str]:
    """The versions of packages that a run was written with."""
    found = read_json(folder / "config.json").get("versions")
    return (
        {printable(str(name)): printable(str(version)) for name, version in found.items()}
        if isinstance(found, dict)
        else {}
    )


def load_comparison(folder: str | Path) -> list[RunResult]:
    """Read every run of a comparison that has started, ordered by method, label and seed."""
    seeds = [path for path in as_path(folder).glob("runs/*/seed-*") if path.is_dir() and any(path.iterdir())]
    if not seeds:
        raise InvalidInput(f"expected {folder} to hold config.json or runs at runs/<label>/seed-<k>, got neither")
    rank = {method: index for index, method in enumerate(REGISTRY)}
    runs = [load_run(path) for path in seeds]
    for run in runs:
        if run.contexts != runs[0].contexts:
            names = [short_repr(each.contexts) for each in (runs[0], run)]
            raise InvalidInput(f"expected runs with the same contexts in {folder}, got {' and '.join(names)}")
    return sorted(runs, key=lambda run: (rank.get(run.method, len(rank)), run.label, run.seed))


def by_label(runs: Iterable[RunResult]) -> dict[str, list[RunResult]]:
    """The runs of each label, labels in order of appearance."""
    groups: dict[str, list[RunResult]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    return groups


def _read_table(path: Path, table: type[T]) -> T:
    """Read a table of a run folder."""
    known = columns_of(table)
    wanted = tuple(column for column, _ in known.values())
    columns = _read_csv(path, wanted, more=CONTEXT if table is EpisodeTable else None)
    values: dict[str, Any] = {name: PARSERS[kind](path, columns, column) for name, (column, kind) in known.items()}
    if table is EpisodeTable:
        contexts = [_floats(path, columns, name) for name in columns if name.startswith(CONTEXT)]
        values["contexts"] = np.stack(contexts, axis=1) if contexts else np.zeros((len(columns["step"]), 0))
    return table(**values)


def _read_csv(path: Path, wanted: tuple[str, ...], more: str | None = None) -> Columns:
    """Columns of strings; a run adds complete lines, so anything after the last line end is not yet written."""
    if not path.is_file():
        return {name: [] for name in wanted}
    try:
        with open_plain(path, LONGEST) as file:
            text = file.read().decode("utf-8")
    except (ValueError, OSError) as error:
        raise InvalidInput(f"expected {path} to be a table in UTF-8, got {format_error(error)}") from error
    complete = text[: text.rfind("\n") + 1]
    if not complete:
        return {name: [] for name in wanted}
    try:
        header, *rows = csv.reader(complete.splitlines())
    except csv.Error as error:
        raise InvalidInput(f"expected {path} to be a table, got {format_error(error)}") from error
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
        raise InvalidInput(f"expected numbers in column {name} of {path}, got {format_error(error)}") from error


def _integers(path: Path, columns: Columns, name: str) -> IntArray:
    values = _floats(path, columns, name)
    if not (np.abs(values) < LARGEST).all() or not np.array_equal(values, np.round(values)):
        raise InvalidInput(f"expected integers in column {name} of {path}, got others")
    return values.astype(np.int64)


def _increasing(path: Path, columns: Columns, name: str) -> IntArray:
    """Integers that increase from line to line, as a single writer leaves them."""
    values = _integers(path, columns, name)
    back = np.flatnonzero(np.diff(values) <= 0)
    if len(back):
        before, after = values[back[0]], values[back[0] + 1]
        raise CheckpointError(
            f"damaged file {path}: expected {name} to increase from line to line, got {after} after {before} in line "
            f"{back[0] + 3}; two processes may have written it"
        )
    return values


PARSERS: dict[str, Callable[[Path, Columns, str], Any]] = {
    "number": _floats,
    "integer": _integers,
    "increasing": _increasing,
    "string": lambda path, columns, name: tuple(columns[name]),
}
