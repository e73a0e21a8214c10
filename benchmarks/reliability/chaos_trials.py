"""The parts of a trial of `benchmarks.reliability.chaos`: a running command, and the checks at its end."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np

MARK = "GEODESIC_CHAOS"
END_SECONDS = 600.0  # within which a command must end
ORPHAN_SECONDS = 20.0  # that its processes may outlive it
# These outlive a cluster whose starter was killed, by about a minute: agents, and processes that have no work yet.
RAY_PROCESSES = (b"ray::DashboardAgent", b"ray::RuntimeEnvAgent", b"/site-packages/ray/")
RAY_SECONDS = 120.0
TABLES = ("episodes.csv", "evaluations.csv", "stages.csv")
TIMES = ("seconds", "curriculum_seconds")


class Broken(Exception):
    """A trial found a difference or something left behind."""


STARTED: list[Command] = []


class Command:
    """A `geodesic` command in a separate process, with a mark by which all its processes are found."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.mark = uuid.uuid4().hex
        STARTED.append(self)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "geodesic", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, MARK: self.mark},
        )

    def __str__(self) -> str:
        return shlex.join(["geodesic", *self.words])

    def wait_until_ready(self) -> None:
        """Wait until it handles signals: before that, a signal interrupts Python itself."""
        handled = 1 << (signal.SIGTERM - 1)
        deadline = time.monotonic() + END_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError, StopIteration):
                lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
                if int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16) & handled:
                    return
            time.sleep(0.002)

    def runs_for(self, seconds: float) -> bool:
        """Whether it still runs after this time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def wait_for_workers(self, folder: Path) -> None:
        """Wait until a worker holds a run, or the command has ended."""
        while self.process.poll() is None and not _holders(folder):
            time.sleep(0.02)

    def hit(self, number: signal.Signals, target: str, folder: Path) -> str:
        """Send the signal, and return what received it."""
        if target == "worker":
            holders = _holders(folder)
            if holders:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(random.choice(holders), number)
                return "worker"
            target = "command"
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if target == "group" else os.kill)(self.process.pid, number)
        return target

    def wait(self) -> tuple[int, str]:
        """Wait for its end, and return its exit code and what it wrote to stderr."""
        try:
            _, complaint = self.process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Broken(f"it did not end within {END_SECONDS:.0f} s") from None
        return self.process.returncode, complaint

    def check_gone(self) -> None:
        """Wait for the end of all its processes; Ray's own have until the end of all trials."""
        deadline = time.monotonic() + ORPHAN_SECONDS
        while (left := self.left(RAY_PROCESSES)) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left:
            for number in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            raise Broken(f"orphans: {sorted(left.values())}")

    def left(self, ignored: tuple[bytes, ...] = ()) -> dict[int, bytes]:
        """Its processes that still run, and their command lines."""
        found = _marked(self.mark).items()
        return {number: name for number, name in found if not any(part in name for part in ignored)}

    def resume(self, code: int, complaint: str, folder: Path, hit: str) -> None:
        """Resume with the printed command, or with the documented one if none could be printed."""
        if code == 0:
            return
        if code == -signal.SIGKILL:
            run_exists = self.words[0] == "run" and (folder / "config.json").exists()
            again = ["run", "--resume", str(folder), "--quiet"] if run_exists else self.words
        elif code == 1 and hit != "worker" and "; resume with: geodesic " in complaint and complaint.count("\n") == 1:
            again = shlex.split(complaint.rstrip().partition("; resume with: geodesic ")[2])
        else:
            raise Broken(f"ended with {code}: {complaint[-600:]}")
        more = Command(again)
        code, complaint = more.wait()
        more.check_gone()
        if code != 0 and "is finished; nothing to resume" not in complaint:
            raise Broken(f"{more} ended with {code}: {complaint[-600:]}")


def _marked(mark: str) -> dict[int, bytes]:
    """The processes that have the mark in their environment, and their command lines."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes()[:200]
    return found


def check_all_gone() -> None:
    """Check that no process is left, including Ray's own."""
    deadline = time.monotonic() + RAY_SECONDS
    while any(command.left() for command in STARTED) and time.monotonic() < deadline:
        time.sleep(1.0)
    if left := [name for command in STARTED for name in command.left().values()]:
        raise Broken(f"orphans: {left}")


def _holders(folder: Path) -> list[int]:
    """The processes that hold runs of a comparison."""
    found = []
    for lock in folder.glob("runs/*/*/.lock"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            found.append(int(json.loads(lock.read_text())["process"]))
    return found


def check_clean(folder: Path) -> None:
    """Check that no lock and no temporary file is left."""
    hidden = [str(path.relative_to(folder)) for path in folder.rglob(".*")]
    if hidden:
        raise Broken(f"left behind: {hidden}")


def check_same_records(undisturbed: Path, folder: Path) -> None:
    """Check that both folders hold the same runs with the same results."""
    places = [
        sorted(path.parent.relative_to(root) for path in root.rglob("config.json")) for root in (undisturbed, folder)
    ]
    if places[0] != places[1]:
        raise Broken(f"different runs: {places}")
    for place in places[0]:
        one, other = results(undisturbed / place), results(folder / place)
        differing = [name for name in {**one, **other} if not _equal(one.get(name), other.get(name))]
        if differing:
            raise Broken(f"{place}: {', '.join(differing)} differ")


def results(folder: Path) -> dict[str, object]:
    """Everything in a run's folder that must not depend on interruptions."""
    found: dict[str, object] = {name: (folder / name).read_bytes() for name in (*TABLES, "config.json")}
    summary = json.loads((folder / "summary.json").read_text())
    found["summary.json"] = {name: value for name, value in summary.items() if name not in TIMES}
    for name in ("curriculum.npz", "checkpoint/latest.npz"):
        with np.load(folder / name, allow_pickle=False) as archive:
            arrays = {member: archive[member] for member in archive.files if not member.startswith("__")}
        found.update({f"{name} {member}": array for member, array in arrays.items()})
    return found


def _equal(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return one == other
