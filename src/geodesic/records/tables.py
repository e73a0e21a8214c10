"""The tables of a run as they grow: whole lines at their ends, with a digest over what was written so far."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geodesic.errors import CheckpointError, RunFailed
from geodesic.records.checkpoint import Checkpoint, Json
from geodesic.records.schema import CONTEXT, TABLES

CHUNK = 2**20  # bytes
_SAFE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)  # a table that leads elsewhere is not one


class Tables:
    """The CSV files of a folder. Rows wait in memory until `flush`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting: dict[str, list[str]] = {name: [] for name in TABLES}
        self._lengths: dict[str, int] = {}
        self._digests: dict[str, hashlib.blake2b] = {}
        self._unsynced: set[str] = set()

    def create(self, contexts: Sequence[str]) -> None:
        """New files, with their heads."""
        more = tuple(CONTEXT + name for name in contexts)
        for name, columns in TABLES.items():
            os.close(os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFE, 0o644))
            self._lengths[name], self._digests[name] = 0, hashlib.blake2b(digest_size=32)
            self._append(name, row((*columns, *(more if name == "episodes.csv" else ()))) + "\n")

    def waiting(self, name: str) -> list[str]:
        """The lines that wait to be written."""
        return self._waiting[name]

    def flush(self) -> None:
        """Write what waits."""
        for name, lines in self._waiting.items():
            if lines:
                self._append(name, "\n".join(lines) + "\n")
                lines.clear()

    def sync(self) -> Json:
        """All that was written, safely on disk; how long each file is, and its digest."""
        for name in sorted(self._unsynced):
            try:
                descriptor = os.open(self.folder / name, os.O_RDONLY | _SAFE)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            except OSError as error:
                raise RunFailed(f"cannot write {self.folder / name}: {error.strerror}") from error
        self._unsynced.clear()
        return {name: {"bytes": self._lengths[name], "digest": self._digests[name].hexdigest()} for name in TABLES}

    def verify(self, checkpoint: Checkpoint) -> None:
        """Look whether the files begin as the checkpoint says, and remember how; nothing is changed."""
        found: dict[str, tuple[int, hashlib.blake2b]] = {}
        for name in TABLES:
            length = checkpoint.count("tables", name, "bytes")
            digest = _digest(self.folder / name, length)
            if digest.hexdigest() != checkpoint.text("tables", name, "digest"):
                raise CheckpointError(f"{self.folder / name} is not what its checkpoint says: rows were changed")
            found[name] = length, digest
        self._lengths = {name: length for name, (length, _) in found.items()}
        self._digests = {name: digest for name, (_, digest) in found.items()}

    def cut(self) -> None:
        """Cut the files back to what was verified."""
        for name, length in self._lengths.items():
            try:
                descriptor = os.open(self.folder / name, os.O_RDWR | _SAFE)
                try:
                    os.ftruncate(descriptor, length)
                finally:
                    os.close(descriptor)
            except OSError as error:
                raise RunFailed(f"cannot write {self.folder / name}: {error.strerror}") from error
        self._unsynced = set(TABLES)

    def _append(self, name: str, text: str) -> None:
        path, content = self.folder / name, text.encode()
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _SAFE, 0o644)
            with os.fdopen(descriptor, "ab", buffering=0) as file:
                if os.fstat(descriptor).st_size != self._lengths[name]:
                    raise RunFailed(f"{path} was changed by somebody else; stopped, nothing more is written there")
                try:
                    written = file.write(content)
                    while written < len(content):
                        written += file.write(content[written:])
                except OSError:  # a full disk may have taken a part
                    file.truncate(self._lengths[name])
                    raise
        except OSError as error:
            raise RunFailed(f"cannot write {path}: {error.strerror}") from error
        self._lengths[name] += len(content)
        self._digests[name].update(content)
        self._unsynced.add(name)


def row(values: Sequence[Any]) -> str:
    """One line of CSV, quoted where it must be."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()


def _digest(path: Path, length: int) -> hashlib.blake2b:
    """A digest over the first bytes of a file, which must have so many."""
    digest = hashlib.blake2b(digest_size=32)
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _SAFE)
        with os.fdopen(descriptor, "rb") as file:
            if os.fstat(descriptor).st_size < length:
                raise CheckpointError(f"{path} is shorter than its checkpoint says; the run cannot be taken up again")
            while length > 0:
                part = file.read(min(CHUNK, length))
                if not part:
                    break
                digest.update(part)
                length -= len(part)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    return digest
