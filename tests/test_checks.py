"""Validation of arguments: what is accepted, and the messages of what is not, in the rules and where they are used."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

import geodesic as gd
from geodesic.analysis.theory import check as check_theory
from geodesic.checks import (
    Count,
    as_boolean,
    as_count,
    as_fraction,
    as_number,
    as_path,
    as_points,
    as_seed,
    as_string,
    as_strings,
    as_vector,
    check,
    check_fields,
    check_instance,
    check_instances,
    check_integers,
    optional,
)
from geodesic.contexts import EpisodeBatch, Plot
from geodesic.curricula import REGISTRY
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
        (lambda: as_fraction(1.5, "gamma"), "expected gamma in [0, 1], got 1.5"),
        (lambda: as_string(3, "name"), "expected name to be a string, got 3"),
        (lambda: as_boolean(1, "progress"), "expected progress to be a boolean, got 1"),
        (lambda: as_strings("ab", "names"), "expected names to be a list of names, got 'ab'"),
        (lambda: check_integers([1.0, 2.5], "lengths", 2), "expected lengths to be integers, got 2.5"),
        (lambda: check_integers([2.0**40], "lengths", 1), "expected lengths below 2^31, got 1.09951e+12"),
        (lambda: check_instance(int, "3", "n"), "expected n to be int, got str"),
        (lambda: check_instance(int, bool, "n"), "expected n to be int, got the class bool"),
        (lambda: check_instances(int, "ab", "sizes"), "expected sizes to be a list of int, got 'ab'"),
        (lambda: check_instances(int, [1, "b"], "sizes"), "expected each of sizes to be int, got str"),
        (lambda: check_instances(int, np.array(3), "sizes"), "expected sizes to be a list of int, got one number"),
        (lambda: as_seed(-1), "expected seed to be an integer in [0, 2^31), got -1"),
        (lambda: as_path("x" * 256), "expected a folder as a path with names of at most 255 bytes, got '" + 59 * "x"),
        (lambda: as_path(""), "expected a folder as a path, got ''"),
        (lambda: as_path("a\0b", "out"), "expected out as a path, got 'a\\x00b'"),
        (
            lambda: as_points([[1e200]]),
            "expected points of at most 1e150, so that squares are finite, got 1e+200",
        ),
        (lambda: as_vector(["1", "2"], "scale"), "expected scale to be numbers, got ['1', '2']"),
        (lambda: as_vector(np.array([1 + 1j]), "scale"), "expected scale to be numbers, got array([1.+1.j])"),
    ],
)
def test_invalid_values_are_refused(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message


def test_scalars_are_repeated_and_numpy_numbers_accepted():
    assert as_vector(2.0, "scale", 3).tolist() == [2.0, 2.0, 2.0]
    assert as_count(np.int32(3)) == 3
    assert type(as_count(np.int32(3))) is int
    assert as_number(np.float32(0.5), "threshold") == 0.5


def test_points_are_copied():
    given = np.zeros((2, 1))
    as_points(given)[0] = 5.0
    assert not given.any()


def test_check_applies_rules_to_fields_and_stores_the_result():
    class Options:
        window, fraction, pace, none = np.int64(3), 1, gd.Particles([[0.0]]), None

    options = Options()
    check(options, window=as_count, fraction=as_fraction, pace=gd.Particles, none=optional(as_count))
    assert [type(value) for value in (options.window, options.fraction)] == [int, float]
    with pytest.raises(InvalidInput, match="expected pace to be ContextSpace, got Particles"):
        check(options, pace=gd.ContextSpace)


@dataclass
class Options:
    window: Count = 3
    most: Count | None = None
    kind: Literal["near", "far"] = "near"
    level: Literal[1, 2] = 1
    free: float = 0.0

    def __post_init__(self):
        check_fields(self)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"window": 0}, "expected window to be a positive integer, got 0"),
        ({"most": 1.5}, "expected most to be a positive integer, got 1.5"),
        ({"kind": "nera"}, "expected kind to be one of near, far; got 'nera'"),
    ],
)
def test_rules_in_annotations_are_applied(given, message):
    with pytest.raises(InvalidInput) as caught:
        Options(**given)
    assert str(caught.value).startswith(message)


def test_values_that_meet_the_rules_in_annotations_are_stored_in_the_rules_form():
    options = Options(window=np.int64(4), most=2, level=2, free="anything")
    assert (type(options.window), options.window, options.most, options.level) == (int, 4, 2, 2)


def test_a_class_of_ours_in_an_annotation_is_a_rule():
    @dataclass
    class Drawn:
        plot: Plot
        other: Plot | None = None
        several: Plot | EpisodeBatch | None = None
        careless: Plot = None
        theirs: int = 0

        def __post_init__(self):
            check_fields(self)

    assert Drawn(Plot(), Plot(), "anything", theirs="anything").theirs == "anything"
    for given in ({"plot": None}, {"plot": Plot(), "other": 3}, {"plot": Plot}, {"plot": Plot(), "careless": 3}):
        with pytest.raises(InvalidInput, match="to be Plot, got"):
            Drawn(**given)


def test_annotations_for_type_checkers_only_have_no_rules():
    @dataclass
    class Mine(Options):
        other: "NotImported" = None  # noqa: F821

    assert Mine(other=1).other == 1
    with pytest.raises(InvalidInput, match="expected window"):
        Mine(window=0)


def test_weights_whose_sum_overflows_keep_their_ratios():
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
            f"expected method to be one of {', '.join(REGISTRY)}; got 'gradint'; did you mean gradient?",
        ),
    ],
)
def test_public_constructors_refuse_invalid_arguments(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_numpy_numbers_are_accepted_wherever_numbers_are():
    chain = gd.metrics.TabularCMDP(-np.ones((3, 1)), [[0], [0], [1]], [0, 1, 2])
    known = gd.metrics.contextual_distance(chain, [0, 0, 0], 0.5).M
    np.testing.assert_array_equal(gd.metrics.contextual_distance(chain, [0, 0, 0], np.float32(0.5)).M, known)
    assert gd.PPO(rollout=np.int64(8), gamma=np.float32(0.5), net=[4, 4]) == gd.PPO(rollout=8, gamma=0.5, net=(4, 4))


def test_values_that_are_not_finite_are_printed_in_one_line():
    with pytest.raises(InvalidInput) as raised:
        gd.Particles.categorical([np.nan, *np.linspace(0, 3, 11)])
    assert "\n" not in str(raised.value)


def test_an_array_in_place_of_a_source_is_refused():
    ends = gd.Particles([[0.0]]), gd.Particles([[1.0]])
    problem = gd.Problem(*ends, gd.ContextSpace([0.0], [2.0]), 1.0)
    with pytest.raises(InvalidInput, match="expected source"):
        gd.curricula.build("linear", problem, source=np.zeros((0, 2)))
