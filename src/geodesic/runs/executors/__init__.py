"""Who does the runs of a comparison: worker processes on this machine, or Ray on as many as there are."""

from geodesic.runs.executors.base import Executor, Job, Listen, Update
from geodesic.runs.executors.local import LocalProcesses
from geodesic.runs.executors.ray import RayTasks

__all__ = ["Executor", "Job", "Listen", "LocalProcesses", "RayTasks", "Update"]
