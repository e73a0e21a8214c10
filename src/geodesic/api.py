"""`geodesic.train`: a task, a method and a learner in, trained agents with their records out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from geodesic.analysis.statistics import summarise
from geodesic.checks import MOST, as_function, as_integer, as_path, as_seed, is_integer
from geodesic.errors import InvalidInput, RunFailed, shown
from geodesic.records import RunResult, load_run
from geodesic.report.tables import format_table
from geodesic.runs.compare import same_run
from geodesic.runs.config import configure, slug
from geodesic.runs.executors.base import Job, Say, do
from geodesic.runs.run import load_policy
from geodesic.runs.tail import worst_contexts
from geodesic.tasks import Task, load
from geodesic.training.trainer import Policy


@dataclass(frozen=True)
class Result:
    """What `train` gives back. Everything in it is read from the run folders, which stay."""

    task: Task
    folder: Path
    folders: dict[int, Path]  # by seed

    @property
    def runs(self) -> list[RunResult]:
        """What each run recorded, in the order of the seeds."""
        return [load_run(path) for path in self.folders.values()]

    def policy(self, seed: int | None = None, stochastic: bool = False) -> Policy:
        """The trained agent: observation -> action, as `task.make()` has them; the first seed's, if none is named."""
        chosen = next(iter(self.folders)) if seed is None else as_seed(seed)
        if chosen not in self.folders:
            raise InvalidInput(f"expected one of the seeds {', '.join(map(str, self.folders))}, got {seed!r}")
        return load_policy(self.folders[chosen], self.task, stochastic)

    def cvar(self, share: float = 0.1) -> dict[int, float]:
        """By seed, the agent's mean score in this share of the target's contexts, those it is worst in.

        Ranked by one evaluation, scored by a second one.
        """
        return {seed: worst_contexts(path, share, self.task).score for seed, path in self.folders.items()}

    def table(self) -> str:
        """Times, final scores and successes over the seeds, as text."""
        runs = self.runs
        return format_table(summarise(runs, runs[0].solved))

    def figures(self) -> list[Path]:
        """Draw every figure that applies; where they were written."""
        from geodesic.report.figures import write_comparison_figures, write_run_figures

        first = next(iter(self.folders.values()))
        return [*write_comparison_figures(self.folder, self.task), *write_run_figures(first, self.task)]

    def report(self) -> Path:
        """One page with all of it, which opens from disk; where it was written."""
        from geodesic.report.page import write_report

        return write_report(self.folder, self.task)

    def __repr__(self) -> str:
        return f"Result({self.task.name!r}, {len(self.folders)} runs in {self.folder})"


def train(
    task: Task | str,
    method: str = "gradient",
    learner: object = None,
    steps: int | None = None,
    seeds: int | Sequence[int] = 1,
    out: str | Path | None = None,
    metric: str | None = None,
    threshold: float | None = None,
    say: Say = lambda steps, note: None,
    backend: str = "jax",
) -> Result:
    """Train agents on a task with a curriculum, one a seed, all of them in one compiled program.

        result = gd.train(task, "gradient:step=0.1", learner=gd.PPO(n_envs=8), steps=150_000, seeds=4, out="runs/mine")
        print(result.table())

    seeds: how many (0, 1, ...), or which. out: a folder, which is kept; called again with the same one, unfinished runs
    go on and finished ones are taken as they are. Without one, a new folder under the system's temporary one. say: is
    called now and then with the steps done in all runs and a note. backend: "jax", or "sb3" and "sbx", whose PPO and
    SAC then train with the same hyperparameters, one run after the other.
    """
    task = load(task)
    as_function(say, "say")
    configs = [configure(task, method, seed, steps, metric, threshold, learner, backend) for seed in _chosen(seeds)]
    folder = Path(tempfile.mkdtemp(prefix="geodesic-")) if out is None else as_path(out, "out")
    folders = {config.seed: folder / "runs" / slug(config.label) / f"seed-{config.seed}" for config in configs}
    for config in configs:
        same_run(config, folders[config.seed])
    errors = list(dict.fromkeys(do(Job(tuple(configs), tuple(folders.values())), say, task).values()))
    if errors:
        raise errors[0] if len(errors) == 1 else RunFailed("; ".join(map(str, errors)))
    return Result(task, folder, folders)


def _chosen(seeds: int | Sequence[int]) -> list[int]:
    """The seeds that are meant, each once."""
    if is_integer(seeds):
        seeds = range(as_integer(seeds, "seeds", -MOST, 10**6))
    if isinstance(seeds, (str, bytes)) or not isinstance(seeds, Iterable):
        raise InvalidInput(f"expected seeds to be how many, or a list of them, got {shown(seeds)}")
    chosen = dict.fromkeys(as_seed(seed) for seed in seeds)
    if not chosen:
        raise InvalidInput("expected at least one seed, got none")
    return list(chosen)
