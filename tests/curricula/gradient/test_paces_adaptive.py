"""The adaptive pace finds the alpha that is known, waits at the source, and goes back."""

from statistics import NormalDist

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import AdaptivePace, Linear, PerParticlePace
from geodesic.errors import InvalidInput

RNG = np.random.default_rng(0)
LINE = gd.ContextSpace([0.0], [10.0])
SOURCE, TARGET = gd.Particles([[0.0], [2.0]]), gd.Particles([[8.0], [10.0]])
EVERYWHERE = np.linspace(0.0, 10.0, 2001)[:, None]


def gradient(kind=AdaptivePace, threshold=5.0, **options):
    pace = kind(**{"bandwidth": 0.002, "memory": 2001, **options})
    return gd.Gradient(SOURCE, TARGET, pace=pace, threshold=threshold, space=LINE)


def episodes(state, score, contexts=EVERYWHERE):
    """Episodes of this stage, in these contexts, with the score of each."""
    n = len(contexts)
    return gd.EpisodeBatch(contexts, score(contexts[:, 0]), np.full(n, 10), np.full(n, state.stage))


def walk(curriculum, score, updates):
    states = [curriculum.init(RNG)]
    for _ in range(updates):
        states.append(curriculum.update(states[-1], episodes(states[-1], score), RNG))
    return states


def falling(x):
    """E[J] under path(alpha) is 9 - 8 alpha: 5 at alpha = 1 / 2."""
    return 10.0 - x


@pytest.mark.parametrize("threshold", [2.0, 3.7, 5.0, 6.6, 8.9])
def test_it_finds_the_alpha_at_which_the_mean_estimate_meets_the_threshold(threshold):
    last = walk(gradient(threshold=threshold), falling, 12)[-1]
    assert last.alpha == pytest.approx((9.0 - threshold) / 8.0, abs=1e-3)
    assert last.distribution.weights @ falling(last.distribution.points[:, 0]) >= threshold - 1e-2


@pytest.mark.parametrize(
    ("score", "alpha"),
    [
        (lambda x: 10.0 - x**2 / 10, (-32 + np.sqrt(32**2 + 4 * 128 * 96)) / 256),  # 128 a^2 + 32 a + 4 = 100
        # a cliff, 0.02 wide to the estimate: it is met where the right point's 9 has fallen to 1
        (lambda x: np.where(x <= 5.0, 9.0, 0.0), (3 - 0.02 * NormalDist().inv_cdf(1 / 9)) / 8),
        (lambda x: 5.0 + (4.0 - x) ** 3 / 100, 3 / 8),  # flat around the root
    ],
)
def test_it_finds_it_if_the_estimate_is_not_a_straight_line(score, alpha):
    assert walk(gradient(), score, 12)[-1].alpha == pytest.approx(alpha, abs=1e-3)


def test_it_finds_it_on_a_graph_and_for_the_mixture_too():
    cells = np.arange(11.0)[:, None]
    graph = gd.metrics.Graph(cells, np.stack([np.arange(10), np.arange(1, 11)], axis=1))
    ends = gd.Particles.categorical(np.arange(11) == 0, cells), gd.Particles.categorical(np.arange(11) == 10, cells)
    pace = AdaptivePace(bandwidth=0.002, memory=3000, threshold=3.3)
    for curriculum in (gd.Gradient(*ends, metric=graph, pace=pace), Linear(*ends, pace)):
        states = [curriculum.init(RNG)]
        for _ in range(12):
            states.append(
                curriculum.update(states[-1], episodes(states[-1], falling, np.repeat(cells, 20, axis=0)), RNG)
            )
        assert states[-1].alpha == pytest.approx(0.67, abs=1e-3)


def test_no_move_is_longer_than_a_stride():
    alphas = [state.alpha for state in walk(gradient(stride=0.15), lambda x: np.full(len(x), 9.0), 10)]
    assert alphas[:7] == pytest.approx([0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9])


def test_where_everything_is_mastered_it_ends_at_the_target_itself_and_may_leave_it():
    last = walk(gradient(), lambda x: np.full(len(x), 5.0), 8)[-1]
    assert last.alpha == 1.0
    assert last.distribution is TARGET
    assert not last.done
    assert last.stage == 5


def test_where_nothing_is_mastered_it_stays_at_the_source():
    last = walk(gradient(), lambda x: np.full(len(x), 4.99), 8)[-1]
    assert (last.alpha, last.stage, last.moves) == (0.0, 0, 0)
    assert last.distribution is SOURCE


def test_it_goes_back_to_where_the_agent_is_good_enough_and_by_a_stride_where_it_is_nowhere():
    curriculum = gradient()
    there = walk(curriculum, lambda x: np.full(len(x), 9.0), 8)[-1]
    state = curriculum.update(there, episodes(there, falling), RNG)
    assert state.alpha == pytest.approx(0.8)
    assert state.event == "below the threshold"
    for _ in range(3):
        state = curriculum.update(state, episodes(state, falling), RNG)
    assert state.alpha == pytest.approx(0.5, abs=1e-3)
    forgotten = curriculum.update(there, episodes(there, lambda x: np.zeros(len(x))), RNG)
    assert forgotten.alpha == pytest.approx(0.8)
    for _ in range(6):
        forgotten = curriculum.update(forgotten, episodes(forgotten, lambda x: np.zeros(len(x))), RNG)
    assert forgotten.alpha == 0.0
    assert forgotten.distribution is SOURCE


def test_it_decides_after_a_window_of_this_stage():
    curriculum = gradient(window=20)
    state = curriculum.init(RNG)
    few = episodes(state, falling, EVERYWHERE[:19])
    state = curriculum.update(state, few, RNG)
    assert (state.stage, state.fresh) == (0, 19)
    state = curriculum.update(state, few[:1], RNG)
    assert (state.stage, state.fresh) == (1, 0)
    late = curriculum.update(state, episodes(curriculum.init(RNG), falling), RNG)  # of the stage before
    assert (late.stage, late.fresh, len(late.seen)) == (1, 0, 2001)


def test_only_the_latest_episodes_count():
    curriculum = gradient(memory=100, bandwidth=0.2)
    state = curriculum.init(RNG)
    state = curriculum.update(state, episodes(state, lambda x: np.zeros(len(x))), RNG)
    assert state.stage == 0
    state = curriculum.update(state, episodes(state, lambda x: np.full(len(x), 9.0), EVERYWHERE[::20]), RNG)
    assert len(state.seen) == 100
    assert state.alpha == 0.2


@pytest.mark.parametrize("kind", [AdaptivePace, PerParticlePace])
def test_a_success_rate_can_be_required_and_is_if_the_environment_reports_successes(kind):
    """A high mean return may be possible without success; `success=0` looks at the score alone."""
    for success, said, far in ((0.5, 0.0, 0.0), (0.5, 0.4, 0.0), (0.5, 0.5, 0.2), (0.0, 0.0, 0.2), (1.0, 1.0, 0.2)):
        curriculum = gradient(kind, stride=0.2, success=success)
        state = curriculum.init(RNG)
        own = episodes(state, lambda x: np.full(len(x), 9.0))
        successes = np.full(len(own), said)
        known = gd.EpisodeBatch(own.contexts, own.returns, own.lengths, own.stages, successes=successes)
        assert curriculum.update(state, known, RNG).alpha == pytest.approx(far)
        assert curriculum.update(state, own, RNG).alpha == pytest.approx(0.2)  # not reported


def test_without_a_space_contexts_are_compared_in_a_box_around_both_ends():
    np.testing.assert_allclose(gd.Gradient(SOURCE, TARGET).box.unit_length, [10.0])
    np.testing.assert_allclose(
        gd.Gradient(SOURCE, TARGET, space=gd.ContextSpace([0.0], [np.inf])).box.unit_length, [10.0]
    )
    np.testing.assert_allclose(
        gd.Gradient(SOURCE, TARGET, space=gd.ContextSpace([0.0], [30.0])).box.unit_length, [30.0]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 0.0}, "expected stride in (0, 1], got 0.0"),
        ({"memory": 0}, "expected memory to be a positive integer, got 0"),
        ({"success": 2}, "expected success in [0, 1], got 2"),
        ({"bandwidth": -1.0}, "expected bandwidth to be positive, got -1.0"),
        ({"threshold": np.nan}, "expected threshold to be a finite number, got nan"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidInput) as caught:
        gradient(**options)
    assert str(caught.value) == message
