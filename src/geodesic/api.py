"""`geodesic.train`: train agents on a task with a curriculum."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from geodesic.analysis.statistics import summarise
from geodesic.checks import MOST, as_boolean, as_integer, as_path, as_seed, is_integer, optional
from geodesic.curricula.base import Threshold
from geodesic.errors import InvalidInput, RunFailed, short_repr
from geodesic.metrics.standard import Maker
from geodesic.records import RunConfig, RunResult, load_run
from geodesic.report.tables import format_table
from geodesic.runs.compare import run_folder
from geodesic.runs.cvar import worst_contexts
from geodesic.runs.executors.base import Job
from geodesic.runs.run import load_policy, run_job
from geodesic.tasks import Task, load
from geodesic.tasks.methods import Method
from geodesic.training.configure import configure, objects_of
from geodesic.training.objects import Objects
from geodesic.training.session import check_same_run
from geodesic.training.trainer import Policy


@dataclass(frozen=True)
class Result:
    """What `train` returns. Everything in it is read from the run folders, which are kept.

    The folders hold the runs that the caller described, so code that they name is trusted.

    Args:
        task: The task.
        folder: The folder of all runs.
        folders: The folder of each run, by seed.
    """

    task: Task
    folder: Path
    folders: dict[int, Path]
    _objects: Objects = field(default_factory=Objects, repr=False)

    @property
    def runs(self) -> list[RunResult]:
        """The records of each run, in the order of the seeds."""
        return [load_run(path) for path in self.folders.values()]

    def policy(self, seed: int | None = None, stochastic: bool = False) -> Policy:
        """Load a trained agent.

        Args:
            seed: Which run's agent (default: the first seed's).
            stochastic: Sample actions instead of taking the best one.

        Returns:
            A function observation -> action, for `task.make()`.

        Raises:
            InvalidInput: If there is no run with this seed.
        """
        chosen = next(iter(self.folders)) if seed is None else as_seed(seed)
        if chosen not in self.folders:
            raise InvalidInput(f"expected one of the seeds {', '.join(map(str, self.folders))}, got {seed!r}")
        return load_policy(self.folders[chosen], self.task, stochastic, objects=self._objects, trust=True)

    def cvar(self, fraction: float = 0.1) -> dict[int, float]:
        """Score each agent in the contexts of the target where it is worst (conditional value at risk).

        Contexts are ranked by one evaluation and scored by a second one.

        Args:
            fraction: The fraction of the target's contexts that is scored.

        Returns:
            The mean score by seed.
        """
        folders = self.folders.items()
        given = (fraction, self.task, self._objects, True)
        return {seed: worst_contexts(path, *given).score for seed, path in folders}

    def table(self) -> str:
        """Summarise times, final scores and successes over the seeds.

        Returns:
            The table, as text.
        """
        runs = self.runs
        return format_table(summarise(runs, runs[0].solved))

    def figures(self) -> list[Path]:
        """Draw every figure that applies into the folders.

        Returns:
            The paths of the figures.
        """
        from geodesic.report.figures import write_comparison_figures, write_run_figures

        first = next(iter(self.folders.values()))
        return [*write_comparison_figures(self.folder, self.task), *write_run_figures(first, self.task)]

    def report(self) -> Path:
        """Write a page with tables, charts and films that opens from disk.

        Returns:
            The path of the page.

        Raises:
            MissingExtra: If the packages of the extra `report` are not installed.
        """
        from geodesic.report.page import write_report

        return write_report(self.folder, self.task, trust=True)

    def __repr__(self) -> str:
        return f"Result({self.task.name!r}, {len(self.folders)} runs in {self.folder})"


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
        learner: `gd.PPO(...)`, `gd.SAC(...)`, any object that is a `Learner`, or a string such as
            `"sac:learning_rate=1e-3"` (default: the task's).
        steps: Environment steps of each run (default: the task's).
        seeds: How many seeds (0, 1, ...), or which.
        out: The folder of the runs. Call `train` again with the same one to resume unfinished runs and reload finished
            ones (default: a new folder in the system's temporary folder).
        metric: The distance between contexts, by name or as an object (default: the task's).
        threshold: The score above which a stage is mastered (default: the task's).
        progress: Show progress bars (default: if standard error is a terminal).
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
    task = load(task)
    optional(as_boolean)(progress, "progress")
    configs = [configure(task, method, seed, steps, metric, threshold, learner, backend) for seed in _chosen(seeds)]
    folder = Path(tempfile.mkdtemp(prefix="geodesic-")) if out is None else as_path(out, "out")
    folders = {config.seed: run_folder(folder, config) for config in configs}
    for config in configs:
        check_same_run(config, folders[config.seed])
    objects = objects_of(task, method, metric, learner)
    with _progress(folder, configs, progress):
        failed = run_job(Job(tuple(configs), tuple(folders.values())), task, [objects] * len(configs))
    errors = list(dict.fromkeys(failed.values()))
    if errors:
        raise errors[0] if len(errors) == 1 else RunFailed("; ".join(map(str, errors)))
    return Result(task, folder, folders, objects)


def _progress(folder: Path, configs: Sequence[RunConfig], wanted: bool | None) -> AbstractContextManager[object]:
    """Progress bars on standard error, read from the run folders."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        return nullcontext()
    from geodesic.report.progress import FolderProgress
    from geodesic.report.terminal import SafeConsole

    return FolderProgress(SafeConsole(stderr=True), folder, configs)


def _chosen(seeds: int | Sequence[int]) -> list[int]:
    """The seeds, each once."""
    if is_integer(seeds):
        seeds = range(as_integer(seeds, "seeds", -MOST, 10**6))
    if isinstance(seeds, (str, bytes)) or not isinstance(seeds, Iterable):
        raise InvalidInput(f"expected seeds as a number or a list of seeds, got {short_repr(seeds)}")
    chosen = dict.fromkeys(as_seed(seed) for seed in seeds)
    if not chosen:
        raise InvalidInput("expected at least one seed, got none")
    return list(chosen)
