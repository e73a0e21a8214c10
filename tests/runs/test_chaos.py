"""The short form of `python -m benchmarks.chaos`; its docstring says what a trial is."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize(
    ("kinds", "kills", "interrupts"),
    [
        ("run/compare, three at once", 1, 1),
        pytest.param("run/compare/compare, three at once/compare, Ray", 6, 4, marks=pytest.mark.slow),
    ],
)
def test_signals_at_random_moments_change_nothing(kinds, kills, interrupts):
    count = ["--kills", str(kills), "--interrupts", str(interrupts), "--only", "maze", "--kinds", kinds]
    command = [sys.executable, "-m", "benchmarks.chaos", *count]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    all_of_them = kills + interrupts
    told = f"{all_of_them} of {all_of_them} signals: same bytes, no orphan, no lock, no temporary file"
    assert done.stdout.splitlines()[-1] == told
