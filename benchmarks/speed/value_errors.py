"""Time the value errors that methods such as plr need: what they add to training, on one CPU core.

Segments of the same run with and without them alternate, on PointMass with SAC and on the maze with PPO, each at the
task's settings. Times are CPU time of this process, so that other load on the machine does not affect them.

    python -m benchmarks.speed.value_errors [--steps 30000]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before the libraries count the cores

import jax  # noqa: E402
import numpy as np  # noqa: E402

from geodesic.tasks import load  # noqa: E402
from geodesic.training.agents import stack  # noqa: E402
from geodesic.training.configure import configure, make_learner  # noqa: E402
from geodesic.training.objects import Objects  # noqa: E402
from geodesic.training.program import Program, as_sampler  # noqa: E402


def measured(name: str, steps: int) -> tuple[float, float, float]:
    """CPU ms of a segment without and with value errors, and the median ratio of neighbouring segments."""
    task = load(name)
    config = configure(task, "uniform")
    learner = make_learner(config, task, Objects())
    sampler = stack([as_sampler(task.evaluation_particles, 0)])
    programs = [Program(task.env, learner, config.segment, 5, config.eval_policy, None, kept) for kept in (False, True)]
    states = [program.init(np.zeros((1, 2), np.uint32), sampler) for program in programs]
    spent: list[list[float]] = [[], []]
    for _ in range(3 + steps // programs[0].segment_steps):
        for which, program in enumerate(programs):
            begin = time.process_time()
            states[which], log = program.segment(states[which], sampler)
            jax.block_until_ready((states[which], log))
            spent[which].append(1e3 * (time.process_time() - begin))
    without, kept = (times[3:] for times in spent)  # the first ones compile
    return (
        statistics.median(without),
        statistics.median(kept),
        statistics.median(map(lambda a, b: b / a, without, kept)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30_000, help="environment steps of each run that is timed")
    steps = parser.parse_args().steps
    for name in ("point-mass", "maze"):
        without, kept, ratio = measured(name, steps)
        print(f"{name}: {without:.1f} ms of CPU time per segment, {kept:.1f} with value errors, {ratio - 1:+.1%}")


if __name__ == "__main__":
    main()
