"""The score in the worst contexts of an agent, against known answers."""

from pathlib import Path

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodesic as gd
from geodesic.cli import main
from geodesic.errors import InvalidInput
from geodesic.runs.cvar import CONTEXTS, EPISODES, SEED, worst, worst_contexts
from geodesic.runs.run import evaluate_contexts
from known_returns import KnownReturns, known_returns


class CoinToss(KnownReturns):
    """The reward of a step is a coin toss, whatever the context and the agent."""

    def transition(self, state, action, rng, context):
        return state + 1 + 0.25 * jax.random.bernoulli(rng)

    def reward(self, state, action, next_state, rng, context):
        return 4 * (next_state - state - 1)

    def terminal(self, state, rng, context):
        return jnp.bool_(False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    task = known_returns(target={"length": (1.0, 20.0), "luck": (0.0, 1.0)})
    out = tmp_path_factory.mktemp("cvar")
    for seed in (0, 1):  # one by one, in the program that most tests use
        gd.train(task, "target-only", steps=100, seeds=[seed], out=out)
    return gd.train(task, "target-only", steps=100, seeds=2, out=out)


def test_the_worst_tenth_are_the_ten_contexts_with_the_lowest_returns(trained):
    drawn = trained.task.target_particles.sample(np.random.default_rng(SEED), CONTEXTS)
    order = np.argsort(np.ceil(drawn[:, 0]), kind="stable")[:10]
    found = worst_contexts(trained.runs[1].folder, 0.1, trained.task)
    np.testing.assert_array_equal(found.contexts, drawn[order])
    assert found.score == pytest.approx(np.ceil(drawn[order, 0]).mean(), abs=1e-5)
    assert found.success == pytest.approx((drawn[order, 1] > 0.5).mean())
    assert (found.label, found.seed) == ("target-only", 1)


def test_a_fraction_of_one_is_the_mean_over_the_target(trained):
    drawn = trained.task.target_particles.sample(np.random.default_rng(SEED), CONTEXTS)
    scores = trained.cvar(1.0)
    assert list(scores) == [("target-only", 0), ("target-only", 1)]
    assert scores["target-only", 0] == pytest.approx(np.ceil(drawn[:, 0]).mean(), abs=1e-5)


def test_scoring_on_the_evaluation_that_ranked_would_be_biased(tmp_path):
    task = known_returns(CoinToss())
    made = gd.train(task, "target-only", steps=100, out=tmp_path)
    folder = made.runs[0].folder
    found = worst_contexts(folder, 0.1, task)
    steps, noise = 50, 0.5 * np.sqrt(50 / (10 * EPISODES))  # of the mean of a hundred episodes of fifty tosses
    assert found.score == pytest.approx(0.5 * steps, abs=4 * noise)
    drawn = task.target_particles.sample(np.random.default_rng(SEED), CONTEXTS)
    played = evaluate_contexts(folder, np.repeat(drawn, EPISODES, axis=0), SEED, task)
    scores = played.scores("return").reshape(CONTEXTS, EPISODES)
    assert scores.mean() == pytest.approx(0.5 * steps, abs=4 * noise)
    assert scores[worst(scores, 0.1)].mean() < 0.5 * steps - 4 * noise


class Counting(gym.Env):
    """Episodes of `KnownReturns` in an environment on the host."""

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
        set_context=lambda env, length: setattr(env, "length", length),
        training=gd.TrainingSettings(learner=gd.PPO(n_envs=1, rollout=20, batch_size=20, epochs=1, net=(4,))),
    )
    made = gd.train(task, "target-only", steps=40, out=tmp_path)
    drawn = task.target_particles.sample(np.random.default_rng(SEED), CONTEXTS)[:, 0]
    found = worst_contexts(made.runs[0].folder, 0.1, task)
    assert found.score == pytest.approx(np.sort(np.ceil(drawn))[:10].mean())
    assert np.isnan(found.success)  # the environment does not report success


@pytest.mark.parametrize("fraction", [0.0, 1.5, float("nan"), "a tenth"])
def test_an_invalid_fraction_is_refused(trained, fraction):
    with pytest.raises(InvalidInput, match="cvar"):
        trained.cvar(fraction)


def test_the_worst_rows_are_those_of_the_lowest_means():
    scores = np.array([[3.0, 3.0], [0.0, 4.0], [1.0, 1.0], [2.0, 2.0]])
    assert worst(scores, 0.5).tolist() == [2, 1]
    assert worst(scores, 0.01).tolist() == [2]


def test_a_comparison_prints_it_with_an_option(tmp_path, capsys):
    reference = f"{Path(__file__).parent.parent / 'known_returns.py'}:task"
    words = ["compare", reference, "--methods", "target-only", "--seeds", "1", "--steps", "200"]
    assert main([*words, "--out", str(tmp_path), "--quiet", "--workers", "1", "--cvar", "0.1"]) == 0
    assert "worst 10% of contexts" in capsys.readouterr().out
    assert main([*words, "--out", str(tmp_path), "--quiet", "--cvar", "2"]) == 2
    assert "expected cvar to be a fraction" in capsys.readouterr().err
