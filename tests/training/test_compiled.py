"""The compiled loop: what the program is told, what it reports, and that it is compiled once."""

import jax
import numpy as np
import pytest

import geodesic as gd
from geodesic.envs.maze import Maze
from geodesic.learners.ppo import PPO
from geodesic.training.compiled import CAPACITY, Program, as_draw, episodes_of, sample, stack

KEYS = np.array([[0, 1], [0, 2]], np.uint32)


@pytest.fixture(scope="module")
def program():
    return Program(Maze(), PPO(rollout=50, batch_size=25, epochs=1), 4, 5, "stochastic")


def draws_of(*distributions):
    return stack([as_draw(particles, stage) for stage, particles in enumerate(distributions)])


def test_sampling_follows_the_weights_through_the_padding():
    particles = gd.Particles([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.0, 0.6, 0.3])
    keys = jax.random.split(jax.random.PRNGKey(0), 20_000)
    drawn = np.asarray(jax.vmap(lambda key: sample(as_draw(particles, 0), key))(keys))[:, 0]
    shares = np.bincount(drawn.astype(int), minlength=4) / len(drawn)
    np.testing.assert_allclose(shares, particles.weights, atol=4 * 0.5 / np.sqrt(20_000))
    assert shares[1] == 0


def test_too_many_particles_are_thinned_without_bias():
    rng = np.random.default_rng(0)
    weights = rng.random(3 * CAPACITY)
    particles = gd.Particles(rng.normal(size=(3 * CAPACITY, 1)), weights)
    draw = as_draw(particles, 0)
    assert draw.points.shape == (CAPACITY, 1)
    assert abs(draw.points.mean() - particles.mean()[0]) < 4 / np.sqrt(CAPACITY)


def test_episodes_are_reported_as_they_happened(program):
    """Every return is minus the length, every length is at least the shortest path's and at most the limit."""
    mdp = program.mdp
    rng = np.random.default_rng(0)
    draws = draws_of(mdp.source(rng), mdp.target(rng))
    state = program.init(KEYS, draws)
    seen = [[], []]
    for _ in range(5):
        state, log = program.segment(state, draws)
        for run in range(2):
            episodes, when = episodes_of(log, run)
            assert (np.diff(when) > 0).all()
            seen[run].append(episodes)
    for run, parts in enumerate(seen):
        episodes = parts[0]
        for part in parts[1:]:
            episodes = episodes.followed_by(part)
        assert (episodes.stages == run).all()
        np.testing.assert_array_equal(episodes.returns, -episodes.lengths)
        assert (episodes.lengths >= -mdp.best_return(episodes.contexts)).all()
        assert episodes.lengths.max() <= 100
        np.testing.assert_array_equal(episodes.successes, episodes.lengths < 100)
    assert set(map(tuple, seen[0][0].contexts)) <= set(map(tuple, mdp.starts[mdp.start_distance <= 2]))


def test_episodes_in_flight_keep_the_stage_they_began_in(program):
    mdp = program.mdp
    target = mdp.target(np.random.default_rng(0))
    draws = draws_of(target, target)
    state, _ = program.segment(program.init(KEYS, draws), draws)
    draws = draws._replace(stage=np.full(2, 7, np.int32))
    before = np.asarray(state.lanes.length)[:, 0]
    _, log = program.segment(state, draws)
    for run in range(2):
        episodes, when = episodes_of(log, run)
        assert episodes.stages[0] == run
        assert (episodes.stages[1:] == 7).all()
        assert episodes.lengths[0] == before[run] + when[0]


def test_neither_a_new_stage_nor_other_sizes_compile_again(program):
    mdp = program.mdp
    rng = np.random.default_rng(0)
    draws = draws_of(mdp.source(rng), mdp.target(rng))
    state, _ = program.segment(program.init(KEYS, draws), draws)
    compiled = program.segment._cache_size()
    for particles in (mdp.context_space.uniform(1, rng), gd.Particles(mdp.starts[:3])):
        state, _ = program.segment(state, draws_of(particles, particles))
    assert program.segment._cache_size() == compiled == 1


def test_a_run_does_not_depend_on_its_neighbours_draws(program):
    """The same run beside two different others."""
    mdp = program.mdp
    rng = np.random.default_rng(0)
    results = []
    for other in (mdp.source(rng), mdp.context_space.uniform(1, rng)):
        draws = draws_of(mdp.target(rng), other)
        state, log = program.segment(program.init(KEYS, draws), draws)
        results.append((jax.tree.map(lambda x: np.asarray(x[0]), state), np.asarray(log.total[0])))
    jax.tree.map(np.testing.assert_array_equal, *results)


def test_a_program_of_two_runs_goes_on_without_stalling(program):
    """With XLA's concurrent scheduler this loop stops for good within its first rounds."""
    rng = np.random.default_rng(0)
    draws = draws_of(program.mdp.source(rng), program.mdp.target(rng))
    for _ in range(15):
        state, _ = program.segment(program.init(KEYS, draws), draws)
        lengths = jax.tree.map(lambda leaf: np.asarray(leaf[0]), state).lanes.length
    assert lengths.shape == (1,)


def test_evaluation_of_a_perfect_policy_gives_the_shortest_paths(program):
    """A policy built by hand: logits from a table of the best action in each cell."""
    mdp = program.mdp

    class Perfect:
        rollout, n_envs = 1, 1

        def init(self, key, observation_space, action_space):
            return np.zeros(1, np.float32)

        def policy(self, state, obs):
            cell = (obs == 2).argmax(axis=-1)
            best = np.zeros(121, np.int32)
            flat = mdp.cells[:, 0] * 11 + mdp.cells[:, 1]
            best[flat] = mdp.distance[mdp.next_cell].argmin(axis=1)
            return jax.numpy.asarray(best)[cell]

    perfect = Program(mdp, Perfect(), 1, 300, "deterministic")
    target = mdp.target(np.random.default_rng(0))
    draws = stack([as_draw(target, 0)])
    returns, successes = perfect.evaluate(perfect.init(KEYS[:1], draws), draws, KEYS[:1])
    assert successes.all()
    assert set(np.unique(returns)) == {-14.0, -13.0}
    assert returns.mean() == pytest.approx(-40 / 3, abs=0.15)
