"""The parts of a trial of `benchmarks.chaos`: a command under way, and what must be the same at its end."""

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
PATIENCE = 600.0  # seconds that a command may take to end
GOODBYE = 20.0  # seconds that its processes may outlive it
# outlive a cluster whose starter was killed: agents, and what was being started and has not been given any work yet
RAYS_OWN = (b"ray::DashboardAgent", b"ray::RuntimeEnvAgent", b"/site-packages/ray/")
RAYS_GOODBYE = 120.0  # by about a minute, as measured
TABLES = ("episodes.csv", "evaluations.csv", "stages.csv")
TIMES = ("seconds", "curriculum_seconds")


class Broken(Exception):
    """Something is not as it should be."""


STARTED: list[Command] = []


class Command:
    """A `geodesic` command as a process of its own, with a mark by which all its processes are found."""

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

    def until_ready(self) -> None:
        """Until it handles signals: before, it is Python that is interrupted."""
        handled = 1 << (signal.SIGTERM - 1)
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError, StopIteration):
                lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
                if int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16) & handled:
                    return
            time.sleep(0.002)

    def lives_for(self, seconds: float) -> bool:
        """Whether it is still there after this time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def until_held(self, folder: Path) -> None:
        """Until its workers have begun, or it has ended."""
        while self.process.poll() is None and not _holders(folder):
            time.sleep(0.02)

    def hit(self, number: signal.Signals, target: str, folder: Path) -> str:
        """Send the signal; who got it."""
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

    def ended(self) -> tuple[int, str]:
        """Its exit code, and its complaint."""
        try:
            _, complaint = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Broken(f"no end within {PATIENCE:.0f} s") from None
        return self.process.returncode, complaint

    def gone(self) -> None:
        """Wait for the end of everything that it started; Ray's own agents are waited for at the end of all trials."""
        deadline = time.monotonic() + GOODBYE
        while (left := self.left(RAYS_OWN)) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left:
            for number in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            raise Broken(f"orphans: {sorted(left.values())}")

    def left(self, but: tuple[bytes, ...] = ()) -> dict[int, bytes]:
        """Its processes that are still there, and how they are called."""
        return {number: name for number, name in _marked(self.mark).items() if not any(own in name for own in but)}

    def go_on(self, code: int, complaint: str, folder: Path, hit: str) -> None:
        """To the end: by the command that was told, or where none could be, by the documented one."""
        if code == 0:
            return
        if code == -signal.SIGKILL:
            begun = self.words[0] == "run" and (folder / "config.json").exists()
            again = ["run", "--resume", str(folder), "--quiet"] if begun else self.words
        elif code == 1 and hit != "worker" and "; go on with: geodesic " in complaint and complaint.count("\n") == 1:
            again = shlex.split(complaint.rstrip().partition("; go on with: geodesic ")[2])
        else:
            raise Broken(f"ended with {code}: {complaint[-600:]}")
        more = Command(again)
        code, complaint = more.ended()
        more.gone()
        if code != 0 and "is finished; nothing to resume" not in complaint:
            raise Broken(f"{more} ended with {code}: {complaint[-600:]}")


def _marked(mark: str) -> dict[int, bytes]:
    """The processes that have the mark in their environment, and how they were called."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes()[:200]
    return found


def all_gone() -> None:
    """Also what Ray leaves behind for a while."""
    deadline = time.monotonic() + RAYS_GOODBYE
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


def settled(folder: Path) -> None:
    hidden = [str(path.relative_to(folder)) for path in folder.rglob(".*")]
    if hidden:
        raise Broken(f"left behind: {hidden}")


def same_records(whole: Path, folder: Path) -> None:
    """Both hold the same runs, which ended alike."""
    places = [sorted(path.parent.relative_to(root) for path in root.rglob("config.json")) for root in (whole, folder)]
    if places[0] != places[1]:
        raise Broken(f"other runs: {places}")
    for place in places[0]:
        one, other = lasting(whole / place), lasting(folder / place)
        differing = [name for name in {**one, **other} if not _equal(one.get(name), other.get(name))]
        if differing:
            raise Broken(f"{place}: {', '.join(differing)} differ")


def lasting(folder: Path) -> dict[str, object]:
    """What must not depend on how a run came to its end."""
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
