"""Writing a run's folder so that a run interrupted at any moment can be resumed.

Rows are appended to the CSV files as they come; a checkpoint notes how long each file was, and a digest of it. Resuming
cuts the files back to that length, so a resumed run leaves the same bytes as an uninterrupted one. The newest of
the last two checkpoints that is complete and fits the files is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from geodesic.contexts import Array, Arrays, EpisodeBatch, FloatArray, Score
from geodesic.errors import CheckpointError, InvalidInput, RunFailed, RunWarning
from geodesic.records import checkpoint, schema
from geodesic.records.archive import Check, write_archive
from geodesic.records.checkpoint import Checkpoint, Json
from geodesic.records.config import RunConfig, versions
from geodesic.records.files import clear_leftovers, inside, write_json
from geodesic.records.lock import FolderLock
from geodesic.records.origin import SIGNATURE, sign
from geodesic.records.schema import EPISODES, StageDistribution, generations, run_exists
from geodesic.records.tables import Recorded, Tables, row
from geodesic.records.trackers import trackers


class RunFolder:
    """The only writer of one run's files. Rows wait in memory until `flush`, which `save` calls.

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

    def acquire(self, new: bool = False) -> None:
        """Lock the folder if it exists, so that a second writer is refused before any work starts.

        new: also refuse a folder that already holds a run.
        """
        if os.path.exists(self.path):
            self._hold()
        if new and run_exists(self.path):
            raise InvalidInput(f"{self.path} already holds a run; try --resume {self.path}, or another --out")

    def create(self, overwrite: bool = False) -> None:
        """Create the folder; one that already holds a run is refused unless overwrite is set."""
        self._hold()
        self.acquire(new=not overwrite)
        try:
            for path in (*generations(self.path), self.path / "summary.json"):
                path.unlink(missing_ok=True)
            self.describe()
            self._tables.create(self.config.contexts)
        except (OSError, RunFailed) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidInput(f"cannot write to {self.path}: {reason}") from error

    def describe(self) -> None:
        """Write config.json."""
        self._lock.check()
        values = {**self.config.to_json(), "versions": versions(), SIGNATURE: sign(self.config)}
        write_json(self.path / "config.json", values)

    def episodes(self, batch: EpisodeBatch, score: Score) -> None:
        """Add a row for each episode."""
        if not len(batch):
            return
        integers = {"step": batch.ended, "stage": batch.stages, "length": batch.lengths}
        numbers = {"return": batch.returns, "success": batch.successes, "score": batch.scores(score)}
        columns: dict[str, Iterable[str]] = {name: map(str, values.tolist()) for name, values in integers.items()}
        columns |= {name: _format_all(values) for name, values in numbers.items()}
        ordered = [columns[name] for name in EPISODES] + [_format_all(values) for values in batch.contexts.T]
        self._tables.waiting("episodes.csv").extend(map(",".join, zip(*ordered)))

    def evaluation(
        self, step: int, stage: int, alpha: float, returns: FloatArray, successes: FloatArray, scores: FloatArray
    ) -> None:
        """Add a row for an evaluation on the target, from its episodes (n,)."""
        numbers = (alpha, returns.mean(), returns.std(), successes.mean(), scores.mean())
        self._tables.waiting("evaluations.csv").append(",".join([str(step), str(stage), *map(_format, numbers)]))

    def stage(
        self,
        new: StageDistribution,
        kind: str,
        event: str,
        infeasible: float,
        distance: float,
        details: str = "",
    ) -> None:
        """Add a row for a new stage, and keep its distribution for curriculum.npz."""
        numbers = (_format(infeasible), _format(distance), details)
        values = (new.stage, new.step, _format(new.alpha), kind, event, len(new.particles), *numbers)
        self._tables.waiting("stages.csv").append(row(values))
        self._stages.append(new)
        schema.add_stage(self._digest, new)

    def flush(self) -> None:
        """Write the waiting rows."""
        self._lock.check()
        self._tables.flush()

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Send numbers to TensorBoard and other trackers; those that are not finite are left out."""
        known = {name: value for name, value in values.items() if math.isfinite(value)}
        for tracker in self._trackers if known else ():
            tracker.scalars(step, known)

    def save(self, arrays: Arrays, meta: Json) -> None:
        """Write curriculum.npz and a checkpoint that fits the files as they are; the files are synced to disk first."""
        self.flush()
        tables = self._tables.sync()
        if self._stages_on_disk != len(self._stages):
            write_archive(self.path / schema.FILE, schema.pack_stages(self._stages))
            self._stages_on_disk = len(self._stages)
        whole = {
            **meta,
            "config": self.config.to_json(),
            "versions": versions(),
            "tables": tables,
            "stages": {"count": len(self._stages), "digest": self._digest.hexdigest()},
        }
        inside(self.path, "checkpoint")  # a link may have taken its place since the run began
        latest, previous = generations(self.path)
        checkpoint.save(latest, arrays, whole, keep=previous)

    def load(self, check: Check = lambda headers: None, segment: int | None = None) -> Checkpoint:
        """The newest checkpoint that is complete and fits the files (of this segment, if one is named).

        Nothing is changed before `resume`.
        """
        refused: list[CheckpointError] = []
        for found in self._whole(check, refused):
            if segment is None or found.count("segment") == segment:
                if refused:
                    _warn(f"{refused[0]}; resuming from {found.path}, the checkpoint before it")
                return found
        if refused:
            raise refused[0]
        what = "a checkpoint" if segment is None else f"a checkpoint of segment {segment}"
        raise CheckpointError(f"expected {what} in {self.path / 'checkpoint'}, found none")

    @property
    def last_stage(self) -> StageDistribution:
        """The last stage in the folder."""
        return self._stages[-1]

    @property
    def recorded(self) -> dict[str, Recorded]:
        """What the episodes and evaluations of the loaded checkpoint end with."""
        return self._tables.recorded

    def complete_checkpoints(self) -> Iterator[Checkpoint]:
        """Every checkpoint that is complete and fits the files, the newest first."""
        return self._whole(lambda headers: None, [])

    def resume(self) -> None:
        """Continue from what was loaded: drop later checkpoints and cut the files back to their length at that time."""
        if self._loaded is None:
            raise CheckpointError(f"expected a checkpoint of {self.path} to be loaded before it is resumed")
        self._lock.check()
        latest, previous = generations(self.path)
        if self._loaded.path == previous:
            os.replace(previous, latest)
        self._tables.cut()
        before = self._loaded.meta.get("versions")
        known = before if isinstance(before, dict) else {}
        plain = {name: str(value)[:40] for name, value in known.items()}
        changed = [f"{name} {plain.get(name)} is {now}" for name, now in versions().items() if known.get(name) != now]
        if changed:
            _warn(f"{self.path} was last written with other versions: {', '.join(changed)}; its numbers may differ")

    def summary(self, values: Json) -> None:
        """Write the summary, last: a folder that has one holds a finished run."""
        self._lock.check()
        write_json(self.path / "summary.json", values)

    def reopen(self) -> None:
        """Remove the summary of a finished run that is extended."""
        self._lock.check()
        (self.path / "summary.json").unlink(missing_ok=True)

    def close(self) -> None:
        """Write the waiting rows and close trackers; the folder stays locked."""
        self.flush()
        self._close_trackers()

    def release(self) -> None:
        """Unlock the folder, whatever has been written."""
        self._close_trackers()
        self._lock.release()

    def _hold(self) -> None:
        checkpoints = inside(self.path, "checkpoint")
        self._lock.acquire()
        clear_leftovers(checkpoints)

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
        check_config(found, self.config)
        self._tables.verify(found)
        whole = schema.read_stages(self.path / schema.FILE, checked=True)  # never older than the checkpoint
        count, digest = found.count("stages", "count"), hashlib.blake2b(digest_size=32)
        for stage in whole[:count]:
            schema.add_stage(digest, stage)
        if not 0 < count <= len(whole) or digest.hexdigest() != found.string("stages", "digest"):
            raise CheckpointError(f"{self.path / schema.FILE} does not match its checkpoint: stages were changed")
        self._stages, self._digest = whole[:count], digest
        self._stages_on_disk = count if len(whole) == count else -1  # later stages on disk are to be dropped
        self._loaded = found
        return found


def check_config(found: Checkpoint, config: RunConfig) -> None:
    """Refuse a checkpoint of a run with another configuration, except for its budget."""
    if _without_budget(found.meta.get("config")) != _without_budget(config.to_json()):
        folder = found.path.parent.parent
        raise CheckpointError(f"{found.path} belongs to another run than {folder / 'config.json'}")


def check_recorded_config(folder: Path, config: RunConfig) -> None:
    """Refuse another configuration than that of the folder's newest checkpoint, before anything is built from it."""
    for path in filter(os.path.exists, generations(folder)):
        with contextlib.suppress(CheckpointError):  # of a damaged one, which is reported when it is loaded
            found = checkpoint.load(path, only=())
            break
    else:
        return
    check_config(found, config)


def _warn(text: str) -> None:
    warnings.warn(text, RunWarning, stacklevel=3)


def _without_budget(config: Any) -> Any:
    """A configuration without its budget, which may be extended."""
    return {k: v for k, v in config.items() if k not in ("steps", "eval_every")} if isinstance(config, dict) else config


def _format_all(values: Array) -> Iterable[str]:
    return map(_format, values.tolist())


def _format(value: float) -> str:
    return f"{value:.9g}"
