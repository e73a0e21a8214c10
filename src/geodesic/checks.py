"""Validation of arguments.

Each function takes a value and the name to call it by, and returns the value in the form that the rest of the code
uses, or raises InvalidInput with a one-line message. `check` applies such rules to the fields of a dataclass, and
`check_fields` those that stand in its annotations.
"""

from __future__ import annotations

import inspect
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeGuard, TypeVar, cast, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.errors import GeodesicError, InvalidInput, UnknownName, format_error, short_repr

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Array = NDArray[Any]  # of numbers of any type
Arrays = dict[str, Array]
Rule = Callable[[Any, str], Any] | type
T = TypeVar("T")

LARGEST = 1e150  # a number from outside has a square
NAME = 255  # bytes of a file's name
MOST = 2**31 - 1  # counts fit the 32-bit counters of compiled programs


@contextmanager
def explain_errors(what: str, kind: type[GeodesicError] = InvalidInput) -> Iterator[None]:
    """Turn any exception in a user's code into an error that begins with `what`; our own errors pass unchanged."""
    try:
        yield
    except GeodesicError:
        raise
    except Exception as error:
        raise kind(f"{what}{format_error(error)}") from error


def check(owner: object, **rules: Rule) -> None:
    """Apply a rule to each of these fields of a dataclass, frozen or not: a function of this module, or a class."""
    for name, rule in rules.items():
        value = getattr(owner, name)
        made = check_instance(rule, value, name) if isinstance(rule, type) else rule(value, name)
        if made is not value:
            object.__setattr__(owner, name, made)


def check_fields(owner: Any) -> None:
    """Apply the rules in a dataclass's annotations: `Annotated[type, rule]`, `Literal[...]`, our classes; or None."""
    check(owner, **_field_rules(owner.__class__))


@cache
def _field_rules(kind: type) -> dict[str, Rule]:
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        with suppress(NameError, AttributeError, TypeError):  # a user's annotations may be for type checkers only
            hints |= inspect.get_annotations(base, eval_str=True)
    rules = {name: rule for name, hint in hints.items() if (rule := _rule_of(hint)) is not None}
    return {name: rule if getattr(kind, name, True) is not None else optional(rule) for name, rule in rules.items()}


def _rule_of(hint: Any) -> Rule | None:
    choices, kind = get_args(hint), get_origin(hint) or hint
    if kind is Annotated:
        return cast(Rule, choices[1])
    if kind is Literal and all(isinstance(choice, str) for choice in choices):
        return partial(as_name, known=choices)
    if isinstance(kind, type) and kind.__module__.startswith("geodesic."):
        return kind
    rule = _rule_of(choices[0]) if choices[1:] == (type(None),) else None
    return optional(rule) if rule else None


def optional(rule: Rule) -> Rule:
    """A rule that also accepts None."""
    known = (lambda value, name: check_instance(rule, value, name)) if isinstance(rule, type) else rule
    return lambda value, name: None if value is None else known(value, name)


def check_instance(kind: type[T], value: object, name: str) -> T:
    """An instance of a class or protocol; the class itself is refused."""
    if isinstance(value, type) or not isinstance(value, kind):
        got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise InvalidInput(f"expected {name} to be {kind.__name__}, got {got}")
    return value


def check_instances(kind: type[T], values: object, name: str) -> list[T]:
    """A list of instances of a class."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidInput(f"expected {name} to be a list of {kind.__name__}, got {short_repr(values)}")
    if isinstance(values, np.ndarray) and not values.ndim:
        raise InvalidInput(f"expected {name} to be a list of {kind.__name__}, got one number")
    return [check_instance(kind, value, f"each of {name}") for value in values]


def as_number(value: object, name: str) -> float:
    """A finite number."""
    number = value if isinstance(value, int) else float(value) if is_number(value) else np.nan
    if is_number(value) and abs(number) <= LARGEST:
        return float(value)
    huge = is_number(value) and LARGEST < abs(number) != np.inf
    raise InvalidInput(
        f"expected {name} to be {'at most 1e150' if huge else 'a finite number'}, got {short_repr(value)}"
    )


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is a number, and not a boolean."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def as_positive(value: object, name: str) -> float:
    """A positive number."""
    number = as_number(value, name)
    if number <= 0:
        raise InvalidInput(f"expected {name} to be positive, got {short_repr(value)}")
    return number


def as_nonnegative(value: object, name: str) -> float:
    """A number of at least 0."""
    number = as_number(value, name)
    if number < 0:
        raise InvalidInput(f"expected {name} to be non-negative, got {short_repr(value)}")
    return number


def as_fraction(value: object, name: str) -> float:
    """A fraction or a probability."""
    if not (is_number(value) and 0 <= value <= 1):
        raise InvalidInput(f"expected {name} in [0, 1], got {short_repr(value)}")
    return float(value)


def as_discount(value: object, name: str) -> float:
    """A discount factor."""
    if not 0 < as_number(value, name) <= 1:
        raise InvalidInput(f"expected {name} in (0, 1], got {short_repr(value)}")
    return as_number(value, name)


def as_integer(value: object, name: str, least: int = 0, most: int = MOST) -> int:
    """An integer within bounds."""
    if not is_integer(value) or not least <= value <= most:
        known = f"in [{least}, {most}]" if is_integer(value) and value > most else f"of at least {least}"
        raise InvalidInput(f"expected {name} to be an integer {known}, got {short_repr(value)}")
    return int(value)


def is_integer(value: object) -> TypeGuard[int]:
    """Whether this is an integer, and not a boolean."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def as_count(value: object, name: str = "n", most: int = MOST) -> int:
    """A positive integer."""
    if not is_integer(value) or value < 1:
        raise InvalidInput(f"expected {name} to be a positive integer, got {short_repr(value)}")
    return as_integer(value, name, 1, most)


def as_size(value: object, name: str = "n") -> int:
    """A number of points that are in memory at once."""
    return as_count(value, name, 10**8)


def as_seed(value: object, name: str = "seed") -> int:
    """A seed: an integer in [0, 2^31)."""
    if not is_integer(value) or not 0 <= value <= MOST:
        raise InvalidInput(f"expected {name} to be an integer in [0, 2^31), got {short_repr(value)}")
    return int(value)


def as_boolean(value: object, name: str) -> bool:
    """A boolean."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"expected {name} to be a boolean, got {short_repr(value)}")
    return bool(value)


def as_string(value: object, name: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise InvalidInput(f"expected {name} to be a string, got {short_repr(value)}")
    return value


def as_name(value: object, name: str, known: Iterable[str]) -> str:
    """One of the known names."""
    names = tuple(known)
    if not isinstance(value, str) or value not in names:
        raise UnknownName(name, value, names)
    return value


def as_function(value: object, name: str) -> Callable[..., Any]:
    """A callable."""
    if not callable(value):
        raise InvalidInput(f"expected {name} to be a function, got {short_repr(value)}")
    return value


def as_path(value: object, name: str = "a folder") -> Path:
    """A path whose names the file system and our files, which are UTF-8, can hold."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value) or "\0" in str(value):
        raise InvalidInput(f"expected {name} as a path, got {short_repr(value)}")
    path = Path(value)
    if not str(path).isascii() and str(path).encode("utf-8", "replace").decode() != str(path):
        raise InvalidInput(f"expected {name} as a path in UTF-8, got {short_repr(value)}")
    if max((len(os.fsencode(part)) for part in path.parts), default=0) > NAME:
        raise InvalidInput(f"expected {name} as a path with names of at most {NAME} bytes, got {short_repr(value)}")
    return path


def read_text(path: Path, most: int) -> str:
    """The text of a regular file of at most so many characters; a device or a pipe may never end."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidInput("expected a regular file, got something else")
        with path.open(encoding="utf-8") as file:
            text = file.read(most + 1)
    except OSError as error:
        raise InvalidInput(f"cannot read it: {error.strerror}") from error
    except ValueError as error:
        raise InvalidInput(f"expected a path, and text in UTF-8 there, got {format_error(error)}") from error
    if len(text) > most:
        raise InvalidInput(f"expected at most {most} characters, got more")
    return text


def as_rng(value: object, name: str = "rng") -> np.random.Generator:
    """A NumPy generator."""
    if not isinstance(value, np.random.Generator):
        raise InvalidInput(f"expected {name} to be a numpy.random.Generator, got {short_repr(value)}")
    return value


def as_array(values: ArrayLike, name: str, like: str = "numbers") -> FloatArray:
    """Numbers of any shape, including NaN and infinite ones; copied only if necessary."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biufO":
            return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidInput(f"expected {name} to be {like}, got {short_repr(values)}")


def as_arrays(values: object, name: str) -> Arrays:
    """Arrays of numbers or strings by name, which a file can hold without pickle."""
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise InvalidInput(f"expected {name} as {{name: array}}, got {short_repr(values)}")
    arrays = {}
    for key, value in values.items():
        try:
            arrays[key] = np.asarray(value)
        except ValueError:
            arrays[key] = np.array(None, dtype=object)
        if arrays[key].dtype.hasobject:
            raise InvalidInput(f"expected {name}[{key!r}] to be an array of numbers, got {short_repr(value)}")
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
    """A finite vector of shape (size,), copied; a scalar is repeated. Empty only if size is 0."""
    vector = np.array(as_array(values, name))
    if vector.ndim == 0 and size is not None:
        vector = np.full(size, float(vector))
    if vector.ndim != 1 or (vector.size == 0 and size is None) or (size is not None and vector.size != size):
        wanted = "(d,)" if size is None else f"({size},)"
        raise InvalidInput(f"expected {name} of shape {wanted}, got shape {vector.shape}")
    return within(vector, name)


def check_integers(values: ArrayLike, name: str, size: int) -> IntArray:
    """Integers (size,) of any numeric type; a scalar is repeated."""
    vector = as_vector(values, name, size)
    broken = vector[vector != np.floor(vector)]
    if broken.size:
        raise InvalidInput(f"expected {name} to be integers, got {broken[0]:g}")
    if np.abs(vector).max(initial=0.0) > MOST:
        raise InvalidInput(f"expected {name} below 2^31, got {np.abs(vector).max():g}")
    return vector.astype(np.int64)


def as_column(values: ArrayLike | None, name: str, n: int) -> FloatArray:
    """A number for each of n episodes, (n,); NaN where unknown."""
    column = np.full(n, np.nan) if values is None else np.array(as_array(values, name))
    if column.shape != (n,):
        raise InvalidInput(f"expected {name} of shape ({n},), got shape {column.shape}")
    if np.isinf(column).any():
        raise InvalidInput(f"expected {name} to be finite or NaN, got an infinite value")
    return column


def as_successes(values: ArrayLike | None, n: int) -> FloatArray:
    """0 or 1, or a rate in between, for each of n episodes; NaN where unknown."""
    flags = as_column(values, "successes", n)
    if ((flags < 0) | (flags > 1)).any():
        raise InvalidInput(f"expected successes in [0, 1], got {flags[(flags < 0) | (flags > 1)][0]:g}")
    return flags


def within(values: FloatArray, name: str) -> FloatArray:
    """The array, if its values and their squares are finite."""
    largest = np.abs(values).max(initial=0.0)
    if largest <= LARGEST:
        return values
    if np.isfinite(largest):
        raise InvalidInput(f"expected {name} of at most 1e150, so that squares are finite, got {largest:g}")
    if values.ndim == 1:
        in_one_line = str(values).replace("\n", "")
        raise InvalidInput(f"expected {name} to be finite, got {in_one_line}")
    raise InvalidInput(f"expected {name} to be finite, got {int((~np.isfinite(values)).sum())} NaN or infinite values")


def as_weights(values: ArrayLike, n: int, name: str = "weights") -> FloatArray:
    """Weights (n,) that are non-negative and sum to one (they are normalised)."""
    weights = np.array(as_array(values, name))
    if np.isfinite(weights).all() and weights.size and weights.max() > LARGEST:
        weights = weights / weights.max()  # only their ratios matter
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


def as_strings(values: object, name: str) -> Sequence[str]:
    """A list of strings; a single string is refused."""
    if isinstance(values, str) or not isinstance(values, Sequence) or not all(isinstance(each, str) for each in values):
        raise InvalidInput(f"expected {name} to be a list of names, got {short_repr(values)}")
    return cast(Sequence[str], values)


# Types of fields with their rules, for `check_fields`.
Boolean = Annotated[bool, as_boolean]
Count = Annotated[int, as_count]
Discount = Annotated[float, as_discount]
Fraction = Annotated[float, as_fraction]
Natural = Annotated[int, as_integer]
NonNegative = Annotated[float, as_nonnegative]
Number = Annotated[float, as_number]
Positive = Annotated[float, as_positive]
Size = Annotated[int, as_size]
String = Annotated[str, as_string]
