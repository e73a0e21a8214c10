"""The short form of `python -m benchmarks.reliability.chaos`; its docstring describes a trial."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc")
def test_signals_at_random_moments_change_nothing():
    kinds = "run/compare/compare, three at once/compare, Ray"
    command = [sys.executable, "-m", "benchmarks.reliability.chaos", "--kills", "6", "--interrupts", "4"]
    command += ["--only", "maze", "--kinds", kinds, "--jobs", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "10 of 10 signals: same bytes, no orphan, no lock, no temporary file"
