"""A custom training loop around a Gymnasium vector environment, in the style of CleanRL.

The teacher samples the context of each environment's next episode. The agent is a linear policy trained by an evolution
strategy, so the example needs no learning library.
"""

import gymnasium as gym
import numpy as np

import geodesic as gd
from cartpole import task


def main(steps=100_000, out="runs/loop", n=8):
    envs = gym.vector.SyncVectorEnv([task.make] * n)  # resets an environment in the step after its episode ends
    teacher = gd.Teacher(task, "gradient:step=0.25", out=out, steps=steps)
    weights = teacher.restored.get("weights", np.zeros(4))
    rng = np.random.default_rng(teacher.step)
    tried = weights + rng.normal(0.0, 0.3, (n, 4))
    earned, lengths = np.zeros(n), np.zeros(n, int)

    contexts = teacher.sample(n)
    envs.set_attr("next_context", list(contexts))
    obs, _ = envs.reset(seed=teacher.step)
    while teacher.step < steps:
        actions = (np.einsum("nd,nd->n", obs[:, :4], tried) > 0).astype(int)
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        earned, lengths = earned + rewards, lengths + 1
        over = terminated | truncated
        if not over.any():
            continue
        teacher.report(contexts[over], earned[over], lengths[over])
        for place in np.flatnonzero(over):  # move towards policies in proportion to their return
            weights = weights + 0.1 * (earned[place] / 100) * (tried[place] - weights)
            tried[place] = weights + rng.normal(0.0, 0.3, 4)
        contexts[over], earned[over], lengths[over] = teacher.sample(int(over.sum())), 0.0, -1  # the reset takes a step
        envs.set_attr("next_context", list(contexts))
        teacher.save({"weights": weights})
    teacher.finish()
    return teacher


if __name__ == "__main__":
    print(f"stage {main().stage}")
