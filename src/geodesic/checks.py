"""Values from outside, checked where they come in: every argument that a caller hands over goes through one of these.

Each takes the value and the name to call it by, and gives the value back in the one form that the rest of the code
knows, or raises InvalidInput in one line. `check` holds the fields of a dataclass to such rules, all at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.errors import InvalidInput, UnknownName, shown

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Array = NDArray[Any]  # of numbers of any type
Arrays = dict[str, Array]
Rule = Callable[[Any, str], Any] | type
T = TypeVar("T")

LARGEST = 1e150  # a number from outside has a square
NAME = 255  # bytes of a file's name
MOST = 2**31 - 1  # counts fit the 32-bit counters of compiled programs


def check(owner: object, **rules: Rule) -> None:
    """Hold fields of a dataclass, frozen or not, to a rule each: a function of this module, or a class."""
    for name, rule in rules.items():
        value = getattr(owner, name)
        made = as_a(rule, value, name) if isinstance(rule, type) else rule(value, name)
        if made is not value:
            object.__setattr__(owner, name, made)


def optional(rule: Rule) -> Rule:
    """The rule, or None."""
    known = (lambda value, name: as_a(rule, value, name)) if isinstance(rule, type) else rule
    return lambda value, name: None if value is None else known(value, name)


def as_a(kind: type[T], value: object, name: str) -> T:
    """An instance of a class or, where it is a protocol, of one that keeps it; a class itself is none."""
    if isinstance(value, type) or not isinstance(value, kind):
        got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise InvalidInput(f"expected {name} to be {kind.__name__}, got {got}")
    return value


def as_all(kind: type[T], values: object, name: str) -> list[T]:
    """A list of instances of a class."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidInput(f"expected {name} to be a list of {kind.__name__}, got {shown(values)}")
    if isinstance(values, np.ndarray) and not values.ndim:
        raise InvalidInput(f"expected {name} to be a list of {kind.__name__}, got one number")
    return [as_a(kind, value, f"each of {name}") for value in values]


def as_number(value: object, name: str) -> float:
    number = value if isinstance(value, int) else float(value) if is_number(value) else np.nan
    if is_number(value) and abs(number) <= LARGEST:
        return float(value)
    huge = is_number(value) and LARGEST < abs(number) != np.inf
    raise InvalidInput(f"expected {name} to be {'at most 1e150' if huge else 'a finite number'}, got {shown(value)}")


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def as_positive(value: object, name: str) -> float:
    number = as_number(value, name)
    if number <= 0:
        raise InvalidInput(f"expected {name} to be positive, got {shown(value)}")
    return number


def as_nonnegative(value: object, name: str) -> float:
    number = as_number(value, name)
    if number < 0:
        raise InvalidInput(f"expected {name} to be non-negative, got {shown(value)}")
    return number


def as_share(value: object, name: str) -> float:
    """A share or a probability."""
    if not (is_number(value) and 0 <= value <= 1):
        raise InvalidInput(f"expected {name} in [0, 1], got {shown(value)}")
    return float(value)


def as_integer(value: object, name: str, least: int = 0, most: int = MOST) -> int:
    if not is_integer(value) or not least <= value <= most:
        known = f"in [{least}, {most}]" if is_integer(value) and value > most else f"of at least {least}"
        raise InvalidInput(f"expected {name} to be an integer {known}, got {shown(value)}")
    return int(value)


def is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def as_count(value: object, name: str = "n", most: int = MOST) -> int:
    if not is_integer(value) or value < 1:
        raise InvalidInput(f"expected {name} to be a positive integer, got {shown(value)}")
    return as_integer(value, name, 1, most)


def as_size(value: object, name: str = "n") -> int:
    """A count of points that are held at once."""
    return as_count(value, name, 10**8)


def as_seed(value: object, name: str = "seed") -> int:
    if not is_integer(value) or not 0 <= value <= MOST:
        raise InvalidInput(f"expected {name} to be an integer in [0, 2^31), got {shown(value)}")
    return int(value)


def as_flag(value: object, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"expected {name} to be true or false, got {shown(value)}")
    return bool(value)


def as_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"expected {name} to be a text, got {shown(value)}")
    return value


def as_name(value: object, name: str, known: Iterable[str]) -> str:
    """One of the known names."""
    names = tuple(known)
    if not isinstance(value, str) or value not in names:
        raise UnknownName(name, value, names)
    return value


def as_function(value: object, name: str) -> Callable[..., Any]:
    if not callable(value):
        raise InvalidInput(f"expected {name} to be a function, got {shown(value)}")
    return value


def as_path(value: object, name: str = "a folder") -> Path:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value) or "\0" in str(value):
        raise InvalidInput(f"expected {name} as a path, got {shown(value)}")
    path = Path(value)
    if max((len(os.fsencode(part)) for part in path.parts), default=0) > NAME:
        raise InvalidInput(f"expected {name} as a path of names up to {NAME} letters, got {shown(value)}")
    return path


def as_rng(value: object, name: str = "rng") -> np.random.Generator:
    if not isinstance(value, np.random.Generator):
        raise InvalidInput(f"expected {name} to be a numpy.random.Generator, got {shown(value)}")
    return value


def as_array(values: ArrayLike, name: str, like: str = "numbers") -> FloatArray:
    """Numbers of any shape, NaN and infinite ones included; not a copy where it need not be."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biufO":
            return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidInput(f"expected {name} to be {like}, got {shown(values)}")


def as_arrays(values: object, name: str) -> Arrays:
    """Arrays by name, of numbers or texts: what a file can hold without pickle."""
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise InvalidInput(f"expected {name} as {{name: array}}, got {shown(values)}")
    arrays = {}
    for key, value in values.items():
        try:
            arrays[key] = np.asarray(value)
        except ValueError:
            arrays[key] = np.array(None, dtype=object)
        if arrays[key].dtype.hasobject:
            raise InvalidInput(f"expected {name}[{key!r}] to be an array of numbers, got {shown(value)}")
    return arrays


def as_points(values: ArrayLike, name: str = "points", dim: int | None = None) -> FloatArray:
    """Contexts as a finite (n, d) array, a copy; a single context of shape (d,) is not accepted."""
    points = np.array(as_array(values, name, "an array of numbers of shape (n, d)"))
    if points.ndim != 2:
        raise InvalidInput(f"expected {name} of shape (n, d), got shape {points.shape}")
    if points.size == 0:
        raise InvalidInput(f"expected {name} to hold at least one point, got shape {points.shape}")
    if dim is not None and points.shape[1] != dim:
        raise InvalidInput(f"expected {name} of dimension {dim}, got dimension {points.shape[1]}")
    return within(points, name)


def as_vector(values: ArrayLike, name: str, size: int | None = None) -> FloatArray:
    """A finite vector of shape (size,), a copy; a scalar is spread over it. Empty only where that size is asked for."""
    vector = np.array(as_array(values, name))
    if vector.ndim == 0 and size is not None:
        vector = np.full(size, float(vector))
    if vector.ndim != 1 or (vector.size == 0 and size is None) or (size is not None and vector.size != size):
        wanted = "(d,)" if size is None else f"({size},)"
        raise InvalidInput(f"expected {name} of shape {wanted}, got shape {vector.shape}")
    return within(vector, name)


def as_whole(values: ArrayLike, name: str, size: int) -> IntArray:
    """Whole numbers (size,), whatever type they come in."""
    vector = as_vector(values, name, size)
    broken = vector[vector != np.floor(vector)]
    if broken.size:
        raise InvalidInput(f"expected {name} to be whole numbers, got {broken[0]:g}")
    if np.abs(vector).max(initial=0.0) > MOST:
        raise InvalidInput(f"expected {name} below 2^31, got {np.abs(vector).max():g}")
    return vector.astype(np.int64)


def as_successes(values: ArrayLike | None, n: int) -> FloatArray:
    """0 or 1, or a rate in between, for each of n episodes; NaN where nobody says."""
    flags = np.full(n, np.nan) if values is None else np.array(as_array(values, "successes"))
    if flags.shape != (n,):
        raise InvalidInput(f"expected successes of shape ({n},), got shape {flags.shape}")
    if ((flags < 0) | (flags > 1)).any():
        raise InvalidInput(f"expected successes in [0, 1], got {flags[(flags < 0) | (flags > 1)][0]:g}")
    return flags


def within(values: FloatArray, name: str) -> FloatArray:
    """The array, if all of it is finite, and so small that squares are finite too."""
    largest = np.abs(values).max(initial=0.0)
    if largest <= LARGEST:
        return values
    if np.isfinite(largest):
        raise InvalidInput(f"expected {name} of at most 1e150, whose squares are numbers too, got {largest:g}")
    if values.ndim == 1:
        in_one_line = str(values).replace("\n", "")
        raise InvalidInput(f"expected {name} to be finite, got {in_one_line}")
    raise InvalidInput(f"expected {name} to be finite, got {int((~np.isfinite(values)).sum())} NaN or infinite values")


def as_weights(values: ArrayLike, n: int, name: str = "weights") -> FloatArray:
    """Weights (n,) that are non-negative and sum to one (they are normalised)."""
    weights = np.array(as_array(values, name))
    if np.isfinite(weights).all() and weights.size and weights.max() > LARGEST:
        weights = weights / weights.max()  # only their shares matter
    weights = as_vector(weights, name, n)
    if (weights < 0).any():
        raise InvalidInput(f"expected {name} to be non-negative, got a smallest weight of {weights.min():g}")
    total = weights.sum()
    if total <= 0:
        raise InvalidInput(f"expected {name} with a positive sum, got all zeros")
    return weights if abs(total - 1.0) <= 1e-9 else weights / total


def as_bounds(low: ArrayLike, high: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The two corners (d,) of a box; infinite ones are allowed."""
    lower, upper = (np.array(as_array(bound, name)) for bound, name in ((low, "low"), (high, "high")))
    if lower.ndim != 1 or lower.shape != upper.shape or lower.size == 0:
        raise InvalidInput(f"expected low and high of one shape (d,), got shapes {lower.shape} and {upper.shape}")
    if not (lower <= upper).all():
        raise InvalidInput(f"expected low <= high, got low {lower} and high {upper}")
    for name, bound in (("low", lower), ("high", upper)):
        within(bound[np.isfinite(bound)], name)
    return lower, upper


def as_covariance(values: ArrayLike, d: int, name: str = "covariance") -> FloatArray:
    """A symmetric positive semi-definite matrix (d, d)."""
    matrix = np.array(as_array(values, name))
    if matrix.shape != (d, d) or not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
        raise InvalidInput(f"expected a symmetric {name} of shape ({d}, {d}), got shape {matrix.shape}")
    least, most = np.linalg.eigvalsh(within(matrix, name))[[0, -1]]
    if least < -1e-10 * max(1.0, float(most)):
        raise InvalidInput(f"expected a positive semi-definite {name}, got eigenvalue {least:g}")
    return matrix


def as_words(values: object, name: str) -> Sequence[str]:
    """A list of texts; a text is none."""
    if isinstance(values, str) or not isinstance(values, Sequence) or not all(isinstance(word, str) for word in values):
        raise InvalidInput(f"expected {name} to be a list of names, got {shown(values)}")
    return cast(Sequence[str], values)
