"""Context spaces with integers and categories: their relaxation, and contexts as users write and agents see them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import geodesic as gd
from geodesic.errors import InvalidInput

SIDES = {"gravity": (2.0, 10.0, "m/s²"), "wind": ["none", "steady", "gusts"], "delay": range(0, 8, 2)}
SPACE = gd.ContextSpace.of(SIDES)
BOXES = (gd.ContextSpace([0.0, -1.0], [4.0, 3.0]), gd.ContextSpace.discrete([[0, 0], [2, 0], [0, 2]]))
POINTS = np.array([[2.0, 0.0, 6.0], [6.0, 2.0, 2.0]])


def test_its_bounds_names_and_steps():
    assert (SPACE.low.tolist(), SPACE.high.tolist()) == ([2, 0, 0], [10, 2, 6])
    assert SPACE.labels == ("gravity (m/s²)", "wind", "delay")
    assert SPACE.steps.tolist() == [0, 1, 2]
    assert SPACE.categories == {"wind": ("none", "steady", "gusts")}
    assert (SPACE.mixed, SPACE.finite, SPACE.bounded) == (True, False, True)
    assert [space.mixed for space in BOXES] == [False, False]
    assert [space.finite for space in (*BOXES, gd.ContextSpace.of({"level": range(3)}))] == [False, True, True]


def test_the_relaxed_space_is_a_box_with_one_hot_categories():
    box = SPACE.relaxed
    assert not box.mixed
    assert box.names == ("gravity", "wind=none", "wind=steady", "wind=gusts", "delay")
    assert (box.low.tolist(), box.high.tolist()) == ([2, 0, 0, 0, 0], [10, 1, 1, 1, 6])
    assert SPACE.relax(POINTS).tolist() == [[2, 1, 0, 0, 6], [6, 0, 0, 1, 2]]
    assert SPACE.to_unit(POINTS).tolist() == [[0, 1, 0, 0, 1], [0.5, 0, 0, 1, 1 / 3]]


def test_of_boxes_and_supports_it_is_the_space_itself():
    points = np.array([[0.2, 0.1], [2.0, 0.0]])
    for space in BOXES:
        assert space.relaxed is space
        assert space.relax(points) is points
        np.testing.assert_array_equal(space.round(points), space.clip(points))
        np.testing.assert_array_equal(space.observe(points), 2 * space.to_unit(points) - 1)


def test_rounding_finds_the_nearest_context():
    near = np.array([[11.0, 0.4, 0.3, 0.1, 4.9], [3.5, -1.0, 0.2, 0.3, 5.1]])
    assert SPACE.round(near).tolist() == [[10, 0, 4], [3.5, 2, 6]]
    assert SPACE.clip(np.array([[1.0, 1.4, 3.1]])).tolist() == [[2, 1, 4]]


@given(st.integers(0, 10**6))
def test_relaxing_and_rounding_gives_the_same_contexts(seed):
    points = SPACE.draw(20, np.random.default_rng(seed))
    assert SPACE.contains(points).all()
    np.testing.assert_array_equal(SPACE.round(SPACE.relax(points)), points)
    np.testing.assert_array_equal(SPACE.clip(points), points)
    for point in points:
        np.testing.assert_array_equal(SPACE.encode(SPACE.decode(point)), point)


def test_the_diagonal_has_length_one_and_categories_are_as_far_apart_as_ends():
    scaled = SPACE.relax(np.array([[2.0, 0, 0], [10.0, 1, 6], [2.0, 1, 0], [10.0, 0, 0]])) / SPACE.unit_length
    from_first = np.linalg.norm(scaled - scaled[0], axis=1)
    np.testing.assert_allclose(from_first, [0, 1, 1 / np.sqrt(3), 1 / np.sqrt(3)])


def test_contexts_between_integers_or_categories_are_outside():
    assert SPACE.contains(np.array([[3.0, 1, 4], [3.0, 0.5, 4], [3.0, 1, 3], [1.0, 1, 4]])).tolist() == [1, 0, 0, 0]
    with pytest.raises(InvalidInput) as caught:
        SPACE.check([[3.0, 0.5, 4.0]], "source")
    assert str(caught.value) == (
        "expected source inside gravity 2 ... 10, wind 0 ... 2 (none, steady, gusts), delay 0 ... 6 and on whole steps "
        "of integers and categories, got [3.0, 0.5, 4.0]"
    )


def test_contexts_by_name():
    context = SPACE.encode({"delay": 4, "gravity": 9, "wind": "gusts"})
    assert context.tolist() == [9, 2, 4]
    decoded = SPACE.decode(context)
    assert decoded == {"gravity": 9.0, "wind": "gusts", "delay": 4}
    assert [type(value) for value in decoded.values()] == [float, str, int]
    assert SPACE.decode(np.float32([0.1, 1, 2]))["wind"] == "steady"
    assert SPACE.as_contexts(decoded).tolist() == SPACE.as_contexts(context).tolist() == [[9, 2, 4]]


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"gravity": 9}, "expected context with a value for each of gravity, wind, delay, got {'gravity': 9}"),
        (
            {"gravity": 9, "wind": "no", "delay": 0},
            "expected wind of context to be one of none, steady, gusts; got 'no'",
        ),
        ({"gravity": 9, "wind": "none", "delay": 3}, "delay of context as an integer in 0 ... 6 in steps of 2, got 3"),
        ({"gravity": 99, "wind": "none", "delay": 2}, "expected context inside gravity 2 ... 10"),
    ],
)
def test_other_contexts_by_name_are_refused(context, message):
    with pytest.raises(InvalidInput) as caught:
        SPACE.encode(context)
    assert message in str(caught.value)


def test_the_uniform_distribution_is_a_grid_where_combinations_are_few():
    rng = np.random.default_rng(0)
    few = gd.ContextSpace.of({"wind": ["a", "b"], "delay": range(3)})
    assert few.uniform(6, rng).points.tolist() == [[a, b] for a in (0, 1) for b in (0, 1, 2)]
    assert len(few.uniform(5, rng)) == 5
    assert len(few.draw(40, rng)) == 40
    many = SPACE.uniform(300, rng)
    assert (len(many), SPACE.contains(many.points).all()) == (300, True)
    shares = SPACE.summary(many)
    assert [shares[f"wind={wind}"] for wind in ("none", "steady", "gusts")] == pytest.approx([1 / 3] * 3)


def test_a_part_of_the_space():
    ranges = {"gravity": (3, 4), "wind": ["none", "gusts"], "delay": (2, 6)}
    points = SPACE.uniform(200, np.random.default_rng(0), ranges).points
    assert SPACE.contains(points).all()
    assert ((points[:, 0] >= 3) & (points[:, 0] <= 4)).all()
    assert [set(column) for column in points[:, 1:].T] == [{0, 2}, {2, 4, 6}]
    one = {"gravity": 3, "wind": "none", "delay": [2, 4]}
    assert SPACE.uniform(200, np.random.default_rng(0), one).points.tolist() == [[3, 0, 2], [3, 0, 4]]


def test_an_agent_observes_scaled_numbers_and_one_hot_categories():
    assert SPACE.observe(POINTS).tolist() == [[-1, 1, 0, 0, 1], [0, 0, 0, 1, pytest.approx(-1 / 3)]]


def test_a_summary_has_means_and_fractions():
    summary = SPACE.summary(gd.Particles(POINTS, [3, 1]))
    assert summary == pytest.approx(
        {"gravity mean": 3, "gravity std": 3**0.5, "wind=none": 0.75, "wind=steady": 0, "wind=gusts": 0.25}
        | {"delay mean": 5, "delay std": 3**0.5}
    )
    box = gd.ContextSpace([0.0], [1.0], names=["x"])
    assert box.summary(gd.Particles([[0.0], [1.0]])) == {"x mean": 0.5, "x std": 0.5}


def test_missing_bounds_of_numbers_are_found_and_values_are_kept():
    space = gd.ContextSpace.of({"gravity": (2.0, np.inf), "wind": ["a", "b"]})
    assert not space.bounded
    box = space.bounded_around(np.array([[4.0, 1.0], [3.0, 1.0]]))
    assert (box.low.tolist(), box.high.tolist(), box.values) == ([2, 0], [4, 1], space.values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": [None]}, "expected values of 2 context values, got [None]"),
        ({"values": [None, "ab"]}, "expected each of values as a range or a list of strings, got 'ab'"),
        ({"values": [None, ["a", "b"]], "support": [[0.0, 1.0]]}, "expected a support, or values that are integers"),
    ],
)
def test_invalid_values_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=None) as caught:
        gd.ContextSpace([0.0, 0.0], [1.0, 1.0], **arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize("context", [{"x": 1.0}, [[1.0]], -1, [5.0, 3.0, 0.0], [5.0, np.nan, 0.0]])
def test_what_is_no_context_is_not_decoded(context):
    with pytest.raises(InvalidInput, match="expected"):
        SPACE.decode(context)
