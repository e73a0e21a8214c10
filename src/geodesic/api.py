"""`train` and `compare` train agents on a task, `benchmark` on those of a suite; `load` reads their folders."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from geodesic.analysis.aggregate import Aggregate
from geodesic.analysis.statistics import summarise
from geodesic.analysis.verdict import Verdict, verdict_of
from geodesic.checks import MOST, as_boolean, as_integer, as_name, as_path, as_seed, as_strings, is_integer, optional
from geodesic.curricula.base import Threshold
from geodesic.errors import InvalidInput, RunFailed, printable, short_repr
from geodesic.metrics.standard import Maker
from geodesic.records import RunConfig, RunResult, check_origin, load_comparison, load_run, read_config, run_exists
from geodesic.report.tables import format_table
from geodesic.runs.benchmark import TaskPlan, plan_benchmark, run_benchmark
from geodesic.runs.benchmark import load_benchmark as read_benchmark
from geodesic.runs.compare import Methods, expand_methods, plan_comparison, run_folder
from geodesic.runs.compare import compare as compare_runs
from geodesic.runs.cvar import worst_contexts
from geodesic.runs.executors import Executor, Job, LocalProcesses, ThisProcess
from geodesic.runs.executors.local import has_accelerator
from geodesic.runs.export import export_policy
from geodesic.runs.run import load_policy, run_job
from geodesic.tasks import Task
from geodesic.tasks import load as load_task
from geodesic.tasks.check import quick_check
from geodesic.tasks.methods import Method
from geodesic.training.configure import configure, method_label, objects_of, task_of
from geodesic.training.objects import Objects
from geodesic.training.session import continue_run
from geodesic.training.trainer import Policy

if TYPE_CHECKING:
    from geodesic.report.benchmark import BenchmarkResults
    from geodesic.report.progress import FolderProgress


@dataclass(frozen=True)
class Result:
    """What `train`, `compare` and `load` return. Everything in it is read from the run folders, which are kept.

    Code that the folders name is trusted after `train` and `compare`, with `load(..., trust=True)`, or if the folder's
    signature shows that you wrote it on this machine.

    Args:
        folder: The folder of all runs.
        folders: The folder of each run, by method and seed: `result.folders["auto", 0]`.
    """

    _task: Task | None  # None: the one that the runs name, which is loaded when it is used
    folder: Path
    folders: dict[tuple[str, int], Path]
    _objects: Mapping[str, Objects] = field(default_factory=dict, repr=False)  # by method
    _trust: bool = True

    @property
    def task(self) -> Task:
        """The task of the runs.

        Raises:
            InvalidInput: If the task was passed as an object to another process, or its code is not trusted.
        """
        if self._task is not None:
            return self._task
        path = next(iter(self.folders.values()))
        config = read_config(path)
        check_origin(path / "config.json", config, self._trust, fields=("task",))
        return task_of(config)

    @property
    def runs(self) -> list[RunResult]:
        """The records of each run, in the order of the methods and seeds."""
        return [load_run(path) for path in self.folders.values()]

    def policy(
        self,
        seed: int | None = None,
        method: Method | None = None,
        stochastic: bool = False,
        which: Literal["best", "last"] = "best",
    ) -> Policy:
        """Load a trained agent.

        Args:
            seed: Which run's agent (default: the first seed's).
            method: Which method's, as it was given or by its label in the table (default: the first one's).
            stochastic: Sample actions instead of taking the best one.
            which: "best": the policy with the best smoothed evaluation on the target; "last": the policy at the end of
                training, which tables, films and `cvar` describe.

        Returns:
            A function observation -> action, for `task.make()`.

        Raises:
            InvalidInput: If there is no run of this method with this seed, or it keeps no such policy.
        """
        label, number = self._chosen(seed, method)
        path, objects = self.folders[label, number], self._objects.get(label)
        return load_policy(path, self._task, stochastic, objects=objects, trust=self._trust, which=which)

    def export(
        self,
        out: str | Path,
        seed: int | None = None,
        method: Method | None = None,
        which: Literal["best", "last"] = "best",
    ) -> list[Path]:
        """Write a trained agent to a file that other programs can use.

        Args:
            out: The file. `policy.npz`: arrays, and next to it `numpy_policy.py`, which loads them and needs NumPy
                only. `policy.onnx`: a graph for ONNX runtimes. `policy.zip`: for runs with `backend="sb3"` or `"sbx"`,
                what `model.save` writes, and next to it a file for `VecNormalize.load`.
            seed: Which run's agent (default: the first seed's).
            method: Which method's (default: the first one's).
            which: "best" or "last", as for `policy`.

        Returns:
            The paths of the files.

        Raises:
            InvalidInput: If there is no such run, or its policy cannot be written in this format.
            MissingExtra: If the file is `.onnx` and onnx is not installed.

        Example:
            >>> import tempfile
            >>> import geodesic as gd
            >>> result = gd.train("maze", "target-only", steps=1000)
            >>> [path.name for path in result.export(tempfile.mkdtemp() + "/policy.npz")]
            ['policy.npz', 'numpy_policy.py']
        """
        label, number = self._chosen(seed, method)
        path, objects = self.folders[label, number], self._objects.get(label)
        return export_policy(path, as_path(out, "out"), which, self._task, objects, self._trust)

    def _chosen(self, seed: int | None, method: Method | None) -> tuple[str, int]:
        """The method and the seed of one run, by default the first ones."""
        labels = list(dict.fromkeys(label for label, _ in self.folders))
        named = labels[0] if method is None else method
        label = as_name(named if named in labels else method_label(named), "the method", labels)
        seeds = [number for own, number in self.folders if own == label]
        chosen = seeds[0] if seed is None else as_seed(seed)
        if chosen not in seeds:
            raise InvalidInput(f"expected one of the seeds {', '.join(map(str, seeds))}, got {seed!r}")
        return label, chosen

    def cvar(self, fraction: float = 0.1) -> dict[tuple[str, int], float]:
        """Score each agent in those contexts of the target in which it does worst (conditional value at risk).

        Contexts are ranked by one evaluation and scored by a second one.

        Args:
            fraction: How large a fraction of the target's contexts to score: the worst ones.

        Returns:
            The mean score by method and seed.
        """
        found = {}
        for (label, seed), path in self.folders.items():
            objects = self._objects.get(label)
            found[label, seed] = worst_contexts(path, fraction, self._task, objects, self._trust).score
        return found

    def table(self) -> str:
        """Summarise times, final scores and successes over the seeds.

        Returns:
            The table, as text.
        """
        runs = self.runs
        return format_table(summarise(runs, runs[0].solved))

    def verdict(self) -> Verdict:
        """Judge the runs: was the target solved, where did the other seeds get stuck and why, and what to try next.

        It also says whether the curriculum paid off compared with `target-only` and `uniform`, if they were trained.

        Returns:
            The verdict, which prints as plain sentences.
        """
        return verdict_of(self.runs)

    def figures(self) -> list[Path]:
        """Draw every figure that applies: of all runs into their common folder, and of each method's first run.

        Returns:
            The paths of the figures.
        """
        from geodesic.report.figures import write_comparison_figures, write_run_figures

        firsts = {label: path for (label, _), path in reversed(self.folders.items())}
        single = [each for path in firsts.values() for each in write_run_figures(path, self._task, trust=self._trust)]
        if self.folder in firsts.values():
            return single
        return [*write_comparison_figures(self.folder, self._task, trust=self._trust), *single]

    def report(self) -> Path:
        """Write a page with tables, charts and films that opens from disk.

        Returns:
            The path of the page.

        Raises:
            MissingExtra: If the packages of the extra `report` are not installed.
        """
        from geodesic.report.page import write_report

        return write_report(self.folder, self._task, trust=self._trust)

    def __repr__(self) -> str:
        name = read_config(next(iter(self.folders.values()))).name
        return f"Result({printable(name)!r}, {len(self.folders)} runs in {self.folder})"


def load(folder: str | Path, trust: bool = False) -> Result:
    """Load runs from their folder: that of `train`, of `compare`, or of a single run, whatever trained it.

    Tables, figures and the report need no code that the folder names; nor do the policies of PPO and SAC.

    Args:
        folder: The folder that was passed as `out`, also to `geodesic run`, `geodesic compare`,
            `gd.sb3.CurriculumCallback`, RLlib or `Teacher`.
        trust: Whether to run code that the folder names (own task, method, ...) even if you did not write it here.

    Returns:
        The same `Result` as `train` and `compare` return. Runs that are not finished are included.

    Raises:
        InvalidInput: If the folder is not that of runs.
        CheckpointError: If a file in it is damaged.

    Example:
        >>> import geodesic as gd
        >>> folder = gd.train("maze", "target-only", steps=1000).folder
        >>> gd.load(folder).runs[0].steps
        1000
    """
    path = as_path(folder)
    runs = [load_run(path)] if (path / "config.json").exists() else load_comparison(path)
    folders = {(run.config.label, run.seed): run.folder for run in runs}
    return Result(None, path, folders, _trust=as_boolean(trust, "trust"))


def train(
    task: Task | str,
    method: Method = "auto",
    learner: object = None,
    steps: int | None = None,
    seeds: int | Sequence[int] = 1,
    out: str | Path | None = None,
    metric: str | Maker | None = None,
    threshold: Threshold | None = None,
    progress: bool | None = None,
    backend: str = "jax",
) -> Result:
    """Train agents on a task with a curriculum.

    All seeds train in one compiled program if the environment is written in JAX.

    Args:
        task: A `Task`, the name of a built-in task, `"package.module:object"` or `"path/file.py:object"`.
        method: A name with options (`"gradient:step=0.1"`), a reference to your own class
            (`"my_file.py:MyMethod:option=3"`), a `Curriculum`, or a function `Problem -> Curriculum`.
        learner: `gd.PPO(learning_rate=1e-3)` or, as a string, `"ppo:learning_rate=1e-3"` changes this value of the
            task's learner if that is PPO, and of PPO's defaults otherwise; likewise `gd.SAC(...)`. Any other object
            that is a `Learner` is used as it is (default: the task's).
        steps: Environment steps of each run (default: the task's).
        seeds: How many seeds (0, 1, ...), or which.
        out: The folder of the runs. Call `train` again with the same one to resume unfinished runs, reload finished
            ones, or continue them to more `steps` (default: a new folder in the system's temporary folder).
        metric: The distance between contexts, by name or as an object (default: the task's).
        threshold: The score above which a stage is mastered (default: the task's).
        progress: Show progress bars, and the verdict at the end (default: if standard error is a terminal).
        backend: "jax", or "sb3" and "sbx", which train with PPO and SAC of those libraries.

    Returns:
        A `Result` with tables, figures, policies and the run folders.

    Raises:
        InvalidInput: If an argument is invalid; nothing has been written.
        RunFailed: If a run failed; the others are finished, and all checkpoints are kept.

    Example:
        >>> import geodesic as gd
        >>> result = gd.train("maze", "gradient:step=0.2", steps=1000, seeds=[0])
        >>> result.runs[0].steps
        1000
    """
    task = load_task(task)
    optional(as_boolean)(progress, "progress")
    configs = [configure(task, method, seed, steps, metric, threshold, learner, backend) for seed in _as_seeds(seeds)]
    folder = _folder(out)
    folders = {(config.label, config.seed): run_folder(folder, config) for config in configs}
    configs = [continue_run(config, path, task) for config, path in zip(configs, folders.values())]
    objects = objects_of(task, method, metric, learner)
    if not all(map(run_exists, folders.values())):
        quick_check(task)
    with _progress(folder, configs, progress) as shown:
        failed = run_job(Job(tuple(configs), tuple(folders.values())), task, [objects] * len(configs))
    errors = list(dict.fromkeys(failed.values()))
    if errors:
        raise errors[0] if len(errors) == 1 else RunFailed("; ".join(map(str, errors)))
    return _judged(Result(task, folder, folders, dict.fromkeys((config.label for config in configs), objects)), shown)


def compare(
    task: Task | str,
    methods: Methods = (),
    learner: object = None,
    steps: int | None = None,
    seeds: int | Sequence[int] = 3,
    out: str | Path | None = None,
    threshold: Threshold | None = None,
    progress: bool | None = None,
    backend: str = "jax",
    workers: int | None = None,
) -> Result:
    """Train several methods on a task with the same seeds, as `geodesic compare` does.

    Runs are spread over worker processes, which do not import your script, so it needs no guard.

    Args:
        task: A `Task`, the name of a built-in task, `"package.module:object"` or `"path/file.py:object"`.
        methods: A list of methods as `train` takes them, where `"gradient:step=0.1|0.2:window=10|20"` expands to every
            combination; or a dictionary of methods by the names that tables and figures use; or `"all"` (default: the
            task's, `TrainingSettings.compare`).
        learner: The learner of all runs, as for `train` (default: the task's).
        steps: Environment steps of each run (default: the task's).
        seeds: How many seeds (0, 1, ...), or which.
        out: The folder of the comparison. Call `compare` again with the same one to resume it, or to add methods and
            seeds (default: a new folder in the system's temporary folder).
        threshold: The score above which a stage is mastered (default: the task's).
        progress: Show progress bars, and the verdict at the end (default: if standard error is a terminal).
        backend: "jax", or "sb3" and "sbx", which train with PPO and SAC of those libraries.
        workers: How many worker processes; 0: this process trains all runs, and compiles methods and seeds into one
            program if the environment is written in JAX (default: one per core, or 0 with an accelerator).

    Returns:
        A `Result` with tables, figures, policies and the run folders.

    Raises:
        InvalidInput: If an argument is invalid; nothing has been written.
        RunFailed: If a run failed; the others are finished, and all checkpoints are kept.

    Example:
        >>> import geodesic as gd
        >>> result = gd.compare("maze", ["gradient:step=0.1|0.2", "uniform"], steps=1000, seeds=2, workers=0)
        >>> len(result.runs)
        6
    """
    task = load_task(task)
    optional(as_boolean)(progress, "progress")
    optional(as_integer)(workers, "workers")
    chosen = expand_methods(methods or task.training.compare)
    folder = _folder(out)
    configs = plan_comparison(task, chosen, _as_seeds(seeds), steps, folder, threshold, learner, backend)
    objects = {label: objects_of(task, method, None, learner) for label, method in chosen.items()}
    executor = _executor(workers)
    with _progress(folder, configs, progress) as shown:
        failed = compare_runs(configs, folder, task, executor, objects=[objects[each.label] for each in configs]).failed
    if failed:
        raise RunFailed("; ".join(f"{name}: {reason}" for name, reason in failed.items()))
    folders = {(each.label, each.seed): run_folder(folder, each) for each in configs}
    return _judged(Result(task, folder, folders, objects), shown)


@dataclass(frozen=True)
class BenchmarkResult:
    """What `benchmark` and `load_benchmark` return. Everything in it is read from the run folders, which are kept.

    Args:
        folder: The folder of the benchmark.
    """

    folder: Path

    @property
    def tasks(self) -> dict[str, Result]:
        """The runs of each task, by its name."""
        return {name: load(self.folder / name) for name in self._results().tasks}

    def table(self) -> str:
        """Summarise each method in one line: over all tasks, and its mean normalised score on each of them.

        Returns:
            The table, as text.
        """
        from geodesic.report.benchmark import summary_table

        return summary_table(self._results())

    def aggregate(self) -> list[Aggregate]:
        """Return the numbers of the table: one row per method, that with the highest interquartile mean first."""
        return self._results().rows

    def report(self) -> Path:
        """Write a page with all tables and charts that opens from disk.

        Returns:
            The path of the page.

        Raises:
            MissingExtra: If the packages of the extra `report` are not installed.
        """
        from geodesic.report.page.benchmark import write_benchmark_report

        return write_benchmark_report(self._results())

    def _results(self) -> BenchmarkResults:
        from geodesic.report.benchmark import BenchmarkResults

        return BenchmarkResults.read(self.folder)


def benchmark(
    methods: Methods = (),
    suite: str | None = None,
    tasks: Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    progress: bool | None = None,
    workers: int | None = None,
) -> BenchmarkResult:
    """Train several methods on the tasks of a suite with the same seeds, as `geodesic benchmark` does.

    Args:
        methods: Methods, as for `compare` (default: auto, gradient, currot, alp-gmm, uniform and target-only).
        suite: `"fast"`, `"paper"`, `"rivals"` or `"all"` (default: that of an earlier benchmark in `out`, else
            `"fast"`).
        tasks: The names of some of its tasks (default: all of them).
        seeds: How many seeds (0, 1, ...), or which (default: those that `out` has for the task, else five).
        out: The folder of the benchmark. Call `benchmark` again with the same one to resume it, or to add methods and
            seeds (default: a new folder in the system's temporary folder).
        progress: Show progress bars (default: if standard error is a terminal).
        workers: How many worker processes; 0: this process trains all runs (default: one per core, or 0 with an
            accelerator).

    Returns:
        A `BenchmarkResult` with the table, the page and the runs of each task.

    Raises:
        InvalidInput: If an argument is invalid; nothing has been written.
        RunFailed: If a run failed; the others are finished, and all checkpoints are kept.
    """
    optional(as_boolean)(progress, "progress")
    optional(as_integer)(workers, "workers")
    named = None if tasks is None else ",".join(as_strings(tasks, "tasks"))
    given = None if seeds is None else _as_seeds(seeds)
    plan = plan_benchmark(_folder(out), methods, suite, named, given)

    def show(each: TaskPlan) -> AbstractContextManager[FolderProgress | None]:
        return _progress(each.folder, each.configs, progress)

    failed = run_benchmark(plan, _executor(workers), progress=show).failed
    if failed:
        raise RunFailed("; ".join(f"{name}: {reason}" for name, reason in failed.items()))
    return BenchmarkResult(plan.folder)


def load_benchmark(folder: str | Path) -> BenchmarkResult:
    """Load a benchmark from its folder, finished or not; nothing that the folder names is run.

    Args:
        folder: The folder that was passed as `out`.

    Returns:
        The same `BenchmarkResult` as `benchmark` returns.

    Raises:
        InvalidInput: If the folder is not that of a benchmark, or holds no runs.
        CheckpointError: If a file in it is damaged.
    """
    path = as_path(folder)
    read_benchmark(path)
    return BenchmarkResult(path)


def _executor(workers: int | None) -> Executor:
    """Worker processes, or this process if there are to be none or there is an accelerator."""
    here = has_accelerator() if workers is None else workers == 0
    return ThisProcess() if here else LocalProcesses(workers)


def _folder(out: str | Path | None) -> Path:
    """The folder of a call's runs, by default a temporary one."""
    return Path(tempfile.mkdtemp(prefix="geodesic-")) if out is None else as_path(out, "out")


def _judged(result: Result, shown: FolderProgress | None) -> Result:
    """The result, whose verdict is printed where progress was shown."""
    if shown is not None:
        shown.console.print(result.verdict().text, markup=False, highlight=False, soft_wrap=True)
    return result


def _progress(
    folder: Path, configs: Sequence[RunConfig], wanted: bool | None
) -> AbstractContextManager[FolderProgress | None]:
    """Progress bars on standard error, read from the run folders."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        return nullcontext()
    from geodesic.report.progress import FolderProgress
    from geodesic.report.terminal import SafeConsole

    return FolderProgress(SafeConsole(stderr=True), folder, configs)


def _as_seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds, each once."""
    if is_integer(seeds):
        seeds = range(as_integer(seeds, "seeds", -MOST, 10**6))
    if isinstance(seeds, (str, bytes)) or not isinstance(seeds, Iterable):
        raise InvalidInput(f"expected seeds as a number or a list of seeds, got {short_repr(seeds)}")
    chosen = dict.fromkeys(as_seed(seed) for seed in seeds)
    if not chosen:
        raise InvalidInput("expected at least one seed, got none")
    return list(chosen)
