"""One writer per folder: a second one is refused with the name of the first, and dead processes hold nothing."""

import contextlib
import json
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from geodesic.errors import InvalidInput, RunFailed
from geodesic.records import FolderLock
from geodesic.records import lock as locks
from geodesic.records.lock import held_by

HOLD = """
import sys, time
from pathlib import Path
from geodesic.records import FolderLock
lock = FolderLock(Path(sys.argv[1]), sys.argv[2]).acquire()
print("held", flush=True)
sys.stdin.read()
"""


def holder(folder, owner=""):
    """A process that holds the folder until its input ends."""
    command = [sys.executable, "-c", HOLD, str(folder), owner]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def end(process):
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


def pretend(folder, **changes):
    """The lock file of another process."""
    content = {**locks._this_process(""), **changes}
    folder.mkdir(exist_ok=True)
    (folder / ".lock").write_text(json.dumps(content))


def test_a_second_process_is_refused_with_the_first_ones_process_and_host(tmp_path):
    process = holder(tmp_path)
    try:
        message = rf"is being written by process {process.pid} on {platform.node()} since 20.*; wait for its end"
        with pytest.raises(InvalidInput, match=message):
            FolderLock(tmp_path).acquire()
    finally:
        end(process)
    assert list(tmp_path.iterdir()) == []
    with FolderLock(tmp_path):
        pass


def test_a_second_lock_in_the_same_process_is_refused(tmp_path):
    with FolderLock(tmp_path / "new") as lock:
        with pytest.raises(InvalidInput, match=f"written by process {os.getpid()} on"):
            FolderLock(tmp_path / "new").acquire()
        lock.check()
        assert lock.acquire() is lock
    assert list((tmp_path / "new").iterdir()) == []


def test_a_killed_process_holds_nothing(tmp_path):
    process = holder(tmp_path)
    process.kill()
    end(process)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    (tmp_path / f".config.json-abc{locks.TEMPORARY}").write_text("half")
    (tmp_path / ".mine").write_text("not a leftover of ours")
    lock = FolderLock(tmp_path).acquire()
    assert json.loads((tmp_path / ".lock").read_text())["process"] == os.getpid()
    lock.release()
    assert [path.name for path in tmp_path.iterdir()] == [".mine"]


def test_a_folder_with_the_name_of_a_temporary_file_stays(tmp_path):
    (tmp_path / f".evil{locks.TEMPORARY}").mkdir()
    with FolderLock(tmp_path) as lock:
        assert lock.held
    assert [path.name for path in tmp_path.iterdir()] == [f".evil{locks.TEMPORARY}"]


def test_the_children_of_a_killed_process_do_not_hold_its_folder(tmp_path):
    forks = HOLD.replace("sys.stdin.read()", "import os\nif os.fork(): os.kill(os.getpid(), 9)\nsys.stdin.read()")
    process = subprocess.Popen(
        [sys.executable, "-c", forks, str(tmp_path), ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    assert process.wait(30) == -signal.SIGKILL
    with FolderLock(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["process"] == os.getpid()
    process.stdin.close()
    process.stdout.close()


def test_a_child_that_ends_does_not_release_its_parents_lock(tmp_path):
    forks = HOLD.replace("sys.stdin.read()", "import os\nif os.fork(): os.wait()\nelse: sys.exit()\nlock.check()")
    done = subprocess.run([sys.executable, "-c", forks, str(tmp_path), ""], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_the_same_owner_takes_over_and_the_earlier_holder_is_stopped(tmp_path):
    first = FolderLock(tmp_path, owner="job 3").acquire()
    with pytest.raises(InvalidInput):
        FolderLock(tmp_path, owner="job 4").acquire()
    second = FolderLock(tmp_path, owner="job 3").acquire()
    with pytest.raises(RunFailed, match=f"was taken over by process {os.getpid()} on .*; stopped, nothing more is"):
        first.check()
    first.release()
    second.check()
    second.release()
    with pytest.raises(RunFailed, match="is no longer held by this process"):
        second.check()


def test_a_removed_lock_file_is_noticed(tmp_path):
    lock = FolderLock(tmp_path).acquire()
    (tmp_path / ".lock").unlink()
    with pytest.raises(RunFailed, match="was taken from this process"):
        lock.check()


def test_another_machines_lock_holds_until_its_heartbeat_is_stale(tmp_path):
    pretend(tmp_path, host="elsewhere", process=1)
    with pytest.raises(InvalidInput, match="process 1 on elsewhere .*for 10 minutes after its last heartbeat"):
        FolderLock(tmp_path).acquire()
    silent = time.time() - locks.STALE_SECONDS - 1
    os.utime(tmp_path / ".lock", (silent, silent))
    with FolderLock(tmp_path) as lock:
        lock.check()


def test_a_heartbeat_in_the_future_is_stale(tmp_path):
    """It would hold the folder for as long as a forged file or a wrong clock says."""
    pretend(tmp_path, host="elsewhere", process=1)
    far = time.time() + 10 * locks.STALE_SECONDS
    os.utime(tmp_path / ".lock", (far, far))
    assert held_by(tmp_path) is None
    with FolderLock(tmp_path) as lock:
        lock.check()


def test_a_holder_with_control_characters_cannot_control_the_terminal(tmp_path):
    pretend(tmp_path, host="else\x1b[2Jwhere", process=1)
    with pytest.raises(InvalidInput, match=r"process 1 on else\\x1b\[2Jwhere since"):
        FolderLock(tmp_path).acquire()


def test_the_same_owner_takes_over_from_another_machine_at_once(tmp_path):
    pretend(tmp_path, host="elsewhere", owner="job 3")
    with FolderLock(tmp_path, owner="job 3") as lock:
        lock.check()


def test_check_sends_a_heartbeat(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "BEAT_SECONDS", -1.0)
    with FolderLock(tmp_path) as lock:
        os.utime(tmp_path / ".lock", (0, 0))
        lock.check()
        assert (tmp_path / ".lock").stat().st_mtime > 0


def test_without_kernel_locks_dead_holders_are_still_recognised(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_flock", lambda descriptor: None)
    lock = FolderLock(tmp_path).acquire()
    with pytest.raises(InvalidInput, match=f"process {os.getpid()}"):
        FolderLock(tmp_path).acquire()
    lock.release()
    pretend(tmp_path, process=2**30, started="1")
    with FolderLock(tmp_path):
        pass


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"process": "x"}', "[" * 3000])
def test_an_unreadable_lock_file_holds_nothing(tmp_path, content):
    (tmp_path / ".lock").write_text(content)
    with FolderLock(tmp_path) as lock:
        lock.check()


def test_a_lock_file_that_is_a_link_is_refused(tmp_path):
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="cannot write to"):
        FolderLock(tmp_path).acquire()
    assert not (tmp_path / "elsewhere").exists()


def test_a_dropped_lock_is_released(tmp_path):
    FolderLock(tmp_path).acquire()
    assert list(tmp_path.iterdir()) == []


TURNS = 10


def race(folder, barrier, wins):
    for turn in range(TURNS):
        lock = FolderLock(folder / str(turn))
        barrier.wait()
        with contextlib.suppress(InvalidInput):
            lock.acquire()
        wins.put((turn, lock.held))
        barrier.wait()


def test_one_of_several_simultaneous_processes_wins(tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier, wins = context.Barrier(4), context.Queue()
    racers = [context.Process(target=race, args=(tmp_path, barrier, wins)) for _ in range(4)]
    for racer in racers:
        racer.start()
    results = [wins.get(timeout=60) for _ in range(TURNS * len(racers))]  # a slow one may report after the next turn
    assert Counter(turn for turn, won in results if won) == Counter(range(TURNS))
    for racer in racers:
        racer.join(30)


def test_held_by_names_a_living_holder_and_takes_nothing(tmp_path):
    assert held_by(tmp_path) is None
    with FolderLock(tmp_path) as lock:
        assert held_by(tmp_path)["process"] == os.getpid()
        lock.check()
    assert held_by(tmp_path) is None
    pretend(tmp_path, process=2**30, started="1")
    assert held_by(tmp_path) is None
    pretend(tmp_path, host="elsewhere", process=1)
    assert held_by(tmp_path)["host"] == "elsewhere"
    silent = time.time() - locks.STALE_SECONDS - 1
    os.utime(tmp_path / ".lock", (silent, silent))
    assert held_by(tmp_path) is None
    (tmp_path / ".lock").write_text("{")
    assert held_by(tmp_path) is None
