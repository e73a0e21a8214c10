"""PointMass with SAC on an accelerator: environment steps per second in all, by the number of runs at once.

Also the whole comparison, every method and three seeds at the paper's length, as one program, with its wall-clock:

    python -m benchmarks.accelerator            # the speeds
    python -m benchmarks.accelerator --compare  # and the comparison, with its compilation and without
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
from geodesic.runs.config import configure
from geodesic.tasks import load
from geodesic.training.program import as_sampler, stack

RUNS = (1, 32, 512, 1024)
SEGMENTS = 4


def speed(runs: int) -> float:
    """Environment steps per second of all runs together; the best of three, compilation not counted."""
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


def whole_comparison(seeds: int) -> None:
    configs = [configure("point-mass", name, 100 + seed) for name in curricula.REGISTRY for seed in range(seeds)]
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        batch = run.start(configs, [Path(folder) / str(i) for i in range(len(configs))])
        batch.train()
        seconds = time.perf_counter() - began
    steps = sum(config.steps for config in configs)
    hosted = sum(lesson.curriculum_seconds for lesson in batch.lessons)
    print(f"comparison: {len(configs)} runs of {configs[0].steps} steps at once: {seconds:.1f} s in all;")
    print(f"  {steps / seconds:,.0f} environment steps/s; the curricula took {hosted:.1f} s of it on the host")
    for name in curricula.REGISTRY:
        returns = [lesson.target_score for lesson in batch.lessons if lesson.config.method == name]
        print(f"  {name:<12} target return {np.mean(returns):6.1f}")


def twice() -> None:
    """The comparison in two processes: the first compiles and keeps its programs, the second finds them."""
    with tempfile.TemporaryDirectory() as cache:
        kept = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
        for title in ("compilation included", "the second time, with the compiled programs that the first has kept"):
            print(title, flush=True)
            command = [sys.executable, "-m", "benchmarks.accelerator", "--runs", "", "--once"]
            subprocess.run(command, env={**os.environ, **kept}, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--runs", default=",".join(map(str, RUNS)))
    options = parser.parse_args()
    print(f"device: {jax.devices()[0].device_kind}")
    for runs in map(int, filter(None, options.runs.split(","))):
        print(f"  {runs:5d} runs at once: {speed(runs):12,.0f} environment steps/s in all", flush=True)
    if options.once:
        whole_comparison(3)
    if options.compare:
        twice()


if __name__ == "__main__":
    main()
