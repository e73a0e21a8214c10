"""`geodesic watch`: where runs stand, told from their folders alone, in a terminal."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from geodesic.cli import main
from geodesic.errors import InvalidInput
from geodesic.records.lock import LOCK, FolderLock, held_by
from geodesic.records.standing import standing, standings
from geodesic.report.watch import Watcher, spell
from run_folders import write_comparison, write_run

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


def add(folder: Path, step: int) -> None:
    with (folder / "evaluations.csv").open("a") as file:
        file.write(f"{step},1,0.5,41,1,1,41\n")


def test_a_run_that_somebody_writes_is_running(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=4000, reached=1000, stages=1)
    shutil.copy(folder / "evaluations.csv", folder / "episodes.csv")
    with FolderLock(folder):
        add(folder, 3000)
        now = standing(folder)
        assert (now.name, now.state, now.step, now.steps) == ("gradient seed 0", "running", 3000, 4000)
        assert (now.stage, now.alpha, now.score) == (0, 0.0, 41.0)
    assert standing(folder).state == "stopped"
    (folder / "summary.json").write_text("{}")
    assert (standing(folder).state, standing(folder).step) == ("finished", 4000)


def test_half_a_line_is_not_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=4000, reached=1000)
    (folder / "episodes.csv").unlink()
    (folder / "stages.csv").unlink()
    with (folder / "evaluations.csv").open("a") as file:
        file.write("3999,1,0.5,9")
    assert standing(folder).step == 1000
    assert standing(folder).score == 0.0


def test_a_lock_that_its_process_left_behind_is_nobodys(tmp_path: Path) -> None:
    code = "from geodesic.records.lock import FolderLock; from pathlib import Path; import os; "
    code += f"lock = FolderLock(Path({str(tmp_path)!r})).take(); os._exit(9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (tmp_path / LOCK).exists()
    assert held_by(tmp_path) is None
    with FolderLock(tmp_path):
        holder = held_by(tmp_path)
        assert holder is not None
        assert holder["process"] == os.getpid()


def test_failures_and_runs_that_wait_are_told(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"gradient": {}}, seeds=2, reached=500)
    planned = [f"gradient seed {seed}" for seed in range(4)]
    (tmp_path / "comparison.json").write_text(json.dumps({"runs": planned}))
    (tmp_path / "failures.json").write_text(json.dumps({"gradient seed 1": "RunFailed: it diverged"}))
    found = {run.name: run for run in standings(tmp_path)}
    assert [found[name].state for name in planned] == ["stopped", "failed", "waiting", "waiting"]
    assert found["gradient seed 1"].why == "RunFailed: it diverged"


def test_speed_and_time_left_come_from_what_was_seen(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=4000, reached=1000, stages=1)
    (folder / "episodes.csv").unlink()
    now = [0.0]
    with FolderLock(folder):
        watcher = Watcher(folder, clock=lambda: now[0])
        watcher.look()
        add(folder, 2000)
        now[0] = 10.0
        (run,) = watcher.look()
        assert watcher.speed(run) == 100.0
        assert watcher.left(run) == 20.0
        assert watcher.whole() == "1 runs: 1 running; 50% of 4,000 steps, 100 steps/s, about 20 s left"
        assert not watcher.over
    watcher.look()
    assert watcher.over


def test_times_are_spelled_shortly() -> None:
    assert [spell(value) for value in (12, 600, 7200, float("nan"))] == ["12 s", "10 min", "2.0 h", ""]


def test_a_comparison_that_failed_says_so_when_it_is_looked_at(tmp_path: Path, capsys: Any) -> None:
    write_comparison(tmp_path, {"gradient": {}, "spdl": {"method": "spdl"}}, seeds=2, reached=500)
    (tmp_path / "failures.json").write_text(json.dumps({"spdl seed 1": "RunFailed: it diverged"}))
    assert main(["watch", str(tmp_path), "--once"]) == 0
    out = capsys.readouterr().out
    assert "4 runs: 1 failed, 3 stopped" in out
    assert "failed: RunFailed" in out


LONG = "gradient:step=0.05:window=10"


@pytest.mark.parametrize(
    ("width", "header"),
    [
        (120, "run step % stage α target steps/s left state"),
        (80, "run step α target left state"),
        (72, "run step α target state"),
        (48, "run step α target state"),
    ],
)
def test_a_narrow_terminal_shows_fewer_columns_and_every_number_whole(tmp_path: Path, width: int, header: str) -> None:
    folder = write_comparison(tmp_path, {LONG: {}}, seeds=2, steps=4_000_000, reached=1_000_000)
    (folder / "failures.json").write_text(json.dumps({f"{LONG} seed 1": "RunFailed: it diverged by step 4000000"}))
    first, watcher = folder / "runs" / LONG / "seed-0", Watcher(folder)
    os.utime(first / "config.json", (0, time.time() - 1000))
    with FolderLock(first):
        watcher.look()
        console = Console(width=width, file=io.StringIO())
        console.print(watcher.table(9, width))
    lines = console.file.getvalue().splitlines()[-3:]
    assert max(map(len, lines)) <= width
    assert lines[0].split() == header.split()
    for seed, (line, state) in enumerate(zip(lines[1:], ("running", "failed"))):
        assert " 4,000,000 " in line
        assert state in line
        assert (f"{LONG} seed {seed} " in line) == (width > 48)
    assert ("RunFailed: it" in lines[2]) == (width == 120)


def test_a_folder_without_runs_and_an_interval_below_zero_are_refused(tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(InvalidInput, match="to be a run or a comparison, got neither"):
        Watcher(tmp_path).look()
    assert main(["watch", str(tmp_path), "--every", "-1"]) == 2
    assert "expected --every to be positive" in capsys.readouterr().err


class Terminal:
    """A real terminal with a command in it."""

    def __init__(self, tmp_path: Path, command: list[str]) -> None:
        self.socket = str(tmp_path / "tmux")
        line = f"{shlex.join(command)}; echo left with $?; exec cat"
        self("new-session", "-d", "-x", "110", "-y", "20", "sh", "-c", line)

    def __call__(self, *arguments: str) -> str:
        command = ["tmux", "-S", self.socket, "-f", os.devnull, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def screen(self) -> str:
        return self("capture-pane", "-p")

    def until(self, seen: Callable[[str], bool], seconds: float = 120.0) -> str:
        end = time.monotonic() + seconds
        while not seen(screen := self.screen()):
            assert time.monotonic() < end, screen
            time.sleep(0.1)
        return screen


@needs_tmux
def test_a_terminal_shows_runs_live_and_is_left_when_nothing_goes_on(tmp_path: Path) -> None:
    folder = write_comparison(tmp_path / "sweep", {"gradient": {}, "spdl": {"method": "spdl"}}, seeds=2, reached=250)
    first = folder / "runs" / "gradient" / "seed-0"
    for path in folder.glob("runs/*/*/episodes.csv"):
        path.unlink()
    lock = FolderLock(first).take()
    terminal = Terminal(tmp_path, [sys.executable, "-m", "geodesic", "watch", str(folder), "--every", "0.2"])
    try:
        screen = terminal.until(lambda screen: "running" in screen)
        assert "4 runs: 1 running, 3 stopped" in screen
        add(first, 900)
        screen = terminal.until(lambda screen: " 900 " in screen)
        assert "90%" in screen
        assert "41" in screen
        (first / "summary.json").write_text("{}")
        lock.release()
        screen = terminal.until(lambda screen: "left with 0" in screen)
        assert "3 stopped, 1 finished" in screen
    finally:
        lock.release()
        terminal("kill-server")
