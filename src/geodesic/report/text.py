"""Results as text: curves for a terminal, and tables kept in a Markdown file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from geodesic.experiments.results import RunResult, by_label
from geodesic.experiments.statistics import mean_curve
from geodesic.training.checkpoint import write_atomically

_BARS = "▁▂▃▄▅▆▇█"


def sparklines(runs: Sequence[RunResult], width: int = 50) -> list[str]:
    """Target return over the steps, a line per method on one scale."""
    begun = by_label(run for run in runs if len(run.evaluations.steps))
    curves = {label: mean_curve(group).middle for label, group in begun.items()}
    if not curves:
        return []
    low, high = min(c.min() for c in curves.values()), max(c.max() for c in curves.values())
    indent = max(map(len, curves))
    lines = []
    for label, curve in curves.items():
        places = np.linspace(0, len(curve) - 1, width).round().astype(int)
        heights = (curve[places] - low) / max(high - low, 1e-9) * (len(_BARS) - 1)
        bars = "".join(_BARS[round(height)] for height in heights)
        lines.append(f"{label:<{indent}}  {bars}  {curve[-1]:.1f}")
    return [f"target return over {runs[0].steps} steps, from {low:.1f} to {high:.1f}", *lines]


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
