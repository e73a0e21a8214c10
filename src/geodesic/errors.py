"""Every error this library raises on purpose. One base, so that callers can catch them all."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def shown(value: object) -> str:
    """A value in few letters and one line, whatever it is."""
    try:
        return f"{value!r:.60}".replace("\n", " ")
    except Exception:  # somebody else's __repr__, or an integer of too many digits
        return f"a {type(value).__name__}"


def told(error: BaseException, most: int = 200) -> str:
    """Somebody else's error: its kind, and the first line of what it says."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:most]}"


class GeodesicError(Exception):
    """Base of all errors raised on purpose; the command line prints them in one line."""


class InvalidInput(GeodesicError, ValueError):
    """An argument has the wrong shape, type or value. Raised before any work starts."""


class UnknownName(InvalidInput):
    """A name is not in a registry."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = tuple(known)
        near = get_close_matches(name, names, 1) if isinstance(name, str) else []
        hint = f"; did you mean {near[0]}?" if near else ""
        super().__init__(f"expected {kind} to be one of {', '.join(names)}; got {shown(name)}{hint}")


class SolverFailed(GeodesicError, RuntimeError):
    """A numerical solver did not reach a solution."""


class RunFailed(GeodesicError, RuntimeError):
    """A training run could not go on."""


class CheckpointError(GeodesicError, RuntimeError):
    """A checkpoint is damaged, or belongs to another run."""


class RunWarning(UserWarning):
    """Something about a run that its user should know and that does not stop it."""


class MissingExtra(GeodesicError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; try: pip install 'geodesic-rl[{extra}]'")
