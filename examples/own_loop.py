"""A custom training loop with a curriculum: hill climbing on CartPole with a pole that gets shorter.

python examples/own_loop.py runs/own-loop      # start it again after a kill to resume at the same stage
"""

import sys

import numpy as np

import geodesic as gd


def set_context(env, length):  # CartPole also stores a product of the length
    env.length, env.polemass_length = length, env.masspole * length


task = gd.Task(
    env="CartPole-v1",
    contexts={"length": (0.05, 1.0, "m")},
    source={"length": (0.5, 1.0)},
    target={"length": (0.05, 0.1)},
    threshold=150.0,
    set_context=set_context,
)


def episode(env, weights, context, seed):
    obs, _ = env.reset(seed=seed, options={"context": context})
    total, steps, ended = 0.0, 0, False
    while not ended:
        obs, reward, terminated, truncated, _ = env.step(int(weights @ obs > 0))
        total, steps, ended = total + reward, steps + 1, terminated or truncated
    return total, steps


def main(out, steps=60_000):
    env = task.make()
    teacher = gd.Teacher(task, "gradient:step=0.2", out=out)
    agent = teacher.restored or {"weights": np.zeros(5), "best": np.float64(0.0)}
    while teacher.step < steps:
        rng = np.random.default_rng(teacher.step)
        contexts = teacher.sample(5)
        trial = agent["weights"] + rng.normal(0, 0.3, 5)
        results = [episode(env, trial, context, int(rng.integers(2**31))) for context in contexts]
        returns, lengths = zip(*results)
        teacher.report(contexts, returns, lengths)
        best = max(0.95 * agent["best"], np.mean(returns))  # fades, because the task gets harder
        agent = {"weights": trial if np.mean(returns) >= best else agent["weights"], "best": best}
        teacher.save(agent)
    evaluation = np.random.default_rng(0)
    final = [episode(env, agent["weights"], c, 0)[0] for c in task.target_particles.sample(evaluation, 30)]
    teacher.evaluation(final)
    teacher.finish()
    print(f"stage {teacher.stage}, alpha {teacher.alpha:.1f}, return on the target {np.mean(final):.0f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/own-loop")
