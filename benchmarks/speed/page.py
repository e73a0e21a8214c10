"""Time the report of a comparison of all methods and ten seeds, and measure its size.

    python -m benchmarks.speed.page [--folder DIR]

Short PointMass runs are made first (a minute or two) unless a comparison is given. The limit of 20 seconds is for the
whole command in a separate process: figures in three formats, films and the page. CPU time is printed as well, because
other load on the machine changes it less.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from geodesic.records import load_comparison
from geodesic.records.reader import by_label
from geodesic.report.page import PAGE

SECONDS, MEGABYTES = 20.0, 5.0
PAGE_ONLY = "import sys; from geodesic.report.page import write_report; write_report(sys.argv[1])"


def geodesic(*words: str) -> tuple[float, float]:
    return timed("-m", "geodesic", *words)


def timed(*words: str) -> tuple[float, float]:
    """Wall-clock and CPU seconds of a Python process."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="a comparison (default: make one)")
    parser.add_argument("--steps", type=int, default=9000, help="of each run (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        if options.folder is None:
            sweep = ("--methods", "all", "--seeds", "10", "--at-once", "10", "--steps", str(options.steps))
            geodesic("compare", "point-mass", *sweep, "--out", made, "--quiet")
        runs = load_comparison(folder)
        command = ("-m", "geodesic", "report", str(folder))
        kinds = {
            "everything": command,
            "without films": (*command, "--no-film"),
            "page only": ("-c", PAGE_ONLY, str(folder)),
        }
        print(f"{len(by_label(runs))} methods, {len(runs)} runs of {runs[0].steps} steps")
        for name, words in kinds.items():
            clock, spent = timed(*words)
            size = (folder / PAGE).stat().st_size / 1e6
            verdict = "met" if clock < SECONDS and size < MEGABYTES else "missed"
            print(f"{name:<14} {clock:6.1f} s wall-clock, {spent:5.1f} s CPU time, {size:.2f} MB")
            print(f"  goal of {SECONDS:.0f} s and {MEGABYTES:.0f} MB: {verdict}")


if __name__ == "__main__":
    main()
