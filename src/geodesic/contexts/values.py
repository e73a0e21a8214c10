"""What a context value can be: a number within bounds, an integer or a category; and how users write each of them.

Internally every context is a vector of floats: a number or an integer is itself, a category its place in the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeGuard

import gymnasium as gym
import numpy as np

from geodesic.checks import FloatArray, as_number, is_integer, is_number
from geodesic.errors import InvalidInput, UnknownName, short_repr

Category = str | bool
Values = range | tuple[Category, ...] | None  # integers, categories, or any number within bounds
Real = float | int | Category  # what a user's function gets
Side = tuple[float, float] | tuple[float, float, str] | range | Sequence[Category] | gym.Space[Any]
Part = tuple[float, float] | FloatArray  # of what a value can be: the numbers between two, or several integers

LARGEST = 2**24  # up to which environments in float32 tell integers apart
FORMS = "(low, high), (low, high, unit), a range or a list of categories"


class ContextValue(NamedTuple):
    """One value of a context.

    Args:
        name: Its name.
        low: The lower bound.
        high: The upper bound.
        unit: Its physical unit.
        values: What it can be.
    """

    name: str
    low: Any
    high: Any
    unit: str = ""
    values: Values = None


def parse_contexts(contexts: Mapping[str, Side] | gym.Space[Any]) -> list[ContextValue]:
    """The context values that a mapping from names to sides, or a space of Gymnasium, describes."""
    if isinstance(contexts, gym.spaces.Dict):
        contexts = dict(contexts.spaces)
    if isinstance(contexts, gym.Space):
        return _of_space("context", contexts)
    if not isinstance(contexts, Mapping) or not contexts:
        raise InvalidInput(f"expected contexts as {{name: (low, high)}}, got {short_repr(contexts)}")
    return [value for name, side in contexts.items() for value in _of_side(name, side)]


def _of_side(name: str, side: object) -> list[ContextValue]:
    if isinstance(side, gym.Space):
        return _of_space(name, side)
    if isinstance(side, range) or _is_list_of_categories(side):
        return [ContextValue(name, 0.0, 0.0, "", as_values(side, f"context {name!r}"))]
    if isinstance(side, Sequence) and not isinstance(side, str) and len(side) in (2, 3):
        low, high, unit = (*side, "")[:3]
        if isinstance(unit, str):
            return [ContextValue(name, low, high, unit)]
    raise InvalidInput(f"expected context {name!r} as {FORMS}, got {short_repr(side)}")


def _of_space(name: str, space: gym.Space[Any]) -> list[ContextValue]:
    """The values of a space: of a Box with several numbers, one for each of them."""
    if isinstance(space, gym.spaces.Discrete):
        start = int(space.start)
        return _of_side(name, range(start, start + int(space.n)))
    if not isinstance(space, gym.spaces.Box):
        raise InvalidInput(
            f"expected context {name!r} as a Box or a Discrete, or a Dict of them, got {short_repr(space)}; categories "
            "are a list of strings"
        )
    whole = np.issubdtype(space.dtype, np.integer)
    bounds = zip(space.low.ravel().tolist(), space.high.ravel().tolist())
    sides = [range(low, high + 1) if whole else (low, high) for low, high in bounds]
    names = [name] if len(sides) == 1 else [f"{name}_{k}" for k in range(len(sides))]
    return [value for each, side in zip(names, sides) for value in _of_side(each, side)]


def _is_list_of_categories(value: object) -> TypeGuard[Sequence[Category]]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return len(value) > 0 and all(isinstance(each, (str, bool)) for each in value)


def as_values(value: object, name: str) -> Values:
    """Check what a context value can be; a range of integers is put in ascending order."""
    if value is None:
        return None
    if isinstance(value, range):
        ascending = value if value.step > 0 else value[::-1]
        if not ascending or max(abs(ascending[0]), abs(ascending[-1])) > LARGEST:
            raise InvalidInput(f"expected {name} as integers of at most {LARGEST}, got {short_repr(value)}")
        return ascending
    if not _is_list_of_categories(value):
        raise InvalidInput(f"expected {name} as a range or a list of strings, got {short_repr(value)}")
    categories = tuple(value)
    if len(set(map(str, categories))) < len(categories):
        raise InvalidInput(f"expected {name} as categories that differ, got {short_repr(value)}")
    return categories


def encode(values: Values, given: object, name: str) -> float:
    """The number by which a context has a value.

    Args:
        values: What the value can be.
        given: A number, an integer or a category.
        name: What it is called in messages.

    Returns:
        The number.

    Raises:
        InvalidInput: If it is none of the values.
    """
    if values is None:
        return as_number(given, name)
    if isinstance(values, range):
        if not is_integer(given) or given not in values:
            raise InvalidInput(f"expected {name} as an integer in {describe(values)}, got {short_repr(given)}")
        return float(given)
    if isinstance(given, (str, bool, np.bool_)) and given in values:
        return float(values.index(given))
    raise UnknownName(name, given, map(str, values))


def decode(values: Values, number: float) -> Real:
    """The value that a number in a context means."""
    if values is None:
        return float(number)
    place = round(number)
    if isinstance(values, range):
        return place
    if not 0 <= place < len(values):
        raise InvalidInput(f"expected the place of a category, 0 ... {len(values) - 1}, got {short_repr(number)}")
    return values[place]


def describe(values: range | tuple[Category, ...]) -> str:
    """What a value can be, in words."""
    if not isinstance(values, range):
        return ", ".join(map(str, values))
    step = f" in steps of {values.step}" if values.step != 1 and len(values) > 1 else ""
    return f"{values[0]} ... {values[-1]}{step}"


def part_of(values: Values, given: object, name: str) -> Part:
    """A part of what a value can be.

    Args:
        values: What the value can be.
        given: One value; of numbers and integers also (low, high), both included; of integers and categories also a
            list, a set or a range of them.
        name: What it is called in messages.

    Returns:
        Two bounds for numbers, else the numbers by which contexts have the values, in ascending order.

    Raises:
        InvalidInput: If it has another form, or is empty.
    """
    if values is None:
        ends: Any = given if isinstance(given, (tuple, list)) and len(given) == 2 else (given, given)
        if not all(is_number(end) and np.isfinite(end) for end in ends) or ends[0] > ends[1]:
            raise InvalidInput(f"expected {name} as a value or (low, high), got {short_repr(given)}")
        return float(ends[0]), float(ends[1])
    if isinstance(values, range) and isinstance(given, tuple) and len(given) == 2:
        low, high = (encode(values, end, name) for end in given)
        given = range(int(low), int(high) + 1, values.step)
    several: Any = given if isinstance(given, (list, tuple, range, AbstractSet, np.ndarray)) else (given,)
    chosen = sorted({encode(values, each, name) for each in several})
    if not chosen:
        raise InvalidInput(f"expected {name} among {describe(values)}, got {short_repr(given)}")
    return np.array(chosen)


def uniform_in(parts: Sequence[Part], n: int, rng: np.random.Generator) -> FloatArray:
    """Contexts (n, d) drawn uniformly from the product of parts; integers and categories occur equally often."""
    columns = []
    for part in parts:
        if isinstance(part, tuple):
            columns.append(rng.uniform(*part, n))
        else:
            columns.append(part[rng.permutation(np.arange(n) + rng.integers(len(part))) % len(part)])
    return np.stack(columns, axis=1)


def grid_of(parts: Sequence[Part], most: int) -> FloatArray | None:
    """All contexts (n, d) in the product of parts; None if there are more than `most`."""
    sides = [sorted(set(part)) if isinstance(part, tuple) else part for part in parts]
    if any(isinstance(part, tuple) and part[0] < part[1] for part in parts) or prod(map(len, sides)) > most:
        return None
    return np.array(list(product(*sides)), dtype=np.float64)
