"""Comparing: methods x seeds, spread over worker processes, resumable as a whole.

A task is one or more runs that train at once in one worker. A worker that falls silent or dies is ended, and its task
is taken up again from the last checkpoints; after `TRIES` attempts it counts as failed and the others go on.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from geodesic.errors import GeodesicError, InvalidInput
from geodesic.experiments.config import RunConfig, configure, slug, table
from geodesic.experiments.folder import finished
from geodesic.training import checkpoint

TRIES = 3
STALL_SECONDS = 600.0  # longer than any compilation


@dataclass(frozen=True)
class Task:
    configs: tuple[RunConfig, ...]
    folders: tuple[Path, ...]

    @property
    def name(self) -> str:
        first = f"{self.configs[0].label} seed {self.configs[0].seed}"
        return first if len(self.configs) == 1 else f"{len(self.configs)} runs at once"

    @property
    def steps(self) -> int:
        return sum(config.steps for config in self.configs)


@dataclass(frozen=True)
class Update:
    """What a worker says of its task: steps done in all runs of it, and a note for the progress bar."""

    task: int
    steps: int = 0
    note: str = ""
    ended: bool = False
    error: str = ""


@dataclass
class Outcome:
    """What became of a comparison."""

    folder: Path
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)


def plan_comparison(
    env: str, methods: Sequence[str], seeds: Sequence[int], steps: int | None, out: Path, threshold: float | None = None
) -> list[RunConfig]:
    """All runs, checked before any work starts; an earlier comparison in `out` must be of the same kind."""
    if not seeds:
        raise InvalidInput("expected at least one seed, got none")
    labels = list(methods) or list(table(env)["compare"])
    configs = [configure(env, label, seed, steps, threshold=threshold) for label in labels for seed in seeds]
    described = {"env": env, "steps": configs[0].steps, "threshold": configs[0].threshold, "solved": configs[0].solved}
    note = out / "comparison.json"
    if note.exists():
        earlier = json.loads(note.read_text())
        if earlier != described:
            raise InvalidInput(f"{out} holds another comparison ({earlier}); try another --out")
    elif out.exists() and any(out.iterdir()):
        raise InvalidInput(f"expected a new or empty folder or an earlier comparison, got {out}")
    text = json.dumps(described).encode()
    try:
        checkpoint.write_atomically(note, lambda file: file.write(text))
    except GeodesicError as error:
        raise InvalidInput(str(error)) from error
    return configs


def compare(
    configs: Sequence[RunConfig],
    out: Path,
    workers: int | None = None,
    at_once: int | None = None,
    listen: Callable[[Task, Update], None] = lambda task, update: None,
) -> Outcome:
    """Do all runs that are not finished yet. `at_once`: runs in one program (default 1 on a CPU, all on a GPU)."""
    pending = [(config, run_folder(out, config)) for config in configs]
    pending = [(config, folder) for config, folder in pending if not finished(folder)]
    outcome = Outcome(out, done=len(configs) - len(pending))
    if not pending:
        return outcome
    accelerated = _has_accelerator()
    size = at_once or (len(pending) if accelerated else 1)
    tasks = [Task(*zip(*pending[i : i + size])) for i in range(0, len(pending), size)]
    count = min(len(tasks), workers or (1 if accelerated else os.cpu_count() or 1))
    Pool(tasks, count, listen).run(outcome)
    return outcome


def run_folder(out: Path, config: RunConfig) -> Path:
    return out / "runs" / slug(config.label) / f"seed-{config.seed}"


class Pool:
    """Worker processes that take tasks one after another."""

    def __init__(self, tasks: list[Task], workers: int, listen: Callable[[Task, Update], None]) -> None:
        self.tasks = tasks
        self.listen = listen
        self.context = multiprocessing.get_context("spawn")
        self.updates: Any = self.context.Queue()
        self.waiting = list(range(len(tasks)))
        self.tries = [0] * len(tasks)
        self.workers = [self._new_worker() for _ in range(workers)]

    def run(self, outcome: Outcome) -> None:
        try:
            while self.waiting or any(worker.task is not None for worker in self.workers):
                self._hand_out()
                self._hear(outcome)
                self._look_after(outcome)
        finally:
            for worker in self.workers:
                worker.end()

    def _hand_out(self) -> None:
        for worker in self.workers:
            if worker.task is None and self.waiting:
                task = self.waiting.pop(0)
                self.tries[task] += 1
                worker.give(task, self.tasks[task])

    def _hear(self, outcome: Outcome) -> None:
        try:
            update = self.updates.get(timeout=0.5)
        except queue.Empty:
            return
        for worker in self.workers:
            if worker.task == update.task:
                worker.heard = time.monotonic()
                if update.ended:
                    worker.task = None
        task = self.tasks[update.task]
        if update.error:
            outcome.failed[task.name] = update.error
        elif update.ended:
            outcome.done += len(task.configs)
        self.listen(task, update)

    def _look_after(self, outcome: Outcome) -> None:
        """Replace workers that died or fell silent; their tasks go on elsewhere."""
        for index, worker in enumerate(self.workers):
            silent = worker.task is not None and time.monotonic() - worker.heard > STALL_SECONDS
            if worker.process.is_alive() and not silent:
                continue
            task = worker.task
            worker.end()
            self.workers[index] = self._new_worker()
            if task is None:
                continue
            if self.tries[task] < TRIES:
                self.waiting.insert(0, task)
                continue
            why = "fell silent" if silent else f"died with exit code {worker.process.exitcode}"
            outcome.failed[self.tasks[task].name] = f"its worker {why}, {TRIES} times"
            self.listen(self.tasks[task], Update(task, ended=True, error=why))

    def _new_worker(self) -> Worker:
        return Worker(self.context, self.updates)


class Worker:
    """One process, the task it has, and when it was last heard of."""

    def __init__(self, context: Any, updates: Any) -> None:
        self.orders: Any = context.Queue()
        self.process = context.Process(target=work, args=(self.orders, updates), daemon=True)
        self.process.start()
        self.task: int | None = None
        self.heard = time.monotonic()

    def give(self, index: int, task: Task) -> None:
        self.task, self.heard = index, time.monotonic()
        self.orders.put((index, task))

    def end(self) -> None:
        self.process.terminate()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()


def work(orders: Any, updates: Any) -> None:
    """A worker's life: take a task, do it, say how it went."""
    from geodesic.experiments.run import use_compilation_cache

    use_compilation_cache()
    while True:
        try:
            index, task = orders.get(timeout=1.0)
        except queue.Empty:
            _leave_if_orphaned()
            continue
        try:
            do_task(task, partial(_say, updates, index))
            updates.put(Update(index, task.steps, ended=True))
        except Exception as error:
            text = " ".join(str(error).split()) or type(error).__name__
            updates.put(Update(index, ended=True, error=f"{type(error).__name__}: {text}"))


def _say(updates: Any, index: int, steps: int, note: str) -> None:
    _leave_if_orphaned()
    updates.put(Update(index, steps, note))


def _leave_if_orphaned() -> None:
    """A comparison that was killed takes its workers along; their checkpoints stay."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        os._exit(1)


def do_task(task: Task, say: Callable[[int, str], None]) -> None:
    """Take up the runs that were broken off, together where they stopped together, and start the others."""
    from geodesic.experiments import run

    steps = [0] * len(task.configs)
    last = [0.0]

    def report(places: Sequence[int]) -> run.Report:
        def tell(index: int, now: run.Progress) -> None:
            steps[places[index]] = now.step
            if time.monotonic() - last[0] > 0.3:
                last[0] = time.monotonic()
                say(sum(steps), f"stage {now.stage} alpha {now.alpha:.2f} target {now.target_return:.1f}")

        return tell

    for places, going_on in _groups(task):
        configs, folders = [task.configs[i] for i in places], [task.folders[i] for i in places]
        begin = run.resume if going_on else run.start
        begin(configs, folders, report(places)).train()


def _groups(task: Task) -> list[tuple[list[int], bool]]:
    """Runs of a task by the step they stand at: [(places in the task, whether there is a checkpoint)]."""
    groups: dict[int, list[int]] = {}
    for place, folder in enumerate(task.folders):
        path = folder / "checkpoint" / "latest.npz"
        if finished(folder):
            continue
        if not path.exists():
            shutil.rmtree(folder, ignore_errors=True)  # cut off before its first checkpoint: nothing to lose
            groups.setdefault(-1, []).append(place)
        else:
            groups.setdefault(int(checkpoint.load(path)[1]["segment"]), []).append(place)
    return [(places, segment >= 0) for segment, places in sorted(groups.items())]


def _has_accelerator() -> bool:
    """Asked in a process of its own: one that looks at a GPU takes its memory from the workers."""
    if not entry_points(group="jax_plugins"):
        return False
    ask = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    return subprocess.run(ask, capture_output=True, text=True).stdout.strip() not in ("", "cpu")
