"""The host trainer: our learners on environments that JAX cannot compile."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import CheckpointError, GeodesicError, RunFailed
from geodesic.records import checkpoint, checkpoint_path
from geodesic.records.reader import load_run
from geodesic.runs import run
from geodesic.training.agents import refuse_without_errors
from geodesic.training.configure import configure
from geodesic.training.env_runner import COUNTS
from geodesic.training.host import HostTrainer


class Walk(gym.Env[Any, Any]):
    """A noisy walk on a line to a goal; the state is one number."""

    observation_space = gym.spaces.Box(-9.0, 9.0, (2,), np.float32)
    action_space: gym.Space[Any] = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    goal = 1.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.left = float(self.np_random.normal(0, 0.1)), 12
        return self.observation(), {}

    def observation(self) -> Any:
        return np.array([self.place, self.left / 12], np.float32)

    def step(self, action: Any) -> Any:
        push = float(action[0]) if isinstance(self.action_space, gym.spaces.Box) else (int(action) - 5) * 0.5
        self.place += 0.3 * push + float(self.np_random.normal(0, 0.02))
        self.left -= 1
        there = abs(self.place - self.goal) < 0.2
        return self.observation(), float(there) - 0.1, there, self.left == 0, {"is_success": there}


class SavableWalk(Walk):
    """The same walk, whose state can be saved."""

    def save_state(self) -> dict[str, Any]:
        return {"place": np.array(self.place), "left": np.array(self.left)}

    def restore_state(self, arrays: dict[str, Any]) -> None:
        self.place, self.left = float(arrays["place"]), int(arrays["left"])


class FailingWalk(Walk):
    def step(self, action: Any) -> Any:
        raise ZeroDivisionError("no ground")


class DiscreteWalk(Walk):
    """Three actions, the first of which is number 4."""

    action_space = gym.spaces.Discrete(3, start=4)


class DictWalk(Walk):
    """Observations in a dictionary."""

    observation_space = gym.spaces.Dict(  # type: ignore[assignment]
        {"place": gym.spaces.Box(-9.0, 9.0, (1,), np.float32), "left": gym.spaces.Box(0.0, 1.0, (1,), np.float32)}
    )

    def observation(self) -> Any:
        return {"place": np.array([self.place], np.float32), "left": np.array([self.left / 12], np.float32)}


def set_goal(env: Any, goal: float) -> None:
    env.goal = goal


def walk_task(env: type[Walk], **more: Any) -> gd.Task:
    return gd.Task(
        env, contexts={"goal": (-2.0, 2.0)}, set_context=set_goal, source={"goal": (0.3, 0.5)}, target={"goal": 1.5},
        threshold=-0.5, worst_return=-1.2, name="walk", evaluation=gd.EvaluationSettings(episodes=7), **more,
    )  # fmt: skip


SAC = gd.SAC(net=(16, 16), learning_starts=50, batch_size=32, buffer_size=1000)
PPO = gd.PPO(n_envs=3, rollout=20, batch_size=30, epochs=2, net=(16, 16))


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("episodes.csv", "evaluations.csv", "stages.csv")}


def trained(task: gd.Task, learner: Any, folder: Path, seeds: tuple[int, ...] = (0,), steps: int = 400) -> list[Path]:
    configs = [configure(task, "gradient", seed, steps, learner=learner) for seed in seeds]
    folders = [folder / str(seed) for seed in seeds]
    run.start(configs, folders, task).train()
    return folders


@pytest.mark.parametrize("learner", [SAC, PPO], ids=["sac", "ppo"])
def test_a_run_does_not_depend_on_runs_that_train_at_once(tmp_path: Path, learner: Any) -> None:
    task = walk_task(SavableWalk)
    (alone,) = trained(task, learner, tmp_path / "alone", (1,))
    together = trained(task, learner, tmp_path / "together", (0, 1, 2))[1]
    assert files(alone) == files(together)


@dataclass(frozen=True)
class RewardErrors(gd.PPO):
    """PPO whose value errors are the rewards."""

    def value_errors(self, state: Any, transitions: Any, key: Any) -> Any:
        return transitions.reward


def test_value_losses_are_means_over_the_steps_of_an_episode() -> None:
    """A step costs 0.1, and the one that reaches the goal gives 0.9."""
    learner = RewardErrors(n_envs=3, rollout=5, batch_size=15, epochs=1, net=(8,))
    config = configure(task := walk_task(SavableWalk), "plr", 0, 480, learner=PPO).replace(segment=2)
    trainer = HostTrainer(task, learner, config, value_errors=True)
    trainer.prepare(2)
    trainer.begin([0, 1], [task.source_particles] * 2)
    for before in range(0, 480, 30):
        for result in trainer.finish_segment(before):
            assert result is not None
            episodes = result.episodes
            there = episodes.successes * 0.9 / np.maximum(episodes.lengths, 1)
            expected = 0.1 * (1 - episodes.successes / np.maximum(episodes.lengths, 1)) + there
            if len(episodes):
                np.testing.assert_allclose(episodes.value_losses("l1"), expected, rtol=1e-5)
                np.testing.assert_allclose(episodes.value_losses("positive"), there, rtol=1e-5)


@dataclass(frozen=True)
class Silent:
    """A learner that does not report value errors."""

    n_envs: int = 1
    rollout: int = 10


def test_a_learner_without_value_errors_is_refused_for_methods_that_need_them() -> None:
    with pytest.raises(GeodesicError, match=r"expected a learner that reports value errors .*, got Silent; try PPO or"):
        refuse_without_errors(Silent())  # type: ignore[arg-type]
    refuse_without_errors(PPO)


@pytest.mark.parametrize("method", ["gradient", "plr:buffer=20"])
@pytest.mark.parametrize("learner", [SAC, PPO], ids=["sac", "ppo"])
def test_a_resumed_run_writes_the_same_bytes(tmp_path: Path, learner: Any, method: str) -> None:
    """Interrupted in the middle of episodes."""
    task = walk_task(SavableWalk)
    config = configure(task, method, 0, 480, learner=learner)
    config = config.replace(segment=60 // (learner.rollout * learner.n_envs), eval_every=2)
    run.start([config], [tmp_path / "whole"], task).train()
    batch = run.start([config], [tmp_path / "resumed"], task)
    batch._evaluate()
    for _ in range(3):
        batch._start_segment()
        batch._finish_segment()
        if batch.segment % config.eval_every == 0:
            batch._evaluate()
    batch.save()
    for session in batch.sessions:
        session.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        run.extend(tmp_path / "resumed", None, task).train()
    assert files(tmp_path / "resumed") == files(tmp_path / "whole")
    assert len(files(tmp_path / "whole")["episodes.csv"].splitlines()) > 30


def test_a_running_episode_that_is_longer_than_the_run_is_refused(tmp_path: Path) -> None:
    (folder,) = trained(walk_task(SavableWalk), PPO, tmp_path, steps=60)
    kept = checkpoint.load(checkpoint_path(folder))
    counts = kept.arrays["env/0/counts"].copy()
    counts[COUNTS.index("length")] = kept.count("step") // PPO.n_envs + 1
    checkpoint.save(checkpoint_path(folder), {**kept.arrays, "env/0/counts": counts}, kept.meta)
    before = files(folder)
    with pytest.raises(CheckpointError, match="a running episode has impossible numbers"):
        run.extend(folder, 360, walk_task(SavableWalk))
    assert files(folder) == before


def test_an_environment_that_cannot_be_saved_resumes_with_new_episodes_and_a_warning(tmp_path: Path) -> None:
    task = walk_task(Walk)
    (folder,) = trained(task, PPO, tmp_path, steps=180)
    with pytest.warns(UserWarning, match="cannot be saved"):
        batch = run.extend(folder, 360, task)
    batch.train()
    steps = [int(line.split(",")[0]) for line in (folder / "episodes.csv").read_text().splitlines()[1:]]
    assert steps == sorted(steps)
    assert steps[-1] > 300


def test_evaluations_are_the_same_in_any_number_of_environments(tmp_path: Path) -> None:
    """The first evaluation: before any update, agents of one seed are the same."""
    rows = [
        files(trained(walk_task(SavableWalk), learner, tmp_path / str(n), steps=60)[0])["evaluations.csv"].splitlines()[
            1
        ]
        for n, learner in enumerate((replace(PPO, n_envs=1, rollout=60), PPO))
    ]
    assert rows[0] == rows[1]


def test_discrete_actions_and_dict_observations_are_supported(tmp_path: Path) -> None:
    for env in (DiscreteWalk, DictWalk):
        (folder,) = trained(walk_task(env), PPO, tmp_path / env.__name__, steps=120)
        assert load_run(folder).evaluations.steps[-1] >= 120


def test_contexts_of_a_stage_come_from_its_distribution(tmp_path: Path) -> None:
    (folder,) = trained(
        walk_task(SavableWalk, training=gd.TrainingSettings(methods={"gradient": {"step": 0.5}})),
        PPO,
        tmp_path,
        steps=1200,
    )
    lines = [line.split(",") for line in (folder / "episodes.csv").read_text().splitlines()]
    stage, goal = lines[0].index("stage"), len(lines[0]) - 1
    first = [float(line[goal]) for line in lines[1:] if line[stage] == "0"]
    assert first
    assert all(0.3 <= value <= 0.5 for value in first)


def test_the_policy_of_a_finished_run_acts(tmp_path: Path) -> None:
    task = walk_task(SavableWalk)
    (folder,) = trained(task, SAC, tmp_path, steps=200)
    action = run.load_policy(folder, task)(np.zeros(3, np.float32))
    assert action.shape == (1,)
    assert abs(float(action[0])) <= 1


def test_an_error_in_an_environment_ends_the_run_with_our_error(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="environment of walk failed: ZeroDivisionError: no ground"):
        trained(walk_task(FailingWalk), PPO, tmp_path)


def test_a_learner_that_does_not_fit_is_refused_before_a_folder_is_created(tmp_path: Path) -> None:
    with pytest.raises(GeodesicError, match="Box action space"):
        trained(walk_task(DiscreteWalk), SAC, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_sac_learns_to_walk_to_the_target(tmp_path: Path) -> None:
    learner = gd.SAC(net=(32, 32), learning_starts=200, batch_size=64, buffer_size=4000, learning_rate=3e-3, gamma=0.9)
    (folder,) = trained(walk_task(SavableWalk), learner, tmp_path, steps=4000)
    results = load_run(folder).evaluations
    assert results.successes[-1] > 0.8
    assert results.successes[0] < 0.5
