"""Suites of tasks for benchmarks, and what a score on each of them is worth.

The tables of the built-in tasks state it under `[benchmark]`: `floor` and `top` are the scores that count as 0 and 1,
`suites` are the suites that the task is part of, and `fast_steps` is its budget in the suite `fast`. Every other suite
has the task's own budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from geodesic.checks import FloatArray, as_name
from geodesic.errors import InvalidInput
from geodesic.tasks.catalogue import BUILT_IN, table

ALL = "all"
DEFAULT = "fast"
SUITES = {
    DEFAULT: "five tasks at reduced budgets",
    "paper": "the tasks of the GRADIENT paper",
    "rivals": "the tasks of CURROT's authors",
    ALL: "every built-in task",
}


@dataclass(frozen=True)
class Benchmark:
    """A task as part of a suite.

    Args:
        task: The name of the task.
        steps: The environment steps of a run.
        floor: The score that counts as 0.
        top: The score that counts as 1.
    """

    task: str
    steps: int
    floor: float
    top: float

    def normalised(self, scores: FloatArray) -> FloatArray:
        """Compute normalised scores, 0 at the floor and 1 at the top; they are not clipped.

        Args:
            scores: Scores (n,) on the target.

        Returns:
            The normalised scores (n,).
        """
        return (scores - self.floor) / (self.top - self.floor)


def suite_of(name: str) -> list[Benchmark]:
    """Look up a suite.

    Args:
        name: The name of a suite.

    Returns:
        Its tasks.

    Raises:
        UnknownName: If there is no such suite.
    """
    as_name(name, "the suite", SUITES)
    return [known for task in BUILT_IN if (known := benchmark_of(task, name)) is not None]


def benchmark_of(task: str, suite: str = ALL) -> Benchmark | None:
    """Look up a task of a suite.

    Args:
        task: The name of a task, which may come from a file.
        suite: The suite.

    Returns:
        The task; None if it is not part of the suite.
    """
    facts: dict[str, Any] = table(task).get("benchmark", {}) if task in BUILT_IN else {}
    if not facts or suite not in (ALL, *facts["suites"]):
        return None
    steps = facts["fast_steps"] if suite == DEFAULT else table(task)["steps"]
    return Benchmark(task, steps, facts["floor"], facts["top"])


def choose(suite: str, tasks: str | None = None) -> list[Benchmark]:
    """Choose tasks of a suite.

    Args:
        suite: The name of the suite.
        tasks: Some of its tasks, separated by commas (default: all of them).

    Returns:
        The tasks, in the order of the suite.

    Raises:
        InvalidInput: If there is no such suite, or a task is not part of it.
    """
    found = {each.task: each for each in suite_of(suite)}
    wanted = list(found) if tasks is None else [name for name in tasks.split(",") if name]
    if not wanted:
        raise InvalidInput(f"expected tasks of the suite {suite}, got none")
    names = [as_name(name, f"a task of the suite {suite}", found) for name in wanted]
    return [each for name, each in found.items() if name in names]


def descriptions() -> dict[str, str]:
    """Describe each suite in a line."""
    named = {name: ", ".join(each.task for each in suite_of(name)) for name in SUITES if name != ALL}
    return {name: f"{text}: {named[name]}" if name in named else text for name, text in SUITES.items()}
