"""The command line."""

from __future__ import annotations

import codecs
import io
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from geodesic.cli.options import EXIT_USAGE, parser
from geodesic.errors import CheckpointError, GeodesicError, InvalidInput, RunWarning
from geodesic.runs.stopping import termination_interrupts
from geodesic.runtime import ours_alone

if TYPE_CHECKING:
    from rich.console import Console

EXIT_FAILED = 1
# What to write where a terminal has no Unicode; any other letter that it lacks becomes a question mark.
PLAIN = {"α": "alpha", "±": "+-", "…": "...", "²": "^2", "μ": "mu", **dict(zip("▁▂▃▄▅▆▇█", "_.,-=+*#"))}

__all__ = ["main", "parser"]


def main(arguments: Sequence[str] | None = None) -> int:
    """0 on success, 1 on a failed run, 2 on bad usage with a one-line message."""
    _spell_out()
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = parser().parse_args(words)
    options.line = shlex.join(["geodesic", *words])
    warnings.formatwarning = _in_one_line
    ours_alone()
    try:
        with termination_interrupts():
            options.command(options, _console())
    except (InvalidInput, CheckpointError) as error:
        return _complain(error, EXIT_USAGE)
    except GeodesicError as error:
        return _complain(error, EXIT_FAILED)
    except KeyboardInterrupt as stop:
        exec("")  # else an interrupt that fell into another exec (a dataclass) is kept, and -m dies of SIGINT after all
        return _complain(str(stop) or f"stopped; go on with: {options.line}", EXIT_FAILED)
    return 0


def _console() -> Console:
    from rich.console import Console

    return Console(markup=False, highlight=False, soft_wrap=True)


def _in_one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """What a user should know of a run, without where in the code it was noticed."""
    if issubclass(category, RunWarning):
        return f"geodesic: {' '.join(str(message).split())}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"


def _spell_out() -> None:
    """Letters that a terminal or file cannot encode are spelled out; nothing else changes."""

    def spelled(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end

    codecs.register_error("geodesic.plain", spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="geodesic.plain")


def _complain(error: object, code: int) -> int:
    sys.stderr.write(f"geodesic: {' '.join(str(error).split())}\n")
    return code
