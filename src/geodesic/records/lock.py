"""One writer a folder: a lock that its holder's end releases, however it comes.

The kernel's lock (flock) on `.lock` is the truth where it reaches: a process that is killed lets go of it. The file
says who holds it. Between machines whose storage does not carry such locks, its time of change is the holder's sign of
life. Reading needs no lock.
"""

from __future__ import annotations

import json
import os
import platform
import time
import uuid
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from geodesic.errors import InvalidInput, RunFailed
from geodesic.records.files import TEMPORARY, clear_leftovers

LOCK = ".lock"
STALE_SECONDS = 600.0  # without a sign of life from another machine
BEAT_SECONDS = 5.0  # between two signs of life
FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)

Holder = dict[str, Any]


class FolderLock:
    """The right to write to a folder.

    owner: a token of the work itself. Who comes with the same one takes over at once, such as a job that is done again
    elsewhere because its machine fell silent; the earlier holder is told by its next `check`.
    """

    def __init__(self, folder: Path, owner: str = "") -> None:
        self.folder = folder
        self.path = folder / LOCK
        self.owner = owner
        self._beaten = 0.0
        self._descriptor = -1
        self._end: weakref.finalize[..., Self] | None = None

    @property
    def held(self) -> bool:
        return self._end is not None and self._end.alive

    def take(self) -> Self:
        """Make the folder where there is none, and hold it; refused, with nothing touched, where another does."""
        if self.held:
            return self
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = self._take()
            clear_leftovers(self.folder)
        except (OSError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidInput(f"cannot write to {self.folder}: {reason}") from error
        self._end = weakref.finalize(self, _let_go, self._descriptor, self.path, os.getpid())
        self._beaten = time.monotonic()
        return self

    def check(self) -> None:
        """Before writing: whether the folder is still this holder's, and a sign of life."""
        if not self.held:
            raise RunFailed(f"{self.folder} is not held by this process any more")
        if not _is_at(self._descriptor, self.path):
            other = self._other()
            by = f"taken over by process {other['process']} on {other['host']}" if other else "taken from this process"
            raise RunFailed(f"{self.folder} was {by}; stopped, nothing more is written there")
        if time.monotonic() - self._beaten > BEAT_SECONDS:
            os.utime(self._descriptor)
            self._beaten = time.monotonic()

    def release(self) -> None:
        """The end of writing: no lock file remains."""
        if self._end is not None:
            self._end()

    def __enter__(self) -> Self:
        return self.take()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _take(self) -> int:
        """The descriptor of the lock file that is ours now."""
        patience = time.monotonic() + 1.0
        while True:
            descriptor = os.open(self.path, FLAGS, 0o644)
            try:
                free, holder = _flock(descriptor), _read(descriptor)
                unsaid = free is False and holder is None and time.monotonic() < patience
                if _is_at(descriptor, self.path) and not unsaid:
                    if free is False if holder is None else self._lives(holder, free):
                        raise InvalidInput(f"{self.folder} is being written by {_words(holder)}")
                    return self._put_in_place()
            finally:
                os.close(descriptor)
            time.sleep(0.01)  # the file was removed or replaced since it was opened, or its holder is just coming

    def _put_in_place(self) -> int:
        """A lock file of our own in place of the one that is there: its holder, if it lives, sees that it is gone."""
        temporary = self.path.with_name(f"{LOCK}-{uuid.uuid4().hex}{TEMPORARY}")
        descriptor = os.open(temporary, FLAGS | os.O_EXCL, 0o644)
        try:
            _flock(descriptor)
            os.write(descriptor, json.dumps({**_this_process(), "owner": self.owner}).encode())
            os.replace(temporary, self.path)
        except BaseException:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)
            raise
        return descriptor

    def _other(self) -> Holder | None:
        """Who has put another lock file in place of ours."""
        try:
            descriptor = os.open(self.path, FLAGS & ~os.O_CREAT)
        except OSError:
            return None
        try:
            return _read(descriptor)
        finally:
            os.close(descriptor)

    def _lives(self, holder: Holder, free: bool | None) -> bool:
        """Whether a lock is somebody else's who lives; free: whether the kernel's part of it could be had."""
        if self.owner and holder["owner"] == self.owner:
            return False
        here = holder["host"] == platform.node()
        if here and free:
            return False
        if here and holder["space"] and holder["space"] == _space():  # the children of a dead process may keep its lock
            return bool(_started(holder["process"]) == holder["started"])
        return free is False or time.time() - self.path.stat().st_mtime < STALE_SECONDS


def held_by(folder: Path) -> Holder | None:
    """Who is writing to a folder, if somebody is; looking takes nothing from them.

    A process of this machine is looked up; of others, the sign of life counts.
    """
    path = folder / LOCK
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    try:
        holder, beaten = _read(descriptor), os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
    if holder is None:
        return None
    if holder["host"] == platform.node() and holder["space"] == _space() != "":
        return holder if _started(holder["process"]) == holder["started"] else None
    return holder if time.time() - beaten < STALE_SECONDS else None


def _this_process() -> Holder:
    return {
        "process": os.getpid(),
        "host": platform.node(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "started": _started(os.getpid()),
        "space": _space(),
    }


def _words(holder: Holder | None) -> str:
    if holder is None:
        return "another process; wait for its end, or try another folder"
    who = f"process {holder['process']} on {holder['host']} since {holder['since']}"
    if holder["host"] == platform.node():
        return f"{who}; wait for its end, or try another folder"
    return f"{who}; wait for its end, or for {STALE_SECONDS / 60:g} minutes after its last sign of life"


def _started(process: int) -> str:
    """When a process of this machine was started, which tells it from a later one of the same number."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _space() -> str:
    """Which process numbers are meant: containers have their own."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _flock(descriptor: int) -> bool | None:
    """Whether the kernel's lock could be had; nothing where this system or storage has none."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def _read(descriptor: int) -> Holder | None:
    """Who holds it, as the file says; nothing where it says nothing that we understand."""
    kinds = {"process": int, "host": str, "since": str, "started": str, "space": str, "owner": str}
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
    except (OSError, ValueError, RecursionError):
        return None
    known = isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in kinds.items())
    return found if known else None


def _let_go(descriptor: int, path: Path, process: int) -> None:
    """Remove the file first: who opens it before and gets its lock after sees that it is gone."""
    if os.getpid() == process and _is_at(descriptor, path):
        path.unlink(missing_ok=True)
    os.close(descriptor)
