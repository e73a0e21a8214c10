"""Executors run the jobs of a comparison: in worker processes on this machine, or on a Ray cluster."""

from geodesic.runs.executors.base import Executor, Job, JobResult
from geodesic.runs.executors.local import LocalProcesses, ThisProcess
from geodesic.runs.executors.ray import RayTasks

__all__ = ["Executor", "Job", "JobResult", "LocalProcesses", "RayTasks", "ThisProcess"]
