"""Which part of a learner's state is kept of a policy, and how it is described."""

from dataclasses import dataclass

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodesic as gd
from geodesic.records import checkpoint
from geodesic.records.network import Network
from geodesic.training.policy_part import PolicyPart

OBSERVED = gym.spaces.Box(-np.inf, np.inf, (3,))
CONTINUOUS = gym.spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32))
DISCRETE = gym.spaces.Discrete(4, start=2)
SMALL = {"net": (5, 6), "batch_size": 8}


def part_of(learner, actions, observed=OBSERVED):
    key = np.zeros(2, np.uint32)
    state = learner.init(key, observed, actions)
    part = PolicyPart("a", learner, jax.eval_shape(lambda: state), observed, actions)
    return state, part


LEARNERS = {
    "discrete": (gd.PPO(**SMALL, normalize_observations=True), DISCRETE),
    "continuous": (gd.PPO(**SMALL, activation="relu"), CONTINUOUS),
    "shared": (gd.PPO(**SMALL, shared=True), DISCRETE),
    "sac": (gd.SAC(**SMALL, buffer_size=10, normalize_observations=True), CONTINUOUS),
}


def test_only_what_actions_depend_on_is_kept():
    assert part_of(*LEARNERS["continuous"])[1].names == [
        *(f"a.params['actor'][{k}]['{name}']" for k in range(3) for name in ("bias", "kernel")), "a.params['log_std']",
    ]  # fmt: skip
    kept = part_of(*LEARNERS["sac"])[1].names
    assert {name.split("[")[0] for name in kept} == {
        "a.agent.actor", "a.steps", "a.low", "a.high", "a.moments.mean", "a.moments.variance"
    }  # fmt: skip


@pytest.mark.parametrize(("learner", "actions"), LEARNERS.values(), ids=LEARNERS)
def test_the_described_network_acts_as_the_learner(learner, actions):
    state, part = part_of(learner, actions)
    states = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), state)
    one, two = part.save(states)
    flat = checkpoint.flatten("a", state)
    assert all((one[name] == flat[name]).all() and (two[name] == 2 * flat[name]).all() for name in part.names)
    policy = Network.from_json(part.description).policy(one)
    obs = np.random.default_rng(0).normal(0, 20, (50, 3)).astype(np.float32)
    expected = np.asarray(learner.policy(state, obs))
    if actions is DISCRETE:
        assert policy(obs).tolist() == (expected + 2).tolist()
    else:
        np.testing.assert_allclose(policy(obs), np.clip(expected, actions.low, actions.high), atol=1e-5)


@dataclass(frozen=True)
class Linear:
    """A learner of one's own, whose state is more than its policy."""

    n_envs: int = 1
    rollout: int = 2

    def init(self, key, observation_space, action_space):
        return {"weights": jnp.zeros((3, 4)), "buffer": jnp.zeros((1000, 3)), "noise": jnp.ones(4)}

    def act(self, state, obs, key):
        action = jnp.argmax(obs @ state["weights"] + state["noise"] * jax.random.normal(key, (len(obs), 4)), axis=-1)
        return action, action

    def update(self, state, transitions, key):
        return state, {}

    def params(self, state):
        return state

    def policy(self, state, obs):
        return jnp.argmax(obs @ state["weights"], axis=-1)


@dataclass(frozen=True)
class Portable(Linear):
    """With a description."""

    def network(self, state):
        from geodesic.learners.networks import ActingNetwork

        return ActingNetwork([{"kernel": state["weights"], "bias": state["noise"]}], "tanh", (), squash=False)


@dataclass(frozen=True)
class Greedy(gd.PPO):
    """PPO with a policy that its network does not describe."""

    def policy(self, state, obs):
        return jnp.zeros(len(obs), jnp.int32)


def test_learners_of_ones_own_are_kept_and_may_describe_themselves():
    _, part = part_of(Linear(), DISCRETE)
    assert part.names == ["a['noise']", "a['weights']"]
    assert part.description == "a learner Linear without network()"
    described = part_of(Portable(), DISCRETE)[1].description
    assert (described["kernels"], described["biases"]) == (["a['weights']"], ["a['noise']"])
    assert part_of(Greedy(**SMALL), DISCRETE)[1].description == "a learner Greedy without network()"


@pytest.mark.parametrize(("observed", "actions", "reason"), [
    (OBSERVED, gym.spaces.MultiDiscrete([2, 3]), "actions MultiDiscrete([2 3])"),
    (gym.spaces.MultiBinary(3), DISCRETE, "observations MultiBinary(3)"),
])  # fmt: skip
def test_spaces_that_cannot_be_described_are_named(observed, actions, reason):
    assert part_of(Portable(), actions, observed)[1].description == reason
