"""Tasks as newcomers would write them, which nothing was tuned on, and methods compared on them."""

from importlib import import_module
from typing import cast

from geodesic import Task

TASKS = (
    "acrobot",
    "weak_engine",
    "lander",
    "frozen_lake",
    "lidar",
    "catch",
    "invaders",
    "jumper",
    "lock",
    "pursuit",
    "beam",
    "treasure",
)
USED = ("reacher", "pendulum", "drone")  # not fresh: the default method was changed because of its losses on these


def reference(name: str) -> str:
    """How `geodesic compare` and its workers find a task; the name itself if it is none of these."""
    return f"benchmarks.studies.newcomers.{name}:task" if name in (*TASKS, *USED) else name


def load(name: str) -> Task:
    """A task by name."""
    return cast(Task, import_module(f"benchmarks.studies.newcomers.{name}").task)
