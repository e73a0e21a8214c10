"""Figures, tables and runs ask the task: no environment is known to them by its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import geodesic

SOURCE = Path(geodesic.__file__).parent
NAMES = re.compile("maze|point-mass|fetch", re.IGNORECASE)


@pytest.mark.parametrize("room", ["report", "runs"])
def test_no_environment_is_named(room: str) -> None:
    files = sorted((SOURCE / room).rglob("*.py"))
    assert files
    named = [
        f"{file.relative_to(SOURCE)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if NAMES.search(line)
    ]
    assert named == []
