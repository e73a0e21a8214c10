"""The worst contexts of an agent, against answers that are known."""

from pathlib import Path

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from steady import Steady, steady

import geodesic as gd
from geodesic.cli import main
from geodesic.errors import InvalidInput
from geodesic.runs.run import score_contexts
from geodesic.runs.tail import CONTEXTS, EPISODES, SEED, worst, worst_contexts


class Lucky(Steady):
    """What an episode earns is a coin toss a step, whatever the context and the agent."""

    def transition(self, state, action, rng, context):
        return state + 1 + 0.25 * jax.random.bernoulli(rng)

    def reward(self, state, action, next_state, rng, context):
        return 4 * (next_state - state - 1)

    def terminal(self, state, rng, context):
        return jnp.bool_(False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    task = steady(target={"length": (1.0, 20.0), "luck": (0.0, 1.0)})
    out = tmp_path_factory.mktemp("steady")
    for seed in (0, 1):  # one by one, in the program that most tests have
        gd.train(task, "target-only", steps=100, seeds=[seed], out=out)
    return gd.train(task, "target-only", steps=100, seeds=2, out=out)


def test_where_returns_are_the_context_the_worst_tenth_is_the_ten_shortest(trained):
    drawn = trained.task.target_particles.sample(np.random.default_rng(SEED), CONTEXTS)
    order = np.argsort(np.ceil(drawn[:, 0]), kind="stable")[:10]
    tail = worst_contexts(trained.folders[1], 0.1, trained.task)
    np.testing.assert_array_equal(tail.contexts, drawn[order])
    assert tail.score == pytest.approx(np.ceil(drawn[order, 0]).mean(), abs=1e-5)
    assert tail.success == pytest.approx((drawn[order, 1] > 0.5).mean())
    assert (tail.label, tail.seed) == ("target-only", 1)


def test_all_contexts_are_the_mean_over_the_target(trained):
    drawn = trained.task.target_particles.sample(np.random.default_rng(SEED), CONTEXTS)
    scores = trained.cvar(1.0)
    assert list(scores) == [0, 1]
    assert scores[0] == pytest.approx(np.ceil(drawn[:, 0]).mean(), abs=1e-5)


def test_ranking_and_scoring_on_one_evaluation_takes_bad_luck_for_bad_contexts(tmp_path):
    task = steady(Lucky())
    made = gd.train(task, "target-only", steps=100, out=tmp_path)
    folder = made.folders[0]
    tail = worst_contexts(folder, 0.1, task)
    steps, noise = 50, 0.5 * np.sqrt(50 / (10 * EPISODES))  # of the mean of a hundred episodes of fifty tosses
    assert tail.score == pytest.approx(0.5 * steps, abs=4 * noise)
    drawn = task.target_particles.sample(np.random.default_rng(SEED), CONTEXTS)
    scores = score_contexts(folder, np.repeat(drawn, EPISODES, axis=0), SEED, task).scores.reshape(CONTEXTS, EPISODES)
    assert scores.mean() == pytest.approx(0.5 * steps, abs=4 * noise)
    assert scores[worst(scores, 0.1)].mean() < 0.5 * steps - 4 * noise


class Counting(gym.Env):
    """Steady's episodes, in an environment that JAX cannot compile."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    length = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.full(1, self.time, np.float32), 1.0, self.time >= self.length, False, {}


def test_an_environment_on_the_host_has_worst_contexts_too(tmp_path):
    task = gd.Task(
        Counting,
        {"length": (1.0, 9.0)},
        {"length": 2.0},
        {"length": (1.0, 9.0)},
        threshold=1.0,
        apply=lambda env, length: setattr(env, "length", length),
        learner=gd.PPO(n_envs=1, rollout=20, batch_size=20, epochs=1, net=(4,)),
    )
    made = gd.train(task, "target-only", steps=40, out=tmp_path)
    drawn = task.target_particles.sample(np.random.default_rng(SEED), CONTEXTS)[:, 0]
    tail = worst_contexts(made.folders[0], 0.1, task)
    assert tail.score == pytest.approx(np.sort(np.ceil(drawn))[:10].mean())
    assert np.isnan(tail.success)  # the environment does not say


@pytest.mark.parametrize("share", [0.0, 1.5, float("nan"), "a tenth"])
def test_what_is_no_share_is_refused(trained, share):
    with pytest.raises(InvalidInput, match="cvar"):
        trained.cvar(share)


def test_the_worst_rows_are_those_of_the_lowest_means():
    scores = np.array([[3.0, 3.0], [0.0, 4.0], [1.0, 1.0], [2.0, 2.0]])
    assert worst(scores, 0.5).tolist() == [2, 1]
    assert worst(scores, 0.01).tolist() == [2]


def test_a_comparison_tells_it_when_asked(tmp_path, capsys):
    said = [
        "compare",
        str(Path(__file__).parent / "steady.py") + ":task",
        "--methods",
        "target-only",
        "--seeds",
        "1",
        "--steps",
        "200",
    ]
    assert main([*said, "--out", str(tmp_path), "--quiet", "--workers", "1", "--cvar", "0.1"]) == 0
    told = capsys.readouterr().out
    assert "worst 10% of contexts" in told
    assert main([*said, "--out", str(tmp_path), "--quiet", "--cvar", "2"]) == 2
    assert "expected cvar to be a share" in capsys.readouterr().err
