"""Calls in another process: results, errors in one line, crashes, and that nothing outlives its caller."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from geodesic.errors import InvalidInput, RunFailed
from geodesic.records.files import write_atomically
from geodesic.runs.helper import Helper


def refuse():
    raise InvalidInput("expected more,\ngot less")


def sleep_while_writing(folder):
    write_atomically(Path(folder) / "page", lambda file: time.sleep(600))


def eventually(condition):
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_a_result_is_returned_each_time_it_is_asked_for():
    with Helper("adding", max, 3, 4) as helper:
        assert helper.result() == 4
    assert helper.result() == 4
    assert helper.process.poll() == 0


def test_an_error_is_one_line():
    with Helper("refusing", refuse) as helper, pytest.raises(RunFailed, match=r"^expected more, got less$"):
        helper.result()


@pytest.mark.parametrize(("call", "how"), [((os.abort,), "SIGABRT"), ((os._exit, 3), "exit code 3")])
def test_a_crash_is_an_error(call, how):
    with Helper("drawing", *call, quiet=True) as helper, pytest.raises(RunFailed, match=f"drawing: .* died .{how}.;"):
        helper.result()


def test_a_call_that_takes_too_long_is_an_error_and_is_ended(tmp_path):
    with Helper("waiting", sleep_while_writing, tmp_path) as helper:
        assert eventually(lambda: list(tmp_path.iterdir()))
        with pytest.raises(RunFailed, match=r"waiting: no answer within 0\.1 seconds"):
            helper.result(0.1)
    assert helper.process.poll() is not None
    assert list(tmp_path.iterdir()) == []  # its temporary file is gone too


def test_a_signal_ends_the_wait():
    with Helper("waiting", time.sleep, 600) as helper:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        before = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        try:
            with pytest.raises(KeyboardInterrupt):
                helper.result()
        finally:
            signal.signal(signal.SIGALRM, before)
    assert helper.process.poll() is not None


def test_a_helper_ends_with_a_killed_caller_and_removes_its_temporary_files(tmp_path):
    text = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_helper import Helper, sleep_while_writing
helper = Helper("waiting", sleep_while_writing, {str(tmp_path)!r})
print(helper.process.pid, flush=True)
helper.result()
"""
    caller = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    helper = int(caller.stdout.readline())
    assert eventually(lambda: list(tmp_path.iterdir()))
    caller.kill()
    caller.communicate()
    assert eventually(lambda: not Path(f"/proc/{helper}").exists())
    assert list(tmp_path.iterdir()) == []
