"""A training loop of one's own around a Gymnasium vector environment, as CleanRL's scripts have it.

The teacher says in which context each environment plays next; the agent is a policy of four weights, improved by trying
others (an evolution strategy), so that the example needs no learning library.
"""

import gymnasium as gym
import numpy as np

import geodesic as gd
from cartpole import task


def main(steps=100_000, out="runs/loop", n=8):
    envs = gym.vector.SyncVectorEnv([task.make] * n)  # which resets an environment in the step after an episode's end
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
        for place in np.flatnonzero(over):  # towards what was tried, the further the more it earned
            weights = weights + 0.1 * (earned[place] / 100) * (tried[place] - weights)
            tried[place] = weights + rng.normal(0.0, 0.3, 4)
        contexts[over], earned[over], lengths[over] = teacher.sample(int(over.sum())), 0.0, -1  # the reset is a step
        envs.set_attr("next_context", list(contexts))
        teacher.save({"weights": weights})
    teacher.finish()
    return teacher


if __name__ == "__main__":
    print(f"stage {main().stage}")
