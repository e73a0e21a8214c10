"""Benchmarks: methods x the tasks of a suite x seeds. The folder of a benchmark has a comparison for each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from geodesic.checks import as_name
from geodesic.errors import GeodesicError, InvalidInput, format_error
from geodesic.records import RunConfig, RunResult, finished, load_comparison, read_json, write_json
from geodesic.records.files import inside
from geodesic.runs.compare import Methods, Outcome, compare, expand_methods, plan_comparison, run_folder
from geodesic.runs.executors import Executor, LocalProcesses
from geodesic.runs.executors.base import SAVE_EVERY
from geodesic.tasks import Task, load
from geodesic.tasks.methods import Method
from geodesic.tasks.suites import DEFAULT, SUITES, Benchmark, choose
from geodesic.training.configure import configure, curriculum_of, objects_of
from geodesic.training.objects import Objects

NOTE = "benchmark.json"
METHODS = ("auto", "gradient", "currot", "alp-gmm", "uniform", "target-only")
SEEDS = 5


@dataclass(frozen=True)
class TaskPlan:
    """The comparison of one task.

    Args:
        benchmark: The task as part of the suite.
        task: The task.
        folder: The folder of the comparison.
        configs: The configuration of each run.
        objects: For each run, what was passed as objects.
    """

    benchmark: Benchmark
    task: Task
    folder: Path
    configs: list[RunConfig]
    objects: list[Objects]

    @property
    def done(self) -> int:
        """The number of finished runs."""
        return sum(finished(run_folder(self.folder, config)) for config in self.configs)


@dataclass(frozen=True)
class BenchmarkPlan:
    """The comparisons of a benchmark.

    Args:
        suite: The name of the suite.
        folder: The folder of the benchmark.
        tasks: The comparison of each task.
        left_out: Why a method is not trained on a task, by their names.
    """

    suite: str
    folder: Path
    tasks: list[TaskPlan]
    left_out: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return sum(len(each.configs) for each in self.tasks)

    @property
    def done(self) -> int:
        """The number of finished runs."""
        return sum(each.done for each in self.tasks)


def is_benchmark(folder: Path) -> bool:
    """Whether a folder holds a benchmark."""
    return (folder / NOTE).is_file()


def recorded_suite(folder: Path) -> str | None:
    """Read the suite of the benchmark in a folder; None if it holds none yet.

    Raises:
        InvalidInput: If the folder holds something else.
    """
    if is_benchmark(folder):
        return as_name(read_json(folder / NOTE).get("suite"), f"the suite in {folder / NOTE}", SUITES)
    try:
        if folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir()):
            raise InvalidInput(f"expected a new or empty folder or an earlier benchmark, got {folder}")
    except OSError as error:
        raise InvalidInput(f"expected a folder for the benchmark, got {folder}: {error.strerror}") from error
    return None


def plan_benchmark(
    out: Path,
    methods: Methods = (),
    suite: str | None = None,
    tasks: str | None = None,
    seeds: Sequence[int] | None = None,
) -> BenchmarkPlan:
    """Configure all runs before any work starts.

    Args:
        out: The folder of the benchmark.
        methods: The methods, as in a comparison (default: `METHODS`).
        suite: The name of the suite (default: that of an earlier benchmark in the folder, else "fast").
        tasks: Some of its tasks, separated by commas (default: all of them).
        seeds: The seeds (default: those that the folder has for the task, else 0 ... 4).

    Returns:
        The plan. A method that some of the tasks refuse is left out there.

    Raises:
        InvalidInput: If an argument is invalid, a method fits no task, or the folder holds something else.
    """
    recorded = recorded_suite(out)
    chosen = suite or recorded or DEFAULT
    members = choose(chosen, tasks)
    if recorded not in (None, chosen):
        raise InvalidInput(f"{out} holds a benchmark of the suite {recorded}, got {chosen}; try another --out")
    given = expand_methods(methods or METHODS)
    left_out: dict[tuple[str, str], str] = {}
    plans = []
    for member in members:
        folder, task = inside(out, member.task), load(member.task)
        fitting, refused = _fitting(task, given)
        left_out |= {(label, member.task): str(error) for label, error in refused.items()}
        for label, error in refused.items():
            if sum(name == label for name, _ in left_out) == len(members):
                raise error
        if fitting:
            own = _recorded_seeds(folder) or range(SEEDS) if seeds is None else seeds
            configs = plan_comparison(task, fitting, own, member.steps, folder)
            objects = {label: objects_of(task, method) for label, method in fitting.items()}
            plans.append(TaskPlan(member, task, folder, configs, [objects[each.label] for each in configs]))
    return BenchmarkPlan(chosen, out, plans, left_out)


def _fitting(task: Task, methods: Mapping[str, Method]) -> tuple[dict[str, Method], dict[str, InvalidInput]]:
    """The methods that can be built on a task, and why the others cannot."""
    fitting, refused = {}, {}
    for label, method in methods.items():
        try:
            curriculum_of(task, configure(task, method), objects_of(task, method))
            fitting[label] = method
        except InvalidInput as error:
            refused[label] = error
    return fitting, refused


def _recorded_seeds(folder: Path) -> list[int]:
    """The seeds that a comparison has runs of."""
    names = (path.name.removeprefix("seed-") for path in folder.glob("runs/*/seed-*"))
    return sorted({int(name) for name in names if name.isdecimal()})


def run_benchmark(
    plan: BenchmarkPlan,
    executor: Executor | None = None,
    at_once: int | None = None,
    save_every: float = SAVE_EVERY,
    progress: Callable[[TaskPlan], AbstractContextManager[object]] = lambda each: nullcontext(),
) -> Outcome:
    """Do all runs that are not finished yet, one task after the other.

    Args:
        plan: The plan.
        executor: Where the runs are trained (default: local processes).
        at_once: Runs in one program (default: all seeds of a method).
        save_every: Seconds between checkpoints.
        progress: Makes a context manager around the training of a task.

    Returns:
        How many runs are finished, and why the others failed; their names begin with the task.
    """
    chosen = executor or LocalProcesses()
    failed: dict[str, str] = {}
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        write_json(plan.folder / NOTE, {"suite": plan.suite})
    except (GeodesicError, OSError) as error:
        raise InvalidInput(f"cannot write to {plan.folder}: {format_error(error)}") from error
    for each in plan.tasks:
        if each.done == len(each.configs):
            continue
        seeds = len({config.seed for config in each.configs})
        size = at_once or max(chosen.at_once(len(each.configs)), seeds)
        with progress(each):
            outcome = compare(each.configs, each.folder, each.task, chosen, size, save_every, objects=each.objects)
        failed |= {f"{each.task.name} {name}": reason for name, reason in outcome.failed.items()}
    return Outcome(plan.done, failed)


def load_benchmark(folder: Path) -> tuple[str, dict[str, tuple[Benchmark, list[RunResult]]]]:
    """Read the benchmark in a folder; nothing that it names is run.

    Args:
        folder: The folder.

    Returns:
        The suite, and for each of its tasks that has runs the task and all runs.

    Raises:
        InvalidInput: If the folder holds no benchmark or no run, or runs of other tasks.
        CheckpointError: If a file in it is damaged.
    """
    if not is_benchmark(folder):
        raise InvalidInput(f"expected {folder} to hold a benchmark, got no {NOTE}")
    suite = recorded_suite(folder)
    found = {}
    for member in choose(str(suite)):
        if any((folder / member.task).glob("runs/*/seed-*/config.json")):
            runs = load_comparison(folder / member.task)
            wrong = next((run for run in runs if run.config.task != member.task or run.steps != member.steps), None)
            if wrong is not None:
                raise InvalidInput(
                    f"expected runs of {member.task} with {member.steps} steps in {folder / member.task}, got one of "
                    f"{wrong.task} with {wrong.steps}"
                )
            found[member.task] = (member, runs)
    if not found:
        raise InvalidInput(f"expected runs of the suite {suite} in {folder}, got none")
    return str(suite), found
