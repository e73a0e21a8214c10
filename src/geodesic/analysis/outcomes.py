"""How runs ended: whether each solved its target, where it rests if not, and what its method is worth beside baselines.

Everything is computed from the tables of the run folders. A target is solved if smoothed evaluations stay above the
level that counts as solved from some step to the end (`geodesic.analysis.statistics`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal

import numpy as np

from geodesic.analysis.intervals import Estimate, median, probability_interval, probability_of_improvement
from geodesic.analysis.statistics import asymptotic, of_seeds, rolling_mean, window_of
from geodesic.checks import check_instances
from geodesic.curricula import REGISTRY
from geodesic.curricula.gradient.staged import BLOCKED, JUMP
from geodesic.errors import InvalidInput, count
from geodesic.records.reader import RunResult, by_label
from geodesic.training.monitor import PATIENCE, WINDOW, Monitor, Notice, replay

BASELINES = ("target-only", "uniform")  # that show whether a curriculum pays
CLEAR = 0.05  # of the way to the level, by which the last evaluations are better if a run still improves
MOST_BLOCKED = 0.9  # fraction of particles from which on no way is left
FEWEST = 8  # evaluations that show whether a run still improves
SEPARABLE = next(n for n in range(1, 99) if probability_interval(1.0, n)[0] > 0.5)  # seeds, for any difference to show

Cause = Literal["solved", "lost", "moving", "resting", "improving", "below", "unevaluated", "unfinished"]


@dataclass(frozen=True)
class SeedOutcome:
    """What came of one run.

    Args:
        label: The method with its options.
        seed: The seed.
        cause: `"solved"`; or why not: `"lost"` (it had solved the target), `"moving"` (the budget ended while alpha was
            rising), `"resting"` (alpha stopped rising), `"improving"` (at the target, or without a path; its
            evaluations were still rising), `"below"` (the same, but they were not), `"unevaluated"`, `"unfinished"`.
        final: The final score on the target; NaN: unknown.
        success: The final success rate on the target; NaN: unknown.
        time: The step from which the target stays solved; infinite: never, NaN: no level is stated.
        step: The last step.
        alpha: The highest alpha; NaN for methods without a path.
        stage: The first stage with that alpha.
        since: The step at which that stage began.
        best: The best mean score of 20 training episodes since then.
        threshold: The threshold there; NaN: unknown.
        stated: Whether that is a number that the caller stated.
        failing: The fraction of the contexts trained on last near which no success was seen; NaN: unknown.
        infeasible: The fraction of infeasible contexts in the last stage.
        capped: How many stages ended at the step cap.
        searching: Whether the run never left the exploration that precedes its source.
        notices: The warnings while it trained.
    """

    label: str
    seed: int
    cause: Cause
    final: float
    success: float
    time: float
    step: int
    alpha: float
    stage: int
    since: int
    best: float
    threshold: float
    stated: bool
    failing: float
    infeasible: float
    capped: int
    searching: bool
    notices: tuple[Notice, ...]

    @property
    def follows_path(self) -> bool:
        """Whether its method has a path from source to target."""
        return not math.isnan(self.alpha)

    @property
    def mastered(self) -> bool:
        """Whether its training scores have exceeded the threshold where it rests."""
        return self.best > self.threshold


@dataclass(frozen=True)
class MethodOutcome:
    """What came of the runs of one label.

    Args:
        label: The method with its options.
        method: The method.
        seeds: Its runs.
    """

    label: str
    method: str
    seeds: tuple[SeedOutcome, ...]

    @property
    def finished(self) -> tuple[SeedOutcome, ...]:
        """Its finished runs."""
        return tuple(seed for seed in self.seeds if seed.cause != "unfinished")

    @property
    def solved(self) -> int:
        """How many seeds solved the target."""
        return sum(seed.cause == "solved" for seed in self.seeds)

    @property
    def time(self) -> float:
        """The median step from which the target stays solved."""
        return float(median(np.array([seed.time for seed in self.finished]))) if self.finished else math.nan

    def of(self, *causes: Cause) -> tuple[SeedOutcome, ...]:
        """Its runs with one of these causes.

        Args:
            *causes: The causes.
        """
        return tuple(seed for seed in self.seeds if seed.cause in causes)


@dataclass(frozen=True)
class Comparison:
    """A curriculum beside a baseline.

    Args:
        label: The curriculum.
        baseline: The baseline's label.
        seeds: The finished runs on the side with fewer.
        earlier: The probability that a seed of the curriculum stays above the level earlier; NaN without a level.
        higher: The probability that a seed of the curriculum has a higher final score.
    """

    label: str
    baseline: str
    seeds: int
    earlier: Estimate
    higher: Estimate

    @property
    def better(self) -> bool:
        """Whether an interval shows that the curriculum is better in one of them."""
        return self.earlier.low > 0.5 or self.higher.low > 0.5

    @property
    def worse(self) -> bool:
        """Whether an interval shows that the curriculum is worse in one of them."""
        return self.earlier.high < 0.5 or self.higher.high < 0.5


def outcomes_of(runs: Sequence[RunResult]) -> tuple[tuple[MethodOutcome, ...], tuple[Comparison, ...]]:
    """Find out how runs of a task ended.

    Args:
        runs: Runs of one or several methods, finished or not.

    Returns:
        What came of each label, and each curriculum beside each baseline.

    Raises:
        InvalidInput: If there is no run.
    """
    groups = by_label(check_instances(RunResult, runs, "runs"))
    if not groups:
        raise InvalidInput("expected at least one run, got none")
    window = window_of(runs)
    with np.errstate(all="ignore"):  # a table may hold numbers that are not finite
        methods = tuple(
            MethodOutcome(label, group[0].method, tuple(_outcome(run, window) for run in group))
            for label, group in groups.items()
        )
    return methods, tuple(_comparisons(methods, groups, window))


def at_source(runs: Sequence[RunResult]) -> list[str]:
    """Name the labels with finished runs that trained on their source alone, so that their results say little.

    Args:
        runs: The runs. Those of methods without a source are ignored.

    Returns:
        A sentence for each such label, without a full stop.
    """
    notes = []
    for label, group in by_label(check_instances(RunResult, runs, "runs")).items():
        done = [run for run in group if run.finished and _has_source(run)]
        stayed = sum((~run.stages.explores).sum() == 1 for run in done)
        if stayed:
            notes.append(f"{label}: {stayed} of {count(len(done), 'seed')} never left the source")
    return notes


def path_problems(runs: Sequence[RunResult]) -> list[str]:
    """Name the labels with runs whose path jumped, or that did not arrive and found all ways blocked.

    Args:
        runs: The runs.

    Returns:
        A sentence for each such label, without a full stop.
    """
    found = []
    for label, group in by_label(check_instances(RunResult, runs, "runs")).items():
        jumped = sum(JUMP in run.stages.numbers() for run in group)
        if jumped:
            found.append(f"{label}: the path of {jumped} of {count(len(group), 'seed')} jumped; try another metric")
        blocked = sum(_was_blocked(run) for run in group)
        if blocked:
            seeds = f"{blocked} of {count(len(group), 'seed')}"
            found.append(f"{label}: {seeds} found no way to the target: all lead through contexts practised in vain")
    return found


def _was_blocked(run: RunResult) -> bool:
    """Whether a run that did not arrive found, at some time, all ways blocked for nearly all of its particles."""
    blocked = run.stages.numbers().get(BLOCKED, np.zeros(0))
    return bool(len(blocked) and np.nanmax(blocked) >= MOST_BLOCKED and run.stages.alphas[-1] < 1.0)


def _has_source(run: RunResult) -> bool:
    """Whether the run's method is a registered one that trains on nothing but its source at first."""
    method = REGISTRY.known(run.method)
    takes_one = is_dataclass(method) and "source" in {field.name for field in fields(method)}
    return takes_one and not getattr(method, "searches", False)


def _outcome(run: RunResult, window: int) -> SeedOutcome:
    """What came of one run."""
    monitor = replay(run.config, run.episodes, run.evaluations, run.stages)
    known = np.isfinite(run.evaluations.scores).any()
    seeds = of_seeds([run], run.solved, window) if run.finished and known else None
    times = (float(seeds.firsts[0]), float(seeds.times[0])) if seeds else (math.nan, math.nan)
    final, success = (
        asymptotic(column) if known else math.nan for column in (run.evaluations.scores, run.evaluations.successes)
    )
    explores = run.stages.explores
    return SeedOutcome(
        label=run.label,
        seed=run.seed,
        cause=_cause(run, monitor, *times) if seeds else "unevaluated" if run.finished else "unfinished",
        final=final,
        success=success,
        time=times[1],
        step=run.reached_step,
        alpha=max(monitor.farthest, 0.0) if monitor.follows_path else math.nan,
        stage=monitor.began,
        since=monitor.since,
        best=_best(run, monitor.began),
        threshold=monitor.threshold,
        stated=math.isfinite(run.threshold),
        failing=monitor.failing_fraction(),
        infeasible=float(run.stages.infeasible[-1]) if len(explores) else math.nan,
        capped=run.stages.events.count("step cap"),
        searching=bool(len(explores) and explores.all()),
        notices=tuple(monitor.notices),
    )


def _cause(run: RunResult, monitor: Monitor, first: float, time: float) -> Cause:
    if math.isfinite(time):
        return "solved"
    if math.isfinite(first):
        return "lost"
    if monitor.follows_path and monitor.farthest < 1.0:
        return "moving" if monitor.since > (1 - PATIENCE) * run.steps else "resting"
    return "improving" if asymptotic(run.evaluations.scores) > run.solved or _improves(run) else "below"


def _improves(run: RunResult) -> bool:
    """Whether the last quarter of the evaluations is clearly better than the one before."""
    scores = run.evaluations.scores[np.isfinite(run.evaluations.scores)]
    if len(scores) < FEWEST:
        return False
    before, last = np.array_split(scores[len(scores) // 2 :], 2)
    error = math.sqrt(before.var(ddof=1) / len(before) + last.var(ddof=1) / len(last))
    way = run.solved - scores.min() if math.isfinite(run.solved) else np.ptp(scores)
    return bool(last.mean() - before.mean() > max(2 * error, CLEAR * way))


def _best(run: RunResult, began: int) -> float:
    """The best mean training score since a stage; on the path alone, where the run trains on a mixture."""
    on_path = run.stages.numbers().get("score on path")
    if on_path is not None:
        values = on_path[run.stages.stages >= began]
    else:
        values = rolling_mean(run.episodes.scores[run.episodes.stages >= began], WINDOW)[WINDOW - 1 :]
    return float(np.nanmax(values)) if np.isfinite(values).any() else math.nan


def _comparisons(
    methods: Sequence[MethodOutcome], groups: dict[str, list[RunResult]], window: int
) -> Iterator[Comparison]:
    """Each curriculum beside each baseline, in finished runs that were evaluated."""
    found = {each.label: of_seeds(groups[each.label], groups[each.label][0].solved, window) for each in methods}
    curricula = [each for each in methods if each.method not in BASELINES and len(found[each.label])]
    baselines = [each for name in BASELINES for each in methods if each.method == name and len(found[each.label])]
    for baseline in baselines:
        for curriculum in curricula:
            ours, theirs = found[curriculum.label], found[baseline.label]
            yield Comparison(
                label=curriculum.label,
                baseline=baseline.label,
                seeds=min(len(ours), len(theirs)),
                earlier=probability_of_improvement(-ours.times, -theirs.times),
                higher=probability_of_improvement(ours.finals, theirs.finals),
            )
