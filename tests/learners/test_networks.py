"""Running moments of observations equal numpy's and Stable-Baselines3's, and help where scales are bad."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stable_baselines3.common.running_mean_std import RunningMeanStd

from geodesic.learners.base import Transitions
from geodesic.learners.networks import CLIP, Moments, initial_moments, merge_moments, normalize
from geodesic.learners.ppo import PPO
from geodesic.learners.sac import SAC

OBS = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
ACT = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
PLACE, SCALE = np.array([500.0, -0.2], np.float32), np.array([20.0, 0.05], np.float32)
LEARNERS = {
    "ppo": (PPO, {"rollout": 64, "n_envs": 4, "batch_size": 64, "learning_rate": 3e-3}, 60),
    "sac": (
        SAC,
        {"rollout": 4, "gradient_steps": 4, "batch_size": 64, "buffer_size": 4000, "learning_rate": 3e-3, "net": (32,)},
        1000,
    ),
}


def batches(seed=0):
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(*shape, 2)) * SCALE + PLACE).astype(np.float32) for shape in ((7, 3), (1, 1), (40, 2), (5,))
    ]


def test_merged_moments_equal_those_of_all_observations():
    seen = initial_moments(2)._replace(number=jnp.float32(0))
    for batch in batches():
        seen = merge_moments(seen, jnp.asarray(batch))
    rows = np.concatenate([batch.reshape(-1, 2) for batch in batches()]).astype(np.float64)
    assert float(seen.number) == len(rows)
    np.testing.assert_allclose(seen.mean, rows.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(seen.variance, rows.var(axis=0), rtol=1e-4)


def test_moments_do_not_depend_on_the_batches():
    rows = np.random.default_rng(1).normal(size=(120, 2)).astype(np.float32)
    once = merge_moments(initial_moments(2), jnp.asarray(rows))
    seen = initial_moments(2)
    for part in np.split(rows, [3, 50, 51]):
        seen = merge_moments(seen, jnp.asarray(part))
    for one, other in zip(once, seen):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_moments_equal_stable_baselines3():
    theirs, ours = RunningMeanStd(epsilon=1e-4, shape=(2,)), initial_moments(2)
    for batch in batches(2):
        theirs.update(batch.reshape(-1, 2).astype(np.float64))
        ours = merge_moments(ours, jnp.asarray(batch))
        np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-5)
        np.testing.assert_allclose(ours.variance, theirs.var, rtol=1e-4)
        assert float(ours.number) == pytest.approx(theirs.count)


def test_normalised_observations_have_mean_zero_and_deviation_one_and_are_clipped():
    rows = np.random.default_rng(3).normal(size=(500, 2)) * [20.0, 0.3] + [100.0, -7.0]
    seen = merge_moments(initial_moments(2), jnp.asarray(rows, jnp.float32))
    scaled = np.asarray(normalize(seen, jnp.asarray(rows, jnp.float32)))
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=2e-3)
    np.testing.assert_allclose(scaled.std(axis=0), 1, atol=2e-3)
    np.testing.assert_array_equal(normalize(seen, jnp.array([1e9, -1e9])), [CLIP, -CLIP])


def test_without_data_observations_are_unchanged():
    obs = jnp.array([[0.5, -3.0], [9.0, 0.0]])
    np.testing.assert_allclose(normalize(initial_moments(2), obs), obs, rtol=1e-6)


def test_a_constant_observation_stays_finite():
    rows = np.tile([3.0, 0.0], (50, 1)).astype(np.float32)
    seen = initial_moments(2)
    for _ in range(50):
        seen = merge_moments(seen, jnp.asarray(rows))
    assert np.isfinite(normalize(seen, jnp.asarray(rows))).all()
    assert np.abs(normalize(seen, jnp.asarray(rows))).max() < CLIP


def one_step(learner, iterations, seed=0):
    """Train on episodes of one step; the best action is the first of two hidden numbers behind the observation."""

    def iteration(state, key):
        look, act, update = jax.random.split(key, 3)
        hidden = jax.random.uniform(look, (learner.rollout, learner.n_envs, 2), minval=-1, maxval=1)
        obs = PLACE + SCALE * hidden
        action, stored = learner.act(state, obs, act)
        reward = -jnp.square(jnp.clip(action[..., 0], -1, 1) - hidden[..., 0])
        ends = jnp.ones(reward.shape, bool)
        return learner.update(state, Transitions(obs, stored, reward, obs, ends, ~ends), update)[0], None

    first, rest = jax.random.split(jax.random.key(seed))
    state = learner.init(first, OBS, ACT)
    return jax.jit(lambda s: jax.lax.scan(iteration, s, jax.random.split(rest, iterations))[0])(state)


def error(learner, state):
    """Root mean square error of the action; 0.55 for an action that ignores the observation."""
    hidden = np.stack(np.meshgrid(np.linspace(-0.9, 0.9, 19), np.linspace(-0.9, 0.9, 5)), axis=-1).reshape(-1, 2)
    action = learner.policy(state, jnp.asarray(PLACE + SCALE * hidden, jnp.float32))[:, 0]
    return float(np.sqrt(np.square(action - hidden[:, 0]).mean()))


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_normalisation_learns_at_bad_scales_where_the_plain_learner_does_not(name):
    make, options, iterations = LEARNERS[name]
    for normalized in (True, False):
        learner = make(**options, normalize_observations=normalized)
        state = one_step(learner, iterations)
        assert (error(learner, state) < 0.08) == normalized
        assert (error(learner, state) > 0.5) == (not normalized)
        if normalized:
            n = iterations * learner.rollout * learner.n_envs
            assert float(state.moments.number) == pytest.approx(n, rel=1e-4)
            np.testing.assert_allclose(state.moments.mean, PLACE, rtol=0.05)
            np.testing.assert_allclose(np.sqrt(state.moments.variance), SCALE / np.sqrt(3), rtol=0.1)


@pytest.mark.parametrize("name", LEARNERS)
def test_it_is_off_by_default_and_then_changes_nothing(name):
    make, options, _ = LEARNERS[name]
    plain, scaled = make(**options), make(**options, normalize_observations=True)
    assert plain == make(**options, normalize_observations=False)
    key, obs = jax.random.key(0), jnp.array([[0.3, -0.2], [0.9, 0.4]])
    off, on = (learner.init(key, OBS, ACT) for learner in (plain, scaled))
    assert off.moments == ()
    assert isinstance(on.moments, Moments)
    assert normalize(off.moments, obs) is obs
    assert merge_moments(off.moments, obs) == ()
    for one, other in zip(jax.tree.leaves(off), jax.tree.leaves(on._replace(moments=()))):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(plain.act(off, obs, key)[1], scaled.act(on, obs, key)[1])


@pytest.mark.parametrize("name", LEARNERS)
def test_actions_and_updates_use_the_moments_from_before_the_rollout(name):
    """The first iteration uses mean 0 and variance 1, so its parameters equal the plain learner's."""
    make, options, _ = LEARNERS[name]
    options = {**options, "rollout": 16, "n_envs": 2, **({"learning_starts": 1} if name == "sac" else {})}
    rng = np.random.default_rng(0)
    shape = (16, 2)
    ends = jnp.asarray(rng.random(shape) < 0.2)
    seen = Transitions(
        jnp.asarray(rng.normal(size=(*shape, 2)), jnp.float32),
        jnp.asarray(rng.uniform(-1, 1, (*shape, 1)), jnp.float32),
        jnp.asarray(rng.normal(size=shape), jnp.float32),
        jnp.asarray(rng.normal(size=(*shape, 2)), jnp.float32),
        ends,
        jnp.zeros(shape, bool),
    )
    after = []
    for normalized in (False, True):
        learner = make(**options, normalize_observations=normalized)
        state = learner.init(jax.random.key(0), OBS, ACT)
        after.append(learner.update(state, seen, jax.random.key(1))[0])
    assert float(after[1].moments.number) == pytest.approx(32, abs=1e-3)
    if name == "ppo":
        for one, other in zip(jax.tree.leaves(after[0].params), jax.tree.leaves(after[1].params)):
            np.testing.assert_allclose(one, other, atol=1e-6)
    else:  # its batches are scaled by the moments of everything it has stored
        np.testing.assert_array_equal(after[0].buffer, after[1].buffer)
