"""Compare the speed of this checkout with another one, by the CPU time of whole runs in alternation.

    python -m benchmarks.speed.compare_commits PATH     # a checkout of another commit, such as a clone

Runs go through the command line, so both checkouts need it. The first run of each compiles and is not counted. The
smallest CPU time over several rounds is reported, because other load on the machine affects it least.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[2]
COMMAND = "import sys; from geodesic.cli import main; sys.exit(main())"  # older checkouts have no `python -m geodesic`
RUNS = {"maze": 60_000, "point-mass": 60_000, "u-maze": 99_200}


def seconds(checkout: Path, task: str, steps: int, folder: Path) -> float:
    """Return the user and system seconds of one run in a separate process."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-c", COMMAND, "run", task, "--method", "gradient"]
    command += ["--steps", str(steps), "--out", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed in {checkout}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        for task, steps in RUNS.items():
            spent: dict[str, list[float]] = {"other": [], "this": []}
            for checkout in (options.other, HERE):
                seconds(checkout, task, steps, Path(work) / "run")
            for _ in range(options.rounds):
                for name, checkout in (("other", options.other), ("this", HERE)):
                    spent[name].append(seconds(checkout, task, steps, Path(work) / "run"))
            other, this = min(spent["other"]), min(spent["this"])
            print(
                f"{task:<11} {steps} steps: other {other:.2f} s, this {this:.2f} s of CPU time; {this / other:.3f} x",
                flush=True,
            )


if __name__ == "__main__":
    main()
