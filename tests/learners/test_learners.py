"""Learners by name: what is made, what is refused, and learners as plain values."""

import pytest

from geodesic import learners
from geodesic.errors import InvalidInput
from geodesic.learners.ppo import PPO
from geodesic.learners.sac import SAC


def test_a_name_and_options_make_a_learner():
    assert learners.make("ppo", {}) == PPO()
    made = learners.make("sac", {"rollout": 5, "learning_rate": 1, "net": [32, 32], "normalize_observations": True})
    assert made == SAC(rollout=5, learning_rate=1.0, net=(32, 32), normalize_observations=True)
    assert isinstance(made.learning_rate, float)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dqn", {}, "expected learner to be one of ppo, sac; got 'dqn'"),
        (
            "sac",
            {"clip": 0.2},
            "expected an option of sac (rollout, n_envs, gradient_steps, batch_size, buffer_size, learning_starts, "
            "learning_rate, gamma, tau, net, activation, normalize_observations), got 'clip'",
        ),
        ("ppo", {"rollout": 2.5}, "expected rollout to be a positive integer, got 2.5"),
        ("ppo", {"rollout": -1}, "expected rollout to be a positive integer, got -1"),
        ("ppo", {"gamma": "most"}, "expected gamma in [0, 1], got 'most'"),
        ("ppo", {"net": 64}, "expected net to be a list of layer sizes, got 64"),
        ("ppo", {"net": [64, 0]}, "expected net to be a positive integer, got 0"),
        ("ppo", {"normalize_observations": 1}, "expected normalize_observations to be true or false, got 1"),
        ("ppo", {"activation": "sine"}, "expected activation to be one of tanh, relu; got 'sine'"),
        ("ppo", {"rollout": 0}, "expected rollout to be a positive integer, got 0"),
        ("sac", {"n_envs": 0}, "expected n_envs to be a positive integer, got 0"),
    ],
)
def test_refusals(name, options, message):
    with pytest.raises(InvalidInput) as caught:
        learners.make(name, options)
    assert str(caught.value) == message


def test_what_is_not_given_is_the_default():
    name, options = learners.describe(None)
    assert (name, options) == learners.DEFAULT
    options["n_envs"] = 1
    assert learners.describe(None) == learners.DEFAULT
    assert learners.make(*learners.describe(None)).normalize_observations


@pytest.mark.parametrize("learner", [PPO(n_envs=3, net=(8, 8)), SAC(rollout=5), PPO()])
def test_a_learner_survives_its_description(learner):
    name, options = learners.describe(learner)
    assert learners.make(name, options) == learner
    assert learners.describe((name, options)) == (name, options)


@pytest.mark.parametrize("learner", [PPO, "ppo", ("ppo", 3), 3])
def test_what_is_no_learner_is_refused(learner):
    with pytest.raises(InvalidInput) as caught:
        learners.describe(learner)
    assert str(caught.value) == (
        f"expected a learner such as geodesic.PPO(n_envs=8) or geodesic.SAC(), got {learner!r:.60}"
    )
