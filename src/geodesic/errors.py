"""Every error this library raises on purpose. One base, so that callers can catch them all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

__all__ = ["CheckpointError", "GeodesicError", "InvalidInput", "MissingExtra", "RunFailed", "RunWarning"]
__all__ += ["SolverFailed", "UnknownName"]


def __dir__() -> list[str]:
    return __all__


def printable(text: str, keep: str = "") -> str:
    """The text with control characters, which a terminal would obey, escaped as in a string literal."""
    if text.isprintable():
        return text
    escaped = (letter if letter.isprintable() or letter in keep else ascii(letter)[1:-1] for letter in text)
    return "".join(escaped)


def short_repr(value: object) -> str:
    """The repr of any value, cut to one short line."""
    try:
        return printable(f"{value!r:.60}".replace("\n", " "))
    except Exception:  # a broken __repr__, or an integer with too many digits
        return f"a {type(value).__name__}"


def count(number: int, noun: str) -> str:
    """A number of things, such as "2 seeds"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def some(names: Sequence[str], most: int = 8) -> str:
    """The first of many names: "a, b, ... (173 in all)"."""
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])}, ... ({len(names)} in all)"


class GeodesicError(Exception):
    """Base of all errors raised on purpose; the command line prints them in one line."""

    def __str__(self) -> str:
        return printable(super().__str__(), keep="\n\t")


def format_error(error: BaseException, limit: int = 200) -> str:
    """An error in one line: its message, preceded by its type unless the error is our own."""
    message = printable(" ".join(str(error).split())[:limit])
    if isinstance(error, GeodesicError) and message:
        return message
    return f"{type(error).__name__}: {message}".removesuffix(": ")


class InvalidInput(GeodesicError, ValueError):
    """An argument has the wrong shape, type or value. Raised before any work starts."""


class UnknownName(InvalidInput):
    """A name is not in a registry.

    Args:
        kind: What the names are of ("method").
        name: The unknown name.
        known: The known names; the message suggests the nearest one.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = tuple(known)
        near = get_close_matches(name, names, 1) if isinstance(name, str) else []
        hint = f"; did you mean {near[0]}?" if near else ""
        super().__init__(f"expected {kind} to be one of {', '.join(names)}; got {short_repr(name)}{hint}")


class SolverFailed(GeodesicError, RuntimeError):
    """A numerical solver did not reach a solution."""


class RunFailed(GeodesicError, RuntimeError):
    """A training run could not continue."""


class CheckpointError(GeodesicError, RuntimeError):
    """A checkpoint is damaged, or belongs to another run."""


class RunWarning(UserWarning):
    """Something about a run that its user should know and that does not stop it."""

    def __str__(self) -> str:
        return printable(super().__str__())


class MissingExtra(GeodesicError, ImportError):
    """An optional dependency is not installed.

    Args:
        package: The missing package.
        extra: The extra of `geodesic-rl` that installs it.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; try: pip install 'geodesic-rl[{extra}]'")
