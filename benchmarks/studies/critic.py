"""Measure what SPDL and ProCuRL-Target gain or lose by using returns where their authors use the learner's critic.

    python -m benchmarks.studies.critic --seeds 10 --first-seed 1000 --out runs/critic

Curricula see episodes, not learners, so the library has no such option. Here the critic is handed to them: SPDL weighs
its contexts by the value of their start states, and ProCuRL-Target takes the value, scaled to its range over the pool,
for the chance of success. All else is ours. PointMass is trained by SAC, whose value of a state s is

    V(s) = E_a [min_i Q_i(s, a) - alpha log pi(a | s)],  a ~ pi(s), here the mean of 16 actions.

SPDL's mean value, which sets alpha, is that of the critic too. An interrupted study begins again in a new folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd
from geodesic.analysis.statistics import summarise
from geodesic.contexts import FloatArray
from geodesic.curricula import SPDL, ProCuRLTarget
from geodesic.curricula.base import RecentState
from geodesic.curricula.gaussians import Step
from geodesic.curricula.spdl import SPDLState
from geodesic.envs.point_mass import PointMass
from geodesic.learners.networks import normalize
from geodesic.learners.sac import SAC, SACState
from geodesic.report.tables import format_table
from geodesic.runs import compare
from geodesic.runs.executors import Job, ThisProcess
from geodesic.runs.executors.base import JobResult
from geodesic.runs.run import Batch, start

HERE = "benchmarks.studies.critic"
ACTIONS = 16
METHODS = {
    "spdl": "spdl",
    "spdl, critic": f"{HERE}:CriticSPDL",
    "procurl-target": "procurl-target",
    "procurl-target, critic": f"{HERE}:CriticProCuRLTarget",
}


class CriticSPDL(SPDL):
    """SPDL whose V is the critic's value of the start states."""

    critic: Callable[[FloatArray], FloatArray] | None = None

    def step(self, state: SPDLState) -> Step:
        """The problem of this iteration, with values in the place of returns."""
        assert self.critic is not None
        values = self.critic(state.pending.contexts)
        return super().step(state.replace(pending=replace(state.pending, returns=values)))


class CriticProCuRLTarget(ProCuRLTarget):
    """ProCuRL-Target whose V is the critic's value of the start states, in its range over the pool."""

    critic: Callable[[FloatArray], FloatArray] | None = None

    def chance(self, state: RecentState, points: FloatArray) -> FloatArray:
        """The values (n,) in points (n, d), scaled and clipped to [0, 1]."""
        assert self.critic is not None
        pool = self.critic(state.distribution.points)
        return np.clip((self.critic(points) - pool.min()) / max(float(np.ptp(pool)), 1e-12), 0.0, 1.0)


@partial(jax.jit, static_argnames="learner")
def values(learner: SAC, state: SACState, contexts: jax.Array) -> jax.Array:
    """The value (n,) of the start state in each of the contexts (n, d)."""
    env, key = PointMass(), jax.random.key(0)
    obs = jax.vmap(lambda context: env.observation(env.initial(key, context), key, context))(contexts)
    obs = normalize(state.moments, obs)
    noise = jax.random.normal(key, (ACTIONS, len(contexts), state.low.size))

    def value(noise: jax.Array) -> jax.Array:
        action, log_prob = learner._sample(state.agent.actor, obs, noise)
        soft = jnp.exp(state.agent.log_alpha) * log_prob
        return learner._critics(state.agent.critic, obs, action).min(axis=0) - soft

    return jax.vmap(value)(noise).mean(axis=0)


class CriticBatch(Batch):
    """Runs whose curricula get their critic before each update."""

    def _finish_segment(self) -> None:
        for slot, session in self.running:
            if hasattr(session.curriculum, "critic"):
                session.curriculum.critic = partial(self.values, slot)
        super()._finish_segment()

    def values(self, slot: int, contexts: FloatArray) -> FloatArray:
        """The values (n,) of a run's start states; contexts are padded, so that few sizes are compiled."""
        trainer: Any = self.trainer
        state = jax.tree.map(lambda leaf: leaf[slot], trainer._state.learner)
        padded = np.resize(contexts, (1 << (len(contexts) - 1).bit_length(), contexts.shape[1]))
        found = values(trainer.program.learner, state, jnp.asarray(padded, jnp.float32))
        return np.asarray(found, np.float64)[: len(contexts)]


class InCriticBatches(ThisProcess):
    """Trains all runs in this process, in a `CriticBatch`."""

    def run(self, jobs: Sequence[Job]) -> Iterator[JobResult | None]:
        """Run all jobs."""
        for job in jobs:
            batch = start(job.configs, job.folders, owner=job.owner)
            CriticBatch(batch.sessions, batch.trainer, batch.batch_members, batch.slots).train()
            yield JobResult(job, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--steps", type=int, help="of a run (default: the task's)")
    parser.add_argument("--out", type=Path, default=Path("runs/critic"))
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    configs = compare.plan_comparison("point-mass", METHODS, seeds, options.steps, options.out)
    compare.compare(configs, options.out, executor=InCriticBatches())
    runs = gd.load(options.out).runs
    for method in ("spdl", "procurl-target"):
        print(format_table(summarise([run for run in runs if method in run.config.label], runs[0].solved, method)))


if __name__ == "__main__":
    main()
