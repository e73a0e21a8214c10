"""Time FetchPush with SAC at the paper's settings: our host trainer and Stable-Baselines3's, with a breakdown of ours.

    python -m benchmarks.speed.host                 # one run on one core, in alternation within one process
    python -m benchmarks.speed.host --runs 1 8 32   # total environment steps per second, on all cores and accelerators

Both step the same environment. Compilation and the random steps before learning are not counted. Times on one core are
CPU time, because machines are shared; the breakdown is wall-clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

ALONE = "--runs" not in sys.argv
if ALONE:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before the libraries count the cores
    from geodesic.runtime import configure_process

    configure_process()

from geodesic import learners  # noqa: E402
from geodesic.tasks import load  # noqa: E402
from geodesic.training.configure import configure  # noqa: E402
from geodesic.training.host import Group, HostTrainer  # noqa: E402

ROUNDS, SEGMENT = 5, 500
WARM = 1500  # past the random actions
SECONDS = Counter[str]()  # in methods of a group of runs


def ours(runs: int) -> tuple[HostTrainer, Callable[[], int]]:
    """A trainer of so many runs, and a function that trains a segment and returns its environment steps."""
    task = load("fetch-push")
    name, options = learners.describe(task.training.learner)
    trainer = HostTrainer(task, learners.make(name, options), configure(task).replace(segment=SEGMENT))
    trainer.prepare(runs)
    trainer.begin(list(range(runs)), [task.source_particles] * runs)
    done = [0]

    def segment() -> int:
        trainer.finish_segment(done[0])
        done[0] += SEGMENT
        return runs * SEGMENT

    while done[0] < WARM:
        segment()
    SECONDS.clear()
    return trainer, segment


def stable_baselines() -> Callable[[], int]:
    """The same for Stable-Baselines3."""
    import stable_baselines3
    import torch

    torch.set_num_threads(1)
    task = load("fetch-push")
    _, own = learners.describe(task.training.learner)
    env = task.make()
    env.set_distribution(task.source_particles)  # type: ignore[attr-defined]
    model = stable_baselines3.SAC(
        "MlpPolicy",
        env,
        **{key: own[key] for key in ("gamma", "learning_rate", "batch_size", "buffer_size", "learning_starts")},
        train_freq=1,
        policy_kwargs={"net_arch": list(own["net"]), "activation_fn": torch.nn.Tanh},
        seed=0,
        device="cpu",
    )
    model.learn(WARM)

    def segment() -> int:
        model.learn(SEGMENT, reset_num_timesteps=False)
        return SEGMENT

    return segment


def compare() -> None:
    """Time one run of each in alternation, and print the ratio."""
    _, our_segment = ours(1)
    their_segment = stable_baselines()
    speeds: dict[str, list[float]] = {"geodesic": [], "Stable-Baselines3": []}
    wall = 0.0
    for _ in range(ROUNDS):
        for name, segment in zip(speeds, (our_segment, their_segment)):
            began, ticking = time.process_time(), time.perf_counter()
            steps = segment()
            speeds[name].append(steps / (time.process_time() - began))
            wall += time.perf_counter() - ticking if name == "geodesic" else 0.0
    mine, theirs = (statistics.median(found) for found in speeds.values())
    ratios = sorted(a / b for a, b in zip(*speeds.values()))
    print(f"geodesic          {mine:7.0f} environment steps per second of one core")
    print(f"Stable-Baselines3 {theirs:7.0f}")
    print(f"ratio             {mine / theirs:7.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} in {ROUNDS} rounds)")
    print_breakdown(wall)


def time_runs(runs: int) -> None:
    """Time so many runs of ours at once."""
    trainer, segment = ours(runs)
    began = time.perf_counter()
    steps = sum(segment() for _ in range(ROUNDS))
    wall = time.perf_counter() - began
    print(f"{runs:3d} runs: {steps / wall:7.0f} environment steps per second in total, {trainer.threads.count} threads")
    print_breakdown(wall)


def timed(name: str) -> None:
    """Add up the seconds in a method of a group of runs."""
    method = getattr(Group, name)

    def measured(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return method(*arguments, **options)
        finally:
            SECONDS[name] += time.perf_counter() - began

    setattr(Group, name, measured)


def print_breakdown(wall: float) -> None:
    """Print the shares of wall-clock spent on physics, on updates, and on everything else."""
    physics = (SECONDS["_start"] + SECONDS["_wait"]) / wall
    update = (SECONDS["step_envs"] + SECONDS["update"]) / wall - physics
    print(f"  physics {physics:.0%}, update {update:.0%}, everything else {1 - physics - update:.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, nargs="*", default=[])
    chosen = parser.parse_args().runs
    for method in ("step_envs", "update", "_start", "_wait"):
        timed(method)
    for count in chosen:
        time_runs(count)
    if not chosen:
        compare()
