"""What context values can be: how users write them, and the numbers by which contexts have them."""

import gymnasium as gym
import numpy as np
import pytest

import geodesic as gd
from geodesic.contexts.values import as_values, decode, encode, grid_of, parse_contexts, part_of, uniform_in
from geodesic.errors import InvalidInput

WINDS = ("none", "steady", "gusts")


def shapes(contexts):
    return [(value.name, value.low, value.high, value.unit, value.values) for value in parse_contexts(contexts)]


def test_every_form_of_a_side():
    sides = {
        "gravity": (2.0, 60.0, "m/s²"),
        "length": [0.1, 1.0],
        "wind": list(WINDS),
        "ice": [False, True],
        "level": range(9, 0, -3),
    }
    assert shapes(sides) == [
        ("gravity", 2.0, 60.0, "m/s²", None),
        ("length", 0.1, 1.0, "", None),
        ("wind", 0.0, 0.0, "", WINDS),
        ("ice", 0.0, 0.0, "", (False, True)),
        ("level", 0.0, 0.0, "", range(3, 10, 3)),  # ascending
    ]


def test_spaces_of_gymnasium():
    sides = gym.spaces.Dict(
        gravity=gym.spaces.Box(2.0, 60.0, (), np.float64),
        wind=gym.spaces.Box(-1.0, 1.0, (2,), np.float64),
        level=gym.spaces.Discrete(4, start=3),
        crates=gym.spaces.Box(0, 2, (1,), np.int64),
    )
    assert {name: (low, high, values) for name, low, high, _, values in shapes(sides)} == {
        "gravity": (2.0, 60.0, None),
        "wind_0": (-1.0, 1.0, None),
        "wind_1": (-1.0, 1.0, None),
        "level": (0.0, 0.0, range(3, 7)),
        "crates": (0.0, 0.0, range(3)),
    }
    assert shapes(gym.spaces.Discrete(3)) == [("context", 0.0, 0.0, "", range(3))]
    assert shapes({"level": gym.spaces.Discrete(3), "x": (0, 1)})[1][:3] == ("x", 0, 1)


@pytest.mark.parametrize(
    ("side", "message"),
    [
        (5, "expected context 'x' as (low, high), (low, high, unit), a range or a list of categories, got 5"),
        ([1, 2, 5], "a range or a list of categories, got [1, 2, 5]"),
        ((1, 2, 5), "a range or a list of categories, got (1, 2, 5)"),
        ([], "a range or a list of categories, got []"),
        (["a", 1, 2], "a range or a list of categories, got ['a', 1, 2]"),
        (["a", "b", "a"], "expected context 'x' as categories that differ, got ['a', 'b', 'a']"),
        (["True", True], "expected context 'x' as categories that differ"),
        (range(0), "expected context 'x' as integers of at most 16777216, got range(0, 0)"),
        (range(10**9), "expected context 'x' as integers of at most 16777216"),
        (
            gym.spaces.MultiBinary(3),
            "expected context 'x' as a Box or a Discrete, or a Dict of them, got MultiBinary(3)",
        ),
        (gym.spaces.Text(3), "categories are a list of strings"),
        (gym.spaces.Dict(a=gym.spaces.Discrete(2)), "expected context 'x' as a Box or a Discrete, or a Dict of them"),
    ],
)
def test_other_forms_are_refused_in_one_line(side, message):
    with pytest.raises(InvalidInput) as caught:
        gd.ContextSpace.of({"x": side})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "given", "number"),
    [
        (None, 2.5, 2.5),
        (range(3, 10, 3), 6, 6.0),
        (range(3), np.int64(2), 2.0),
        (WINDS, "gusts", 2.0),
        ((False, True), True, 1.0),
        ((False, True), np.bool_(False), 0.0),
    ],
)
def test_a_value_becomes_a_number_and_the_number_the_value(values, given, number):
    assert encode(values, given, "x") == number
    back = decode(values, number)
    assert back == given
    assert type(back) in (float, int, str, bool)


@pytest.mark.parametrize(
    ("values", "given", "message"),
    [
        (None, "far", "expected x to be a finite number, got 'far'"),
        (range(3), 3, "expected x as an integer in 0 ... 2, got 3"),
        (range(3), 1.5, "expected x as an integer in 0 ... 2, got 1.5"),
        (range(3), True, "expected x as an integer in 0 ... 2, got True"),
        (range(0, 9, 4), 2, "expected x as an integer in 0 ... 8 in steps of 4, got 2"),
        (WINDS, "gust", "expected x to be one of none, steady, gusts; got 'gust'; did you mean gusts?"),
        (WINDS, 1, "expected x to be one of none, steady, gusts; got 1"),
        (WINDS, ["none"], "expected x to be one of none, steady, gusts; got ['none']"),
    ],
)
def test_no_value_is_refused(values, given, message):
    with pytest.raises(InvalidInput) as caught:
        encode(values, given, "x")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("values", "given", "numbers"),
    [
        (None, 3, [3.0, 3.0]),
        (None, (1, 4.5), [1.0, 4.5]),
        (range(10), 7, [7]),
        (range(10), (3, 5), [3, 4, 5]),  # both ends
        (range(0, 21, 5), (5, 20), [5, 10, 15, 20]),
        (range(10), [9, 3], [3, 9]),
        (range(10), {2, 4}, [2, 4]),
        (range(10), range(0, 9, 4), [0, 4, 8]),
        (WINDS, "steady", [1]),
        (WINDS, ["gusts", "none"], [0, 2]),
        (WINDS, ("gusts",), [2]),
    ],
)
def test_parts_of_what_a_value_can_be(values, given, numbers):
    assert list(part_of(values, given, "x")) == numbers


@pytest.mark.parametrize(
    ("values", "given", "message"),
    [
        (None, (4, 1), "expected x as a value or (low, high), got (4, 1)"),
        (range(10), (5, 3), "expected x among 0 ... 9, got range(5, 4)"),
        (range(10), (5, 12), "expected x as an integer in 0 ... 9, got 12"),
        (WINDS, [], "expected x among none, steady, gusts, got []"),
        (WINDS, ["none", "storm"], "got 'storm'"),
    ],
)
def test_other_parts_are_refused(values, given, message):
    with pytest.raises(InvalidInput) as caught:
        part_of(values, given, "x")
    assert message in str(caught.value)


def test_samples_are_uniform_and_integers_and_categories_occur_equally_often():
    parts = [(2.0, 4.0), np.array([0.0, 2.0]), np.array([5.0, 6.0, 9.0])]
    points = uniform_in(parts, 600, np.random.default_rng(0))
    assert points.shape == (600, 3)
    assert np.abs(np.histogram(points[:, 0], 4, (2, 4))[0] - 150).max() < 50
    assert [np.count_nonzero(points[:, 1] == value) for value in parts[1]] == [300, 300]
    assert [np.count_nonzero(points[:, 2] == value) for value in parts[2]] == [200, 200, 200]
    together = np.count_nonzero((points[:, 1] == 2) & (points[:, 2] == 9))  # they are independent of each other
    assert 60 < together < 140
    single = [uniform_in(parts, 1, np.random.default_rng(seed))[0, 2] for seed in range(60)]
    assert set(single) == {5.0, 6.0, 9.0}


def test_a_grid_has_every_combination():
    parts = [(1.5, 1.5), np.array([0.0, 1.0]), np.array([3.0, 5.0])]
    assert grid_of(parts, 4).tolist() == [[1.5, 0, 3], [1.5, 0, 5], [1.5, 1, 3], [1.5, 1, 5]]
    assert grid_of(parts, 3) is None
    assert grid_of([(1.0, 2.0)], 100) is None


def test_values_have_a_checked_form():
    assert as_values(None, "x") is None
    assert as_values(["a", "b"], "x") == ("a", "b")
    with pytest.raises(InvalidInput, match="expected x as a range or a list of strings, got 'ab'"):
        as_values("ab", "x")
