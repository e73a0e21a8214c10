"""Where trained PointMass agents end up: one deterministic episode each, at the middle of the target.

python -m benchmarks.tracks runs/point-mass/compare/runs/gradient/seed-*
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium as gym

import geodesic
from geodesic.runs.run import load_policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    env = gym.make("geodesic/PointMass-v0").unwrapped
    print(f"geodesic {geodesic.__version__}, gate at 2.5, width 0.5; the goal is at (0, -3)")
    for folder in parser.parse_args().folders:
        policy = load_policy(folder)
        obs, _ = env.reset(seed=0, options={"context": [2.5, 0.5]})
        total, ended = 0.0, False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(policy(obs))
            total, ended = total + reward, terminated or truncated
        print(f"  {folder.name}: return {total:5.1f}, ends at ({obs[0]:5.2f}, {obs[2]:5.2f})")


if __name__ == "__main__":
    main()
