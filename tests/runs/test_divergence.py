"""A run that diverges is named with its step, and does not affect the other runs of its batch."""

from pathlib import Path

import numpy as np
import pytest

import geodesic as gd
from geodesic.cli import main
from geodesic.errors import RunFailed
from geodesic.records import checkpoint, checkpoint_path, finished, load_run
from geodesic.runs import run
from geodesic.training.configure import configure

TASK = f"{Path(__file__).parent.parent / 'known_returns.py'}:task"


def test_a_diverged_run_fails_with_its_step_and_keeps_its_last_checkpoint(tmp_path, capsys):
    """With this learning rate the second update of the first segment overflows."""
    small = "n_envs=2:rollout=25:batch_size=50:epochs=1:net=[8]"
    huge = ["--learner", f"ppo:learning_rate=1e30:{small}", "--save-every", "0"]
    assert main(["run", TASK, *huge, "--out", str(tmp_path), "--quiet"]) == 1
    error = capsys.readouterr().err
    assert "diverged by step 100: parameters or returns are not finite" in error
    assert error.count("\n") == 1
    assert not finished(tmp_path)
    kept = checkpoint.load(checkpoint_path(tmp_path))
    assert kept.count("segment") == 0
    learned = [array for name, array in kept.arrays.items() if "actor" in name or "critic" in name]
    assert len(learned) >= 10
    assert all(np.isfinite(array).all() for array in learned)


def test_the_other_runs_of_its_batch_are_not_affected(tmp_path, monkeypatch):
    configs = [configure("maze", "uniform", seed, 2000) for seed in (0, 1, 2)]
    folders = [tmp_path / str(seed) for seed in (0, 1, 2)]
    batch = run.start(configs, folders)
    finish_segment = batch.trainer.finish_segment

    def diverge(before):
        results = finish_segment(before)
        return [results[0], None, results[2]] if before == 1000 else results

    monkeypatch.setattr(batch.trainer, "finish_segment", diverge)
    with pytest.raises(RunFailed, match=r"^uniform seed 1 diverged by step 1500: [^;]*; its last checkpoint is kept"):
        batch.train()
    assert [finished(folder) for folder in folders] == [True, False, True]
    run.start(configs, [tmp_path / f"whole-{seed}" for seed in (0, 1, 2)]).train()
    for seed in (0, 2):
        for name in ("episodes.csv", "evaluations.csv"):
            assert (folders[seed] / name).read_bytes() == (tmp_path / f"whole-{seed}" / name).read_bytes()
    assert load_run(folders[1]).evaluations.steps.max() <= 1000


@pytest.mark.parametrize("learner", [gd.PPO(n_envs=2, rollout=8, batch_size=4), gd.SAC(buffer_size=64)])
def test_params_holds_everything_that_is_learned(learner):
    import gymnasium as gym
    import jax

    box = gym.spaces.Box(-1, 1, (2,), np.float32)
    state = learner.init(jax.random.key(0), box, box)
    learned = jax.tree.leaves(learner.params(state))
    assert len(learned) >= 10
    assert all(np.isfinite(leaf).all() for leaf in learned)
