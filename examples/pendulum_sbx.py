"""SBX's SAC on a pendulum that gets heavier, with the same callback as for Stable-Baselines3."""

from sbx import SAC
from stable_baselines3.common.env_util import make_vec_env

import geodesic as gd


def set_context(env, mass):
    env.m = mass


task = gd.Task(
    "Pendulum-v1",
    contexts={"mass": (0.2, 1.5, "kg")},
    source={"mass": (0.3, 0.5)},
    target={"mass": (1.0, 1.2)},
    threshold=-300.0,
    set_context=set_context,
    evaluation=gd.EvaluationSettings(episodes=10),
)


def main(steps=20_000, out="runs/pendulum", **options):
    model = SAC("MlpPolicy", make_vec_env(task.make, n_envs=4), gradient_steps=4, **options)
    return model.learn(steps, callback=gd.sb3.CurriculumCallback(task, "gradient:step=0.25", out=out))


if __name__ == "__main__":
    main()
