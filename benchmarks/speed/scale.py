"""Measure what a run costs besides its training (the driver, the storage, progress), and extrapolate to many runs.

    python -m benchmarks.speed.scale                                # 10,000 runs on 100 machines
    python -m benchmarks.speed.scale --runs 500 --machines 10 --cores 8

Everything is measured on one machine with Maze runs of `--steps` steps, in CPU seconds; only Ray's jobs are timed by
wall-clock, because several processes share them. What depends on the network or the shared storage is given in bytes
and files.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from geodesic.analysis.statistics import summarise
from geodesic.records import load_comparison
from geodesic.records.status import run_statuses
from geodesic.report.progress import POLL_FRACTION
from geodesic.runs.compare import compare, plan_comparison, run_folder
from geodesic.runs.executors import Job, JobResult
from geodesic.runs.executors.base import SAVE_EVERY, run_in_worker
from geodesic.runs.run import start

TASKS = 500  # empty ones, of Ray
COPIES = 200  # of a run, whose progress is read
CHECKPOINTS = 20


class Here:
    """An executor that runs jobs one after another in this process."""

    def at_once(self, runs: int) -> int:
        return 1

    def run(self, jobs: Sequence[Job]) -> Iterator[JobResult | None]:
        for job in jobs:
            yield JobResult(job, run_in_worker(job))


@dataclass(frozen=True)
class Costs:
    """The costs of one run: CPU seconds to plan it, to read its status and to read its results; bytes; files."""

    planning: float
    status: float
    reading: float
    memory: float
    size: float
    files: int
    checkpoint: float


def ray_jobs() -> float:
    """Jobs per second that a driver starts and collects."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    empty = ray.remote(lambda job: None)
    job = Job((), (), b"x" * 2000)
    ray.get([empty.remote(job) for _ in range(10)])
    began = time.perf_counter()
    ray.get([empty.remote(job) for _ in range(TASKS)])
    rate = TASKS / (time.perf_counter() - began)
    ray.shutdown()
    return rate


def status_seconds(out: Path, folder: Path) -> float:
    """CPU seconds to read the progress of one run, among many."""
    for number in range(COPIES):
        copy = out / "runs" / "gradient" / f"seed-{number}"
        copy.mkdir(parents=True)
        for path in [folder / "config.json", *folder.glob("*.csv")]:
            shutil.copy(path, copy)
    began = time.process_time()
    run_statuses(out)
    return (time.process_time() - began) / COPIES


def costs_of(out: Path, steps: int) -> Costs:
    """Train a few runs of so many steps, and measure the rest."""
    many = list(range(200))
    began = time.process_time()
    plan_comparison("maze", ["uniform"], many, steps, out / "planned")
    planning = (time.process_time() - began) / len(many)
    configs = plan_comparison("maze", ["gradient"], range(4), steps, out / "comparison")
    compare(configs, out / "comparison", None, Here())
    folder = run_folder(out / "comparison", configs[0])
    files = [path for path in folder.rglob("*") if path.is_file()]
    began = time.process_time()
    runs = load_comparison(out / "comparison")
    summarise(runs, configs[0].solved)
    reading = (time.process_time() - began) / len(runs)
    arrays = [value for run in runs for table in (run.episodes, run.evaluations) for value in vars(table).values()]
    batch = start(configs[:1], [out / "save"])
    began = time.process_time()
    for _ in range(CHECKPOINTS):
        batch.save()
    saving = (time.process_time() - began) / CHECKPOINTS
    for session in batch.sessions:
        session.close()
    costs = Costs(
        planning=planning,
        status=status_seconds(out / "copies", folder),
        reading=reading,
        memory=sum(value.nbytes for value in arrays if isinstance(value, np.ndarray)) / len(runs),
        size=sum(path.stat().st_size for path in files),
        files=len(files),
        checkpoint=(folder / "checkpoint" / "latest.npz").stat().st_size,
    )
    print(f"driver: {costs.planning * 1e3:.1f} ms to plan a run, {costs.status * 1e3:.2f} ms to read its progress;")
    print(f"  {costs.reading * 1e3:.0f} ms and {costs.memory / 1e6:.2f} MB to read its results")
    print(f"storage: {costs.size / 1e6:.2f} MB in {costs.files} files for a run of {steps} steps;")
    print(f"  a checkpoint of {costs.checkpoint / 1e3:.0f} kB takes {saving * 1e3:.0f} ms, every {SAVE_EVERY:.0f} s")
    return costs


def extrapolate(runs: int, machines: int, cores: int, jobs: float, costs: Costs) -> None:
    """Print what so many runs cost; jobs: Ray's per second."""
    busy = min(runs, machines * cores)
    print(f"{runs:,} runs on {machines} machines of {cores} cores, {busy:,} at a time:")
    seconds = runs * costs.status
    print(f"  progress: {seconds:,.1f} s to read it once, so it is read every {seconds / POLL_FRACTION:,.0f} s")
    print(f"  jobs: {runs / jobs:,.0f} s of the driver in total")
    print(f"  checkpoints: {busy / SAVE_EVERY:,.0f} files/s, {busy * costs.checkpoint / SAVE_EVERY / 1e6:,.0f} MB/s")
    print(f"  storage at the end: {runs * costs.size / 1e9:,.0f} GB in {runs * costs.files:,.0f} files")
    print(f"  driver: {runs * costs.planning:,.0f} s to plan, {runs * costs.reading:,.0f} s to read the results,")
    print(f"    {runs * costs.memory / 1e9:,.1f} GB of memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--cores", type=int, default=16, help="of a machine")
    parser.add_argument("--steps", type=int, default=100_000, help="of the Maze runs that are measured")
    options = parser.parse_args()
    jobs = ray_jobs() if find_spec("ray") else float("nan")
    print(f"Ray: {jobs:,.0f} jobs/s")
    with tempfile.TemporaryDirectory() as work:
        costs = costs_of(Path(work), options.steps)
    extrapolate(options.runs, options.machines, options.cores, jobs, costs)


if __name__ == "__main__":
    main()
