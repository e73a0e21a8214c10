"""ADR: its bounds by hand, what it finds where the answer is known, and where it cannot."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import AutoThreshold, Search, build
from geodesic.curricula.adr import ADR

SPACE = gd.ContextSpace([0.0, -5.0], [10.0, 5.0])
SOURCE = gd.Particles([[2.0, -1.0], [3.0, 1.0]])
CELLS = np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0)), axis=-1).reshape(-1, 2)


def curriculum(**options):
    return ADR(**{"source": SOURCE, "space": SPACE, "threshold": 0.8, **options})


def episodes(contexts, scores, stage=0):
    n = len(contexts)
    return gd.EpisodeBatch(np.reshape(contexts, (n, -1)), np.broadcast_to(scores, n), np.ones(n), np.full(n, stage))


def play(method, solves, rounds=200, n=20, seed=0):
    """The state after rounds of an agent that earns what `solves` says in each context."""
    rng = np.random.default_rng(seed)
    state = method.init(rng)
    for _ in range(rounds):
        contexts = state.distribution.sample(rng, n)
        state = method.update(state, episodes(contexts, solves(contexts).astype(float), state.stage), rng)
    return state


def after(method, contexts, scores):
    rng = np.random.default_rng(0)
    return method.update(method.init(rng), episodes(contexts, scores), rng)


def test_half_of_the_contexts_have_one_value_at_a_bound_and_the_rest_is_uniform():
    points = curriculum(particles=8000).init(np.random.default_rng(0)).distribution.points
    at = (points[:, None] == np.array([[2.0, -1.0], [3.0, 1.0]])).reshape(-1, 4)
    assert at.sum(axis=0).tolist() == [1000] * 4
    assert at.sum(axis=1).max() == 1
    free = points[~at.any(axis=1)]
    np.testing.assert_allclose(free.mean(axis=0), [2.5, 0.0], atol=0.05)
    np.testing.assert_allclose(free.std(axis=0), np.array([1.0, 2.0]) / np.sqrt(12), atol=0.02)
    inside = curriculum(boundary=0.0).init(np.random.default_rng(0)).distribution.points
    assert not (inside == 2.0).any()


@pytest.mark.parametrize(
    ("score", "upper", "event"), [(0.81, 3.5, "widened"), (0.41, 3.0, "start"), (0.4, 2.5, "narrowed")]
)
def test_the_mean_at_a_bound_moves_it_by_a_step(score, upper, event):
    """The worst score is 0, so that the lower threshold is half of the upper one."""
    contexts = [[2.5, 0.0], *[[3.0, 0.5]] * 10]
    state = after(curriculum(), contexts, [0.0, *[score] * 10])
    np.testing.assert_allclose(state.bounds, [[2.0, -1.0], [upper, 1.0]])
    assert (state.event, state.stage) == (event, int(event != "start"))
    assert not state.counts.any()
    few = after(curriculum(), contexts[:-1], [0.0, *[score] * 9])
    assert (few.stage, few.counts[1, 0], few.counts.sum()) == (0, 9, 9)


def test_scores_are_counted_over_several_updates_and_later_stages():
    method, rng = curriculum(), np.random.default_rng(0)
    state = after(method, [[3.0, 0.0]] * 10 + [[2.0, 0.0]] * 6, 1.0)
    assert state.stage == 1
    state = method.update(state, episodes([[3.0, 0.0]] * 9 + [[2.0, 0.0]] * 4, 1.0), rng)  # 3.0 is no bound any more
    np.testing.assert_allclose(state.bounds[:, 0], [1.5, 3.5])
    assert state.counts.sum() == 0


def test_bounds_stop_at_the_end_of_the_space_and_at_each_other():
    whole = curriculum(source=gd.Particles([[0.2, 0.0], [10.0, 0.0]]))
    state = after(whole, [[0.2, 1.0]] * 10 + [[10.0, 1.0]] * 10, 1.0)
    assert state.bounds[:, 0].tolist() == [0.0, 10.0]
    narrow = curriculum(narrow=1.0, source=gd.Particles([[3.0, 0.0], [3.2, 0.0]]))
    assert after(narrow, [[3.0, 1.0]] * 10, 0.0).bounds[:, 0].tolist() == [3.2, 3.2]
    point = after(narrow, [[3.0, 1.0]] * 10 + [[3.2, 1.0]] * 20, 0.0)  # one point is both bounds: neither can move in
    assert point.bounds[:, 0].tolist() == [3.2, 3.2]
    assert point.stage == 1


def test_it_finds_the_ranges_that_can_be_solved():
    """The agent solves x <= 7, with any y."""
    state = play(curriculum(), lambda c: c[:, 0] <= 7)
    np.testing.assert_allclose(state.bounds, [[0.0, -5.0], [7.25, 5.0]], atol=0.26)
    assert state.alpha == pytest.approx((state.bounds[1, 0] - 1) / 9 / 2 + 0.5, abs=0.01)
    assert play(curriculum(), lambda c: c[:, 0] < np.inf).alpha == 1.0


def test_bounds_move_back_when_the_agent_forgets():
    method, rng = curriculum(), np.random.default_rng(0)
    state = play(method, lambda c: c[:, 0] < np.inf)
    for _ in range(200):
        contexts = state.distribution.sample(rng, 20)
        state = method.update(state, episodes(contexts, contexts[:, 0] <= 5, state.stage), rng)
    assert 4.5 <= state.bounds[1, 0] <= 5.5


def test_it_does_not_cross_what_cannot_be_solved_nor_leave_a_source_that_cannot():
    """Solvable contexts behind a wall are never tried, and a start in the wall shrinks."""
    assert 3.5 <= play(curriculum(), lambda c: abs(c[:, 0] - 5) > 1).bounds[1, 0] <= 4.6
    lost = play(curriculum(source=gd.Particles([[4.0, 0.0], [6.0, 0.0]])), lambda c: abs(c[:, 0] - 5) > 1.5)
    assert np.ptp(lost.bounds[:, 0]) < 0.5


def test_scaled_scores_and_contexts_change_nothing():
    one = play(curriculum(threshold=0.79), lambda c: 1 - c[:, 0] / 20, rounds=60)
    moved = gd.ContextSpace(4 * SPACE.low + 8, 4 * SPACE.high + 8)
    other = curriculum(source=gd.Particles(4 * SOURCE.points + 8), space=moved, threshold=70 * 0.79 - 100)
    two = play(other, lambda c: 70 * (1 - (c[:, 0] - 8) / 80) - 100, rounds=60)
    np.testing.assert_allclose(two.bounds, 4 * one.bounds + 8)
    assert two.stage == one.stage > 3


def test_contexts_are_recognised_in_the_precision_of_environments():
    method = curriculum(source=gd.Particles([[0.1, 0.3], [2 / 3, 0.7]]))
    at = np.array([[2 / 3, 0.5]] * 10, np.float32).astype(np.float64)
    assert after(method, at, 1.0).event == "widened"


def test_it_can_start_at_one_context():
    state = curriculum(start="point").init(np.random.default_rng(0))
    assert state.bounds.tolist() == [[2.5, 0.0]] * 2
    assert state.distribution.merged().points.tolist() == [[2.5, 0.0]]
    assert play(curriculum(start="point"), lambda c: c[:, 0] < np.inf).alpha == 1.0
    weightless = gd.Particles([[2.0, 0.0], [9.0, 0.0]], [1.0, 0.0])
    assert curriculum(source=weightless).init(np.random.default_rng(0)).bounds[:, 0].tolist() == [2.0, 2.0]


def test_integers_move_by_whole_steps():
    space = gd.ContextSpace.of({"gravity": (0.0, 10.0), "obstacles": range(0, 50, 5)})
    method = curriculum(source=gd.Particles([[2.0, 10.0], [3.0, 15.0]]), space=space)
    assert after(method, [[2.5, 15.0]] * 10, 1.0).bounds.tolist() == [[2.0, 10.0], [3.0, 20.0]]
    state = play(method, lambda c: c[:, 1] <= 30)
    assert 30.0 <= state.bounds[1, 1] <= 35.0
    assert space.contains(state.distribution.points).all()
    counts = np.unique(state.distribution.points[:, 1], return_counts=True)[1]
    assert counts[1:-1].min() > 60  # every integer of the range


def test_on_a_discrete_space_bounds_move_between_contexts():
    space = gd.ContextSpace.discrete(CELLS)
    method = curriculum(source=gd.Particles([[1.0, 1.0], [2.0, 2.0]]), space=space)
    first = method.init(np.random.default_rng(0)).distribution
    assert sorted(map(tuple, first.points)) == [(1.0, 1.0), (1.0, 2.0), (2.0, 1.0), (2.0, 2.0)]
    np.testing.assert_allclose(first.weights, 0.25)
    assert after(method, [[2.0, 1.5]] * 10, 1.0).bounds.tolist() == [[1.0, 1.0], [3.0, 2.0]]
    assert play(method, lambda c: c[:, 0] <= 4).bounds[0].tolist() == [0.0, 0.0]
    assert play(method, lambda c: c[:, 0] < np.inf).alpha == 1.0


def test_on_a_discrete_space_with_holes_every_bound_has_contexts():
    """Cells (2, y) only exist for y = 4, so x cannot widen beyond 1 before y reaches 4."""
    support = CELLS[(CELLS[:, 0] != 2) | (CELLS[:, 1] == 4)]
    method = curriculum(source=gd.Particles([[0.0, 0.0], [1.0, 1.0]]), space=gd.ContextSpace.discrete(support))
    assert after(method, [[1.0, 0.5]] * 10, 1.0).bounds[1].tolist() == [3.0, 1.0]
    state = play(method, lambda c: c[:, 0] <= 2)
    points = support[((support >= state.bounds[0]) & (support <= state.bounds[1])).all(axis=1)]
    for side in (0, 1):
        assert (points == state.bounds[side]).any(axis=0).all()


def test_a_side_of_length_zero_stays():
    space = gd.ContextSpace([0.0, 1.0], [10.0, 1.0])
    state = play(curriculum(source=gd.Particles([[2.0, 1.0]]), space=space), lambda c: c[:, 0] < np.inf)
    assert state.bounds.tolist() == [[0.0, 1.0], [10.0, 1.0]]
    assert state.alpha == 1.0


def test_source_and_threshold_may_be_found():
    problem = gd.Problem("auto", gd.Particles([[9.0, 4.0]]), SPACE, "auto")
    assert isinstance(build("adr", problem), AutoThreshold)
    state = play(build("adr", problem), lambda c: c[:, 0] <= 7, rounds=400)
    assert state.inner.found is not None
    assert 6.0 < state.inner.inner.bounds[1, 0] < 8.0
    assert isinstance(build("adr", problem, threshold=0.8), Search)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"step": 0}, "expected step to be positive, got 0"),
        ({"boundary": 1.5}, "expected boundary in [0, 1], got 1.5"),
        ({"narrow": -1}, "expected narrow in [0, 1], got -1"),
        ({"window": 0}, "expected window to be a positive integer, got 0"),
        ({"start": "centre"}, "expected start to be one of range, point; got 'centre'"),
        (
            {"space": gd.ContextSpace([0.0, 0.0], [np.inf, 1.0])},
            "expected a bounded context space, got low [0. 0.] and high [inf  1.]",
        ),
        (
            {"space": gd.ContextSpace.of({"speed": (0.0, 9.0), "wind": ["calm", "gusty"]})},
            "expected contexts without categories for ADR, which moves the bounds of ranges, got wind; "
            "try the methods auto, gradient or learning-progress",
        ),
    ],
)
def test_bad_options(option, message):
    with pytest.raises(gd.GeodesicError) as caught:
        curriculum(**option)
    assert str(caught.value) == message
