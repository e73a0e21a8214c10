"""FetchPush with SAC at the paper's settings: our host trainer against Stable-Baselines3's, and where its time goes.

    python -m benchmarks.host                 # one run on one core, in turns within one process
    python -m benchmarks.host --runs 1 8 32   # environment steps per second in all, on every core and the accelerator

Both step the same environment. Compilation and the random steps before learning are not counted. Times on one core are
processor time, since machines are shared; a breakdown is wall-clock of the trainer's own parts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

ALONE = "--runs" not in sys.argv
if ALONE:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before the libraries count the cores
    from geodesic.runtime import ours_alone

    ours_alone()

from geodesic import learners  # noqa: E402
from geodesic.tasks import load  # noqa: E402
from geodesic.training.host import HostTrainer  # noqa: E402

ROUNDS, SEGMENT = 5, 500
WARM = 1500  # past the random actions


def ours(runs: int) -> tuple[HostTrainer, Callable[[], int]]:
    task = load("fetch-push")
    name, options = learners.describe(task.learner)
    trainer = HostTrainer(task, learners.make(name, options), SEGMENT, 30, "deterministic")
    trainer.prepare(runs)
    trainer.begin(list(range(runs)), [task.source_particles] * runs)
    done = [0]

    def segment() -> int:
        trainer.finish_segment(done[0])
        done[0] += SEGMENT
        return runs * SEGMENT

    while done[0] < WARM:
        segment()
    trainer.seconds.update(physics=0.0, update=0.0)
    return trainer, segment


def stable_baselines() -> Callable[[], int]:
    import stable_baselines3
    import torch

    torch.set_num_threads(1)
    task = load("fetch-push")
    _, own = learners.describe(task.learner)
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


def side_by_side() -> None:
    trainer, own = ours(1)
    other = stable_baselines()
    speeds: dict[str, list[float]] = {"geodesic": [], "Stable-Baselines3": []}
    wall = 0.0
    for _ in range(ROUNDS):
        for name, segment in zip(speeds, (own, other)):
            began, ticking = time.process_time(), time.perf_counter()
            steps = segment()
            speeds[name].append(steps / (time.process_time() - began))
            wall += time.perf_counter() - ticking if name == "geodesic" else 0.0
    mine, theirs = (statistics.median(found) for found in speeds.values())
    ratios = sorted(a / b for a, b in zip(*speeds.values()))
    print(f"geodesic          {mine:7.0f} environment steps per second of one core")
    print(f"Stable-Baselines3 {theirs:7.0f}")
    print(f"ratio             {mine / theirs:7.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} in {ROUNDS} rounds)")
    told(trainer, wall)


def many(runs: int) -> None:
    trainer, segment = ours(runs)
    began = time.perf_counter()
    steps = sum(segment() for _ in range(ROUNDS))
    wall = time.perf_counter() - began
    print(f"{runs:3d} runs: {steps / wall:7.0f} environment steps per second in all, {trainer.threads.count} threads")
    told(trainer, wall)


def told(trainer: HostTrainer, wall: float) -> None:
    """Waiting for physics, waiting for the update, and the rest, as shares of wall-clock."""
    physics, update = trainer.seconds["physics"] / wall, trainer.seconds["update"] / wall
    print(f"  physics {physics:.0%}, update {update:.0%}, everything else {1 - physics - update:.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, nargs="*", default=[])
    chosen = parser.parse_args().runs
    for count in chosen:
        many(count)
    if not chosen:
        side_by_side()
