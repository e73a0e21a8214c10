"""Writing a run's folder, such that a run cut off at any moment can be taken up again.

Rows are appended to the CSV files as they come; a checkpoint notes how long each file was, and a digest over it. Taking
a run up again cuts the files back to that length, so a resumed run leaves the same bytes as an unbroken one. Of the
last two checkpoints the newest that is whole, and fits the files, is the one that counts.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from geodesic.contexts import Array, Arrays, FloatArray, IntArray
from geodesic.errors import CheckpointError, InvalidInput, RunFailed, RunWarning
from geodesic.records import checkpoint, stages
from geodesic.records.archive import write_archive
from geodesic.records.checkpoint import Check, Checkpoint, Json
from geodesic.records.config import RunConfig, versions
from geodesic.records.files import clear_leftovers, read_json, write_atomically
from geodesic.records.lock import FolderLock
from geodesic.records.schema import begun, generations
from geodesic.records.stages import StageDistribution
from geodesic.records.tables import Tables, row
from geodesic.records.trackers import trackers


class RunFolder:
    """Writes one run's files, as the only one who does. Rows wait in memory until `flush`, which `save` calls.

    owner: see `FolderLock`.
    """

    def __init__(self, path: Path, config: RunConfig, owner: str = "") -> None:
        self.path = path
        self.config = config
        self._lock = FolderLock(path, owner)
        self._tables = Tables(path)
        self._stages: list[StageDistribution] = []
        self._digest = hashlib.blake2b(digest_size=32)  # over the stages
        self._stages_on_disk = 0
        self._loaded: Checkpoint | None = None
        self._trackers = trackers(path, config)

    def claim(self, new: bool = False) -> None:
        """Hold the folder, where there is one: who comes second is refused before any work starts; so is a run that
        should be new where there is one."""
        if os.path.exists(self.path):
            self._hold()
        if new and begun(self.path):
            raise InvalidInput(f"{self.path} already holds a run; try --resume {self.path}, or another --out")

    def create(self, again: bool = False) -> None:
        """A new folder; one that holds a run already is refused, unless it is to begin again."""
        self._hold()
        self.claim(new=not again)
        try:
            for path in (*generations(self.path), self.path / "summary.json"):
                path.unlink(missing_ok=True)
            self.describe()
            self._tables.create(self.config.contexts)
        except (OSError, RunFailed) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidInput(f"cannot write to {self.path}: {reason}") from error

    def describe(self) -> None:
        """config.json."""
        self._lock.check()
        write_json(self.path / "config.json", {**self.config.to_json(), "versions": versions()})

    def episodes(
        self, steps: IntArray, stages: IntArray, returns: FloatArray, lengths: IntArray, rest: Iterable[FloatArray]
    ) -> None:
        """Episodes that ended, as columns; rest: successes, scores and each context value."""
        if not len(steps):
            return
        columns = [map(str, steps.tolist()), map(str, stages.tolist()), _texts(returns), map(str, lengths.tolist())]
        self._tables.waiting("episodes.csv").extend(map(",".join, zip(*columns, *(_texts(column) for column in rest))))

    def evaluation(
        self, step: int, stage: int, alpha: float, returns: FloatArray, successes: FloatArray, scores: FloatArray
    ) -> None:
        """An evaluation on the target, from its episodes (n,)."""
        numbers = (alpha, returns.mean(), returns.std(), successes.mean(), scores.mean())
        self._tables.waiting("evaluations.csv").append(",".join([str(step), str(stage), *map(_text, numbers)]))

    def stage(self, new: StageDistribution, kind: str, event: str, infeasible: float, distance: float) -> None:
        """A new stage: its row, and its distribution for curriculum.npz."""
        numbers = (_text(infeasible), _text(distance))
        values = (new.stage, new.step, _text(new.alpha), kind, event, len(new.particles), *numbers)
        self._tables.waiting("stages.csv").append(row(values))
        self._stages.append(new)
        stages.add_stage(self._digest, new)

    def flush(self) -> None:
        """Write what waits."""
        self._lock.check()
        self._tables.flush()

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """To TensorBoard and whatever else was asked for; what is not finite is left out."""
        known = {name: value for name, value in values.items() if math.isfinite(value)}
        for tracker in self._trackers if known else ():
            tracker.scalars(step, known)

    def save(self, arrays: Arrays, meta: Json) -> None:
        """curriculum.npz and a checkpoint that fits the files as they are now; what it counts on is on disk before."""
        self.flush()
        tables = self._tables.sync()
        if self._stages_on_disk != len(self._stages):
            write_archive(self.path / stages.FILE, stages.pack_stages(self._stages))
            self._stages_on_disk = len(self._stages)
        whole = {
            **meta,
            "config": self.config.to_json(),
            "versions": versions(),
            "tables": tables,
            "stages": {"count": len(self._stages), "digest": self._digest.hexdigest()},
        }
        latest, previous = generations(self.path)
        checkpoint.save(latest, arrays, whole, keep=previous)

    def load(self, check: Check = lambda headers: None, segment: int | None = None) -> Checkpoint:
        """The newest checkpoint that is whole and fits the files (of this segment, if one is named).

        Nothing is changed before `take_up`.
        """
        refused: list[CheckpointError] = []
        for found in self._whole(check, refused):
            if segment is None or found.count("segment") == segment:
                if refused:
                    _say(f"{refused[0]}; going on from {found.path}, the checkpoint before it")
                return found
        if refused:
            raise refused[0]
        what = "a checkpoint" if segment is None else f"a checkpoint of segment {segment}"
        raise CheckpointError(f"expected {what} in {self.path / 'checkpoint'}, found none")

    def kept(self) -> Iterator[Checkpoint]:
        """Every checkpoint that is whole and fits the files, the newest first."""
        return self._whole(lambda headers: None, [])

    def take_up(self) -> None:
        """Go on from what was loaded: later checkpoints are gone, and the files are what they were then."""
        if self._loaded is None:
            raise CheckpointError(f"expected a checkpoint of {self.path} to be loaded before it is taken up")
        self._lock.check()
        latest, previous = generations(self.path)
        if self._loaded.path == previous:
            os.replace(previous, latest)
        self._tables.cut()
        before = self._loaded.meta.get("versions")
        known = before if isinstance(before, dict) else {}
        changed = [f"{name} {known.get(name)} is {now}" for name, now in versions().items() if known.get(name) != now]
        if changed:
            _say(f"{self.path} was last written with other versions: {', '.join(changed)}; its numbers may differ")

    def summary(self, values: Json) -> None:
        """Written last: a folder that has it holds a finished run."""
        self._lock.check()
        write_json(self.path / "summary.json", values)

    def reopen(self) -> None:
        """A finished run that goes on is not finished any more."""
        self._lock.check()
        (self.path / "summary.json").unlink(missing_ok=True)

    def close(self) -> None:
        """Write what waits; the folder is still held."""
        self.flush()
        self._close_trackers()

    def release(self) -> None:
        """The end of writing, whatever has been written."""
        self._close_trackers()
        self._lock.release()

    def _hold(self) -> None:
        self._lock.take()
        clear_leftovers(generations(self.path)[0].parent)

    def _close_trackers(self) -> None:
        for tracker in self._trackers:
            tracker.close()

    def _whole(self, check: Check, refused: list[CheckpointError]) -> Iterator[Checkpoint]:
        for path in filter(os.path.exists, generations(self.path)):
            try:
                yield self._read(path, check)
            except CheckpointError as error:
                refused.append(error)

    def _read(self, path: Path, check: Check) -> Checkpoint:
        found = checkpoint.load(path, check)
        if _but_steps(found.meta.get("config")) != _but_steps(self.config.to_json()):
            raise CheckpointError(f"{path} belongs to another run than {self.path / 'config.json'}")
        self._tables.verify(found)
        whole = stages.read_stages(self.path / stages.FILE, sealed=True)  # never older than the checkpoint
        count, digest = found.count("stages", "count"), hashlib.blake2b(digest_size=32)
        for stage in whole[:count]:
            stages.add_stage(digest, stage)
        if not 0 < count <= len(whole) or digest.hexdigest() != found.text("stages", "digest"):
            raise CheckpointError(f"{self.path / stages.FILE} is not what its checkpoint says: stages were changed")
        self._stages, self._digest = whole[:count], digest
        self._stages_on_disk = count if len(whole) == count else -1  # what is there beyond is to be dropped
        self._loaded = found
        return found


def _say(text: str) -> None:
    warnings.warn(text, RunWarning, stacklevel=3)


def write_json(path: Path, values: Json) -> None:
    text = json.dumps(values, indent=2).encode() + b"\n"
    write_atomically(path, lambda file: file.write(text))


def read_config(path: Path) -> RunConfig:
    """The configuration of the run in this folder."""
    return config_in(path / "config.json")


def config_in(path: Path) -> RunConfig:
    """The configuration in this file."""
    try:
        return RunConfig.from_json(read_json(path))
    except FileNotFoundError:
        raise InvalidInput(f"expected a run folder, found no config.json in {path.parent}") from None


def _but_steps(config: Any) -> Any:
    """A configuration without its budget, which may be extended."""
    return {k: v for k, v in config.items() if k not in ("steps", "eval_every")} if isinstance(config, dict) else config


def _texts(values: Array) -> Iterable[str]:
    return map(_text, values.tolist())


def _text(value: float) -> str:
    return f"{value:.9g}"
