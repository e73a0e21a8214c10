"""The compiled trainer: what the program is told, what it reports, and that it is compiled once."""

import jax
import numpy as np
import pytest

import geodesic as gd
from geodesic.envs.maze import Maze
from geodesic.envs.point_mass import PointMass
from geodesic.learners.ppo import PPO
from geodesic.learners.sac import SAC
from geodesic.training.compiled import CompiledTrainer, columns_of
from geodesic.training.program import CAPACITY, Log, Program, as_sampler, sample, stack

KEYS = np.array([[0, 1], [0, 2]], np.uint32)


@pytest.fixture(scope="module")
def program():
    return Program(Maze(), PPO(rollout=50, batch_size=25, epochs=1), 4, 5, "stochastic")


@pytest.fixture(scope="module")
def side_by_side():
    """Two environments in each run, so that episodes overlap."""
    return Program(Maze(), PPO(rollout=50, n_envs=2, batch_size=50, epochs=1), 4, 5, "stochastic")


def samplers_of(*distributions):
    return stack([as_sampler(particles, stage) for stage, particles in enumerate(distributions)])


def test_sampling_follows_the_weights_through_the_padding():
    particles = gd.Particles([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.0, 0.6, 0.3])
    keys = jax.random.split(jax.random.PRNGKey(0), 20_000)
    drawn = np.asarray(jax.vmap(lambda key: sample(as_sampler(particles, 0), key))(keys))[:, 0]
    shares = np.bincount(drawn.astype(int), minlength=4) / len(drawn)
    np.testing.assert_allclose(shares, particles.weights, atol=4 * 0.5 / np.sqrt(20_000))
    assert shares[1] == 0


def test_too_many_particles_are_thinned_without_bias():
    rng = np.random.default_rng(0)
    weights = rng.random(3 * CAPACITY)
    particles = gd.Particles(rng.normal(size=(3 * CAPACITY, 1)), weights)
    sampler = as_sampler(particles, 0)
    assert sampler.points.shape == (CAPACITY, 1)
    assert abs(sampler.points.mean() - particles.mean()[0]) < 4 / np.sqrt(CAPACITY)


@pytest.mark.parametrize("order", ["alternating", "sorted"])
def test_thinning_does_not_follow_the_order_of_the_points(order):
    """8192 points of either sign, in turns: every second one has the same sign."""
    signs = np.tile([-1.0, 1.0], CAPACITY)
    particles = gd.Particles((signs if order == "alternating" else np.sort(signs))[:, None])
    kept = as_sampler(particles, 0).points[:, 0]
    assert abs(kept.mean()) < 4 / np.sqrt(CAPACITY)
    np.testing.assert_array_equal(as_sampler(particles, 0).points[:, 0], kept)


def test_columns_are_those_of_the_steps_at_which_episodes_ended():
    """Two runs of 1 iteration x 2 steps x 2 environments; steps are counted environment by environment."""
    ended = np.array([[[[False, True], [True, True]]], [[[False, False], [True, False]]]])
    number = np.arange(8).reshape(2, 1, 2, 2)
    log = Log(ended, number[..., None] * 10.0, number * 1.0, number, number, number * 0.5, ())
    (first, own), (second, other) = columns_of(log)
    assert (first.tolist(), second.tolist()) == ([2, 3, 4], [3])
    assert (own.total.tolist(), other.total.tolist()) == ([1.0, 2.0, 3.0], [6.0])
    assert (own.context.tolist(), other.context.tolist()) == ([[10.0], [20.0], [30.0]], [[60.0]])
    assert (own.success.tolist(), other.success.tolist()) == ([0.5, 1.0, 1.5], [3.0])
    assert own.discounted == other.discounted == ()


def test_episodes_are_reported_as_they_happened(program):
    """Every return is minus the length, every length is at least the shortest path's and at most the limit."""
    mdp = program.mdp
    rng = np.random.default_rng(0)
    samplers = samplers_of(mdp.source(rng), mdp.target(rng))
    state = program.init(KEYS, samplers)
    seen = [[], []]
    for _ in range(5):
        state, log = program.segment(state, samplers)
        for run, (when, columns) in enumerate(columns_of(log)):
            assert (np.diff(when) > 0).all()
            assert when[0] >= 1
            assert when[-1] <= program.segment_steps == 200
            seen[run].append(columns)
    for run, parts in enumerate(seen):
        whole = Log(*(np.concatenate(column) for column in list(zip(*parts))[:-1]), ())
        assert (whole.stage == run).all()
        np.testing.assert_array_equal(whole.total, -whole.length)
        assert (whole.length >= -mdp.best_return(whole.context)).all()
        assert whole.length.max() <= 100
        np.testing.assert_array_equal(whole.success, whole.length < 100)
    assert set(map(tuple, seen[0][0].context)) <= set(map(tuple, mdp.starts[mdp.start_distance <= 2]))


def test_episodes_under_way_keep_the_stage_they_began_in(program):
    mdp = program.mdp
    target = mdp.target(np.random.default_rng(0))
    samplers = samplers_of(target, target)
    state, _ = program.segment(program.init(KEYS, samplers), samplers)
    samplers = samplers._replace(stage=np.full(2, 7, np.int32))
    before = np.asarray(state.slots.length)[:, 0]
    _, log = program.segment(state, samplers)
    for run, (when, columns) in enumerate(columns_of(log)):
        assert columns.stage[0] == run
        assert (columns.stage[1:] == 7).all()
        assert columns.length[0] == before[run] + when[0]


def test_neither_a_new_stage_nor_other_sizes_compile_again(program):
    mdp = program.mdp
    rng = np.random.default_rng(0)
    samplers = samplers_of(mdp.source(rng), mdp.target(rng))
    state, _ = program.segment(program.init(KEYS, samplers), samplers)
    compiled = program.segment._cache_size()
    for particles in (mdp.context_space.uniform(1, rng), gd.Particles(mdp.starts[:3])):
        state, _ = program.segment(state, samplers_of(particles, particles))
    assert program.segment._cache_size() == compiled == 1


@pytest.mark.parametrize("learner", [PPO(rollout=8, batch_size=4, epochs=1), SAC(batch_size=4, learning_starts=2)])
def test_no_product_of_matrices_is_rounded_on_an_accelerator(learner):
    """Where nothing is said, JAX multiplies float32 with ten bits on recent GPUs; Stable-Baselines3 does not."""
    mdp = Maze() if isinstance(learner, PPO) else PointMass()
    program = Program(mdp, learner, 2, 5, "stochastic")
    samplers = samplers_of(gd.Particles(np.zeros((1, mdp.context_space.dim))))
    state = jax.eval_shape(program.init, KEYS[:1], samplers)
    for lowered in (program.segment.lower(state, samplers), program.evaluate.lower(state, samplers, KEYS[:1])):
        products = [line for line in lowered.as_text().splitlines() if "dot_general" in line]
        assert products
        assert [line for line in products if "HIGHEST, HIGHEST" not in line] == []


def test_a_run_does_not_depend_on_its_neighbours(program):
    """The same run beside two different others."""
    mdp = program.mdp
    rng = np.random.default_rng(0)
    results = []
    for other in (mdp.source(rng), mdp.context_space.uniform(1, rng)):
        samplers = samplers_of(mdp.target(rng), other)
        state, log = program.segment(program.init(KEYS, samplers), samplers)
        results.append((jax.tree.map(lambda x: np.asarray(x[0]), state), np.asarray(log.total[0])))
    jax.tree.map(np.testing.assert_array_equal, *results)


def test_a_program_of_two_runs_goes_on_without_stalling(program):
    """With XLA's concurrent scheduler this loop stops for good within its first rounds."""
    rng = np.random.default_rng(0)
    samplers = samplers_of(program.mdp.source(rng), program.mdp.target(rng))
    for _ in range(15):
        state, _ = program.segment(program.init(KEYS, samplers), samplers)
        lengths = jax.tree.map(lambda leaf: np.asarray(leaf[0]), state).slots.length
    assert lengths.shape == (1,)


class Perfect:
    """A policy built by hand: a table of the best action in each cell."""

    rollout, n_envs = 1, 1

    def __init__(self, mdp):
        self.mdp = mdp

    def init(self, key, observation_space, action_space):
        return np.zeros(1, np.float32)

    def policy(self, state, obs):
        cell = (obs == 2).argmax(axis=-1)
        best = np.zeros(121, np.int32)
        flat = self.mdp.cells[:, 0] * 11 + self.mdp.cells[:, 1]
        best[flat] = self.mdp.distance[self.mdp.next_cell].argmin(axis=1)
        return jax.numpy.asarray(best)[cell]


@pytest.mark.parametrize("discount", [None, 0.9])
def test_evaluation_of_a_perfect_policy_gives_the_shortest_paths(program, discount):
    """-1 a step for L steps: -L, and discounted -(1 - g^L) / (1 - g)."""
    mdp = program.mdp
    perfect = Program(mdp, Perfect(mdp), 1, 300, "deterministic", discount)
    samplers = stack([as_sampler(mdp.target(np.random.default_rng(0)), 0)])
    returns, successes, discounted = perfect.evaluate(perfect.init(KEYS[:1], samplers), samplers, KEYS[:1])
    assert successes.all()
    assert set(np.unique(returns)) == {-14.0, -13.0}
    assert returns.mean() == pytest.approx(-40 / 3, abs=0.15)
    if discount is None:
        assert discounted == ()
    else:
        np.testing.assert_allclose(discounted, -(1 - discount ** -np.asarray(returns)) / (1 - discount), rtol=1e-5)


def trained(program, seeds, distributions, segments, measure="return"):
    """A trainer after so many segments, and what it reported."""
    trainer = CompiledTrainer(program, program.mdp.target(np.random.default_rng(0)), measure)
    trainer.prepare(len(seeds))
    trainer.begin(seeds, distributions)
    return trainer, go_on(trainer, 0, segments)


def go_on(trainer, first, segments):
    reports = []
    for segment in range(first, first + segments):
        trainer.start_segment()
        reports.append(trainer.finish_segment(segment * trainer.segment_steps))
    return reports


def test_a_report_says_when_episodes_began_and_which_are_under_way(side_by_side):
    """Replayed by hand: in each environment an episode begins where the one before it ended."""
    target = side_by_side.mdp.target(np.random.default_rng(0))
    _, reports = trained(side_by_side, [0, 1], [target, target], 4)
    for run in range(2):
        free = {0: 2}  # beginnings that are open: time step -> how many environments
        for segment, both in enumerate(reports):
            report = both[run]
            times = (report.ended - 1) // 2 + 1  # steps of a run -> time steps of its environments
            for began, length, time in zip(report.began, report.episodes.lengths, times):
                assert began + length == time
                assert free[began] > 0
                free[began] -= 1
                free[time] = free.get(time, 0) + 1
            assert report.under_way == min(time for time, n in free.items() if n)
            assert report.ended.max() <= (segment + 1) * 400
            np.testing.assert_array_equal(report.returns, -report.episodes.lengths)


def test_a_trainer_restored_goes_on_as_one_that_never_stopped(side_by_side):
    rng = np.random.default_rng(0)
    source, target = side_by_side.mdp.source(rng), side_by_side.mdp.target(rng)
    whole, _ = trained(side_by_side, [0, 1], [source, target], 2)
    kept = whole.save()
    after = go_on(whole, 2, 2)
    again = CompiledTrainer(side_by_side, target, "return")
    again.prepare(2)
    again.restore(kept, [source, target], [0, 0])
    for ours, theirs in zip(go_on(again, 2, 2), after):
        for run in range(2):
            np.testing.assert_array_equal(ours[run].ended, theirs[run].ended)
            for one, other in zip(ours[run].episodes.columns(), theirs[run].episodes.columns()):
                np.testing.assert_array_equal(one, other)
    for ours, theirs in zip(again.evaluate([0, 1], 1600), whole.evaluate([0, 1], 1600)):
        np.testing.assert_array_equal(ours.returns, theirs.returns)
    for ours, theirs in zip(again.save(), whole.save()):
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])


@pytest.mark.slow
def test_a_run_alone_is_the_run_among_others(side_by_side):
    rng = np.random.default_rng(0)
    source, target = side_by_side.mdp.source(rng), side_by_side.mdp.target(rng)
    _, among = trained(side_by_side, [3, 4], [source, target], 2)
    _, alone = trained(side_by_side, [4], [target], 2)
    for (_, ours), (theirs,) in zip(among, alone):
        np.testing.assert_array_equal(ours.episodes.contexts, theirs.episodes.contexts)
        np.testing.assert_array_equal(ours.ended, theirs.ended)


def test_entering_a_stage_changes_one_run_only(side_by_side):
    rng = np.random.default_rng(0)
    mdp = side_by_side.mdp
    source, target = mdp.source(rng), mdp.target(rng)
    trainer, _ = trained(side_by_side, [0, 1], [source, source], 1)
    trainer.enter(1, target, 5)
    first, second = go_on(trainer, 1, 3)[-1]
    assert (first.episodes.stages == 0).all()
    assert (second.episodes.stages == 5).all()
    near, far = (set(map(tuple, np.asarray(cells.points[cells.weights > 0], np.float32))) for cells in (source, target))
    assert set(map(tuple, first.episodes.contexts)) <= near
    assert set(map(tuple, second.episodes.contexts)) <= far
    assert not near & far


def test_scores_are_in_the_measure_asked_for(side_by_side):
    source = side_by_side.mdp.source(np.random.default_rng(0))
    trainer, ((report,),) = trained(side_by_side, [0], [source], 1, "success")
    np.testing.assert_array_equal(report.episodes.returns, report.episodes.successes)
    assert set(report.episodes.returns) <= {0.0, 1.0}
    np.testing.assert_array_equal(report.returns, -report.episodes.lengths)
    (evaluation,) = trainer.evaluate([0], 0)
    np.testing.assert_array_equal(evaluation.scores, evaluation.successes)
    assert (evaluation.returns < 0).all()
