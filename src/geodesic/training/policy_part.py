"""The part of a learner's state that its actions depend on: what has to be kept of a policy."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax
import numpy as np

from geodesic.contexts import Arrays
from geodesic.errors import InvalidInput, format_error
from geodesic.learners import networks
from geodesic.learners.base import Learner, LearnerState
from geodesic.records.checkpoint import Json
from geodesic.records.network import Network, describe_action, describe_observation

Space = gym.Space[Any]


class PolicyPart:
    """The leaves of a learner's state that actions depend on, by their names in a checkpoint.

    They are found by tracing `act` and `policy`, so that every learner has them: optimiser, critics and replay buffer
    are left out. description: a `Network` as JSON, or why there is none.
    """

    def __init__(
        self, prefix: str, learner: Learner, like: LearnerState, observation_space: Space, action_space: Space
    ) -> None:
        named = jax.tree_util.tree_map_with_path(lambda place, _: prefix + jax.tree_util.keystr(place), like)
        self._used = _used_leaves(learner, like, observation_space)
        self.names = [name for name, used in zip(jax.tree.leaves(named), self._used) if used]
        self.description = _describe(learner, named, observation_space, action_space)

    def save(self, states: LearnerState) -> list[Arrays]:
        """The part of each run, from the states of several runs; only this part leaves the device."""
        leaves = [leaf for leaf, used in zip(jax.tree.leaves(states), self._used) if used]
        host = jax.device_get(leaves)
        runs = len(host[0]) if host else 0
        return [{name: np.array(leaf[run]) for name, leaf in zip(self.names, host)} for run in range(runs)]


def _used_leaves(learner: Learner, like: LearnerState, space: Space) -> list[bool]:
    """Which leaves of a state appear in the operations of `act` and `policy`."""
    leaves, tree = jax.tree.flatten(like)
    obs, key = np.zeros((learner.n_envs, *(space.shape or ())), np.float32), np.zeros(2, np.uint32)

    def actions(leaves: list[Any], obs: Any, key: Any) -> Any:
        state = jax.tree.unflatten(tree, leaves)
        return learner.policy(state, obs), learner.act(state, obs, key)

    traced = jax.make_jaxpr(actions)(leaves, obs, key).jaxpr
    seen = {id(value) for equation in traced.eqns for value in equation.invars} | set(map(id, traced.outvars))
    return [id(value) in seen for value in traced.invars[: len(leaves)]]


def _describe(learner: Learner, names: LearnerState, observation_space: Space, action_space: Space) -> Json | str:
    """How the arrays of these names act, as JSON; or why this cannot be described."""
    if not hasattr(learner, "network") or not _describes_its_policy(type(learner)):
        return f"a learner {type(learner).__name__} without network()"
    acting: networks.ActingNetwork = learner.network(names)
    moments = acting.moments
    try:
        return Network(
            kernels=[layer["kernel"] for layer in acting.layers],  # type: ignore[misc]
            biases=[layer["bias"] for layer in acting.layers],  # type: ignore[misc]
            activation=acting.activation,
            squash=acting.squash,
            observation=describe_observation(observation_space),
            action=describe_action(action_space),
            moments=[moments.mean, moments.variance] if isinstance(moments, networks.Moments) else None,  # type: ignore[list-item]
            epsilon=networks.EPSILON,
            clip=networks.CLIP,
        ).to_json()
    except InvalidInput as error:
        return format_error(error)


def _describes_its_policy(kind: type) -> bool:
    """Whether `policy` has not been overridden in a subclass of the class whose `network` describes it."""
    place = {name: k for k, base in reversed(list(enumerate(kind.__mro__))) for name in vars(base)}
    return place["network"] <= place["policy"]
