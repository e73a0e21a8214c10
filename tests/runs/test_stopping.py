"""Ctrl-C and SIGTERM: the current segment is finished and saved, and a resumed run ends as if undisturbed."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from geodesic.cli import main
from geodesic.records import finished, load_run
from geodesic.runs import run
from geodesic.runs.stopping import SIGNALS, Stopping, termination_interrupts
from geodesic.training.configure import configure
from known_returns import varied_returns
from run_files import contents


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks_and_the_second_interrupts(number):
    before = [signal.getsignal(each) for each in SIGNALS]
    with Stopping() as stop:
        assert not stop.asked
        signal.raise_signal(number)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_nested_blocks_share_one_request():
    with Stopping() as outer:
        outer.ask()
        with Stopping() as inner:
            assert inner.asked
            signal.raise_signal(signal.SIGINT)  # the first signal: the request came without one
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with Stopping() as later:
        assert not later.asked


def test_sigterm_interrupts_like_ctrl_c():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), termination_interrupts():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_handlers_are_restored_after_an_error():
    before = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(ZeroDivisionError), Stopping():
        raise ZeroDivisionError
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_in_another_thread_signals_are_left_alone():
    seen = []

    def work():
        with Stopping() as stop:
            seen.append((stop.asked, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, signal.getsignal(signal.SIGINT))]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_run_stops_between_segments_and_can_be_resumed(tmp_path, number):
    task = varied_returns()
    config = configure(task)
    run.start([config], [tmp_path / "whole"], task).train()

    batch = run.start([config], [tmp_path / "broken"], task)
    start_segment = batch.trainer.start_segment

    def start_and_signal():
        start_segment()
        if batch.step == 200:
            os.kill(os.getpid(), number)

    batch.trainer.start_segment = start_and_signal
    with pytest.raises(KeyboardInterrupt):
        batch.train()
    assert run.segment_of(tmp_path / "broken") == 3  # a segment has 100 steps; the current one was finished
    assert not finished(tmp_path / "broken")
    run.resume([config], [tmp_path / "broken"], task).train()
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


EASY = ["run", "maze", "--method", "gradient:window=5", "--threshold", "-60", "--steps", "12000"]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    assert main([*EASY, "--out", str(folder), "--quiet"]) == 0
    return folder


@pytest.mark.parametrize("number", SIGNALS)
def test_a_stopped_command_says_how_to_resume(tmp_path, unbroken, capsys, number):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "geodesic", *EASY, "--out", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    evaluations = folder / "evaluations.csv"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (evaluations.exists() and evaluations.read_bytes().count(b"\n") >= 4):
        time.sleep(0.01)
    process.send_signal(number)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 1
    again = f"geodesic run --resume {folder}"
    assert complaint == f"geodesic: stopped; resume with: {again}\n"
    assert not finished(folder)
    assert 2000 <= load_run(folder).evaluations.steps[-1] < 12_000
    assert main([*again.split()[1:], "--quiet"]) == 0
    assert contents(folder) == contents(unbroken)
    assert capsys.readouterr().err == ""
