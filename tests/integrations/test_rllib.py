"""RLlib's environments draw from new distributions, and the curriculum receives their episodes."""

import importlib
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import geodesic as gd
from extras import needs_rllib
from geodesic.contexts import EpisodeBatch
from geodesic.errors import InvalidInput
from geodesic.records import load_run

pytestmark = [needs_rllib, pytest.mark.slow]
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def task():
    def set_context(env, length):  # local, because Ray's processes cannot import this file
        env.length, env.polemass_length = length, env.masspole * length

    return gd.Task(
        "CartPole-v1", {"length": (0.05, 1.0)}, {"length": (0.5, 1.0)}, {"length": 0.1}, 5.0, set_context=set_context
    )


@pytest.fixture(scope="module")
def ray():
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def played(envs, n):
    """At least n episodes, each of which ends soon, because the cart is always pushed in one direction."""
    episodes = EpisodeBatch.empty(1)
    while len(episodes) < n:
        envs.step(np.array([1, 0]))
        for batch, _ in envs.call("take_episodes"):
            episodes = episodes.concatenate(batch)
    return episodes


def test_episodes_are_taken_once_with_the_context_and_stage_in_which_they_began(task):
    from geodesic.integrations.rllib import EpisodeRecorder

    envs = gym.vector.SyncVectorEnv([lambda: EpisodeRecorder(task.make(), 1, 0.5)] * 2)
    envs.call("enter", task.source_particles, 3, 0)
    envs.reset(seed=0)
    envs.call("enter", task.target_particles, 4, 0)
    first = played(envs, 1)
    assert (first.started == 1).all()
    assert (first.stages == 3).all()
    assert (first.returns == first.lengths).all()
    assert (first.ended == first.started + first.lengths).all()
    assert ((first.contexts >= 0.5) & (first.contexts <= 1.0)).all()
    assert first.discounted == pytest.approx(2 - 0.5 ** (first.lengths - 1))
    assert np.isnan(first.successes).all()
    later = played(envs, 4)
    assert set(later.stages[-2:]) == {4}
    assert later.contexts[-1] == pytest.approx([0.1])
    assert len(set(envs.call("clock"))) == 1


def test_an_environment_that_was_made_late_takes_the_others_time(task):
    from geodesic.integrations.rllib import EpisodeRecorder

    env = EpisodeRecorder(task.make(), 1, 0.99)
    env.enter(task.source_particles, 2, 700)
    env.reset(seed=0)
    episodes, started = env.take_episodes()
    assert (len(episodes), started) == (0, 701)


def test_a_curriculum_moves_in_another_process_and_resumes_at_its_stage(ray, task, tmp_path):
    from ray.rllib.algorithms.ppo import PPOConfig

    def train(iterations, steps=100_000):
        config = (
            PPOConfig()
            .env_runners(num_env_runners=1, num_envs_per_env_runner=2)
            .training(train_batch_size=256, minibatch_size=128, num_epochs=1)
            .evaluation(evaluation_interval=1, evaluation_duration=3)
        )
        method = "gradient:step=0.5:window=5"
        algorithm = gd.rllib.with_curriculum(config, task, method, out=tmp_path, steps=steps).build_algo()
        try:
            return [algorithm.train()["curriculum"] for _ in range(iterations)]
        finally:
            algorithm.stop()

    first = train(2)
    assert first[-1]["stage"] >= 1
    again = train(2)
    assert [each["stage"] for each in (*first, *again)] == sorted(each["stage"] for each in (*first, *again))
    assert again[-1]["alpha"] == 1.0
    run = load_run(tmp_path)
    assert not run.finished
    assert run.config.backend == "rllib"
    assert len(run.evaluations.steps) >= 2
    assert (np.diff(run.episodes.steps) > 0).all()
    for stage in run.curriculum:
        own = run.episodes.contexts[run.episodes.stages == stage.stage]
        gaps = np.abs(own[:, None] - stage.particles.points[None]).max(axis=-1).min(axis=1, initial=np.inf)
        assert (gaps < 1e-6).all()
    with pytest.raises(InvalidInput, match="holds another run"):
        train(1, steps=50_000)


def test_an_algorithm_restored_by_rllib_has_its_weights_and_the_stage_of_the_folder(ray, task, tmp_path):
    """DQN, which is off-policy."""
    from ray.rllib.algorithms.dqn import DQNConfig

    def build():
        config = (
            DQNConfig()
            .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
            .training(train_batch_size=32, num_steps_sampled_before_learning_starts=64)
            .reporting(min_sample_timesteps_per_iteration=200)
        )
        method = "gradient:step=0.25:window=5"
        return gd.rllib.with_curriculum(config, task, method, out=tmp_path / "run", steps=100_000).build_algo()

    def weights(algorithm):
        return algorithm.get_module().get_state()

    first = build()
    stages = [first.train()["curriculum"] for _ in range(3)]
    first.save_to_path(str(tmp_path / "algorithm"))
    before, iteration = weights(first), first.iteration
    first.stop()
    assert stages[-1]["stage"] >= 1
    second = build()
    assert any((weights(second)[name] != before[name]).any() for name in before)
    second.restore_from_path(str(tmp_path / "algorithm"))
    assert second.iteration == iteration
    assert all((weights(second)[name] == before[name]).all() for name in before)
    again = second.train()["curriculum"]
    second.stop()
    assert again["stage"] >= stages[-1]["stage"]
    run = load_run(tmp_path / "run")
    assert (np.diff(run.stages.steps) >= 0).all()
    assert (np.diff(run.episodes.steps) > 0).all()
    assert set(run.episodes.stages) <= {stage.stage for stage in run.curriculum}


def test_the_example_can_be_interrupted_and_resumed(ray, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    main = importlib.import_module("rllib_cartpole").main
    first = main(1, 3000, tmp_path / "run", runners=0)
    assert [each["stage"] for each in first] == [0]
    second = main(2, 3000, tmp_path / "run", runners=0)
    assert len(second) == 1
    assert second[0]["stage"] >= first[0]["stage"]
    assert load_run(tmp_path / "run").finished


def test_other_values_than_a_configuration_are_refused(task):
    with pytest.raises(InvalidInput) as refused:
        gd.rllib.with_curriculum("PPO", task)
    assert str(refused.value) == "expected the configuration of an algorithm, such as PPOConfig(), got 'PPO'"
    from ray.rllib.algorithms.ppo import PPOConfig

    old = PPOConfig().api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    with pytest.raises(InvalidInput) as refused:
        gd.rllib.with_curriculum(old, task)
    assert str(refused.value) == "expected RLlib's new API stack, got the old one; try config.api_stack()"
