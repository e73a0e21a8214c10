"""Policies of run folders, from data alone: equal to the trainer's, and refused where the data is not a policy."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.records import checkpoint, checkpoint_path
from geodesic.runs.policies import description_of, portable_policy
from geodesic.runs.run import evaluate_contexts, load_policy, trainer_of
from geodesic.training.best import BEST, with_policy
from known_returns import KnownReturns, known_returns

OBSERVATIONS = np.random.default_rng(0).normal(0, 10, (50, 2)).astype(np.float32)


class Continuous(KnownReturns):
    """Continuous actions within asymmetric bounds."""

    action_space = gym.spaces.Box(np.array([-0.1, 2.0], np.float32), np.array([0.1, 3.0], np.float32))


def ppo(**more):
    return gd.PPO(rollout=20, batch_size=20, epochs=1, learning_rate=0.05, net=(8,), **more)


TASKS = {
    "ppo discrete": known_returns(training={"learner": ppo(normalize_observations=True), "steps": 400}),
    "ppo continuous": known_returns(Continuous(), training={"learner": ppo(activation="relu"), "steps": 400}),
    "sac": known_returns(
        Continuous(), training={"learner": gd.SAC(batch_size=8, buffer_size=100, net=(8,)), "steps": 400}
    ),
}


@pytest.fixture(scope="module", params=TASKS)
def trained(request, tmp_path_factory):
    """A task, and the folder of a run whose best policy was made another one than its last."""
    task = TASKS[request.param]
    result = gd.train(task, "target-only", out=tmp_path_factory.mktemp("run"))
    folder = result.runs[0].folder
    rewrite(folder, lambda name, array: array * 0.5 if name.startswith(BEST) and "kernel" in name else array)
    return task, folder


def rewrite(folder, change, **meta):
    """Change arrays of a checkpoint, with a valid checksum."""
    found = checkpoint.load(checkpoint_path(folder))
    arrays = {name: change(name, array) for name, array in found.arrays.items()}
    kept = {name: array for name, array in arrays.items() if array is not None}
    checkpoint.save(checkpoint_path(folder), kept, {**found.meta, **meta})


@pytest.mark.parametrize("which", ["best", "last"])
def test_actions_equal_those_of_the_trainer(trained, which):
    task, folder = trained
    config = gd.records.read_config(folder)
    arrays = with_policy(checkpoint.load(checkpoint_path(folder)), which)
    theirs, policy = trainer_of([config], task).policy(arrays), portable_policy(folder, which)
    for obs in OBSERVATIONS:
        action = policy(obs)
        np.testing.assert_allclose(action, theirs(obs), atol=1e-5)
        assert task.env.action_space.contains(action)
    np.testing.assert_allclose(policy(OBSERVATIONS), [policy(obs) for obs in OBSERVATIONS], atol=1e-6)
    assert {key: policy.about[key] for key in ("method", "seed", "policy", "step")} == {
        "method": "target-only", "seed": 0, "policy": which, "step": 400,
    }  # fmt: skip
    assert (load_policy(folder, task, which=which)(OBSERVATIONS) == policy(OBSERVATIONS)).all()


def test_best_and_last_are_different_policies(trained):
    task, folder = trained
    best, last = (portable_policy(folder, which).arrays for which in ("best", "last"))
    assert (best["kernel_0"] == 0.5 * last["kernel_0"]).all()
    drawn = [load_policy(folder, task, True, 0, which=which)(OBSERVATIONS[0]) for which in ("best", "last")]
    assert all(task.env.action_space.contains(action) for action in drawn)
    played = [
        evaluate_contexts(folder, task.target_particles.points, 0, task, which=which) for which in ("best", "last")
    ]
    assert all(len(each.returns) for each in played)


def test_the_best_policy_survives_a_resumed_run(trained, tmp_path):
    """Its evaluations are known, so a policy that is only as good as the ones before replaces it."""
    task, _ = trained
    whole = gd.train(task, "target-only", steps=800, out=tmp_path / "whole").runs[0].folder
    gd.train(task, "target-only", steps=400, out=tmp_path / "parts")
    parts = gd.train(task, "target-only", steps=800, out=tmp_path / "parts").runs[0].folder
    found, expected = (checkpoint.load(checkpoint_path(folder)) for folder in (parts, whole))
    assert {name: array.tobytes() for name, array in found.arrays.items()} == {
        name: array.tobytes() for name, array in expected.arrays.items()
    }
    assert any(name.startswith(BEST) for name in expected.arrays)
    assert found.meta["best"] == expected.meta["best"]


def copy_of(folder, tmp_path):
    import shutil

    return shutil.copytree(folder, tmp_path / "run")


INVALID_DESCRIPTIONS = {
    "empty": {},
    "unknown key": {"evil": 1},
    "path": {"kernels": ["../../etc/passwd"]},
    "number for a name": {"kernels": [3, 4]},
    "name of nothing": {"biases": ["device.nothing", "device.nothing"]},
    "fewer layers": {"biases": []},
    "activation": {"activation": "__import__"},
    "huge observation": {"observation": [10**6, 10**6]},
    "negative observation": {"observation": [-2]},
    "string observation": {"observation": ["2"]},
    "no actions": {"action": {}},
    "negative number of actions": {"action": {"n": -1, "start": 0}},
    "bounds of another shape": {"action": {"low": [0], "high": [1], "shape": [1, 9], "dtype": "float32"}},
    "objects": {"action": {"low": [0], "high": [1], "shape": [1], "dtype": "object"}},
    "epsilon": {"epsilon": "1"},
    "moments": {"moments": ["device.key"]},
    "flag": {"squash": 1},
}


@pytest.mark.parametrize("changes", INVALID_DESCRIPTIONS.values(), ids=INVALID_DESCRIPTIONS)
def test_false_descriptions_are_refused(trained, tmp_path, changes):
    folder = copy_of(trained[1], tmp_path)
    known = description_of(folder)
    rewrite(folder, lambda name, array: array, policy={**known, **changes} if changes else {})
    with pytest.raises((CheckpointError, InvalidInput), match="^[^\n]*$"):
        portable_policy(folder, "best")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(trained, tmp_path, value):
    folder = copy_of(trained[1], tmp_path)
    rewrite(folder, lambda name, array: np.full_like(array, value) if "kernel" in name else array)
    for which in ("best", "last"):
        with pytest.raises(CheckpointError, match="damaged checkpoint .*: expected finite layers that fit together"):
            portable_policy(folder, which)


def test_arrays_of_another_type_are_refused(trained, tmp_path):
    folder = copy_of(trained[1], tmp_path)
    rewrite(folder, lambda name, array: array.astype("U3") if "kernel" in name else array)
    with pytest.raises(CheckpointError, match="weights of <U3"):
        portable_policy(folder, "last")


def test_a_run_without_a_network_says_what_it_has(tmp_path):
    class Own(gd.PPO):
        def policy(self, state, obs):
            return jnp.zeros(len(obs), jnp.int32)

    learner = Own(rollout=20, batch_size=20, epochs=1, net=(8,))
    result = gd.train(known_returns(), "target-only", learner=learner, steps=100, out=tmp_path / "own")
    folder = result.runs[0].folder
    with pytest.raises(
        InvalidInput, match="fully connected layers, such as that of PPO or SAC, got a learner Own with"
    ):
        portable_policy(folder, "best")
    assert result.policy()(OBSERVATIONS[0]) == 0  # from the learner
    gd.Teacher(known_returns(), out=tmp_path / "loop").close()
    with pytest.raises(InvalidInput, match="got a run of another training loop, which keeps its agent in"):
        portable_policy(tmp_path / "loop", "best")
