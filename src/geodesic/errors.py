"""Every error this library raises on purpose. One base, so that callers can catch them all."""

from __future__ import annotations

from collections.abc import Iterable


class GeodesicError(Exception):
    """Base of all errors raised on purpose; the command line prints them in one line."""


class InvalidInput(GeodesicError, ValueError):
    """An argument has the wrong shape, type or value. Raised before any work starts."""


class UnknownName(InvalidInput):
    """A name is not in a registry."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        super().__init__(f"expected {kind} to be one of {', '.join(known)}; got {name!r}")


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
