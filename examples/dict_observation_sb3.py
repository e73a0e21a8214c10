"""A Dict observation: the context is added as one more entry, under the key "context"."""

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import geodesic as gd


class SplitObservation(gym.ObservationWrapper):
    """Splits CartPole's observation into the cart's two numbers and the pole's two."""

    def __init__(self, env):
        super().__init__(env)
        low, high = env.observation_space.low, env.observation_space.high
        sides = {"cart": slice(0, 2), "pole": slice(2, 4)}
        self.observation_space = gym.spaces.Dict({k: gym.spaces.Box(low[s], high[s]) for k, s in sides.items()})

    def observation(self, observation):
        return {"cart": observation[:2], "pole": observation[2:]}


def make(**options):
    return SplitObservation(gym.make("CartPole-v1", **options))


def set_context(env, force):
    env.unwrapped.force_mag = force  # below SplitObservation


task = gd.Task(
    make, {"force": (1.0, 20.0, "N")}, {"force": (8.0, 12.0)}, {"force": 2.0}, threshold=60.0, set_context=set_context
)


def main(steps=50_000, out="runs/dict"):
    model = PPO("MultiInputPolicy", make_vec_env(task.make, n_envs=4), n_steps=256, batch_size=256)
    return model.learn(steps, callback=gd.sb3.CurriculumCallback(task, "gradient:step=0.25", out=out))


if __name__ == "__main__":
    main()
