"""Writing a run's folder, such that a run cut off at any moment can be taken up again.

Rows are appended to the CSV files as they come; a checkpoint notes how long each file was. Taking a run up again cuts
the files back to that length, so a resumed run leaves the same bytes as an unbroken one.
"""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geodesic.contexts import Array, Arrays, FloatArray, IntArray
from geodesic.errors import CheckpointError, InvalidInput, RunFailed
from geodesic.records import checkpoint
from geodesic.records.checkpoint import Json
from geodesic.records.config import RunConfig, versions
from geodesic.records.files import write_atomically
from geodesic.records.schema import (
    CONTEXT,
    TABLES,
    StageDistribution,
    checkpoint_path,
    pack_stages,
    unpack_stage,
)


class RunFolder:
    """Writes one run's files. Rows wait in memory until `flush`, which `save` calls."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path = path
        self.config = config
        self._waiting: dict[str, list[str]] = {name: [] for name in TABLES}
        self._stages: list[StageDistribution] = []
        self._events: Any = None

    def begun(self) -> bool:
        """Whether there is a run to go on with; one cut off before its first checkpoint has nothing to lose."""
        return (self.path / "config.json").exists() and checkpoint_path(self.path).exists()

    def create(self) -> None:
        """A new folder; one that holds a run already is refused."""
        if self.begun():
            raise InvalidInput(f"{self.path} already holds a run; try --resume {self.path}, or another --out")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.describe()
            contexts = tuple(CONTEXT + name for name in self.config.contexts)
            for name, columns in TABLES.items():
                self._append(name, _row((*columns, *(contexts if name == "episodes.csv" else ()))) + "\n", "w")
        except (OSError, RunFailed) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidInput(f"cannot write to {self.path}: {reason}") from error

    def describe(self) -> None:
        """config.json."""
        write_json(self.path / "config.json", {**self.config.to_json(), "versions": versions()})

    def episodes(
        self, steps: IntArray, stages: IntArray, returns: FloatArray, lengths: IntArray, rest: Iterable[FloatArray]
    ) -> None:
        """Episodes that ended, as columns; rest: successes, scores and each context value."""
        if not len(steps):
            return
        columns = [map(str, steps.tolist()), map(str, stages.tolist()), _texts(returns), map(str, lengths.tolist())]
        self._waiting["episodes.csv"].extend(map(",".join, zip(*columns, *(_texts(column) for column in rest))))

    def evaluation(
        self, step: int, stage: int, alpha: float, returns: FloatArray, successes: FloatArray, scores: FloatArray
    ) -> None:
        """An evaluation on the target, from its episodes (n,)."""
        numbers = (alpha, returns.mean(), returns.std(), successes.mean(), scores.mean())
        self._waiting["evaluations.csv"].append(",".join([str(step), str(stage), *map(_text, numbers)]))

    def stage(self, new: StageDistribution, kind: str, event: str, infeasible: float, distance: float) -> None:
        """A new stage: its row, and its distribution for curriculum.npz."""
        numbers = (_text(infeasible), _text(distance))
        row = (new.stage, new.step, _text(new.alpha), kind, event, len(new.particles), *numbers)
        self._waiting["stages.csv"].append(_row(row))
        self._stages.append(new)

    def flush(self) -> None:
        """Write what waits."""
        for name, lines in self._waiting.items():
            if lines:
                self._append(name, "\n".join(lines) + "\n")
                lines.clear()

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """TensorBoard scalars."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        if self._events is None:
            self._events = EventFileWriter(str(self.path))
            # tells TensorBoard to forget what an earlier, broken attempt wrote beyond this step
            self._events.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))
        items = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._events.add_event(Event(step=step, wall_time=time.time(), summary=Summary(value=items)))

    def save(self, arrays: Arrays, meta: Json) -> None:
        """curriculum.npz and a checkpoint that fits the files as they are now."""
        self.flush()
        stages = pack_stages(self._stages)
        write_atomically(self.path / "curriculum.npz", lambda file: np.savez(file, **stages))  # type: ignore[arg-type]
        lengths = {name: (self.path / name).stat().st_size for name in TABLES}
        whole = {**meta, "config": self.config.to_json(), "lengths": lengths, "stages": len(self._stages)}
        checkpoint.save(checkpoint_path(self.path), arrays, whole)

    def load(self) -> tuple[Arrays, Json]:
        """The last checkpoint, with the files cut back to what they were then."""
        path = checkpoint_path(self.path)
        arrays, meta = checkpoint.load(path)
        if _but_steps(meta.get("config")) != _but_steps(self.config.to_json()):
            raise CheckpointError(f"{path} belongs to another run than {self.path / 'config.json'}")
        for part in ("lengths", "stages"):
            if part not in meta:
                raise CheckpointError(f"{path} is of another version: it has no {part!r}")
        for name, length in meta["lengths"].items():
            file = self.path / name
            if not file.exists() or file.stat().st_size < length:
                raise CheckpointError(f"{file} is shorter than its checkpoint says; the run cannot be taken up again")
        self._stages = self._read_stages(meta["stages"])
        for name, length in meta["lengths"].items():
            os.truncate(self.path / name, length)
        return arrays, meta

    def summary(self, values: Json) -> None:
        """Written last: a folder that has it holds a finished run."""
        write_json(self.path / "summary.json", values)

    def reopen(self) -> None:
        """A finished run that goes on is not finished any more."""
        (self.path / "summary.json").unlink(missing_ok=True)

    def close(self) -> None:
        self.flush()
        if self._events is not None:
            self._events.close()
            self._events = None

    def _append(self, name: str, text: str, mode: str = "a") -> None:
        try:
            with (self.path / name).open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise RunFailed(f"cannot write {self.path / name}: {error.strerror}") from error

    def _read_stages(self, n: int) -> list[StageDistribution]:
        """The first n stages of curriculum.npz, which is never older than the checkpoint."""
        try:
            with np.load(self.path / "curriculum.npz", allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            return [unpack_stage(arrays, index) for index in range(n)]
        except Exception as error:
            raise CheckpointError(f"damaged file {self.path / 'curriculum.npz'}: {error}") from error


def write_json(path: Path, values: Json) -> None:
    text = json.dumps(values, indent=2).encode() + b"\n"
    write_atomically(path, lambda file: file.write(text))


def read_config(path: Path) -> RunConfig:
    """The configuration of the run in this folder."""
    return config_in(path / "config.json")


def config_in(path: Path) -> RunConfig:
    """The configuration in this file."""
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        raise InvalidInput(f"expected a run folder, found no config.json in {path.parent}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"damaged file {path}: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"damaged file {path}: expected a JSON object")
    return RunConfig.from_json(values)


def _but_steps(config: Any) -> Any:
    """A configuration without its budget, which may be extended."""
    return {k: v for k, v in config.items() if k not in ("steps", "eval_every")} if isinstance(config, dict) else config


def _texts(values: Array) -> Iterable[str]:
    return map(_text, values.tolist())


def _text(value: float) -> str:
    return f"{value:.9g}"


def _row(values: Sequence[Any]) -> str:
    """One line of CSV, quoted where it must be."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()
