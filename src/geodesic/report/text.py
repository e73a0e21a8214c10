"""Results as text: curves for a terminal, and tables kept in a Markdown file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from geodesic.analysis.curves import mean_curve
from geodesic.analysis.measures import WINDOW
from geodesic.checks import FloatArray, as_all, as_count, as_path
from geodesic.curricula import REGISTRY
from geodesic.errors import InvalidInput
from geodesic.records.files import write_atomically
from geodesic.records.reader import RunResult, by_label

MEASURES = {"return": "return", "discounted": "discounted return", "success": "success rate"}

_BARS = "▁▂▃▄▅▆▇█"


def measured(run: RunResult) -> str:
    """What a run's scores are, in words."""
    return MEASURES.get(run.measure, run.measure)


def at_source(runs: Sequence[RunResult]) -> list[str]:
    """Labels of which finished runs trained on their source alone, in words; methods without a source are left out.

    What such runs came to says nothing of a curriculum's stages: there was one.
    """
    told = []
    for label, group in by_label(as_all(RunResult, runs, "runs")).items():
        done = [run for run in group if run.finished and _has_source(run)]
        stayed = sum((~run.stages.explores).sum() == 1 for run in done)
        if stayed:
            told.append(f"{label}: {stayed} of {len(done)} seed{'s' * (len(done) != 1)} never left the source")
    return told


def _has_source(run: RunResult) -> bool:
    """Whether the run's method begins at the source."""
    method = REGISTRY.get(run.method)
    return method is not None and "source" in {field.name for field in fields(method)}


def sparklines(runs: Sequence[RunResult], width: int = 50) -> list[str]:
    """The target's score over the steps, a line per method on one scale."""
    runs, width = as_all(RunResult, runs, "runs"), as_count(width, "width", 10**4)
    begun = by_label(run for run in runs if len(run.evaluations.steps))
    curves = {label: mean_curve(group).middle for label, group in begun.items()}
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
    what = f"{measured(runs[0])} on the target over {runs[0].steps} steps, rolling mean of {WINDOW} evaluations"
    return [f"{what}, {scale}", *lines]


def _bars(curve: FloatArray, low: float, high: float, width: int) -> str:
    places = np.linspace(0, len(curve) - 1, width).round().astype(int)
    heights = (curve[places] - low) / max(high - low, 1e-9) * (len(_BARS) - 1)
    return "".join(_BARS[round(height)] for height in heights)


def record(path: Path, name: str, text: str) -> None:
    """Put `text` between the markers of this name in a Markdown file, which gets them at its end if it has none."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    whole = read_record(path)
    if begin not in whole:
        whole = f"{whole.rstrip()}\n\n{begin}\n{end}\n".lstrip()
    before, _, rest = whole.partition(begin)
    after = rest.partition(end)[2]
    result = f"{before}{begin}\n\n{text}\n\n{end}{after}".encode()
    write_atomically(path, lambda file: file.write(result))


def read_record(path: Path) -> str:
    """What a Markdown file holds so far; nothing, where there is none yet."""
    try:
        return as_path(path, "a file").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"expected a Markdown file at {path}, got {error}") from error
