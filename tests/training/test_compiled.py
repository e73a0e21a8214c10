"""The compiled trainer: sampling, episodes, evaluations and checkpoints of one program, compiled once."""

import jax
import numpy as np
import pytest

import geodesic as gd
from geodesic.envs.maze import Maze
from geodesic.envs.point_mass import PointMass
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.learners.ppo import PPO
from geodesic.learners.sac import SAC
from geodesic.training.agents import stack
from geodesic.training.collector import ErrorSums
from geodesic.training.compiled import CompiledTrainer, columns_of
from geodesic.training.program import CAPACITY, Log, Program, as_sampler, sample, sum_errors

KEYS = np.array([[0, 1], [0, 2]], np.uint32)


@pytest.fixture(scope="module")
def program():
    return Program(Maze(), PPO(rollout=50, batch_size=25, epochs=1), 4, 5, "stochastic")


@pytest.fixture(scope="module")
def two_envs():
    """Two environments in each run, so that episodes overlap."""
    return Program(Maze(), PPO(rollout=50, n_envs=2, batch_size=50, epochs=1), 4, 5, "stochastic")


def samplers_of(*distributions):
    return stack([as_sampler(particles, stage) for stage, particles in enumerate(distributions)])


def test_sampling_follows_the_weights_despite_padding():
    particles = gd.Particles([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.0, 0.6, 0.3])
    keys = jax.random.split(jax.random.PRNGKey(0), 20_000)
    drawn = np.asarray(jax.vmap(lambda key: sample(as_sampler(particles, 0), key))(keys))[:, 0]
    fractions = np.bincount(drawn.astype(int), minlength=4) / len(drawn)
    np.testing.assert_allclose(fractions, particles.weights, atol=4 * 0.5 / np.sqrt(20_000))
    assert fractions[1] == 0


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


def test_columns_are_taken_at_the_steps_at_which_episodes_ended():
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


def test_logged_episodes_are_consistent(program):
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


def test_running_episodes_keep_the_stage_in_which_they_began(program):
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
def test_matrix_products_use_full_precision_on_an_accelerator(learner):
    """By default JAX multiplies float32 with ten bits on recent GPUs; Stable-Baselines3 does not."""
    mdp = Maze() if isinstance(learner, PPO) else PointMass()
    program = Program(mdp, learner, 2, 5, "stochastic")
    samplers = samplers_of(gd.Particles(np.zeros((1, mdp.context_space.dim))))
    state = jax.eval_shape(program.init, KEYS[:1], samplers)
    for lowered in (program.segment.lower(state, samplers), program.evaluate.lower(state, samplers, KEYS[:1])):
        products = [line for line in lowered.as_text().splitlines() if "dot_general" in line]
        assert products
        assert [line for line in products if "HIGHEST, HIGHEST" not in line] == []


def test_a_run_does_not_depend_on_its_neighbours(program):
    """The same run together with two different others."""
    mdp = program.mdp
    rng = np.random.default_rng(0)
    results = []
    for other in (mdp.source(rng), mdp.context_space.uniform(1, rng)):
        samplers = samplers_of(mdp.target(rng), other)
        state, log = program.segment(program.init(KEYS, samplers), samplers)
        results.append((jax.tree.map(lambda x: np.asarray(x[0]), state), np.asarray(log.total[0])))
    jax.tree.map(np.testing.assert_array_equal, *results)


def test_a_program_of_two_runs_does_not_stall(program):
    """With XLA's concurrent scheduler this loop hangs within its first rounds."""
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
        assert np.isnan(discounted).all()
    else:
        np.testing.assert_allclose(discounted, -(1 - discount ** -np.asarray(returns)) / (1 - discount), rtol=1e-5)


def trained(program, seeds, distributions, segments):
    """A trainer after this many segments, and their results."""
    trainer = CompiledTrainer(program, program.mdp.target(np.random.default_rng(0)))
    trainer.prepare(len(seeds))
    trainer.begin(seeds, distributions)
    return trainer, train(trainer, 0, segments)


def train(trainer, first, segments):
    results = []
    for segment in range(first, first + segments):
        trainer.start_segment()
        results.append(trainer.finish_segment(segment * trainer.segment_steps))
    return results


def test_a_segment_result_has_the_start_of_every_episode_and_of_the_earliest_running_one(two_envs):
    """Replayed by hand: in each environment an episode begins where the one before it ended."""
    target = two_envs.mdp.target(np.random.default_rng(0))
    _, results = trained(two_envs, [0, 1], [target, target], 4)
    for run in range(2):
        free = {0: 2}  # running episodes: time step of the start -> number of environments
        for segment, both in enumerate(results):
            episodes = both[run].episodes
            times = (episodes.ended - 1) // 2 + 1  # steps of a run -> time steps of its environments
            for started, length, time in zip(episodes.started, episodes.lengths, times):
                assert started + length == time
                assert free[started] > 0
                free[started] -= 1
                free[time] = free.get(time, 0) + 1
            assert both[run].earliest_running == min(time for time, n in free.items() if n)
            assert (np.diff(episodes.ended) > 0).all()
            assert episodes.ended.max() <= (segment + 1) * 400
            np.testing.assert_array_equal(episodes.returns, -episodes.lengths)
            assert np.isnan(episodes.discounted).all()


class RewardErrors(PPO):
    """PPO whose value errors are the rewards plus 0.25 in one environment of two."""

    def value_errors(self, state, transitions, key):
        return transitions.reward + np.array([0.0, 1.25])


@pytest.fixture(scope="module")
def erring():
    """Episodes last for up to two rollouts."""
    return Program(Maze(), RewardErrors(rollout=50, n_envs=2, batch_size=50, epochs=1), 4, 5, "stochastic", None, True)


def test_value_losses_are_means_over_the_steps_of_an_episode(erring):
    """Each step's reward is -1, so the errors are -1 in the first environment and 0.25 in the second."""
    target = erring.mdp.target(np.random.default_rng(0))
    _, results = trained(erring, [0, 1], [target, target], 4)
    for run in range(2):
        episodes = [both[run].episodes for both in results]
        whole = episodes[0].concatenate(episodes[1]).concatenate(episodes[2]).concatenate(episodes[3])
        second = whole.ended % 2 == 0
        assert 0 < second.sum() < len(second)
        assert whole.lengths.max() > 50
        np.testing.assert_allclose(whole.value_losses("l1"), np.where(second, 0.25, 1.0), rtol=1e-6)
        np.testing.assert_allclose(whole.value_losses("positive"), np.where(second, 0.25, 0.0), rtol=1e-6)


def test_sums_of_errors_are_those_of_the_host():
    rng = np.random.default_rng(0)
    errors, ended, running = rng.normal(size=(40, 3)), rng.random((40, 3)) < 0.2, rng.random((3, 2))
    after, each = sum_errors(np.float32(running), np.float32(errors), ended)
    host = ErrorSums(3, running)
    np.testing.assert_allclose(np.asarray(each)[ended], host.add(errors, ended), rtol=1e-5)
    np.testing.assert_allclose(after, host.running, rtol=1e-5)


def test_a_program_without_value_errors_has_nothing_of_them(two_envs, erring):
    shapes = [CompiledTrainer(each, gd.Particles([[0.0, 0.0]])).shapes() for each in (two_envs, erring)]
    assert set(shapes[1]) - set(shapes[0]) == {"device.errors"}


@pytest.mark.parametrize("kind", ["two_envs", "erring"])
def test_a_restored_trainer_continues_like_an_uninterrupted_one(request, kind):
    two_envs = request.getfixturevalue(kind)
    rng = np.random.default_rng(0)
    source, target = two_envs.mdp.source(rng), two_envs.mdp.target(rng)
    whole, _ = trained(two_envs, [0, 1], [source, target], 2)
    kept = whole.save()
    after = train(whole, 2, 2)
    again = CompiledTrainer(two_envs, target)
    again.prepare(2)
    with pytest.raises(CheckpointError, match="a running episode has impossible numbers"):
        again.restore(kept, [source, target], [0, 0], 0)
    again.restore(kept, [source, target], [0, 0], 800)
    for ours, theirs in zip(train(again, 2, 2), after):
        for run in range(2):
            assert ours[run].earliest_running == theirs[run].earliest_running
            for one, other in zip(ours[run].episodes.columns(), theirs[run].episodes.columns()):
                np.testing.assert_array_equal(one, other)
    for ours, theirs in zip(again.evaluate([0, 1], 1600), whole.evaluate([0, 1], 1600)):
        np.testing.assert_array_equal(ours.returns, theirs.returns)
    for ours, theirs in zip(again.save(), whole.save()):
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])


@pytest.mark.slow
def test_a_run_alone_equals_the_run_among_others(two_envs):
    rng = np.random.default_rng(0)
    source, target = two_envs.mdp.source(rng), two_envs.mdp.target(rng)
    _, among = trained(two_envs, [3, 4], [source, target], 2)
    _, alone = trained(two_envs, [4], [target], 2)
    for (_, ours), (theirs,) in zip(among, alone):
        np.testing.assert_array_equal(ours.episodes.contexts, theirs.episodes.contexts)
        np.testing.assert_array_equal(ours.episodes.ended, theirs.episodes.ended)


def test_entering_a_stage_changes_one_run_only(two_envs):
    rng = np.random.default_rng(0)
    mdp = two_envs.mdp
    source, target = mdp.source(rng), mdp.target(rng)
    trainer, _ = trained(two_envs, [0, 1], [source, source], 1)
    trainer.enter(1, target, 5)
    first, second = train(trainer, 1, 3)[-1]
    assert (first.episodes.stages == 0).all()
    assert (second.episodes.stages == 5).all()
    near, far = (set(map(tuple, np.asarray(cells.points[cells.weights > 0], np.float32))) for cells in (source, target))
    assert set(map(tuple, first.episodes.contexts)) <= near
    assert set(map(tuple, second.episodes.contexts)) <= far
    assert not near & far


def test_episodes_and_evaluations_have_scores_of_each_kind(two_envs):
    source = two_envs.mdp.source(np.random.default_rng(0))
    trainer, ((result,),) = trained(two_envs, [0], [source], 1)
    assert set(result.episodes.scores("success")) <= {0.0, 1.0}
    np.testing.assert_array_equal(result.episodes.scores("success"), result.episodes.lengths < 100)
    np.testing.assert_array_equal(result.episodes.scores("return"), -result.episodes.lengths)
    (evaluation,) = trainer.evaluate([0], 0)
    np.testing.assert_array_equal(evaluation.scores("success"), evaluation.successes)
    np.testing.assert_array_equal(evaluation.scores("return"), evaluation.returns)
    assert (evaluation.returns < 0).all()
    with pytest.raises(InvalidInput, match="expected discounted returns, since the task's score is"):
        evaluation.scores("discounted_return")  # the program computes them only where the task's score is that


@pytest.mark.slow
def test_discounted_returns_are_computed_where_the_program_has_a_discount():
    """-1 a step for L steps: -(1 - g^L) / (1 - g)."""
    program = Program(Maze(), PPO(rollout=50, batch_size=25, epochs=1), 4, 5, "stochastic", 0.9)
    trainer, ((result,),) = trained(program, [0], [program.mdp.source(np.random.default_rng(0))], 1)
    (evaluation,) = trainer.evaluate([0], 0)
    for scores, returns in (
        (result.episodes.scores("discounted_return"), result.episodes.returns),
        (evaluation.scores("discounted_return"), evaluation.returns),
    ):
        np.testing.assert_allclose(scores, -(1 - 0.9**-returns) / (1 - 0.9), rtol=1e-5)
