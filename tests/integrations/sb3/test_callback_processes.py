"""Stable-Baselines3 with worker processes, and scripts that are killed and started again."""

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


class Recording(gd.sb3.CurriculumCallback):
    """Records when distributions were pushed, and which episodes each worker played."""

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


def train(env, steps=600, out=None, also=()):
    model = PPO(
        "MlpPolicy", env, n_steps=8, batch_size=8 * env.num_envs, n_epochs=1, policy_kwargs={"net_arch": [8]}, seed=0
    )
    recording = Recording(task(), "gradient:step=0.25:window=20", out=out, eval_freq=0, save_every=0.0)
    model.learn(steps, callback=[recording, *also])
    return recording


@pytest.mark.parametrize("workers", [3, pytest.param(16, marks=pytest.mark.slow)])
def test_workers_draw_from_a_new_distribution_from_their_next_reset_on(tmp_path, workers):
    env = make_vec_env(task().make, n_envs=workers, vec_env_cls=SubprocVecEnv)
    try:
        first, second = train(env), train(env)
        assert first.played == second.played  # contexts depend on the seed only
        assert [stage for _, stage in first.pushed] == [0, 1, 2, 3, 4]
        for worker in range(workers):
            own = [episode for episode in first.played if episode[0] == worker]
            assert len(own) > 5
            for _, began, stage, _ in own:
                # an environment whose episode ended in the step of the push had been reset before it
                assert stage == sum(step < began for step, _ in first.pushed[1:]), (began, first.pushed)
        with pytest.raises(RunFailed, match=r"environment 1 \(exit code -9\) died after step \d+; .*start the script"):
            train(env, out=tmp_path, also=[Killing()])
    finally:
        for process in env.processes:
            process.kill()
    reached = int(checkpoint.load(checkpoint_path(tmp_path)).count("step"))
    assert 300 - 8 * workers <= reached <= 300 + workers
    resumed = train(make_vec_env(task().make, n_envs=workers), out=tmp_path)
    assert resumed.pushed[0][0] == reached
    run = load_run(tmp_path)
    assert run.finished
    assert run.stages.stages.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_a_script_killed_at_three_random_moments_resumes_at_its_stage_and_records_nothing_twice(tmp_path):
    steps, moments = 3000, random.Random(0)
    command = [sys.executable, HERE / "killable_sb3_script.py", tmp_path, str(steps)]
    path = os.pathsep.join([str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    printed = []
    for fraction in sorted(moments.uniform(0.05, 0.8) for _ in range(3)):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None and last_step(tmp_path) < fraction * steps:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        printed.append(process.stdout.read().split())
        kept = checkpoint.load(checkpoint_path(tmp_path))
        printed.append([str(kept.count("step")), str(int(kept.arrays["curriculum/stage"]))])
    last = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path})
    assert printed[0] == ["0", "0"]
    assert printed[2::2] == printed[1:-1:2]  # each resumes from the checkpoint of the one before
    assert last.stdout.split() == printed[-1]
    assert 0 < int(printed[1][0]) < int(printed[3][0]) < int(printed[5][0]) < steps
    run = load_run(tmp_path)  # refuses steps that do not increase from line to line
    assert run.finished
    assert (np.round(run.episodes.contexts[:, 0]) == run.episodes.lengths).all()
    assert run.stages.stages.tolist() == list(range(len(run.stages.stages)))
    missing = run.episodes.steps[-1] - run.episodes.lengths.sum()
    assert 0 <= missing <= 4 * 2 * 9  # episodes that were running at a kill and at the end


def last_step(folder):
    """The step in the last complete line of episodes.csv."""
    file = folder / "episodes.csv"
    lines = file.read_text().splitlines()[1:-1] if file.exists() else []
    return int(lines[-1].split(",")[0]) if lines else 0
