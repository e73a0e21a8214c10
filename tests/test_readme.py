"""The README's example runs as it stands."""

import re
from pathlib import Path

import numpy as np

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_example_reaches_the_target():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    asked = []

    def train_and_report(contexts):
        asked.append(contexts)
        return np.full(len(contexts), 50.0), np.full(len(contexts), 100)

    names = {"train_and_report": train_and_report}
    exec(code, names)
    assert names["state"].done
    assert names["state"].distribution == names["target"]
    assert len(asked) == 20  # ten moves, each after a window of twenty episodes


def test_every_command_it_shows_exists():
    from geodesic.cli import parser

    shown = re.findall(r"^geodesic (\w+)", README, re.MULTILINE)
    assert shown
    text = parser().format_help()
    assert all(name in text for name in shown)
