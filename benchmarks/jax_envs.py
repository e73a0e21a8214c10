"""Environment steps per second of other people's environments in JAX under the compiled PPO, on the cores there are.

    python -m benchmarks.jax_envs      # needs the extras gymnax and brax

One run of 64 environments with rollouts of 64, a context drawn for each episode; the median of a few segments.
Compilation is not counted in the rate and shown beside it.
"""

from __future__ import annotations

import statistics
import time

from geodesic.runtime import ours_alone

ours_alone()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import geodesic as gd  # noqa: E402
from geodesic.envs.cmdp import ContextualMDP  # noqa: E402
from geodesic.training.program import Program, as_sampler, stack  # noqa: E402

SEGMENTS = 5
LEARNER = gd.PPO(n_envs=64, rollout=64, epochs=4, batch_size=1024)


def environments() -> dict[str, ContextualMDP]:
    def heavier(sys: object, gravity: jax.Array) -> object:
        return sys.replace(gravity=jnp.stack([0.0, 0.0, -gravity]))  # type: ignore[attr-defined]

    box = {"gravity": (5.0, 20.0)}
    return {
        "gymnax CartPole-v1": gd.envs.from_gymnax("CartPole-v1", contexts=box),
        "gymnax Pendulum-v1": gd.envs.from_gymnax("Pendulum-v1", contexts={"g": (5.0, 20.0)}),
        "brax inverted_pendulum": gd.envs.from_brax("inverted_pendulum", contexts=box, apply=heavier),
    }


def measure(mdp: ContextualMDP) -> tuple[float, float]:
    """Steps per second, and the seconds until the first segment was done."""
    program = Program(mdp, LEARNER, 2, 4, "deterministic")
    contexts = mdp.context_space.uniform(200, np.random.default_rng(0))  # type: ignore[attr-defined]
    samplers = stack([as_sampler(contexts, 0)])
    state = program.init(np.stack([np.asarray(jax.random.PRNGKey(0))]), samplers)
    times = []
    for _ in range(SEGMENTS + 1):
        began = time.perf_counter()
        state, log = program.segment(state, samplers)
        jax.block_until_ready((state, log))
        times.append(time.perf_counter() - began)
    return program.segment_steps / statistics.median(times[1:]), times[0]


if __name__ == "__main__":
    print(f"{'environment':<24}{'steps/s':>10}{'first segment':>15}")
    for name, mdp in environments().items():
        rate, first = measure(mdp)
        print(f"{name:<24}{rate:>10,.0f}{first:>13.1f} s", flush=True)
