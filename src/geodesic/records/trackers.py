"""Trackers: where a run's numbers are sent besides its folder, TensorBoard and Weights & Biases.

The environment variable GEODESIC_TRACK names them, separated by commas: `tensorboard` (default), `wandb`, or `none`. It
reaches workers and other machines with the environment and is not part of a run's configuration: results do not depend
on it.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from geodesic.checks import as_name
from geodesic.errors import MissingExtra
from geodesic.records.config import RunConfig
from geodesic.records.files import check_single, inside, opened, writing_to

VARIABLE = "GEODESIC_TRACK"
_FILES = itertools.count()  # of this process


class Tracker(Protocol):
    """A destination for numbers."""

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Send finite numbers by name at this environment step; steps never decrease."""

    def close(self) -> None:
        """End this process's part of the run."""


class TensorBoard:
    """Event files in the run's folder.

    TensorBoard's own writer has a thread that prints its errors and makes a deleted folder again; here they are raised.
    """

    def __init__(self, path: Path, config: RunConfig) -> None:
        self._folder = path
        self._file: Path | None = None

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Send finite numbers by name at this environment step."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        items = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        events = [Event(step=step, wall_time=time.time(), summary=Summary(value=items))]
        if self._file is None:
            # the name by which TensorBoard finds it
            name = f"events.out.tfevents.{time.time():010.0f}.{platform.node()}.{os.getpid()}.{next(_FILES)}"
            self._file = self._folder / name
            # the session log tells TensorBoard to drop what an interrupted attempt wrote beyond this step
            start = Event(step=step, session_log=SessionLog(status=SessionLog.START))
            events = [Event(wall_time=time.time(), file_version="brain.Event:2"), start, *events]
        _append(self._file, events)

    def close(self) -> None:
        """End this process's part of the run."""
        self._file = None


def _append(path: Path, events: Sequence[Any]) -> None:
    """Add events to a file, which is created if its folder exists."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    records = io.BytesIO()
    for event in events:
        RecordWriter(records).write(event.SerializeToString())
    with writing_to(path), opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as descriptor:
        check_single(path, descriptor)
        os.write(descriptor, records.getvalue())


class WandB:
    """A run of Weights & Biases; its own settings (WANDB_PROJECT, WANDB_MODE, ...) come from the environment.

    The folder determines the run's identity, so a resumed run continues there.
    """

    def __init__(self, path: Path, config: RunConfig) -> None:
        self._path, self._config = path, config
        self._run: Any = None

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Send finite numbers by name at this environment step."""
        if self._run is None:
            self._run = self._start()
        self._run.log(values, step=step)

    def _start(self) -> Any:
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
            dir=str(inside(self._path, "wandb").parent),  # it makes this folder there
            resume="allow",
            reinit="create_new",  # runs that train at once are one process
        )

    def close(self) -> None:
        """End this process's part of the run."""
        if self._run is not None:
            self._run.finish()
            self._run = None


TRACKERS: dict[str, type[TensorBoard] | type[WandB]] = {"tensorboard": TensorBoard, "wandb": WandB}


def chosen(text: str | None = None) -> list[str]:
    """The chosen names, from this string or the environment; unknown ones are refused."""
    given = os.environ.get(VARIABLE, "tensorboard") if text is None else text
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        as_name(name, "a tracker", ("none", *TRACKERS))
    return [name for name in dict.fromkeys(names) if name != "none"]


def trackers(path: Path, config: RunConfig) -> list[Tracker]:
    """The trackers of the run in this folder; each opens its destination at the first number."""
    return [TRACKERS[name](path, config) for name in chosen()]
