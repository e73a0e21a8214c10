"""From nothing to a policy that acts without geodesic: train, export, and play in another process with NumPy alone.

    python examples/deploy.py

The second process needs three things: policy.npz, numpy_policy.py, and the environment.
"""

import subprocess
import sys
from pathlib import Path

import geodesic as gd

LOW, HIGH = 5.0, 40.0  # of the gravity


def set_context(env, gravity):
    env.gravity = gravity


task = gd.Task("CartPole-v1", {"gravity": (LOW, HIGH)}, target={"gravity": (30.0, 35.0)}, set_context=set_context)

DEPLOYED = f"""
import sys

import gymnasium as gym
import numpy as np
from numpy_policy import load_policy

policy = load_policy("policy.npz")
env = gym.make("CartPole-v1")
env.unwrapped.gravity = gravity = 32.0
scaled = 2 * (gravity - {LOW}) / ({HIGH} - {LOW}) - 1  # the task observes its contexts in [-1, 1]
scores = []
for seed in range(20):
    obs, _ = env.reset(seed=seed)
    score, ended = 0.0, False
    while not ended:
        obs, reward, terminated, truncated, _ = env.step(policy(np.append(obs, scaled)))
        score, ended = score + reward, terminated or truncated
    scores.append(score)
loaded = [name for name in ("geodesic", "jax", "torch") if name in sys.modules]
trained = f"{{policy.about['task']}}, step {{policy.about['step']}}"
print(f"{{trained}}: mean score {{np.mean(scores):.0f}} of 500, loaded {{loaded}}")
"""


def main(steps=60_000, out="runs/deploy"):
    gd.train(task, steps=steps, out=out)
    gd.load(out).export(Path(out) / "policy.npz")  # in another process too, or: geodesic export runs/deploy
    done = subprocess.run([sys.executable, "-c", DEPLOYED], cwd=out, check=True, stdout=subprocess.PIPE, text=True)
    print(done.stdout.strip())
    return done.stdout


if __name__ == "__main__":
    main()
