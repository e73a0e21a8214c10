"""Learners by name: creating, registering, refusing and describing them."""

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from geodesic import learners
from geodesic.errors import InvalidInput, UnknownName
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
        ("ppo", {"net": [1] * 101}, "expected net of at most 100 layers, got 101"),
        (
            "ppo",
            {"net": [50_000, 50_000]},
            "expected the number of weights of net to be an integer in [1, 100000000], got 2500000001",
        ),
        (
            "sac",
            {"gradient_steps": 2**31 - 1},
            "expected gradient_steps * batch_size to be an integer in [1, 100000000], got 549755813632",
        ),
        ("ppo", {"normalize_observations": 1}, "expected normalize_observations to be a boolean, got 1"),
        ("ppo", {"activation": "sine"}, "expected activation to be one of tanh, relu; got 'sine'"),
        ("ppo", {"rollout": 0}, "expected rollout to be a positive integer, got 0"),
        ("sac", {"n_envs": 0}, "expected n_envs to be a positive integer, got 0"),
    ],
)
def test_refusals(name, options, message):
    with pytest.raises(InvalidInput) as caught:
        learners.make(name, options)
    assert str(caught.value) == message


def test_no_learner_is_the_default():
    name, options = learners.describe(None)
    assert (name, options) == learners.DEFAULT
    options["n_envs"] = 1
    assert learners.describe(None) == learners.DEFAULT
    assert learners.make(*learners.describe(None)).normalize_observations


@pytest.mark.parametrize("learner", [PPO(n_envs=3, net=(8, 8)), SAC(rollout=5), PPO()])
def test_make_inverts_describe(learner):
    name, options = learners.describe(learner)
    assert learners.make(name, options) == learner
    assert learners.describe((name, options)) == (name, options)


@pytest.mark.parametrize("learner", [PPO, "ppo", ("ppo", 3), 3])
def test_other_objects_are_refused(learner):
    with pytest.raises(InvalidInput) as caught:
        learners.describe(learner)
    assert str(caught.value) == (
        f"expected a learner such as geodesic.PPO(n_envs=8) or geodesic.SAC(), got {learner!r:.60}"
    )


@dataclass(frozen=True)
class Careful(PPO):
    """PPO with a smaller clipping range."""

    clip: float = 0.1


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(learners.REGISTRY, "_values", dict(learners.REGISTRY._values))


def test_an_unregistered_learner_is_described_by_its_class_and_fields():
    name, options = learners.describe(Careful(n_envs=2, net=(8,)))
    assert name == f"{Careful.__module__}:Careful"
    assert name not in learners.REGISTRY
    assert options["clip"] == 0.1
    assert options["net"] == [8]
    assert json.loads(json.dumps(options)) == options


def test_a_registered_learner_has_a_name_a_description_and_options(registry):
    assert learners.register("careful", Careful) is Careful
    assert learners.names()["careful"] == "PPO with a smaller clipping range."
    made = learners.make("careful", {"n_envs": 2})
    assert made == Careful(n_envs=2)
    assert learners.make(*learners.describe(made)) == made
    with pytest.raises(InvalidInput, match="expected an option of careful"):
        learners.make("careful", {"radius": 2})
    with pytest.raises(InvalidInput, match="taken"):
        learners.register("ppo", Careful)
    with pytest.raises(InvalidInput, match="expected a learner's class, got Careful"):
        learners.register("other", Careful())


def test_a_reference_names_a_learner(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from geodesic.learners.ppo import PPO\nclass Mine(PPO):\n    pass\n")
    made = learners.make(f"{file}:Mine", {"n_envs": 3})
    assert (type(made).__name__, made.n_envs) == ("Mine", 3)
    assert learners.describe((f"{file}:Mine", {}))[0] == f"{file}:Mine"


def test_a_reference_to_anything_else_is_refused(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class Half:\n    def __init__(self, source): ...\nready = 3\n")
    for name in ("Half", "ready"):
        with pytest.raises(InvalidInput, match=f"expected .*:{name} to be the class of a learner, got "):
            learners.make(f"{file}:{name}", {})


@pytest.mark.parametrize("name", ["dqn", 3, ["ppo"]])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(UnknownName, match="expected learner to be one of ppo, sac"):
        learners.describe((name, {}))


def test_names_and_descriptions_do_not_import_jax():
    code = "import sys; from geodesic import learners; print(list(learners.names()), 'jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['ppo', 'sac'] False"
