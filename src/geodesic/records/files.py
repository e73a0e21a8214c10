"""Files that are either as they were or as they should be, also after a kill or a power failure."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from geodesic.errors import CheckpointError, RunFailed

LONGEST_JSON = 16 * 2**20  # bytes
TEMPORARY = ".tmp"  # ends the names of files that are being written


def write_atomically(path: Path, write: Callable[[IO[bytes]], object], keep: Path | None = None) -> None:
    """Call write(file) on a temporary file beside `path`, then move it there in one step, safely on disk.

    keep: where to the file that was there before is moved, just before; a kill in between leaves that one alone.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=TEMPORARY)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            if keep is not None and path.exists():
                os.replace(path, keep)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """The names in a folder, safely on disk; some systems have no way to ask for it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object in a file that may come from anywhere."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError("not a file")
        with path.open("rb") as file:
            text = file.read(LONGEST_JSON + 1)
        values = json.loads(text) if len(text) <= LONGEST_JSON else None
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"damaged file {path}: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"damaged file {path}: expected a JSON object")
    return values


def clear_leftovers(folder: Path) -> None:
    """Remove what writers that were killed left half done; for the folder's one writer."""
    for path in folder.glob(f".*{TEMPORARY}"):
        path.unlink(missing_ok=True)
