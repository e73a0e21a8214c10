"""Train GRADIENT and Goal-GAN with the forms of their authors, where ours differ: what each deviation is worth.

    python -m benchmarks.studies.literal maze --seeds 20 --first-seed 1000 --workers 0
    python -m benchmarks.studies.literal u-maze --seeds 10 --first-seed 1000 --workers 0
    python -m benchmarks.studies.literal point-mass --seeds 10 --first-seed 1000 --workers 0

In the Maze and in U-Maze each line of the table changes one thing of GRADIENT; all else is ours. On PointMass it is
Goal-GAN's networks and their training. Repeat the command to resume. With --until nothing is trained: the table is
about the runs that have reached that step, finished or not, cut there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import geodesic as gd
from benchmarks.studies.paces import until
from geodesic.analysis.statistics import summarise
from geodesic.envs.maze import STRICT, Maze
from geodesic.metrics import Embedding, Matrix, TabularCMDP, contextual_distance
from geodesic.records.reader import load_comparison
from geodesic.report.tables import format_table

HERE = "benchmarks.studies.literal"
FORMS: dict[str, dict[str, object]] = {
    "maze": {
        "ours": "gradient",
        "Algorithm 2, Sinkhorn": "gradient:barycenter=sinkhorn",
        "Algorithm 3, its gamma": f"gradient:metric={HERE}:discounted",
        "Algorithm 4, its schedule": "gradient:pace=compounding",
        "straight lines": "gradient:metric=l2",
    },
    "u-maze": {
        "ours": "gradient:metric=embedding:step=0.1",
        "squared norm": f"gradient:metric={HERE}:squared:step=0.1",
        "Algorithm 4, its schedule": "gradient:metric=embedding:pace=compounding:step=0.1",
        "losses in raw units": "gradient:metric=embedding-raw:step=0.1",
    },
    "point-mass": {"ours": "goal-gan:form=small", "the authors' form": "goal-gan:form=original"},
}


def discounted(task: gd.Task, threshold: float) -> Matrix:
    """Algorithm 3 on the Maze, with gamma 0.99 and a largest distance of 1.

    Twins are kept apart as in ours: an offset on every pair would leave no context between two others, and no path.
    """
    maze = Maze()
    cells = np.arange(len(maze.cells))
    at_goal = cells == maze.goal_index
    rewards = np.where(at_goal[:, None], 0.0, -np.ones(maze.next_cell.shape))
    next_cell = np.where(at_goal[:, None], cells[:, None], maze.next_cell)
    policy = maze.distance[maze.next_cell].argmin(axis=1)
    tables = TabularCMDP(rewards, next_cell, cells[~at_goal], maze.starts)
    found = contextual_distance(tables, policy, 0.99, STRICT, maze.steps_between).M
    return Matrix(found / found.max(), maze.starts)


def squared(task: gd.Task, threshold: float) -> Embedding:
    """The embedding whose squared norm is fitted to distances, as in the paper's appendix C.2."""
    return Embedding(task.space, task.least or 0.0, squared=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=FORMS)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--workers", type=int, help="processes; 0: all runs in one program (default: one per core)")
    parser.add_argument("--until", type=int, help="only read: the table as of this step")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    out = options.out or Path("runs") / f"literal-{options.task}"
    forms = FORMS[options.task]
    if options.until:
        runs = until(load_comparison(out), options.until)
    else:
        runs = gd.compare(options.task, forms, seeds=seeds, steps=options.steps, workers=options.workers, out=out).runs
    print(format_table(summarise(runs, runs[0].solved, "ours")))


if __name__ == "__main__":
    main()
