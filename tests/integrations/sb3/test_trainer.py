"""The backends sb3 and sbx: the same hyperparameters, run folder, commands and policies as our own learners."""

import sys
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import VecNormalize

import geodesic as gd
from clocks import task
from geodesic.cli import main
from geodesic.errors import CheckpointError, InvalidInput, MissingExtra, UnknownName
from geodesic.integrations.sb3.trainer import NAMES, SB3Trainer, make_model
from geodesic.learners.ppo import PPO
from geodesic.learners.sac import SAC
from geodesic.records import checkpoint, checkpoint_path, load_comparison, load_run
from geodesic.runs import run
from geodesic.tasks import load
from geodesic.training.configure import configure
from run_files import release

LEARNER = PPO(n_envs=2, rollout=16, batch_size=16, epochs=1, net=(8,), normalize_observations=True)
QUICK = "gradient:step=0.5:window=5"


def clock():
    training = gd.TrainingSettings(learner=LEARNER, steps=320, segment=2)
    return task(training=training, evaluation=gd.EvaluationSettings(every=2, episodes=3))


def test_every_hyperparameter_has_a_name_in_their_library():
    rest = {"net", "activation", "n_envs", "normalize_observations"}  # of their policy and environment
    for name, learner, more in (("ppo", PPO(), {"shared", "bootstrap"}), ("sac", SAC(), set())):
        assert {field.name for field in fields(learner)} == set(NAMES[name]) | rest | more


@pytest.mark.parametrize("library", ["sb3", pytest.param("sbx", marks=pytest.mark.slow)])
def test_models_have_the_hyperparameters_of_the_tasks_learner(library):
    config = configure("point-mass", backend=library)
    sac = make_model(load("point-mass"), SAC(**{**config.learner_options, "net": (64, 64)}), library, 0)
    assert type(sac).__module__.split(".")[0] == {"sb3": "stable_baselines3", "sbx": "sbx"}[library]
    assert (sac.train_freq.frequency, sac.gradient_steps, sac.batch_size) == (5, 1, 64)
    assert (sac.buffer_size, sac.learning_starts, sac.gamma, sac.tau) == (10_000, 500, 0.95, 0.005)
    assert sac.learning_rate == 3e-4
    assert sac.policy_kwargs["net_arch"] == [64, 64]
    ppo = make_model(clock(), LEARNER, library, 0)
    assert (ppo.n_steps, ppo.batch_size, ppo.n_epochs, ppo.n_envs) == (16, 16, 1, 2)
    assert isinstance(ppo.env, VecNormalize)
    assert not ppo.env.norm_reward
    if library == "sb3":
        layers = [module for module in sac.actor.latent_pi if isinstance(module, torch.nn.Tanh)]
        assert len(layers) == 2
        assert ppo.clip_range(1.0) == 0.2


def test_a_shorter_last_batch_is_no_warning():
    """The task sets the sizes, so SB3's advice would help no one; a warning fails a test."""
    assert make_model(clock(), replace(LEARNER, batch_size=20), "sb3", 0).batch_size == 20


def test_ppo_of_early_versions_shares_its_network_and_treats_time_limits_as_terminations():
    task, options = load("point-mass-bimodal"), {"rollout": 128, "batch_size": 64, "epochs": 1, "net": (8, 8)}
    learners = (PPO(**options, bootstrap=bootstrap) for bootstrap in (True, False))
    current, early = (make_model(task, learner, "sb3", 0).learn(128).rollout_buffer.rewards for learner in learners)
    ended = np.flatnonzero(current != early)
    assert ended.tolist() == [99]  # the episode's limit, and no other step
    assert 0 < early[99, 0] < 1  # what the environment gave
    policy = make_model(task, PPO(**options, shared=True), "sb3", 0).policy
    assert [len(list(part.parameters())) for part in (policy.mlp_extractor, policy.features_extractor)] == [0, 4]
    with pytest.raises(InvalidInput, match="expected separate networks for policy and value with sbx"):
        make_model(task, PPO(**options, shared=True), "sbx", 0)


@pytest.mark.parametrize("library", ["sb3", "sbx"])
def test_a_run_has_the_same_folder_and_a_policy(tmp_path, library):
    result = gd.train(clock(), QUICK, seeds=1, out=tmp_path, backend=library)
    (found,) = result.runs
    assert found.finished
    assert found.label == f"{QUICK}:{library}"
    assert found.config.backend == library
    assert found.stages.alphas.tolist() == [0.0, 0.5, 1.0]
    assert (np.round(found.episodes.contexts[:, 0]) == found.episodes.lengths).all()
    assert found.evaluations.steps.tolist() == [0, 128, 256, 320]
    assert (found.evaluations.returns == 5.0).all()
    env = result.task.make()
    obs, _ = env.reset(seed=0)
    for stochastic in (False, True):
        assert env.action_space.contains(result.policy(stochastic=stochastic)(obs).item())
    played = run.evaluate_contexts(found.folder, np.array([[2.0], [7.0]]), 0, clock())
    assert played.returns.tolist() == [2.0, 7.0]
    assert library in result.table()
    if library == "sb3":
        assert all(path.exists() for path in result.figures())


def test_a_run_does_not_depend_on_the_other_seeds(tmp_path):
    together = gd.train(clock(), QUICK, seeds=[3, 4], out=tmp_path / "both", backend="sb3")
    alone = gd.train(clock(), QUICK, seeds=[4], out=tmp_path / "one", backend="sb3")
    one, other = (result.runs[-1].folder / "episodes.csv" for result in (together, alone))
    assert one.read_bytes() == other.read_bytes() != (together.runs[0].folder / "episodes.csv").read_bytes()


def test_methods_that_need_value_losses_get_them(tmp_path):
    config = configure(clock(), "plr:buffer=8:fill=0.5", 0, backend="sb3")
    run.start([config], [tmp_path / "plr"], clock()).train()
    assert "contexts replayed" in (tmp_path / "plr" / "stages.csv").read_text()
    with pytest.raises(InvalidInput, match="expected an on-policy algorithm for this method, .* got SAC"):
        SB3Trainer(load("point-mass"), SAC(), config, value_errors=True)


def test_an_interrupted_run_resumes(tmp_path):
    config = configure(clock(), QUICK, backend="sb3")
    batch = run.start([config], [tmp_path], clock())
    before = batch.trainer._models[0]
    for _ in range(2):
        batch._finish_segment()
    batch._evaluate()
    batch.save()
    release(batch)
    kept = checkpoint.load(checkpoint_path(tmp_path))
    forged = {**kept.arrays, "sb3/counters/num_timesteps": np.array(129)}
    checkpoint.save(checkpoint_path(tmp_path), forged, kept.meta)
    with pytest.raises(CheckpointError, match="expected a model at step 128, got 129"):
        run.resume([config], [tmp_path], clock())
    checkpoint.save(checkpoint_path(tmp_path), kept.arrays, kept.meta)
    resumed = run.resume([config], [tmp_path], clock())
    after = resumed.trainer._models[0]
    assert after.num_timesteps == before.num_timesteps == 128
    for name, values in before.get_parameters()["policy"].items():
        torch.testing.assert_close(after.get_parameters()["policy"][name], values, msg=name)
    np.testing.assert_array_equal(after.env.obs_rms.mean, before.env.obs_rms.mean)
    resumed.train()
    found = load_run(tmp_path)
    assert found.finished
    assert found.stages.stages.tolist() == [0, 1, 2]


def test_the_commands_have_an_option_for_the_backend(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("from test_trainer import clock as task\n")
    methods = ["--methods", f"{QUICK},target-only", "--seeds", "1", "--workers", "1", "--quiet"]
    assert main(["compare", "mine.py:task", *methods, "--backend", "sb3", "--out", "there"]) == 0
    assert {found.label for found in load_comparison("there")} == {QUICK, "target-only"}
    assert {found.config.backend for found in load_comparison("there")} == {"sb3"}
    assert main(["compare", "mine.py:task", *methods, "--backend", "sbx", "--out", "there"]) == 2
    assert "there holds another comparison (backend differ)" in capsys.readouterr().err


def test_unsuitable_backends_are_refused_before_a_folder_is_made(tmp_path, monkeypatch):
    with pytest.raises(UnknownName, match="expected backend to be one of jax, sb3, sbx; got 'keras'"):
        gd.train(clock(), backend="keras", out=tmp_path / "none")
    with pytest.raises(InvalidInput, match="expected a task that sb3's SAC can take"):
        gd.train(clock(), learner=SAC(), backend="sb3", out=tmp_path / "none")
    monkeypatch.setitem(sys.modules, "sbx", None)
    with pytest.raises(MissingExtra, match=r"sbx-rl is not installed; try: pip install 'geodesic-rl\[sbx\]'"):
        gd.train(clock(), backend="sbx", out=tmp_path / "none")
    assert not (tmp_path / "none").exists()
