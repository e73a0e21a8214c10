"""Where trained PointMass agents end up: one deterministic episode each, at the middle of the target and of the source.

python -m benchmarks.tracks runs/point-mass/compare/runs/gradient/seed-*
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium as gym

import geodesic
from geodesic.runs.run import load_policy

CONTEXTS = {"target": (2.5, 0.5), "source": (0.0, 4.25)}  # the gate's position and width


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    env = gym.make("geodesic/PointMass-v0").unwrapped
    print(f"geodesic {geodesic.__version__}; the gate's position and width: {CONTEXTS}; the goal is at (0, -3)")
    for folder in parser.parse_args().folders:
        policy = load_policy(folder)
        ends = []
        for name, context in CONTEXTS.items():
            obs, _ = env.reset(seed=0, options={"context": context})
            total, ended = 0.0, False
            while not ended:
                obs, reward, terminated, truncated, _ = env.step(policy(obs))
                total, ended = total + reward, terminated or truncated
            ends.append(f"{name}: return {total:5.1f}, ends at ({obs[0]:5.2f}, {obs[2]:5.2f})")
        print(f"  {folder.name}: {'; '.join(ends)}")


if __name__ == "__main__":
    main()
