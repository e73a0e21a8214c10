"""Progress is read from run folders, fits 80 columns, and never ends a run."""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from geodesic.records import read_config
from geodesic.records.lock import FolderLock
from geodesic.records.status import RunStatus
from geodesic.report import progress
from geodesic.report.progress import FolderProgress, count_states, describe, format_duration
from run_folders import write_comparison, write_run

LONG = "gradient:metric=return-lift:step=0.2:explore_steps=4000"


def printed_lines(text: str) -> list[str]:
    """What was on the terminal, line by line, without the codes that colour it and move the cursor."""
    return [line for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)) if line]


def terminal(soft_wrap: bool = False) -> Console:
    return Console(
        width=80, force_terminal=True, file=StringIO(), markup=False, highlight=False, soft_wrap=soft_wrap
    )  # as the command line makes it


def run_at(folder: Path, step: int, **options: object) -> Path:
    """A run of 1000 steps of which this many are done."""
    write_run(folder, reached=step, returns=[-54.321] * 4, stages=1, **options)  # type: ignore[arg-type]
    (folder / "episodes.csv").unlink()
    return folder


def comparison(folder: Path, steps: dict[str, int]) -> list[Path]:
    """Runs of a comparison, by label, with the steps that are done."""
    return [run_at(folder / "runs" / label / "seed-0", step, label=label) for label, step in steps.items()]


def configs_of(folders: list[Path]) -> list:
    return [read_config(folder) for folder in folders]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that the test moves."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


STATUSES = [
    RunStatus(LONG, "running", 0, 1000),
    RunStatus(LONG, "running", 100, 1000, stage=0, alpha=0.0),
    RunStatus(LONG, "running", 100, 1000, stage=123, alpha=0.95, score=-99.73),
    RunStatus(LONG, "running", 100, 1000, stage=12, alpha=1.0, score=-1234567.8),
    RunStatus(
        LONG, "failed", 100, 1000, reason="CheckpointError: damaged or foreign checkpoint /a/very/long/path/" * 2
    ),
]


@pytest.mark.parametrize("soft_wrap", [False, True])
@pytest.mark.parametrize("status", STATUSES)
def test_progress_fits_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: RunStatus, soft_wrap: bool
) -> None:
    config = replace(read_config(write_run(tmp_path / "run", task="u-maze", label=LONG)), steps=10**7)
    status = replace(status, name=f"{LONG} seed 0")
    other = replace(status, name=f"{LONG} seed 1")
    monkeypatch.setattr(progress, "run_statuses", lambda folder: [status, other])
    console = terminal(soft_wrap)
    for configs in ([config], [config, config.replace(seed=1)]):
        with FolderProgress(console, tmp_path, configs):
            pass
    lines = printed_lines(console.file.getvalue())  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("u-maze gradi") and "…" in line for line in lines)
    assert any(line.startswith("gradient:met") and "…" in line for line in lines)
    assert any(describe(status)[:15] in line for line in lines)


def test_the_bar_of_a_run_shows_step_stage_alpha_and_score(tmp_path: Path) -> None:
    folder, console = run_at(tmp_path / "run", 250), terminal()
    with FolderLock(folder), FolderProgress(console, folder, [read_config(folder)]):
        pass
    last = printed_lines(console.file.getvalue())[-1]  # type: ignore[attr-defined]
    assert last.startswith("mine gradient ")
    assert " 25% stage 0 alpha 0.00 target -54.32" in last


def test_a_run_without_rows_is_compiling(tmp_path: Path) -> None:
    folder, console = run_at(tmp_path / "run", 0), terminal()
    config = read_config(folder)
    with FolderLock(folder), FolderProgress(console, folder, [config]):
        pass
    shutil.rmtree(folder)
    with FolderProgress(console, folder, [config]):
        pass
    bars = [line for line in printed_lines(console.file.getvalue()) if "%" in line]  # type: ignore[attr-defined]
    assert bars
    assert all("  0% compiling" in line for line in bars)


def test_a_comparison_has_a_bar_for_all_and_one_for_each_run_that_is_running_or_has_failed(tmp_path: Path) -> None:
    folders = comparison(tmp_path, {"a": 1000, "b": 500, "c": 250})
    waiting = read_config(folders[0]).replace(seed=7)
    (folders[0] / "summary.json").write_text("{}")
    (tmp_path / "failures.json").write_text(json.dumps({"c seed 0": "RunFailed: no room"}))
    console = terminal()
    with FolderLock(folders[1]), FolderProgress(console, tmp_path, [*configs_of(folders), waiting]):
        pass
    lines = printed_lines(console.file.getvalue())[-3:]  # type: ignore[attr-defined]
    assert re.match(r"all runs .* 44% 1 failed, 1 running, 1 waiting, 1 finished", lines[0])
    assert re.match(r"b seed 0 .* 50% stage 0 alpha 0.00 target -54.32", lines[1])
    assert re.match(r"c seed 0 .* 25% RunFailed: no room", lines[2])


def test_runs_of_another_call_in_the_same_folder_do_not_count(tmp_path: Path) -> None:
    folders = comparison(tmp_path, {"a": 250, "b": 500})
    console = terminal()
    with FolderProgress(console, tmp_path, [read_config(folders[0])]):
        pass
    last = printed_lines(console.file.getvalue())[-1]  # type: ignore[attr-defined]
    assert " 25% " in last


def test_plain_lines_where_there_is_no_terminal(tmp_path: Path, clock: list[float]) -> None:
    folders = comparison(tmp_path, {"a": 250, "b": 0})
    out = StringIO()
    shown = FolderProgress(Console(file=out, width=200), tmp_path, configs_of(folders))
    shown.update()  # too early for a line
    clock[0] += progress.LINE_SECONDS
    shutil.rmtree(folders[1])
    comparison(tmp_path, {"b": 500})
    shown.update()
    shown.update()  # too soon after the last
    clock[0] += progress.LINE_SECONDS
    for folder in folders:
        (folder / "summary.json").write_text("{}")
    shown.update()
    assert out.getvalue() == (
        "all runs: 750 of 2000 steps, 2 stopped, about 12 s left\nall runs: 2000 of 2000 steps, 2 finished\n"
    )


def test_the_time_left_of_a_resumed_run_counts_from_where_it_was(tmp_path: Path, clock: list[float]) -> None:
    folder, out = run_at(tmp_path / "run", 500), StringIO()
    shown = FolderProgress(Console(file=out, width=200), folder, [read_config(folder)])
    shown.update()
    clock[0] += 10.0
    shutil.rmtree(folder)
    run_at(folder, 750)
    shown.update()
    assert out.getvalue() == "mine gradient: 750 of 1000 steps, stage 0 alpha 0.00 target -54.32, about 10 s left\n"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_quiet_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    folder, out = run_at(tmp_path / "run", 500), StringIO()
    with FolderProgress(Console(file=out, force_terminal=is_terminal), folder, [read_config(folder)], quiet=True):
        time.sleep(2 * progress.POLL_SECONDS)
    assert out.getvalue() == ""


@pytest.mark.parametrize("is_terminal", [False, True])
def test_an_error_of_the_display_does_not_end_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    calls = []

    def broken(folder: Path) -> list[RunStatus]:
        calls.append(folder)
        raise RuntimeError("unreadable")

    monkeypatch.setattr(progress, "run_statuses", broken)
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.01)
    folder = run_at(tmp_path / "run", 500)
    with FolderProgress(Console(file=StringIO(), force_terminal=is_terminal), folder, [read_config(folder)]):
        time.sleep(0.3)
    assert len(calls) > 2


def test_reading_many_folders_takes_a_fraction_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def slow(folder: Path) -> list[RunStatus]:
        calls.append(folder)
        time.sleep(0.1)
        return []

    monkeypatch.setattr(progress, "run_statuses", slow)
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.01)
    folder = run_at(tmp_path / "run", 500)
    with FolderProgress(Console(file=StringIO()), folder, [read_config(folder)]):
        time.sleep(1.0)
    assert 2 <= len(calls) <= 4  # with the last one at the end


def test_states_are_counted_in_the_order_of_attention() -> None:
    states = ["finished", "running", "failed", "finished", "waiting", "stopped"]
    statuses = [RunStatus(str(index), state) for index, state in enumerate(states)]
    assert count_states(statuses) == "1 failed, 1 running, 1 stopped, 1 waiting, 2 finished"


def test_durations_are_short() -> None:
    assert [format_duration(value) for value in (12, 600, 7200, float("nan"))] == ["12 s", "10 min", "2.0 h", ""]


def test_folders_of_a_comparison_are_found_by_name(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"gradient": {}, "spdl": {"method": "spdl"}}, seeds=2)
    configs = [read_config(path.parent) for path in sorted(tmp_path.rglob("config.json"))]
    console = terminal()
    with FolderProgress(console, tmp_path, configs):
        pass
    assert "100% 4 finished" in printed_lines(console.file.getvalue())[-1]  # type: ignore[attr-defined]
