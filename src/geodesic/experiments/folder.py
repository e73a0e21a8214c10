"""A run's folder: what is written while a run goes on, such that a run cut off at any moment can be taken up again.

Rows are appended to the CSV files as they come; a checkpoint notes how long each file was. Taking a run up again cuts
the files back to that length, so a resumed run leaves the same bytes as an unbroken one.
"""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geodesic.curricula import Curriculum, Episodes, State
from geodesic.distributions import Particles
from geodesic.envs.cmdp import ContextualMDP
from geodesic.errors import CheckpointError, InvalidInput, RunFailed
from geodesic.experiments.config import RunConfig, versions
from geodesic.experiments.results import EPISODES, EVALUATIONS, STAGES
from geodesic.training import checkpoint

COLUMNS = {"episodes.csv": EPISODES, "evaluations.csv": EVALUATIONS, "stages.csv": STAGES}


class RunFolder:
    """Writes one run's files. `distance` in stages.csv is that between the means of the stage and of the target."""

    def __init__(self, path: Path, config: RunConfig, mdp: ContextualMDP, target: Particles) -> None:
        self.path = path
        self.config = config
        self._mdp = mdp
        self._target_mean = target.mean()
        self._history: list[tuple[int, int, float, Particles, checkpoint.Arrays]] = []
        self._events: Any = None

    @property
    def checkpoint_path(self) -> Path:
        return self.path / "checkpoint" / "latest.npz"

    def create(self) -> None:
        """A new folder; one that holds a run already is refused."""
        if (self.path / "config.json").exists():
            raise InvalidInput(f"{self.path} already holds a run; try --resume {self.path}, or another --out")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._write_json("config.json", {**self.config.to_json(), "versions": versions()})
            contexts = tuple(f"context_{i}" for i in range(self._mdp.context_space.dim))
            for name, columns in COLUMNS.items():
                self._append(name, [columns + (contexts if name == "episodes.csv" else ())], "w")
        except (OSError, RunFailed) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidInput(f"cannot write to {self.path}: {reason}") from error

    def episodes(self, episodes: Episodes, steps: NDArray[np.int64]) -> None:
        rows = zip(steps, episodes.stages, episodes.returns, episodes.lengths, episodes.successes, episodes.contexts)
        self._append("episodes.csv", [(s, k, _text(g), n, _text(w), *map(_text, c)) for s, k, g, n, w, c in rows])

    def evaluation(self, step: int, state: State, returns: NDArray[Any], successes: NDArray[Any]) -> None:
        numbers = (state.alpha, returns.mean(), returns.std(), successes.mean())
        self._append("evaluations.csv", [(step, state.stage, *map(_text, numbers))])

    def stage(self, step: int, state: State, curriculum: Curriculum) -> None:
        """A new stage: its row, and its distribution for curriculum.npz."""
        held = state.distribution
        infeasible = float(held.weights @ ~self._mdp.is_feasible(held.points))
        distance = float(np.linalg.norm(held.mean() - self._target_mean))
        row = (state.stage, step, _text(state.alpha), state.event, len(held), _text(infeasible), _text(distance))
        self._append("stages.csv", [row])
        self._history.append((state.stage, step, state.alpha, held, curriculum.snapshot(state)))

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
        self._events.add_event(Event(step=step, wall_time=_now(), summary=Summary(value=items)))

    def save(self, arrays: checkpoint.Arrays, meta: dict[str, Any]) -> None:
        """curriculum.npz and a checkpoint that fits the files as they are now."""
        self._write_curriculum()
        lengths = {name: (self.path / name).stat().st_size for name in COLUMNS}
        whole = {**meta, "config": self.config.to_json(), "lengths": lengths, "stages": len(self._history)}
        checkpoint.save(self.checkpoint_path, arrays, whole)

    def load(self) -> tuple[checkpoint.Arrays, dict[str, Any]]:
        """The last checkpoint, with the files cut back to what they were then."""
        arrays, meta = checkpoint.load(self.checkpoint_path)
        if meta.get("config") != self.config.to_json():
            raise CheckpointError(f"{self.checkpoint_path} belongs to another run than {self.path / 'config.json'}")
        for name, length in meta["lengths"].items():
            file = self.path / name
            if not file.exists() or file.stat().st_size < length:
                raise CheckpointError(f"{file} is shorter than its checkpoint says; the run cannot be taken up again")
        self._read_curriculum(meta["stages"])
        for name, length in meta["lengths"].items():
            os.truncate(self.path / name, length)
        return arrays, meta

    def summary(self, values: dict[str, Any]) -> None:
        """Written last: a folder that has it holds a finished run."""
        self._write_json("summary.json", values)

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None

    def _append(self, name: str, rows: list[tuple[Any, ...]], mode: str = "a") -> None:
        if not rows:
            return
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        try:
            with (self.path / name).open(mode) as file:
                file.write(text.getvalue())
        except OSError as error:
            raise RunFailed(f"cannot write {self.path / name}: {error.strerror}") from error

    def _write_json(self, name: str, values: dict[str, Any]) -> None:
        text = json.dumps(values, indent=2).encode() + b"\n"
        checkpoint.write_atomically(self.path / name, lambda file: file.write(text))

    def _write_curriculum(self) -> None:
        stages, steps, alphas, held, snapshots = zip(*self._history)
        arrays: dict[str, Any] = {
            "points": np.concatenate([particles.points for particles in held]),
            "weights": np.concatenate([particles.weights for particles in held]),
            "offsets": np.cumsum([0, *map(len, held)]),
            "stage": np.array(stages),
            "step": np.array(steps),
            "alpha": np.array(alphas),
        }
        for stage, snapshot in zip(stages, snapshots):
            arrays.update({f"snapshot/{stage}/{name}": value for name, value in snapshot.items()})
        checkpoint.write_atomically(self.path / "curriculum.npz", lambda file: np.savez(file, **arrays))

    def _read_curriculum(self, n: int) -> None:
        """The first n stages of curriculum.npz, which is never older than the checkpoint."""
        try:
            with np.load(self.path / "curriculum.npz", allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            for i in range(n):
                part = slice(*arrays["offsets"][i : i + 2])
                stage, prefix = int(arrays["stage"][i]), f"snapshot/{arrays['stage'][i]}/"
                snapshot = {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
                held = Particles(arrays["points"][part], arrays["weights"][part])
                self._history.append((stage, int(arrays["step"][i]), float(arrays["alpha"][i]), held, snapshot))
        except Exception as error:
            raise CheckpointError(f"damaged file {self.path / 'curriculum.npz'}: {error}") from error


def read_config(path: Path) -> RunConfig:
    """The configuration of the run in this folder."""
    try:
        values = json.loads((path / "config.json").read_text())
    except FileNotFoundError:
        raise InvalidInput(f"expected a run folder, found no config.json in {path}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"damaged file {path / 'config.json'}: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"damaged file {path / 'config.json'}: expected a JSON object")
    return RunConfig.from_json(values)


def finished(path: Path) -> bool:
    return (path / "summary.json").exists()


def _text(value: float) -> str:
    return f"{value:.9g}"


def _now() -> float:
    import time

    return time.time()
