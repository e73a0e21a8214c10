"""`geodesic watch`: the state of runs, read from their folders, in a terminal."""

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
from geodesic.records import load_run
from geodesic.records.lock import FolderLock
from geodesic.report.progress import Watcher, _new_bars, watch
from geodesic.report.terminal import SafeConsole
from run_folders import write_comparison, write_run

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


def add(folder: Path, step: int) -> None:
    with (folder / "evaluations.csv").open("a") as file:
        file.write(f"{step},1,0.5,41,1,1,41\n")


def test_speed_and_time_left_come_from_earlier_readings(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=4000, reached=1000, stages=1)
    (folder / "episodes.csv").unlink()
    now = [0.0]
    with FolderLock(folder):
        watcher = Watcher(folder, clock=lambda: now[0])
        watcher.read()
        add(folder, 2000)
        now[0] = 10.0
        (run,) = watcher.read()
        assert watcher.speed(run) == 100.0
        assert watcher.seconds_left(run) == 20.0
        assert watcher.summary() == "1 runs: 1 running; 50% of 4,000 steps, 100 steps/s, about 20 s left"
        assert not watcher.ended
    watcher.read()
    assert watcher.ended


def test_a_flood_of_runs_is_counted_and_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geodesic.report.progress.MOST_LINES", 10)
    (tmp_path / "comparison.json").write_text(json.dumps({"runs": [f"run {k}" for k in range(1000)]}))
    console = SafeConsole(file=io.StringIO(), width=80)
    watch(tmp_path, console, 1.0, once=True)
    first, *rest, last = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert first.startswith("1000 runs: 1000 waiting")
    assert (len(rest), last) == (10, "and 991 more")


HOSTILE = "\x1b]0;title\x07\x1b[2J[/red]\n\u202emoc"
ESCAPED = r"\x1b]0;title\x07\x1b[2J[/red]\n\u202emoc"


@pytest.mark.parametrize("terminal", [False, True])
def test_names_cannot_control_the_terminal(tmp_path: Path, terminal: bool) -> None:
    write_comparison(tmp_path, {"gradient": {}}, seeds=1, reached=500, task=HOSTILE)
    (tmp_path / "runs" / "gradient" / "seed-0" / "config.json").write_text(
        json.dumps({**load_run(tmp_path / "runs" / "gradient" / "seed-0").config.to_json(), "label": HOSTILE})
    )
    (tmp_path / "failures.json").write_text(json.dumps({f"{ESCAPED} seed 0": HOSTILE}))
    run = load_run(tmp_path / "runs" / "gradient" / "seed-0")
    assert (run.label, run.task) == (ESCAPED, ESCAPED)
    console = SafeConsole(file=io.StringIO(), force_terminal=terminal, width=200, color_system=None)
    watch(tmp_path, console, 1.0, once=True)
    console.print(HOSTILE, markup=False)
    with _new_bars(console) as bars:
        bars.add_task("[/red]\x1b[2J", total=10, completed=5, note="[/red]\x1b[2J")
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"{ESCAPED} seed 0" in shown
    assert "[/red]\\x1" in shown or not terminal
    assert "\x1b[2J" not in shown
    assert "\x1b]" not in shown
    assert "\u202e" not in shown


def test_failures_of_a_comparison_are_shown(tmp_path: Path, capsys: Any) -> None:
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
def test_a_narrow_terminal_shows_fewer_columns_and_complete_numbers(tmp_path: Path, width: int, header: str) -> None:
    folder = write_comparison(tmp_path, {LONG: {}}, seeds=2, steps=4_000_000, reached=1_000_000)
    (folder / "failures.json").write_text(json.dumps({f"{LONG} seed 1": "RunFailed: it diverged by step 4000000"}))
    first, watcher = folder / "runs" / LONG / "seed-0", Watcher(folder)
    os.utime(first / "config.json", (0, time.time() - 1000))
    with FolderLock(first):
        watcher.read()
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
    with pytest.raises(InvalidInput, match="to hold a run or a comparison, found none"):
        Watcher(tmp_path).read()
    assert main(["watch", str(tmp_path), "--every", "-1"]) == 2
    assert "expected --every to be positive" in capsys.readouterr().err


def test_a_folder_of_several_runs_and_comparisons_is_watched(tmp_path: Path) -> None:
    write_comparison(tmp_path / "maze" / "compare", {"gradient": {}, "uniform": {"method": "uniform"}}, seeds=1)
    write_run(tmp_path / "maze" / "auto" / "seed-0", reached=500)
    write_run(tmp_path / ".old" / "seed-0")
    (tmp_path / "link").symlink_to(tmp_path / "maze")
    watcher = Watcher(tmp_path)
    assert [run.name for run in watcher.read()] == [
        "maze/auto/seed-0", "maze/compare gradient seed 0", "maze/compare uniform seed 0",
    ]  # fmt: skip
    assert watcher.summary().startswith("3 runs: 1 stopped, 2 finished; ")
    assert watcher.ended
    with FolderLock(tmp_path / "maze" / "compare"):
        assert not watcher.ended


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

    def until(self, condition: Callable[[str], bool], seconds: float = 120.0) -> str:
        end = time.monotonic() + seconds
        while not condition(screen := self.screen()):
            assert time.monotonic() < end, screen
            time.sleep(0.1)
        return screen


@needs_tmux
def test_a_terminal_shows_runs_live_until_none_is_running(tmp_path: Path) -> None:
    folder = write_comparison(tmp_path / "sweep", {"gradient": {}, "spdl": {"method": "spdl"}}, seeds=2, reached=250)
    first = folder / "runs" / "gradient" / "seed-0"
    for path in folder.glob("runs/*/*/episodes.csv"):
        path.unlink()
    lock = FolderLock(first).acquire()
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
