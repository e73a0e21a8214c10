"""Train Stable-Baselines3's PPO on stock MountainCar, with and without a curriculum.

    python -m benchmarks.studies.own_task                       # 5 seeds of each, one after the other
    python -m benchmarks.studies.own_task --first-seed 0 --seeds 1 --steps 50000

The context is gravity. At the source the car drives straight up the hill. At the target, stock MountainCar's 0.0025
plus or minus 4 %, it has to swing, and every step costs 1 until the flag is reached by chance. PPO and the budget are
the same; `target-only` is the stock problem. Call it again with the same --out to resume.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import geodesic as gd
from geodesic.analysis.statistics import summarise
from geodesic.records import finished, load_comparison
from geodesic.report.tables import format_table

METHODS = ("gradient", "target-only")
SOLVED = -140.0  # random actions earn -200, the best policies about -105


def set_context(env: object, gravity: float) -> None:
    env.gravity = gravity  # type: ignore[attr-defined]


task = gd.Task(
    "MountainCar-v0",
    contexts={"gravity": (0.0, 0.003)},
    source={"gravity": (0.0003, 0.0008)},
    target={"gravity": (0.0024, 0.0026)},
    threshold=-160.0,
    solved=SOLVED,
    set_context=set_context,
    name="mountain-car",
)


def train(method: str, seed: int, steps: int, out: Path) -> None:
    """Train one seed of one method."""
    env = VecNormalize(make_vec_env(task.make, n_envs=16, seed=seed), norm_reward=False)
    model = PPO("MlpPolicy", env, n_steps=128, batch_size=256, seed=seed, device="cpu")
    model.learn(steps, callback=gd.sb3.CurriculumCallback(task, method, out=out, seed=seed, eval_freq=5000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--out", type=Path, default=Path("runs/own-task"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for method in METHODS:
            folder = options.out / "runs" / method / f"seed-{seed}"
            if not finished(folder):
                train(method, seed, options.steps, folder)
    runs = load_comparison(options.out)
    print(f"MountainCar, Stable-Baselines3's PPO, {options.steps} steps, solved above {SOLVED:g}")
    print(format_table(summarise(runs, SOLVED, "gradient")))
    for run in runs:
        print(
            f"{run.label:12} seed {run.seed}: final return {run.evaluations.returns[-1]:7.1f}, "
            f"stage {run.stages.stages[-1]}, alpha {run.stages.alphas[-1]:.2f}"
        )


if __name__ == "__main__":
    main()
