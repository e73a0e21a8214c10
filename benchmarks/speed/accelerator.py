"""Time PointMass with SAC on an accelerator: total environment steps per second, by the number of runs at once.

    python -m benchmarks.speed.accelerator            # the speeds
    python -m benchmarks.speed.accelerator --compare  # and a whole comparison, with and without compilation

The comparison trains every method on three seeds, at the paper's length, as one program.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from geodesic import curricula
from geodesic.runs import run
from geodesic.tasks import load
from geodesic.training.agents import stack
from geodesic.training.configure import configure
from geodesic.training.program import as_sampler

RUNS = (1, 32, 512, 1024)
SEGMENTS = 4


def speed(runs: int) -> float:
    """Total environment steps per second of all runs; the best of three, without compilation."""
    task = load("point-mass")
    program = run.trainer_of([configure(task)], task).program
    samplers = stack([as_sampler(task.source_particles, 0)] * runs)
    state = program.init(np.stack([np.asarray(jax.random.PRNGKey(i)) for i in range(runs)]), samplers)
    for _ in range(2):  # past the random actions
        state, _ = program.segment(state, samplers)
    best = 0.0
    for _ in range(3):
        jax.block_until_ready(state)
        began = time.perf_counter()
        for _ in range(SEGMENTS):
            state, log = program.segment(state, samplers)
            jax.device_get(log)
        best = max(best, SEGMENTS * runs * program.segment_steps / (time.perf_counter() - began))
    return best


def compare(seeds: int) -> None:
    """Train every method on so many seeds as one program, and print how long that took."""
    configs = [configure("point-mass", name, 100 + seed) for name in curricula.REGISTRY for seed in range(seeds)]
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        batch = run.start(configs, [Path(folder) / str(i) for i in range(len(configs))])
        batch.train()
        seconds = time.perf_counter() - began
    steps = sum(config.steps for config in configs)
    hosted = sum(session.curriculum_seconds for session in batch.sessions)
    print(f"comparison: {len(configs)} runs of {configs[0].steps} steps at once took {seconds:.1f} s;")
    print(f"  {steps / seconds:,.0f} environment steps/s; of this time, curricula took {hosted:.1f} s on the host")
    for name in curricula.REGISTRY:
        returns = [session.target_score for session in batch.sessions if session.config.method == name]
        print(f"  {name:<12} target return {np.mean(returns):6.1f}")


def compare_twice() -> None:
    """Run the comparison in two processes: the first fills the compilation cache, the second uses it."""
    with tempfile.TemporaryDirectory() as cache:
        cached = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
        for title in ("with compilation", "with a warm compilation cache"):
            print(title, flush=True)
            command = [sys.executable, "-m", "benchmarks.speed.accelerator", "--runs", "", "--once"]
            subprocess.run(command, env={**os.environ, **cached}, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--runs", default=",".join(map(str, RUNS)))
    options = parser.parse_args()
    print(f"device: {jax.devices()[0].device_kind}")
    for runs in map(int, filter(None, options.runs.split(","))):
        print(f"  {runs:5d} runs at once: {speed(runs):12,.0f} environment steps/s in total", flush=True)
    if options.once:
        compare(3)
    if options.compare:
        compare_twice()


if __name__ == "__main__":
    main()
