"""Results as text: curves for a terminal, and tables kept in a Markdown file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from geodesic.analysis.curves import mean_curve
from geodesic.analysis.measures import WINDOW
from geodesic.contexts import FloatArray
from geodesic.records.files import write_atomically
from geodesic.records.reader import RunResult, by_label

MEASURES = {"return": "return", "discounted": "discounted return", "success": "success rate"}

_BARS = "▁▂▃▄▅▆▇█"


def measured(run: RunResult) -> str:
    """What a run's scores are, in words."""
    return MEASURES.get(run.measure, run.measure)


def sparklines(runs: Sequence[RunResult], width: int = 50) -> list[str]:
    """The target's score over the steps, a line per method on one scale."""
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
    whole = path.read_text() if path.exists() else ""
    if begin not in whole:
        whole = f"{whole.rstrip()}\n\n{begin}\n{end}\n".lstrip()
    before, _, rest = whole.partition(begin)
    after = rest.partition(end)[2]
    result = f"{before}{begin}\n\n{text}\n\n{end}{after}".encode()
    write_atomically(path, lambda file: file.write(result))
