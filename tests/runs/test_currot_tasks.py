"""The tasks of CURROT's authors: runs resume to the same bytes, and agents are evaluated where the tasks say."""

import numpy as np
import pytest

from geodesic.records import load_run
from geodesic.runs import run
from geodesic.tasks import load
from geodesic.training.configure import configure
from run_files import Interrupted, after_each_segment, contents

PPO = "ppo:rollout=64:net=[8]:batch_size=32:epochs=1"
SAC = "sac:batch_size=16:net=[8]:buffer_size=500:learning_starts=50"
RUNS = {
    "e-maze": ("gradient:metric=policy-returns:explore_steps=64:window=1", PPO, 640, -1.0),
    "sparse-goal": ("procurl-target:episodes_per_update=5", SAC, 6000, None),
    "point-mass-nd": ("gradient:window=1", PPO, 640, 0.0),
}


@pytest.mark.parametrize(
    "name", [name if name == "e-maze" else pytest.param(name, marks=pytest.mark.slow) for name in RUNS]
)
def test_an_interrupted_run_ends_with_the_same_bytes(name, tmp_path):
    method, learner, steps, threshold = RUNS[name]
    config = configure(f"{name}:eval_episodes=3", method, 0, steps, threshold=threshold, learner=learner)
    run.start([config], [tmp_path / "whole"]).train()
    batch = run.start([config], [tmp_path / "interrupted"])

    def interrupt(index):
        if batch.sessions[index].state.stage:
            raise Interrupted

    after_each_segment(batch, interrupt)
    batch.checkpoint_seconds = 0.0
    with pytest.raises(Interrupted):
        batch.train()
    run.resume([config], [tmp_path / "interrupted"]).train()
    assert contents(tmp_path / "interrupted") == contents(tmp_path / "whole")
    assert len(load_run(tmp_path / "whole").curriculum) > 1


def test_a_threshold_of_the_run_replaces_the_methods():
    usual, given = (configure("e-maze", "currot", threshold=level) for level in (None, 0.2))
    assert (usual.threshold, usual.options["threshold"]) == (0.3, 0.1)
    assert given.threshold == 0.2
    assert "threshold" not in given.options
    assert configure("e-maze", "currot:threshold=0.05", threshold=0.2).options["threshold"] == 0.05


def test_agents_are_evaluated_on_the_tasks_evaluation_distribution(monkeypatch):
    seen = []
    monkeypatch.setattr(run, "CompiledTrainer", lambda program, distribution: seen.append(distribution))
    for name in ("sparse-goal", "e-maze"):
        run.trainer_of([configure(name)], load(name))
    assert seen[0] is load("sparse-goal").evaluation_particles
    assert seen[0] is not load("sparse-goal").target_particles
    assert seen[1] is load("e-maze").target_particles
    assert np.array_equal(seen[0].points[:, 2], np.full(500, 0.05))
