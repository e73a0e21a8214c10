"""Draw what a curriculum is in four pictures, from a run of the puck that the notebook trains.

    python -m benchmarks.studies.pictures [--out docs/figures/concepts.png]

The context is the goal of a puck. The run takes some seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

import geodesic as gd
from geodesic.report.style import FAINT, new_figure, save, styled

NOTEBOOK = Path(__file__).parents[2] / "examples" / "puck.ipynb"
SOURCE, TARGET, BETWEEN = "#0072b2", "#d55e00", "#009e73"
SHOWN = 60  # points of a distribution
ALPHAS = (0.25, 0.5, 0.75)
GOALS = ((0.4, 0.5), (1.6, 3.9), (2.7, 1.2), (3.6, 5.1), (4.9, 2.6), (5.1, 4.9))  # some contexts


def puck() -> gd.Task:
    """The task of the notebook."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    names: dict[str, Any] = {}
    exec("".join(next(cell["source"] for cell in cells if cell["cell_type"] == "code")), names)
    return names["task"]


@styled
def draw(task: gd.Task, steps: np.ndarray, alphas: np.ndarray, end: int, out: Path) -> Path:
    """Four panels: contexts, the two ends, the path between them, and alpha over a run."""
    path = gd.Geodesic(task.source_particles, task.target_particles)
    figure = new_figure(7.6, 7.2)
    axes = figure.subplots(2, 2).ravel()
    rng = np.random.default_rng(0)
    titles = ("1. A context is a goal", "2. Source and target", "3. The path between them", "4. Alpha during a run")
    for place, title in zip(axes, titles):
        place.set_title(title, loc="left")
    for place in axes[:3]:
        arena(place)
    axes[0].scatter(*np.transpose(GOALS), s=150, facecolors="none", edgecolors="#555555", linewidths=1.5)
    axes[0].annotate("the puck starts here", (0, 0), (0.3, -0.6))
    for points, colour, name in ((path(0.0), SOURCE, "source"), (path(1.0), TARGET, "target")):
        cloud(axes[1], points, colour)
        axes[1].annotate(name, points.mean(), (0, 24), textcoords="offset points", ha="center", color=colour)
    mass = rng.permutation(len(path(0.0)))[:SHOWN]
    starts, ends = path(0.0).points[mass], path(1.0).points[mass]
    axes[2].plot(*np.stack([starts, ends]).transpose(2, 0, 1), color=FAINT, linewidth=0.4, zorder=0)
    for alpha, colour in [(0.0, SOURCE), *((alpha, BETWEEN) for alpha in ALPHAS), (1.0, TARGET)]:
        cloud(axes[2], path(alpha), colour)
        axes[2].annotate(f"{alpha:g}", path(alpha).mean(), (22, -26), textcoords="offset points")
    axes[3].step([*steps, end], [*alphas, alphas[-1]], where="post", color=BETWEEN)
    axes[3].set_box_aspect(1)
    axes[3].set(xlabel="environment steps", ylabel="alpha", ylim=(-0.03, 1.08))
    axes[3].xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k")
    return save(figure, out)


def arena(axes: Axes) -> None:
    """The space of contexts, with the place where every episode starts."""
    axes.set(xlim=(-1, 6), ylim=(-1, 6), aspect="equal", xlabel="goal x", ylabel="goal y")
    axes.plot(0, 0, "o", color="black", markersize=5)


def cloud(axes: Axes, points: gd.Particles, colour: str) -> None:
    """Some of a distribution's contexts."""
    axes.scatter(*points.points[:: max(1, len(points) // SHOWN)].T, s=7, color=colour, linewidths=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/figures/concepts.png"))
    options = parser.parse_args()
    task = puck()
    with tempfile.TemporaryDirectory() as folder:
        (run,) = gd.train(task, "gradient:step=0.2", steps=60_000, out=folder).runs
    print(f"wrote {draw(task, run.stages.steps, run.stages.alphas, run.steps, options.out)}")


if __name__ == "__main__":
    main()
