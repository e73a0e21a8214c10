"""What a run costs everything that is not training it: the driver, the storage, the progress messages.

    python -m benchmarks.scale                                # measures, then reckons for 10,000 runs on 100 machines
    python -m benchmarks.scale --runs 500 --machines 10 --cores 8

Measured on one machine with Maze runs of `--steps` steps, in seconds of a processor; only what several processes share,
Ray's messages and jobs, is by the clock. What depends on the network or the shared storage is told as bytes, files and
messages.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import tempfile
import time
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from rich.console import Console

from geodesic.analysis.statistics import summarise
from geodesic.records import load_comparison
from geodesic.report.progress import Display, JobBars
from geodesic.runs.compare import compare, plan_comparison, run_folder
from geodesic.runs.executors import Job, Update
from geodesic.runs.executors.base import SAVE_EVERY, SAY_EVERY, do
from geodesic.runs.executors.ray import MESSAGES as ALL
from geodesic.runs.run import start

MESSAGES = 20_000
TASKS = 500  # of Ray, that do nothing


def talk(line: Connection) -> None:
    for number in range(MESSAGES):
        line.send(Update(0, number, "stage 3 α 0.30 target -12.3"))


def pipe_messages() -> float:
    """Messages a second that a driver hears from one pipe."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=talk, args=(theirs,))
    process.start()
    theirs.close()
    mine.recv()
    began = time.process_time()
    for _ in range(MESSAGES - 1):
        mine.recv()
    seconds = time.process_time() - began
    process.join()
    return MESSAGES / seconds


def shown_messages(jobs: int) -> float:
    """Messages a second that the progress of so many jobs takes."""
    config = plan_comparison("maze", ["uniform"], [0], 1000, Path("nowhere"))[0]
    job = Job((config,), (Path("nowhere"),))
    bars = JobBars(Display(Console(file=io.StringIO()), quiet=False), jobs * job.steps)
    for index in range(jobs):
        bars(job, Update(index, 1, "stage 0"))
    began = time.process_time()
    for number in range(MESSAGES):
        bars(job, Update(number % jobs, 2 + number // jobs, "stage 3 α 0.30 target -12.3"))
    return MESSAGES / (time.process_time() - began)


def ray_costs() -> tuple[float, float]:
    """Messages a second that a board takes, and tasks a second that a driver hands out and hears the end of."""
    import ray

    from geodesic.runs.executors.ray import Notes

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    board = ray.remote(Notes).remote()
    ray.get(board.take.remote())
    began = time.perf_counter()
    ray.get([board.say.remote(Update(number % 1000, number, "stage 3")) for number in range(MESSAGES // 4)])
    messages = MESSAGES / 4 / (time.perf_counter() - began)
    nothing = ray.remote(lambda job: None)
    job = Job((), (), b"x" * 2000)
    ray.get([nothing.remote(job) for _ in range(10)])
    began = time.perf_counter()
    ray.get([nothing.remote(job) for _ in range(TASKS)])
    tasks = TASKS / (time.perf_counter() - began)
    ray.shutdown()
    return messages, tasks


class Here:
    """Jobs one after another, in this process."""

    def at_once(self, runs: int) -> int:
        return 1

    def run(self, jobs, listen):
        for job in jobs:
            do(job, lambda steps, note: None)
        return {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--cores", type=int, default=16, help="of a machine")
    parser.add_argument("--steps", type=int, default=100_000, help="of the Maze runs that are measured")
    options = parser.parse_args()
    heard = pipe_messages()
    shown = shown_messages(options.runs)
    print(f"driver: {heard:,.0f} messages/s from pipes; {shown:,.0f} to the progress of {options.runs:,} jobs")
    boarded, handed = ray_costs() if find_spec("ray") else (float("nan"), float("nan"))
    print(f"Ray: {boarded:,.0f} messages/s to the board; {handed:,.0f} jobs/s handed out and heard of")
    with tempfile.TemporaryDirectory() as work:
        measured = storage(Path(work), options.steps)
    reckon(options, boarded, handed, *measured)


def storage(out: Path, steps: int) -> tuple[float, float, float, float, float, float]:
    """Of one run: seconds to plan, seconds to read, bytes read, bytes and files on disk, bytes of a checkpoint."""
    seeds = range(4)
    many = list(range(200))
    began = time.process_time()
    plan_comparison("maze", ["uniform"], many, steps, out / "planned")
    planning = (time.process_time() - began) / len(many)
    configs = plan_comparison("maze", ["gradient"], seeds, steps, out / "c")
    compare(configs, out / "c", None, Here())
    folder = run_folder(out / "c", configs[0])
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    kept = (folder / "checkpoint" / "latest.npz").stat().st_size
    began = time.process_time()
    runs = load_comparison(out / "c")
    summarise(runs, configs[0].solved)
    reading = (time.process_time() - began) / len(runs)
    arrays = [value for run in runs for table in (run.episodes, run.evaluations) for value in vars(table).values()]
    memory = sum(value.nbytes for value in arrays if isinstance(value, np.ndarray)) / len(runs)
    batch = start(configs[:1], [out / "save"])
    began = time.process_time()
    for _ in range(20):
        batch.save()
    saving = (time.process_time() - began) / 20
    print(
        f"driver: {planning * 1e3:.1f} ms to plan a run; {reading * 1e3:.0f} ms and {memory / 1e6:.2f} MB to read one"
    )
    print(f"storage: {size / 1e6:.2f} MB in {len(files)} files a run of {steps} steps")
    print(f"storage: a checkpoint has {kept / 1e3:.0f} kB and takes {saving * 1e3:.0f} ms, every {SAVE_EVERY:.0f} s")
    return planning, reading, memory, size, len(files), kept


def reckon(
    options: argparse.Namespace, boarded: float, handed: float, planning: float, reading: float, memory: float,
    size: float, files: float, kept: float,
) -> None:  # fmt: skip
    runs = options.runs
    busy = min(runs, options.machines * options.cores)
    print(f"{runs:,} runs on {options.machines} machines of {options.cores} cores, {busy:,} at a time:")
    said = min(busy / SAY_EVERY, ALL)
    print(f"  progress: {said:,.0f} messages/s ({busy / SAY_EVERY:,.0f} unthrottled), the board takes {boarded:,.0f}")
    print(f"  jobs: {runs / handed:,.0f} s of the driver in all")
    print(f"  checkpoints: {busy / SAVE_EVERY:,.0f} files/s, {busy * kept / SAVE_EVERY / 1e6:,.0f} MB/s to the storage")
    print(f"  storage in the end: {runs * size / 1e9:,.0f} GB in {runs * files:,.0f} files")
    print(
        f"  driver: {runs * planning:,.0f} s to plan, {runs * reading:,.0f} s and {runs * memory / 1e9:,.1f} GB to read"
    )


if __name__ == "__main__":
    main()
