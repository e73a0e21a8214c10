"""Files that are either old or new, never in between, also after a kill or a power failure."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from geodesic.errors import CheckpointError, InvalidInput, RunFailed

LONGEST_JSON = 16 * 2**20  # bytes
DEEPEST = 32  # levels of JSON
LONGEST = 2**30  # bytes of a table, of the stages, and of what a checkpoint holds besides the agent
NO_LINK = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)  # the file itself, not where a link leads
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a pipe never waits for its other end
NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK
TEMPORARY = ".tmp"  # ends the names of files that are being written


def write_atomically(path: Path, write: Callable[[IO[bytes]], object], keep: Path | None = None) -> None:
    """Call write(file) on a temporary file beside `path`, then move it there in one step, safely on disk.

    keep: where an existing file is moved just before; a kill in between leaves only that one.
    """
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}{TEMPORARY}")
        try:
            with os.fdopen(os.open(temporary, NEW_FILE, 0o666), "w+b") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            if keep is not None and path.exists():
                os.replace(path, keep)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        sync_folder(path.parent)


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Report an error of the system as the failure of a run."""
    try:
        yield
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror}") from error


def inside(folder: Path, *parts: str) -> Path:
    """A path below a folder that is to be written to; a link on the way, which may lead anywhere, is refused."""
    path = folder
    for part in parts:
        path /= part
        if path.is_symlink():
            raise InvalidInput(f"{path} is a link; expected a folder, since nothing is written through links")
    return path


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """The descriptor of a file or folder, which is closed afterwards; links are not followed."""
    descriptor = os.open(path, flags | NO_LINK | NO_WAIT, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def check_single(path: Path, descriptor: int) -> None:
    """Refuse a file that has a second name, perhaps in another folder: what is written would appear there too."""
    names = os.fstat(descriptor).st_nlink
    if names > 1:
        raise CheckpointError(f"expected {path} to have one name, got {names} hard links; try a copy of it")


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk, where the system supports it."""
    with contextlib.suppress(OSError), opened(folder, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)


def open_plain(path: Path, most: int | None = None) -> IO[bytes]:
    """Open a file of any source for reading; a pipe or a device, which may never end, is refused.

    most: the most bytes that the file may have; a file that is mostly holes takes no room on a disk, but in memory.
    """
    known = path.stat()
    if not stat.S_ISREG(known.st_mode):
        raise ValueError("not a file")
    if most is not None and known.st_size > most:
        raise ValueError(f"expected at most {most} bytes, got {known.st_size}")
    return path.open("rb")


def parse_json(text: bytes) -> Any:
    """Parse JSON of any source; nesting that would exhaust the stack of whoever walks through the values is refused."""
    value = json.loads(text)
    level = [value]
    for _ in range(DEEPEST):
        parts = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list)))
        level = [part for own in parts for part in own]
        if not level:
            return value
    raise ValueError(f"expected JSON of at most {DEEPEST} levels, got more")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of any source."""
    try:
        with open_plain(path) as file:
            text = file.read(LONGEST_JSON + 1)
        values = parse_json(text) if len(text) <= LONGEST_JSON else None
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"damaged file {path}: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"damaged file {path}: expected a JSON object")
    return values


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object, atomically."""
    text = json.dumps(values, indent=2).encode() + b"\n"
    write_atomically(path, lambda file: file.write(text))


def clear_leftovers(folder: Path, name: str = "") -> None:
    """Remove temporary files that killed writers left, of all names or one; for the only writer of these.

    What cannot be removed, such as a folder of that name, stays.
    """
    for path in folder.glob(f".{name}*{TEMPORARY}"):
        with contextlib.suppress(OSError):
            path.unlink()
