"""One writer per folder: a lock that is released when its holder ends, however it ends.

The kernel's lock (flock) on `.lock` decides where it works: a killed process releases it. The file says who holds it.
Between machines whose storage does not support such locks, its modification time is the holder's heartbeat. Reading
needs no lock. (The package filelock offers the kernel's lock alone, without owner, takeover and heartbeat.)
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
import uuid
import weakref
from pathlib import Path
from typing import Any, Self

from geodesic.errors import InvalidInput, RunFailed
from geodesic.records.files import NO_LINK, NO_WAIT, TEMPORARY, clear_leftovers, opened

LOCK = ".lock"
STALE_SECONDS = 600.0  # without a heartbeat from another machine
BEAT_SECONDS = 5.0  # between two heartbeats
FLAGS = os.O_RDWR | os.O_CREAT | NO_LINK | NO_WAIT

Holder = dict[str, Any]


class FolderLock:
    """The right to write to a folder.

    owner: a token of the work. Another process with the same token takes over at once, for example a job that is
    retried because its machine stopped responding; the earlier holder finds out at its next `check`.
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
        """Whether this process holds the folder."""
        return self._end is not None and self._end.alive

    def acquire(self) -> Self:
        """Create the folder if necessary and lock it; refused, with nothing changed, if another process holds it."""
        if self.held:
            return self
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = self._acquire()
            clear_leftovers(self.folder)
        except InvalidInput:
            raise
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidInput(f"cannot write to {self.folder}: {reason}") from error
        self._end = weakref.finalize(self, _let_go, self._descriptor, self.path, os.getpid())
        self._beaten = time.monotonic()
        return self

    def check(self) -> None:
        """Check before writing that the folder is still held by this process, and send a heartbeat."""
        if not self.held:
            raise RunFailed(f"{self.folder} is no longer held by this process")
        if not _is_at(self._descriptor, self.path):
            other, _ = _holder_at(self.path)
            by = f"taken over by process {other['process']} on {other['host']}" if other else "taken from this process"
            raise RunFailed(f"{self.folder} was {by}; stopped, nothing more is written there")
        if time.monotonic() - self._beaten > BEAT_SECONDS:
            os.utime(self._descriptor)
            self._beaten = time.monotonic()

    def release(self) -> None:
        """Release the folder and remove the lock file."""
        if self._end is not None:
            self._end()

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _acquire(self) -> int:
        """Take the lock; return the descriptor of its file."""
        patience = time.monotonic() + 1.0
        while True:
            descriptor = os.open(self.path, FLAGS, 0o666)
            try:
                free, holder = _flock(descriptor), _read(descriptor)
                unnamed = free is False and holder is None and time.monotonic() < patience
                if _is_at(descriptor, self.path) and not unnamed:
                    if free is False if holder is None else self._lives(holder, free):
                        raise InvalidInput(f"{self.folder} is being written by {_words(holder)}")
                    return self._put_in_place()
            finally:
                os.close(descriptor)
            time.sleep(0.01)  # the file was removed or replaced since it was opened, or its holder is not named yet

    def _put_in_place(self) -> int:
        """Replace the lock file by one of ours: an earlier holder that is alive sees that its file is gone."""
        temporary = self.path.with_name(f"{LOCK}-{uuid.uuid4().hex}{TEMPORARY}")
        descriptor = os.open(temporary, FLAGS | os.O_EXCL, 0o666)
        try:
            _flock(descriptor)
            os.write(descriptor, json.dumps(_this_process(self.owner)).encode())
            os.replace(temporary, self.path)
        except BaseException:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)
            raise
        return descriptor

    def _lives(self, holder: Holder, free: bool | None) -> bool:
        """Whether another living process holds the lock; free: whether the kernel's lock could be taken."""
        if self.owner and holder["owner"] == self.owner:
            return False
        here = holder["host"] == platform.node()
        if here and free:
            return False
        if here and holder["space"] and holder["space"] == _space():  # the children of a dead process may keep its lock
            return bool(_started(holder["process"]) == holder["started"])
        return free is False or _recent(self.path.stat().st_mtime)


def held_by(folder: Path) -> Holder | None:
    """Who is writing to a folder, if any process is; the lock is not touched.

    A process on this machine is looked up; for others the heartbeat counts.
    """
    holder, beaten = _holder_at(folder / LOCK)
    if holder is None:
        return None
    if holder["host"] == platform.node() and holder["space"] == _space() != "":
        return holder if _started(holder["process"]) == holder["started"] else None
    return holder if _recent(beaten) else None


def _holder_at(path: Path) -> tuple[Holder | None, float]:
    """Who a lock file names, and the time of the last heartbeat."""
    with contextlib.suppress(OSError), opened(path, os.O_RDONLY) as descriptor:
        return _read(descriptor), os.fstat(descriptor).st_mtime
    return None, 0.0


def _recent(beaten: float) -> bool:
    """Whether a heartbeat is not stale; one far in the future, which would never be, is no heartbeat."""
    return abs(time.time() - beaten) < STALE_SECONDS


def _this_process(owner: str) -> Holder:
    return {
        "process": os.getpid(),
        "host": platform.node(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "started": _started(os.getpid()),
        "space": _space(),
        "owner": owner,
    }


def _words(holder: Holder | None) -> str:
    who, otherwise = "another process", "try another folder"
    if holder is not None:
        who = f"process {holder['process']} on {holder['host']} since {holder['since']}"
        if holder["host"] != platform.node():
            otherwise = f"for {STALE_SECONDS / 60:g} minutes after its last heartbeat"
    return f"{who}; wait for its end, or {otherwise}"


def _started(process: int) -> str:
    """When a process of this machine started, which distinguishes it from a later one with the same number."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _space() -> str:
    """The namespace of process numbers: each container has a separate one."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _flock(descriptor: int) -> bool | None:
    """Whether the kernel's lock could be taken; None if this system or storage has none."""
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
    """The holder that the file names; None if it cannot be read."""
    kinds = {"process": int, "host": str, "since": str, "started": str, "space": str, "owner": str}
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
    except (OSError, ValueError, RecursionError):
        return None
    known = isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in kinds.items())
    return found if known else None


def _let_go(descriptor: int, path: Path, process: int) -> None:
    """Remove the file first: a process that opened it before and locks it after sees that it is gone."""
    if os.getpid() == process and _is_at(descriptor, path):
        path.unlink(missing_ok=True)
    os.close(descriptor)
