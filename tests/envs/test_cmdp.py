"""Vector environments: Gymnasium's around ours, and ours in one compiled program."""

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from clocks import particles, task
from geodesic.errors import InvalidInput

MODES = list(AutoresetMode)


def ended(envs, infos, over):
    """Context, stage and time of the episodes that ended in a step, wherever the mode reports them."""
    last = infos["final_info"] if envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP else infos
    return [(float(last["context"][i, 0]), int(last["stage"][i]), int(last["time"][i])) for i in np.flatnonzero(over)]


def episodes(envs, steps, change):
    """The episodes of some steps; at step `change` the distribution of stage 1 is set."""
    found = []
    envs.reset(seed=7)
    for step in range(steps):
        if step == change:
            envs.call("set_distribution", particles(4, 6), 1)
        *_, terminated, truncated, infos = envs.step(np.zeros(envs.num_envs, int))
        over = terminated | truncated
        if over.any():
            found += ended(envs, infos, over)
            if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
                envs.reset(options={"reset_mask": over})
    return found


def check(found):
    assert all(time == context for context, _, time in found)  # the episode had this context throughout
    assert {context for context, stage, _ in found if stage == 0} == {5.0}  # the target is the first distribution
    assert {context for context, stage, _ in found if stage == 1} == {4.0, 6.0}


@pytest.mark.parametrize("mode", MODES)
def test_in_a_sync_vector_a_context_belongs_to_its_episode(mode):
    make = [task().make] * 3
    found = episodes(SyncVectorEnv(make, autoreset_mode=mode), 60, change=17)
    check(found)
    assert len(found) > 20
    assert found == episodes(SyncVectorEnv(make, autoreset_mode=mode), 60, change=17)


def test_an_async_vector_gives_the_same_episodes_in_every_mode():
    """JAX has run here, so the processes must not be forked."""
    jax.block_until_ready(jax.numpy.ones(2) + 1)
    for mode in MODES:
        envs = AsyncVectorEnv([task().make] * 2, context="forkserver", autoreset_mode=mode)
        try:
            found = episodes(envs, 40, change=7)
        finally:
            envs.close()
        check(found)
        assert found == episodes(SyncVectorEnv([task().make] * 2, autoreset_mode=mode), 40, change=7)


@pytest.mark.filterwarnings("ignore")  # JAX and Gymnasium warn too
def test_a_forked_environment_in_jax_raises_instead_of_hanging():
    gym.make("geodesic/PointMass-v0").reset(seed=0)
    envs = gym.make_vec(
        "geodesic/PointMass-v0", num_envs=2, vectorization_mode="async", vector_kwargs={"context": "fork"}
    )
    with pytest.raises(InvalidInput, match=r"forked after JAX had started; try .*context='forkserver'"):
        envs.reset(seed=0)
    envs.close(terminate=True)


def same(ours, theirs, at):
    """Equal except for the last bits, which a program for several episodes may round differently."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), at
        for key in theirs:
            same(ours[key], theirs[key], f"{at}/{key}")
    elif theirs.dtype == object:
        for one, other in zip(ours, theirs):
            assert (one is None) == (other is None), at
            if one is not None:
                same(one, other, at)
    else:
        np.testing.assert_allclose(ours, theirs, atol=1e-5, err_msg=at)


@pytest.mark.parametrize("mode", MODES)
def test_the_compiled_vector_equals_gymnasiums_sync_vector(mode):
    name = "geodesic/PointMass-v0"
    theirs = gym.make_vec(name, num_envs=3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})
    ours = gym.make_vec(name, num_envs=3, vectorization_mode="vector_entry_point", autoreset_mode=mode)
    assert (ours.observation_space, ours.action_space) == (theirs.observation_space, theirs.action_space)
    for one, other in zip(ours.reset(seed=3), theirs.reset(seed=3)):
        same(one, other, "reset")
    theirs.action_space.seed(0)
    ends = 0
    for step in range(120):
        actions = theirs.action_space.sample()
        given, expected = ours.step(actions), theirs.step(actions)
        for part, (one, other) in enumerate(zip(given, expected)):
            same(one, other, f"step {step} part {part}")
        over = expected[2] | expected[3]
        ends += over.sum()
        if mode is AutoresetMode.DISABLED and over.any():
            both = [envs.reset(options={"reset_mask": over}) for envs in (ours, theirs)]
            for one, other in zip(*both):
                same(one, other, f"reset at {step}")
    assert ends > 2


def test_a_compiled_vector_takes_distributions_and_one_context_per_episode():
    envs = gym.make_vec("geodesic/PointMass-v0", num_envs=3, autoreset_mode="Disabled")
    asked = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]])
    _, info = envs.reset(seed=0, options={"context": asked})
    np.testing.assert_allclose(info["context"], asked)
    envs.unwrapped.set_distribution(type(particles(1))(np.array([[3.0, 4.0]])), stage=2)
    _, info = envs.reset(options={"reset_mask": np.array([False, True, False])})
    np.testing.assert_allclose(info["context"], [[0, 0], [3, 4], [0, 0]])
    assert info["stage"].tolist() == [0, 2, 0]
    np.testing.assert_allclose(envs.unwrapped.contexts, [[0, 1], [3, 4], [2, 3]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda envs: envs.step(np.zeros((2, 2), np.float32)), r"expected reset\(\) before the first step\(\)"),
        (lambda envs: envs.reset(options={"context": np.ones((3, 2))}), r"one for each of the 2 that are reset"),
        (lambda envs: envs.reset(options={"context": [9.0, 9.0]}), "context"),
        (lambda envs: envs.reset(options={"reset_mask": np.zeros(2, bool)}), "expected reset_mask of 2 booleans"),
        (lambda envs: envs.reset(seed=[1, 2, 3]), "one for each of the 2 environments, got 3"),
        (lambda envs: envs.step(np.zeros(3)), "expected actions in"),
    ],
)
def test_a_compiled_vector_refuses_wrong_arguments(call, message):
    envs = gym.make_vec("geodesic/PointMass-v0", num_envs=2)
    with pytest.raises(InvalidInput, match=message):
        call(envs)


def test_an_unknown_mode_is_refused():
    with pytest.raises(InvalidInput, match="expected autoreset_mode to be one of .*Disabled; got 'never'"):
        gym.make_vec("geodesic/Maze-v0", num_envs=2, autoreset_mode="never")


@pytest.mark.parametrize("name", ["EMaze", "SparseGoal", "PointMassND"])
def test_other_compiled_vectors_equal_the_sync_vector(name):
    theirs = gym.make_vec(f"geodesic/{name}-v0", num_envs=2, vectorization_mode="sync")
    ours = gym.make_vec(f"geodesic/{name}-v0", num_envs=2, vectorization_mode="vector_entry_point")
    exact = name == "EMaze"  # the others may differ in their last bits
    np.testing.assert_allclose(ours.reset(seed=3)[0], theirs.reset(seed=3)[0], atol=0 if exact else 1e-6)
    theirs.action_space.seed(0)
    for _ in range(40):
        actions = theirs.action_space.sample()
        for one, other in zip(ours.step(actions)[:4], theirs.step(actions)[:4]):
            np.testing.assert_allclose(one, other, atol=0 if exact else 1e-5)
