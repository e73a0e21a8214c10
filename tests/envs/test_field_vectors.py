"""The tasks of CURROT's authors: many environments in one program are as many single ones."""

import gymnasium as gym
import numpy as np
import pytest


@pytest.mark.parametrize("name", ["EMaze", "SparseGoal", "PointMassND"])
def test_a_vector_of_environments_steps_as_each_of_them_alone(name):
    theirs = gym.make_vec(f"geodesic/{name}-v0", num_envs=2, vectorization_mode="sync")
    ours = gym.make_vec(f"geodesic/{name}-v0", num_envs=2, vectorization_mode="vector_entry_point")
    exact = name == "EMaze"  # numbers of the others may differ in their last bits, as a program rounds
    np.testing.assert_allclose(ours.reset(seed=3)[0], theirs.reset(seed=3)[0], atol=0 if exact else 1e-6)
    theirs.action_space.seed(0)
    for _ in range(40):
        actions = theirs.action_space.sample()
        for one, other in zip(ours.step(actions)[:4], theirs.step(actions)[:4]):
            np.testing.assert_allclose(one, other, atol=0 if exact else 1e-5)
