"""Errors: one base class, and messages in one line."""

import pytest

from geodesic import errors
from geodesic.errors import (
    GeodesicError,
    InvalidInput,
    RunFailed,
    RunWarning,
    UnknownName,
    format_error,
    printable,
    short_repr,
    some,
)


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, "a"], "[1, 'a']"),
        ("x" * 100, "'" + 59 * "x"),
        ({"a": "b"}, "{'a': 'b'}"),
        pytest.param(10**5000, "a int", id="an integer with too many digits"),
        pytest.param(Unprintable(), "a Unprintable", id="a broken repr"),
        (type("Lines", (), {"__repr__": lambda self: "one\ntwo"})(), "one two"),
    ],
)
def test_short_repr_is_one_short_line(value, text):
    assert short_repr(value) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (InvalidInput("expected more,\n  got less"), "expected more, got less"),
        (ValueError("no such\nthing"), "ValueError: no such thing"),
        (KeyError("mass"), "KeyError: 'mass'"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (GeodesicError(), "GeodesicError"),
        (RuntimeError("x" * 500), "RuntimeError: " + "x" * 200),
    ],
)
def test_format_error_is_one_line_with_the_type_of_foreign_errors(error, text):
    assert format_error(error) == text


def test_control_characters_are_escaped_in_every_message():
    text = "a\x1b[2J\u202e \udcff\x9b é 日本"
    escaped = r"a\x1b[2J\u202e \udcff\x9b é 日本"
    assert printable(text) == escaped
    assert str(RunFailed(text)) == str(RunWarning(text)) == format_error(RunFailed(text)) == escaped
    assert format_error(ValueError(text)) == f"ValueError: {escaped}"
    assert "\x1b" not in short_repr(type("Bad", (), {"__repr__": lambda self: text})())


def test_every_error_has_one_base_class():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert all(issubclass(kind, (GeodesicError, UserWarning)) for kind in kinds)
    assert issubclass(InvalidInput, ValueError)


def test_an_unknown_name_lists_the_known_ones_and_suggests_the_nearest():
    assert str(UnknownName("tool", "spaed", ("spade", "rake"))) == (
        "expected tool to be one of spade, rake; got 'spaed'; did you mean spade?"
    )
    assert str(UnknownName("tool", 3, ("spade",))) == "expected tool to be one of spade; got 3"


def test_many_names_are_cut_to_the_first_ones():
    assert some(["a", "b"]) == "a, b"
    assert some(list("abcdefghijk"), most=2) == "a, b, ... (11 in all)"
