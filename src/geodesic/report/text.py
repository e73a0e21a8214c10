"""Results in words: learning curves for a terminal, remarks, and records in a Markdown file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from geodesic.analysis.curves import mean_curve
from geodesic.analysis.statistics import drawn_window
from geodesic.checks import FloatArray, as_count, as_path, check_instances
from geodesic.errors import InvalidInput
from geodesic.records.files import write_atomically
from geodesic.records.reader import RunResult, by_label

_BARS = "▁▂▃▄▅▆▇█"


def format_known(value: float, form: str, unknown: str = "") -> str:
    """Format a number; one that is not finite is unknown.

    Args:
        value: The number.
        form: The format specification.
        unknown: What is written instead of an unknown number.
    """
    return format(value, form) if math.isfinite(value) else unknown


def sparklines(runs: Sequence[RunResult], width: int = 50) -> list[str]:
    """Draw the score on the target over the steps with block characters.

    Args:
        runs: Runs on one task.
        width: Characters of a curve.

    Returns:
        A heading and a line for each label, all on one scale; nothing without evaluations.
    """
    runs, width = check_instances(RunResult, runs, "runs"), as_count(width, "width", 10**4)
    evaluated = by_label(run for run in runs if len(run.evaluations.steps))
    window = drawn_window(runs)
    curves = {label: mean_curve(group, window=window).middle for label, group in evaluated.items()}
    curves = {label: curve for label, curve in curves.items() if len(curve) and np.isfinite(curve).all()}
    if not curves:
        return []
    low, high = min(c.min() for c in curves.values()), max(c.max() for c in curves.values())
    digits = 2 if max(abs(low), abs(high)) < 10 else 1
    indent = max(map(len, curves))
    lines = [
        f"{label:<{indent}}  {_bars(curve, low, high, width)}  {curve[-1]:.{digits}f}"
        for label, curve in curves.items()
    ]
    scale = f"from {low:.{digits}f} to {high:.{digits}f}"
    heading = f"{runs[0].score_name} on the target over {runs[0].steps} steps, {smoothing(window)}"
    return [f"{heading}, {scale}", *lines]


def smoothing(window: int) -> str:
    """How evaluations were smoothed, in words."""
    return f"centred mean of {window} evaluations" if window > 1 else "single evaluations"


def _bars(curve: FloatArray, low: float, high: float, width: int) -> str:
    places = np.linspace(0, len(curve) - 1, width).round().astype(int)
    heights = (curve[places] - low) / max(high - low, 1e-9) * (len(_BARS) - 1)
    return "".join(_BARS[round(height)] for height in heights)


def record(path: Path, name: str, text: str) -> None:
    """Put text between the markers of this name in a Markdown file.

    Args:
        path: The file; a missing one is created.
        name: The name in the markers, which are added at the end if the file has none.
        text: What replaces the present text between them.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    whole = read_record(path)
    if begin not in whole:
        whole = f"{whole.rstrip()}\n\n{begin}\n{end}\n".lstrip()
    before, _, rest = whole.partition(begin)
    after = rest.partition(end)[2]
    result = f"{before}{begin}\n\n{text}\n\n{end}{after}".encode()
    write_atomically(path, lambda file: file.write(result))


def read_record(path: Path) -> str:
    """Read a Markdown file.

    Args:
        path: The file.

    Returns:
        Its text; empty if it does not exist.

    Raises:
        InvalidInput: If it cannot be read.
    """
    try:
        return as_path(path, "a file").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"expected a Markdown file at {path}, got {error}") from error
