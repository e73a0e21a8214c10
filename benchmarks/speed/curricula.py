"""Time the updates of each curriculum over a PointMass run of 300k steps, on one CPU core.

A simulated agent that improves over time feeds every registered curriculum, and GRADIENT at its other paces, with the
episodes of segments of 500 steps, at the task's settings. Stretches of real training in between give the cost of a run.
Both are CPU time in one process, so other load on the machine affects neither. The cost of a method's first use
(imports, compilation) is shown separately: a process pays it once.

    python -m benchmarks.speed.curricula [METHOD ...]      all, or those named, such as currot gradient:pace=particles
"""

from __future__ import annotations

import os
import statistics
import sys
import time

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before the libraries count the cores

import jax  # noqa: E402
import numpy as np  # noqa: E402

import geodesic as gd  # noqa: E402
from geodesic.envs.point_mass import PointMass  # noqa: E402
from geodesic.learners.sac import SAC  # noqa: E402
from geodesic.tasks import load  # noqa: E402
from geodesic.tasks.catalogue import table  # noqa: E402
from geodesic.tasks.methods import resolve  # noqa: E402
from geodesic.training.agents import stack  # noqa: E402
from geodesic.training.program import Program, as_sampler  # noqa: E402

TABLE = table("point-mass")
PACES = ("gradient:pace=adaptive", "gradient:pace=particles")
NEW = ("adr", "learning-progress", "learnability", "doraemon", "acl", "plr", "vds", "spgl")
LIMITS = {"spdl": 0.10, **dict.fromkeys(("auto", *PACES, *NEW), 0.03)}  # of the share of a run
LIMIT = 0.05  # of all others


def simulated(state: gd.State, fraction: float, steps: int, rng: np.random.Generator) -> gd.EpisodeBatch:
    """Episodes of about this many steps by an agent that masters narrower gates as training proceeds."""
    rows = []
    while steps > 0:
        context = state.distribution.sample(rng, 1)[0]
        passes = rng.random() < 1 / (1 + np.exp(-3 * (context[1] - 6 * (1 - 1.2 * fraction))))
        length = 100 if passes else int(rng.integers(15, 40))
        rows.append((context, length * rng.uniform(0.5, 0.8) if passes else 0.15 * length, length, float(passes)))
        steps -= length
    contexts, returns, lengths, successes = zip(*rows)
    stages, losses = np.full(len(rows), state.stage), rng.exponential(size=len(rows))
    return gd.EpisodeBatch(
        contexts, returns, lengths, stages, successes=successes, value_l1=losses, positive_value_loss=losses / 2
    )


def costs(curriculum: gd.Curriculum, steps: int, segment: int, seed: int) -> tuple[list[float], gd.State]:
    """CPU seconds of `init` and of each update of one run, and the last state."""
    rng = np.random.default_rng(seed)
    begin = time.process_time()
    state = curriculum.init(rng)
    spent = [time.process_time() - begin]
    for done in range(0, steps, segment):
        episodes = simulated(state, done / steps, segment, rng)
        begin = time.process_time()
        state = curriculum.update(state, episodes, rng)
        spent.append(time.process_time() - begin)
    return spent, state


class Training:
    """Real training, timed in stretches; `total` extrapolates them to a whole run."""

    def __init__(self, mdp: PointMass) -> None:
        learner = {**TABLE["learner"], "net": tuple(TABLE["learner"]["net"])}
        self.program = Program(mdp, SAC(**learner), TABLE["segment"], TABLE["eval_episodes"], TABLE["eval_policy"])
        self.sampler = stack([as_sampler(mdp.source(np.random.default_rng(0)), 0)])
        self.state = self.program.init(jax.random.split(jax.random.key(0), 1), self.sampler)
        self.spent: list[float] = []
        self.stretch(4)
        self.spent.clear()

    def stretch(self, segments: int) -> None:
        for _ in range(segments):
            begin = time.process_time()
            self.state, log = self.program.segment(self.state, self.sampler)
            jax.block_until_ready(log)
            self.spent.append(time.process_time() - begin)

    def total(self) -> float:
        return statistics.median(self.spent) * TABLE["steps"] / self.program.segment_steps


def main() -> None:
    mdp, rng = PointMass(), np.random.default_rng(0)
    problem = gd.Problem(
        source=mdp.source(rng),
        target=mdp.target(rng),
        space=mdp.context_space,
        threshold=TABLE["threshold"],
        worst_return=mdp.worst_return,
        source_moments=mdp.source_moments,
        target_moments=mdp.target_moments,
    )
    training = Training(mdp)
    segment = training.program.segment_steps
    rows = []
    for name in sys.argv[1:] or (*gd.curricula.REGISTRY, *PACES):
        method, options, _ = resolve(load("point-mass"), name)
        curriculum = gd.curricula.build(method, problem, **options)
        begin = time.process_time()
        costs(curriculum, 20_000, segment, seed=1)
        first = time.process_time() - begin
        training.stretch(4)
        spent, state = costs(curriculum, TABLE["steps"], segment, seed=2)
        rows.append((name, state.stage, statistics.median(spent[1:]), max(spent[1:]), sum(spent), first))
    run = training.total()
    print(f"a PointMass run of {TABLE['steps']:,} steps without its curriculum: {run:.1f} s of CPU time")
    heads = ("stages", "median ms", "worst ms", "run s", "share", "limit", "first s")
    print(f"{'method':24}" + "".join(f"{head:>10}" for head in heads))
    for name, stages, median, worst, total, first in rows:
        fraction, limit = total / (run + total), LIMITS.get(name, LIMIT)
        verdict = "" if fraction <= limit else "  over"
        cells = (
            f"{stages}",
            f"{1e3 * median:.3f}",
            f"{1e3 * worst:.1f}",
            f"{total:.2f}",
            f"{fraction:.1%}",
            f"{limit:.0%}",
        )
        print(f"{name:24}" + "".join(f"{cell:>10}" for cell in (*cells, f"{first:.2f}")) + verdict)


if __name__ == "__main__":
    main()
