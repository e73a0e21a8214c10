"""Stable-Baselines3's worker processes, and scripts that are killed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

import geodesic as gd
from clocks import task
from geodesic.errors import RunFailed
from geodesic.records import checkpoint, checkpoint_path, load_run

torch.set_num_threads(1)
HERE = Path(__file__).parent


class Watching(gd.sb3.CurriculumCallback):
    """When distributions were pushed, and which episodes each worker played."""

    def _init_callback(self):
        self.pushed, self.played = [], []

    def _enter(self):
        super()._enter()
        self.pushed.append((self.num_timesteps, self.stage))

    def _on_step(self):
        for worker in np.flatnonzero(self.locals["dones"]):
            info, n = self.locals["infos"][worker], self.training_env.num_envs
            began = self.num_timesteps - info["episode"]["l"] * n
            self.played.append((int(worker), began, info["stage"], float(info["context"][0])))
        return super()._on_step()


class Killing(BaseCallback):
    def _on_step(self):
        if self.num_timesteps >= 300:
            os.kill(self.training_env.unwrapped.processes[1].pid, signal.SIGKILL)
        return True


def learn(env, steps=600, out=None, also=()):
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=32, n_epochs=1, policy_kwargs={"net_arch": [8]}, seed=0)
    watching = Watching(task(), "gradient:step=0.25:window=20", out=out, eval_freq=0, save_every=0.0)
    model.learn(steps, callback=[watching, *also])
    return watching


@pytest.mark.parametrize("workers", [3, pytest.param(16, marks=pytest.mark.slow)])
def test_workers_draw_from_a_new_distribution_at_their_first_reset_after_it_and_none_before(tmp_path, workers):
    env = make_vec_env(task().make, n_envs=workers, vec_env_cls=SubprocVecEnv)
    try:
        first, second = learn(env), learn(env)
        assert first.played == second.played  # contexts are those of the seed
        assert [stage for _, stage in first.pushed] == [0, 1, 2, 3, 4]
        for worker in range(workers):
            own = [episode for episode in first.played if episode[0] == worker]
            assert len(own) > 5
            for _, began, stage, _ in own:
                # an environment that ended in the very step of the push had been reset before it
                assert stage == sum(step < began for step, _ in first.pushed[1:]), (began, first.pushed)
        with pytest.raises(RunFailed, match=r"environment 1 \(exit code -9\) died after step \d+; .*start the script"):
            learn(env, out=tmp_path, also=[Killing()])
    finally:
        for process in env.processes:
            process.kill()
    reached = int(checkpoint.load(checkpoint_path(tmp_path)).count("step"))
    assert 300 - 8 * workers <= reached <= 300 + workers
    on = learn(make_vec_env(task().make, n_envs=workers), out=tmp_path)
    assert on.pushed[0][0] == reached
    run = load_run(tmp_path)
    assert run.finished
    assert run.stages.stages.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_a_script_killed_at_three_random_moments_goes_on_at_its_stage_and_records_nothing_twice(tmp_path):
    steps, moments = 3000, random.Random(0)
    command = [sys.executable, HERE / "killable.py", tmp_path, str(steps)]
    path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    told = []
    for share in sorted(moments.uniform(0.05, 0.8) for _ in range(3)):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None and last_step(tmp_path) < share * steps:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        told.append(process.stdout.read().split())
        kept = checkpoint.load(checkpoint_path(tmp_path))
        told.append([str(kept.count("step")), str(int(kept.arrays["curriculum/stage"]))])
    last = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path})
    assert told[0] == ["0", "0"]
    assert told[2::2] == told[1:-1:2]  # each goes on where the checkpoint of the one before stands
    assert last.stdout.split() == told[-1]
    assert 0 < int(told[1][0]) < int(told[3][0]) < int(told[5][0]) < steps
    run = load_run(tmp_path)  # which refuses steps that do not grow from line to line
    assert run.finished
    assert (np.round(run.episodes.contexts[:, 0]) == run.episodes.lengths).all()
    assert run.stages.stages.tolist() == list(range(len(run.stages.stages)))
    lost = run.episodes.steps[-1] - run.episodes.lengths.sum()
    assert 0 <= lost <= 4 * 2 * 9  # episodes under way at a kill, and at the end


def last_step(folder):
    """Of the last whole line of episodes.csv."""
    file = folder / "episodes.csv"
    lines = file.read_text().splitlines()[1:-1] if file.exists() else []
    return int(lines[-1].split(",")[0]) if lines else 0
