"""Models of Stable-Baselines3 and SBX as arrays: what is restored, and what is refused."""

import contextlib
import pickle
from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
import sbx
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import geodesic as gd
from clocks import task
from geodesic.errors import CheckpointError
from geodesic.integrations.sb3.models import PREFIX, STATE, restore_model, save_model
from geodesic.records import checkpoint, checkpoint_path

SIZES = {"policy_kwargs": {"net_arch": [4]}, "seed": 0, "device": "cpu"}
OFF_POLICY = {"learning_starts": 10, "buffer_size": 50, "batch_size": 8, **SIZES}


class Push(gym.Env):
    observation_space = gym.spaces.Box(-9.0, 9.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.normal(size=2).astype(np.float32)
        return self.place, {}

    def step(self, action):
        self.place = np.clip(self.place + action[0] / 9, -9, 9).astype(np.float32)
        return self.place, float(-abs(self.place[0])), bool(self.np_random.random() < 0.1), False, {}


def make(kind):
    library, name = kind.split(".")
    algorithm = {"sb3": {"PPO": PPO, "SAC": SAC, "DQN": DQN}, "sbx": {"PPO": sbx.PPO, "SAC": sbx.SAC}}[library][name]
    env = VecNormalize(make_vec_env(task().make if name == "DQN" else Push, n_envs=1, seed=0))
    options = {"n_steps": 16, "batch_size": 8, "n_epochs": 1, **SIZES} if name == "PPO" else OFF_POLICY
    return algorithm("MlpPolicy", env, **deepcopy(options))


KINDS = ["sb3.PPO", "sb3.SAC", "sb3.DQN", "sbx.PPO", "sbx.SAC"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_model_learns_the_same(kind):
    first = make(kind)
    for steps in (0, 40):  # before and after the optimisers have made a step
        if steps:
            first.learn(steps)
        second = make(kind)
        restore_model(second, save_model(first))
        before, after = save_model(first), save_model(second)
        assert before.keys() == after.keys()
        for name in before:
            np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    for model in (first, second):
        model.set_random_seed(1)
        model.env.seed(1)
        model._last_obs = None
        model.learn(32, reset_num_timesteps=False)
    before, after = save_model(first), save_model(second)
    for name in before:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_every_array_that_does_not_fit_is_refused(kind):
    model = make(kind)
    model.learn(40)
    whole, other_model = save_model(model), make(kind)
    for name, array in whole.items():
        wrong = [np.zeros((*array.shape, 2), array.dtype), array.astype("S3"), array.astype(complex)]
        if array.size and array.dtype.kind == "f":
            wrong += [np.full_like(array, np.nan), np.full_like(array, np.inf)]
        elif array.size and array.dtype.kind != "b":
            wrong += [array.astype(float) + np.nan]
        for other in wrong:
            with pytest.raises(CheckpointError, match="with these spaces and sizes") as caught:
                restore_model(other_model, {**whole, name: other})
            assert "\n" not in str(caught.value), name


def test_parts_of_another_optimiser_and_missing_ones_are_refused():
    model = make("sb3.PPO")
    model.learn(40)
    whole = save_model(model)
    moment = STATE + "policy.optimizer/0/exp_avg"
    for changed in ({moment: None}, {moment + "_other": whole[moment]}, {STATE + "policy/new": np.zeros(2)}):
        arrays = {name: array for name, array in {**whole, **changed}.items() if array is not None}
        with pytest.raises(CheckpointError, match="other parts of policy"):
            restore_model(make("sb3.PPO"), arrays)


class Trap:
    """Executes code when it is unpickled."""

    def __reduce__(self):
        return (open, ("TRAPPED", "w"))


def test_a_pickle_in_a_checkpoint_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learner = gd.PPO(rollout=16, batch_size=8, epochs=1, net=(4,))
    own = task(training=gd.TrainingSettings(learner=learner, steps=64, segment=1))
    result = gd.train(own, "uniform", out=tmp_path / "runs", backend="sb3")
    path = checkpoint_path(result.runs[0].folder)
    kept = checkpoint.load(path)
    assert not any(array.dtype.hasobject for array in kept.arrays.values())
    for name in kept.arrays:
        if name.startswith(PREFIX):
            trap = np.frombuffer(pickle.dumps(Trap()), np.uint8)
            checkpoint.save(path, {**kept.arrays, name: trap, PREFIX + "model": trap}, kept.meta)
            with pytest.raises(CheckpointError):
                result.policy(stochastic=True, which="last")  # of the whole model
            with contextlib.suppress(CheckpointError):
                result.policy(which="last")  # of the arrays that its actions depend on, and no others
    assert not (tmp_path / "TRAPPED").exists()
