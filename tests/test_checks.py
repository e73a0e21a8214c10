"""Values from outside: what is accepted, and the exact words of every refusal, by the rules and by who uses them."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.analysis.theory import check as check_theory
from geodesic.checks import as_count, as_number, as_path, as_points, as_seed, as_share, as_vector, check, optional
from geodesic.errors import InvalidInput


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_points([[0.0]], dim=2), "expected points of dimension 2, got dimension 1"),
        (lambda: as_vector([1.0, 2.0], "scale", 3), "expected scale of shape (3,), got shape (2,)"),
        (lambda: as_vector([], "scale"), "expected scale of shape (d,), got shape (0,)"),
        (lambda: as_vector("one", "scale"), "expected scale to be numbers, got 'one'"),
        (lambda: as_count(0), "expected n to be a positive integer, got 0"),
        (lambda: as_count(True, "window"), "expected window to be a positive integer, got True"),
        (lambda: as_count(2.0, "window"), "expected window to be a positive integer, got 2.0"),
        (lambda: as_number("1", "threshold"), "expected threshold to be a finite number, got '1'"),
        (lambda: as_number(True, "threshold"), "expected threshold to be a finite number, got True"),
        (lambda: as_number(np.inf, "threshold"), "expected threshold to be a finite number, got inf"),
        (lambda: as_number(1j, "threshold"), "expected threshold to be a finite number, got 1j"),
        (lambda: as_number(1e200, "threshold"), "expected threshold to be at most 1e150, got 1e+200"),
        (lambda: as_number(10**400, "threshold"), "expected threshold to be at most 1e150, got 1" + 59 * "0"),
        (lambda: as_number(10**5000, "threshold"), "expected threshold to be at most 1e150, got a int"),
        (lambda: as_count(2**40, "steps"), "expected steps to be an integer in [1, 2147483647], got 1099511627776"),
        (lambda: as_share(1.5, "gamma"), "expected gamma in [0, 1], got 1.5"),
        (lambda: as_seed(-1), "expected seed to be an integer in [0, 2^31), got -1"),
        (lambda: as_path("x" * 256), "expected a folder as a path of names up to 255 letters, got '" + 59 * "x"),
        (lambda: as_path(""), "expected a folder as a path, got ''"),
        (lambda: as_path("a\0b", "out"), "expected out as a path, got 'a\\x00b'"),
        (
            lambda: as_points([[1e200]]),
            "expected points of at most 1e150, whose squares are numbers too, got 1e+200",
        ),
        (lambda: as_vector(["1", "2"], "scale"), "expected scale to be numbers, got ['1', '2']"),
        (lambda: as_vector(np.array([1 + 1j]), "scale"), "expected scale to be numbers, got array([1.+1.j])"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message


def test_a_scalar_is_spread_and_numpys_numbers_are_numbers():
    assert as_vector(2.0, "scale", 3).tolist() == [2.0, 2.0, 2.0]
    assert as_count(np.int32(3)) == 3
    assert type(as_count(np.int32(3))) is int
    assert as_number(np.float32(0.5), "threshold") == 0.5


def test_the_array_is_a_copy():
    given = np.zeros((2, 1))
    as_points(given)[0] = 5.0
    assert not given.any()


def test_fields_are_held_to_their_rules_and_kept_in_one_form():
    class Options:
        window, share, pace, none = np.int64(3), 1, gd.Particles([[0.0]]), None

    options = Options()
    check(options, window=as_count, share=as_share, pace=gd.Particles, none=optional(as_count))
    assert [type(value) for value in (options.window, options.share)] == [int, float]
    with pytest.raises(InvalidInput, match="expected pace to be ContextSpace, got Particles"):
        check(options, pace=gd.ContextSpace)


def test_weights_whose_sum_overflows_keep_their_shares():
    assert gd.Particles([[0.0], [1.0]], [1e308, 1e308]).weights.tolist() == [0.5, 0.5]


BOX = gd.ContextSpace([0.0], [1.0])
HERE = gd.Particles([[0.5]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: gd.Geodesic(HERE, HERE, gd.metrics.Euclidean),
            "expected metric to be Metric, got the class Euclidean",
        ),
        (lambda: gd.Problem(HERE, HERE, None, 0.0), "expected space to be ContextSpace, got NoneType"),
        (
            lambda: gd.curricula.SPDL(HERE, HERE, gd.ContextSpace([0.0, 0.0], [1.0, 1.0])),
            "expected source and target and space of one dimension, got 1 and 1 and 2",
        ),
        (lambda: gd.curricula.Uniform(BOX, particles=2.0), "expected particles to be a positive integer, got 2.0"),
        (lambda: gd.curricula.ALPGMM(BOX, random_ratio="most"), "expected random_ratio in [0, 1], got 'most'"),
        (
            lambda: gd.curricula.CURROT(HERE, HERE, gd.ContextSpace([0.0], [np.inf]), 1.0),
            "expected a bounded context space, got low [0.] and high [inf]",
        ),
        (lambda: gd.PPO(rollout=True), "expected rollout to be a positive integer, got True"),
        (lambda: gd.PPO(learning_rate=np.nan), "expected learning_rate to be a finite number, got nan"),
        (lambda: gd.SAC(tau=2), "expected tau in [0, 1], got 2"),
        (lambda: gd.SAC(learning_starts=-1), "expected learning_starts to be an integer of at least 0, got -1"),
        (
            lambda: gd.ContextSpace([0.0], [1.0], support=[[2.0]]),
            "expected support points inside low [0.0], high [1.0]",
        ),
        (lambda: check_theory(HERE, states=3), "expected states to be an integer of at least 5, got 3"),
        (lambda: HERE.sample(0, 1), "expected rng to be a numpy.random.Generator, got 0"),
        (lambda: gd.train("maze", seeds=10**12), "expected seeds to be an integer in [-2147483647, 1000000], got 1000"),
        (
            lambda: gd.train("maze", "gradint"),
            "expected method to be one of gradient, target-only, uniform, linear, alp-gmm, goal-gan, spdl, wb-spdl, "
            "currot, procurl-target; got 'gradint'; did you mean gradient?",
        ),
    ],
)
def test_what_is_built_from_wrong_parts_is_refused_at_once(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_numpys_numbers_are_taken_where_numbers_are():
    chain = gd.metrics.TabularCMDP(-np.ones((3, 1)), [[0], [0], [1]], [0, 1, 2])
    known = gd.metrics.contextual_distance(chain, [0, 0, 0], 0.5).M
    np.testing.assert_array_equal(gd.metrics.contextual_distance(chain, [0, 0, 0], np.float32(0.5)).M, known)
    assert gd.PPO(rollout=np.int64(8), gamma=np.float32(0.5), net=[4, 4]) == gd.PPO(rollout=8, gamma=0.5, net=(4, 4))


def test_what_is_not_finite_is_shown_in_one_line():
    with pytest.raises(InvalidInput) as raised:
        gd.Particles.categorical([np.nan, *np.linspace(0, 3, 11)])
    assert "\n" not in str(raised.value)


def test_an_array_in_place_of_a_source_is_refused_in_words():
    ends = gd.Particles([[0.0]]), gd.Particles([[1.0]])
    problem = gd.Problem(*ends, gd.ContextSpace([0.0], [2.0]), 1.0)
    with pytest.raises(InvalidInput, match="expected source"):
        gd.curricula.build("linear", problem, source=np.zeros((0, 2)))
