"""Draw how many seeds solve each task with each method, from the recorded tables.

    python -m benchmarks.studies.glance [--out docs/figures/glance.png]

It reads the tables in docs/results/tables.md, of which each names the command that recorded it.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from geodesic import curricula
from geodesic.report.style import OTHER, new_figure, save, styled

TABLES = Path(__file__).parents[2] / "docs" / "results" / "tables.md"
RECORDED = re.compile(r"<!-- compare (\S+) -->\n(.*?)<!-- end", re.DOTALL)
REACHED = re.compile(r"^\| (\S+) +\| +\d+ \| +(\d+)/(\d+) ", re.MULTILINE)
NAMES = {"maze": "Maze", "point-mass": "PointMass", "u-maze": "U-Maze", "fetch-push": "FetchPush"}


def reached(page: str) -> dict[str, dict[str, tuple[int, int]]]:
    """Seeds that solve each task for good, and how many there are, by task and label."""
    return {
        task: {label: (int(good), int(every)) for label, good, every in REACHED.findall(table)}
        for task, table in RECORDED.findall(page)
    }


@styled
def draw(found: dict[str, dict[str, tuple[int, int]]], out: Path) -> Path:
    """One panel for each task, one bar for each method."""
    figure = new_figure(9.5, 5.6)
    for axes, (task, rows) in zip(figure.subplots(2, 2).ravel(), found.items()):
        every = next(iter(rows.values()))[1]
        for place, (label, (good, _)) in enumerate(reversed(rows.items())):
            method = curricula.REGISTRY.known(label.partition(":")[0])
            axes.barh(place, good, color=getattr(method, "colour", None) or OTHER, height=0.7)
            axes.text(good + every / 60, place, f"{good}", va="center", fontsize=9)
        axes.set_yticks(range(len(rows)), [label.removeprefix("gradient:") for label in reversed(rows)])
        axes.set_title(f"{NAMES[task]}: solved by so many of {every} seeds", loc="left")
        axes.set(xlim=(0, every * 1.06))
        axes.set_xticks([0, every // 2, every])
    return save(figure, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/figures/glance.png"))
    options = parser.parse_args()
    print(f"wrote {draw(reached(TABLES.read_text()), options.out)}")


if __name__ == "__main__":
    main()
