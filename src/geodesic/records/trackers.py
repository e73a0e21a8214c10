"""Where a run's numbers go besides its folder: TensorBoard, and Weights & Biases for who wants it.

GEODESIC_TRACK says which, with commas between: `tensorboard` (what happens without it), `wandb`, or `none`. It reaches
workers and other machines as the environment does, and is no part of a run: its results do not depend on who looks on.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any, Protocol

from geodesic.checks import as_name
from geodesic.errors import MissingExtra
from geodesic.records.config import RunConfig

VARIABLE = "GEODESIC_TRACK"


class Tracker(Protocol):
    """One place that numbers are sent to."""

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Finite numbers by name, at this environment step; steps never go back."""

    def close(self) -> None:
        """The end of this process's part of the run."""


class TensorBoard:
    """Event files in the run's folder."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self._path = path
        self._writer: Any = None

    def scalars(self, step: int, values: dict[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        if self._writer is None:
            self._writer = EventFileWriter(str(self._path))
            # tells TensorBoard to forget what an earlier, broken attempt wrote beyond this step
            self._writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))
        items = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._writer.add_event(Event(step=step, wall_time=time.time(), summary=Summary(value=items)))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class WandB:
    """A run of Weights & Biases; its own settings (WANDB_PROJECT, WANDB_MODE, ...) come from the environment.

    The folder decides the run's identity, so one that is taken up again goes on there.
    """

    def __init__(self, path: Path, config: RunConfig) -> None:
        self._path, self._config = path, config
        self._run: Any = None

    def scalars(self, step: int, values: dict[str, float]) -> None:
        if self._run is None:
            self._run = self._begun()
        self._run.log(values, step=step)

    def _begun(self) -> Any:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtra("wandb", "wandb") from error
        config = self._config
        return wandb.init(
            project=os.environ.get("WANDB_PROJECT", "geodesic"),
            id=hashlib.blake2b(str(self._path.resolve()).encode(), digest_size=8).hexdigest(),
            name=f"{config.label} seed {config.seed}",
            group=f"{config.name} {config.label}",
            config=config.to_json(),
            dir=str(self._path),
            resume="allow",
            reinit="create_new",  # runs that train at once are one process
        )

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None


TRACKERS: dict[str, type[TensorBoard] | type[WandB]] = {"tensorboard": TensorBoard, "wandb": WandB}


def chosen(text: str | None = None) -> list[str]:
    """The names that are meant: of this text, or of the environment; others are refused."""
    given = os.environ.get(VARIABLE, "tensorboard") if text is None else text
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        as_name(name, "a tracker", ("none", *TRACKERS))
    return [name for name in dict.fromkeys(names) if name != "none"]


def trackers(path: Path, config: RunConfig) -> list[Tracker]:
    """Those of the run in this folder; nothing is opened before there is something to say."""
    return [TRACKERS[name](path, config) for name in chosen()]
