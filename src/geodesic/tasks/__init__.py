"""Tasks: the description of a problem, where tasks are found, their validation, and methods built on them."""

from geodesic.contexts.plot import Plot
from geodesic.tasks.catalogue import REGISTRY, load, names
from geodesic.tasks.check import check_task
from geodesic.tasks.task import EvaluationSettings, Task, TrainingSettings

__all__ = ["REGISTRY", "EvaluationSettings", "Plot", "Task", "TrainingSettings", "check_task", "load", "names"]


def __dir__() -> list[str]:
    return __all__
