"""Where runs are kept, and configurations in files."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from geodesic.checks import as_path, read_text
from geodesic.errors import InvalidInput, format_error
from geodesic.records import RunConfig, check_origin, config_in
from geodesic.tasks import Task, load
from geodesic.training.configure import configure

LONGEST_TOML = 2**20  # characters


def slug(label: str) -> str:
    """A label as a folder name; one of dots alone would lead elsewhere."""
    name = "".join(letter if letter.isalnum() or letter in "._=+-" else "-" for letter in label)
    return name if name.strip(".") else name.replace(".", "-")


def default_folder(config: RunConfig, task: Task) -> Path:
    """runs/TASK/LABEL/seed-N; a budget other than the task's is part of it."""
    budget = "" if config.steps == task.training.steps else f"-steps={config.steps}"
    return Path("runs") / slug(config.name) / (slug(config.label) + budget) / f"seed-{config.seed}"


def read_file(path: Path, trust: bool = False) -> RunConfig:
    """Read a run's config.json to repeat it, or the arguments of `configure` from a TOML file.

    trust: see `check_origin`. A TOML file, which is written by hand, is taken as its user's own.
    """
    path = as_path(path, "a file")
    if not path.exists():
        raise InvalidInput(f"expected a run's configuration in {path}, found no file")
    if path.suffix != ".toml":
        config = config_in(path)
        check_origin(path, config, trust)
        return config
    try:
        values: dict[str, Any] = tomllib.loads(read_text(path, LONGEST_TOML))
    except (ValueError, RecursionError) as error:  # or our own error, which is a ValueError
        raise InvalidInput(f"expected a run's configuration in {path}, got {format_error(error)}") from error
    task = load(values.pop("task", ""))
    try:
        return configure(task, **values)
    except TypeError as error:
        raise InvalidInput(f"expected keys of a run's configuration in {path}: {format_error(error)}") from error
