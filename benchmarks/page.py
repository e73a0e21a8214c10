"""How long the report of nine methods and ten seeds takes to build, and how large it is.

    python -m benchmarks.page [--folder DIR]

The runs are short ones of PointMass, made first (a minute or two) unless a comparison is given. What counts against the
20 seconds is the whole command in a process of its own: figures in three formats, films and the page. Processor time is
printed beside it, which other work on the machine does not change as much.
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


ALONE = "import sys; from geodesic.report.page import write_report; write_report(sys.argv[1])"


def geodesic(*words: str) -> tuple[float, float]:
    return timed("-m", "geodesic", *words)


def timed(*words: str) -> tuple[float, float]:
    """Seconds on the clock and of the processor that a Python process took."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="a comparison (default: one is made)")
    parser.add_argument("--steps", type=int, default=9000, help="of each run that is made (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        if options.folder is None:
            sweep = ("--methods", "all", "--seeds", "10", "--at-once", "10", "--steps", str(options.steps))
            geodesic("compare", "point-mass", *sweep, "--out", made, "--quiet")
        runs = load_comparison(folder)
        command = ("-m", "geodesic", "report", str(folder))
        kinds = {
            "all of it": command,
            "without films": (*command, "--no-film"),
            "page alone": ("-c", ALONE, str(folder)),
        }
        print(f"{len(by_label(runs))} methods, {len(runs)} runs of {runs[0].steps} steps")
        for name, words in kinds.items():
            clock, spent = timed(*words)
            size = (folder / PAGE).stat().st_size / 1e6
            said = "holds" if clock < SECONDS and size < MEGABYTES else "does not hold"
            print(f"{name:<14} {clock:6.1f} s on the clock, {spent:5.1f} s of the processor, {size:.2f} MB")
            print(f"  goal of {SECONDS:.0f} s and {MEGABYTES:.0f} MB: {said}")


if __name__ == "__main__":
    main()
