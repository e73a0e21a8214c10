"""Tasks: what a problem is, where tasks are found, what holds of every one, and methods built on them."""

from geodesic.tasks.catalogue import load, names
from geodesic.tasks.check import check_task
from geodesic.tasks.drawing import Drawing
from geodesic.tasks.task import Measure, Task

__all__ = ["Drawing", "Measure", "Task", "check_task", "load", "names"]
