"""Print where trained PointMass agents end: a deterministic episode at the mean of the target and of the source.

python -m benchmarks.studies.final_positions runs/point-mass/compare/runs/gradient/seed-*
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium as gym

import geodesic
from geodesic.contexts import FloatArray
from geodesic.envs.point_mass import GOAL, PointMass
from geodesic.runs.run import load_policy

MEANS = {"target": PointMass.target_moments[0], "source": PointMass.source_moments[0]}


def end(env: Any, policy: Any, context: FloatArray) -> str:
    """The return and the last position of an episode."""
    obs, _ = env.reset(seed=0, options={"context": context})
    total, ended = 0.0, False
    while not ended:
        obs, reward, terminated, truncated, _ = env.step(policy(obs))
        total, ended = total + reward, terminated or truncated
    return f"return {total:5.1f}, ends at ({obs[0]:5.2f}, {obs[2]:5.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    env = gym.make("geodesic/PointMass-v0").unwrapped
    where = "; ".join(f"{name}: gate at {x:g}, width {width:g}" for name, (x, width) in MEANS.items())
    print(f"geodesic {geodesic.__version__}; {where}; the goal is at {GOAL}")
    for folder in parser.parse_args().folders:
        policy = load_policy(folder)
        ends = "; ".join(f"{name}: {end(env, policy, context)}" for name, context in MEANS.items())
        print(f"  {folder.name}: {ends}")


if __name__ == "__main__":
    main()
