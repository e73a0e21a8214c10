"""The tables of a run: complete lines are appended, with a digest of everything written so far."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from geodesic.errors import CheckpointError, RunFailed
from geodesic.records.checkpoint import LARGEST_FILE, Checkpoint, Json
from geodesic.records.files import check_single, opened, writing_to
from geodesic.records.schema import CONTEXT, TABLES

CHUNK = 2**20  # bytes
LONGEST_ROW, DIGITS = 2**16, 18  # bytes of a row of numbers, digits of a step


class Recorded(NamedTuple):
    """The rows of a table, and the step in the last one; -1 without rows."""

    rows: int
    step: int


class Tables:
    """The CSV files of a folder. Rows wait in memory until `flush`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting: dict[str, list[str]] = {name: [] for name in TABLES}
        self._lengths: dict[str, int] = {}
        self._digests: dict[str, hashlib.blake2b] = {}
        self._unsynced: set[str] = set()
        self.recorded: dict[str, Recorded] = {}  # of episodes and evaluations, in what was verified

    def create(self, contexts: Sequence[str]) -> None:
        """Create the files with their headers."""
        more = tuple(CONTEXT + name for name in contexts)
        for name, columns in TABLES.items():
            (self.folder / name).unlink(missing_ok=True)
            self._lengths[name], self._digests[name] = 0, hashlib.blake2b(digest_size=32)
            self._append(name, row((*columns, *(more if name == "episodes.csv" else ()))) + "\n")

    def waiting(self, name: str) -> list[str]:
        """The lines that wait to be written to a table."""
        return self._waiting[name]

    def flush(self) -> None:
        """Write the waiting lines."""
        for name, lines in self._waiting.items():
            if lines:
                self._append(name, "\n".join(lines) + "\n")
                lines.clear()

    def sync(self) -> Json:
        """Sync the files to disk; return the length and the digest of each."""
        for name in sorted(self._unsynced):
            with writing_to(self.folder / name), opened(self.folder / name, os.O_RDONLY) as descriptor:
                os.fsync(descriptor)
        self._unsynced.clear()
        return {name: {"bytes": self._lengths[name], "digest": self._digests[name].hexdigest()} for name in TABLES}

    def verify(self, checkpoint: Checkpoint) -> None:
        """Check that the files begin as the checkpoint says, and remember it; nothing is changed."""
        found: dict[str, tuple[int, hashlib.blake2b]] = {}
        recorded: dict[str, Recorded] = {}
        for name, columns in TABLES.items():
            length = checkpoint.count("tables", name, "bytes", most=LARGEST_FILE)
            digest, lines, last = _read(self.folder / name, length)
            if digest.hexdigest() != checkpoint.string("tables", name, "digest"):
                raise CheckpointError(f"{self.folder / name} does not match its checkpoint: rows were changed")
            found[name] = length, digest
            if columns[0] == "step":
                recorded[name] = Recorded(lines - 1, _step_of(self.folder / name, last) if lines > 1 else -1)
        self.recorded = recorded
        self._lengths = {name: length for name, (length, _) in found.items()}
        self._digests = {name: digest for name, (_, digest) in found.items()}

    def cut(self) -> None:
        """Truncate the files to what was verified."""
        for name, length in self._lengths.items():
            with writing_to(self.folder / name), opened(self.folder / name, os.O_RDWR) as descriptor:
                os.ftruncate(descriptor, length)
        self._unsynced = set(TABLES)

    def _append(self, name: str, text: str) -> None:
        path, content = self.folder / name, text.encode()
        with writing_to(path), opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as descriptor:
            known = os.fstat(descriptor)
            check_single(path, descriptor)
            if known.st_size != self._lengths[name]:
                raise RunFailed(f"{path} was changed by another process; stopped, nothing more is written there")
            try:
                written = os.write(descriptor, content)
                while written < len(content):
                    written += os.write(descriptor, content[written:])
            except OSError:  # a full disk may have taken a part
                os.ftruncate(descriptor, self._lengths[name])
                raise
        self._lengths[name] += len(content)
        self._digests[name].update(content)
        self._unsynced.add(name)


def row(values: Sequence[Any]) -> str:
    """One line of CSV, quoted where it must be."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()


def _read(path: Path, length: int) -> tuple[hashlib.blake2b, int, bytes]:
    """A digest of the first bytes of a file, which must have at least that many, their lines, and the last one."""
    digest, lines, end = hashlib.blake2b(digest_size=32), 0, b""
    try:
        with opened(path, os.O_RDONLY) as descriptor:
            known = os.fstat(descriptor)
            check_single(path, descriptor)
            if known.st_size < length:
                raise CheckpointError(f"{path} is shorter than its checkpoint says; the run cannot be resumed")
            while length > 0 and (part := os.read(descriptor, min(CHUNK, length))):
                digest.update(part)
                length -= len(part)
                lines, end = lines + part.count(b"\n"), (end + part)[-LONGEST_ROW:]
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    return digest, lines, end.rstrip(b"\n").rpartition(b"\n")[2]


def _step_of(path: Path, line: bytes) -> int:
    """The step with which a row begins."""
    step = line.partition(b",")[0]
    if not (step.isdigit() and len(step) <= DIGITS):
        raise CheckpointError(f"damaged file {path}: expected its last row to begin with a step, got {step!r:.40}")
    return int(step)
