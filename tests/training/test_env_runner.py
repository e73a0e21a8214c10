"""One environment and its current episode: determined by entropy and number, collected at its end, and resumable."""

import gymnasium as gym
import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import InvalidInput
from geodesic.training import env_runner
from geodesic.training.collector import EpisodeCollector
from geodesic.training.env_runner import EnvRunner, EnvThreads


class Counter(gym.Env):
    """Three steps to the end of an episode; rewards are random, and the state can be saved."""

    observation_space = gym.spaces.Box(-9.0, 9.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    goal, steps = 0.0, 3

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = self.steps
        return self.observation(), {}

    def observation(self):
        return np.array([self.left], np.float32)

    def step(self, action):
        self.left -= 1
        return self.observation(), float(self.np_random.random()), self.left == 0, False, {"success": action == 1}

    def save_state(self):
        return {"left": np.array(self.left)}

    def restore_state(self, arrays):
        self.left = int(arrays["left"])


def set_context(env, goal):
    env.goal = goal


def task(env=Counter, discount=0.99):
    ranges = {"goal": (0.0, 1.0)}
    return gd.Task(
        env, contexts=ranges, source=ranges, target={"goal": 0.5}, set_context=set_context, threshold=1.0,
        discount=discount,
    )  # fmt: skip


def runner_of(entropy=(0, 1), env=Counter, discount=0.5):
    collector = EpisodeCollector(1)
    return EnvRunner(task(env, discount), entropy, collector), collector


SOURCE = task().source_particles


def play(runner, steps, first=0):
    """Take steps with action 1, a new episode after each end; the rewards."""
    rewards = []
    for time in range(first, first + steps):
        step = runner.step(1, time, time + 1)
        rewards.append(step.reward)
        if step.terminated or step.truncated:
            runner.begin(SOURCE, 0)
    return rewards


def test_an_episode_is_collected_with_its_returns_start_and_end():
    runner, collector = runner_of()
    obs = runner.begin(SOURCE, 4)
    assert obs.dtype == np.float32
    np.testing.assert_allclose(obs, [3.0, 2 * runner.context[0] - 1], atol=1e-6)  # observed contexts are scaled
    rewards = play(runner, 5, first=10)
    batch = collector.batch()
    assert len(batch) == 1
    assert batch.returns.tolist() == [sum(rewards[:3])]
    assert batch.discounted.tolist() == pytest.approx([rewards[0] + rewards[1] / 2 + rewards[2] / 4])
    assert (batch.lengths.tolist(), batch.stages.tolist(), batch.successes.tolist()) == ([3], [4], [1.0])
    assert (batch.started.tolist(), batch.ended.tolist()) == ([10], [13])


def test_episodes_depend_on_entropy_and_number_only():
    contexts = []
    for entropy in ((0, 1), (0, 1), (0, 2)):
        runner, collector = runner_of(entropy)
        runner.begin(SOURCE, 0)
        play(runner, 9)
        batch = collector.batch()
        contexts.append((batch.contexts, batch.returns))
    np.testing.assert_array_equal(contexts[0][0], contexts[1][0])
    np.testing.assert_array_equal(contexts[0][1], contexts[1][1])
    assert not np.array_equal(contexts[0][0], contexts[2][0])
    assert len(np.unique(contexts[0][0])) == 3


def test_a_saved_episode_continues():
    runner, _ = runner_of()
    runner.begin(SOURCE, 2)
    play(runner, 1)
    arrays = runner.save()
    again, collector = runner_of()
    assert again.restore(arrays)
    assert (again.total, again.length, again.stage, again.episode) == (runner.total, 1, 2, 0)
    play(again, 2, first=1)
    assert collector.batch().lengths.tolist() == [3]


class Unsavable(Counter):
    save_state = property()  # hides the method


def test_an_episode_that_cannot_be_saved_is_not_restored():
    runner, _ = runner_of(env=Unsavable)
    runner.begin(SOURCE, 2)
    arrays = runner.save()
    assert sorted(arrays) == ["context", "counts"]
    assert not runner_of(env=Unsavable)[0].restore(arrays)


def test_an_endless_episode_is_refused(monkeypatch):
    monkeypatch.setattr(env_runner, "LIMIT", 2)
    runner, _ = runner_of()
    runner.begin(SOURCE, 0)
    with pytest.raises(InvalidInput, match="expected episodes to end, got one of 2 steps"):
        play(runner, 3)


@pytest.mark.parametrize("count", [1, 3])
def test_threads_call_the_work_for_every_place(count):
    done = []
    for future in EnvThreads(count).start(done.append, range(7)):
        future.result()
    assert sorted(done) == list(range(7))
