"""Who does the runs of a comparison: worker processes on this machine."""

from geodesic.runs.executors.base import Executor, Job, Listen, Update
from geodesic.runs.executors.local import LocalProcesses

__all__ = ["Executor", "Job", "Listen", "LocalProcesses", "Update"]
