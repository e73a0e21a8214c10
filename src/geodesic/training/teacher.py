"""The teacher: episodes in, in beginning order to the curriculum, recorded, checkpointed, the next distribution out.

It needs no JAX. Trainers, callbacks of other libraries and loops of one's own all stand in front of the same one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from geodesic.contexts import Episodes, FloatArray, Particles, as_count, as_vector
from geodesic.curricula import Curriculum, State
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.records import RunConfig, RunFolder, StageDistribution, checkpoint_path, finished, read_config
from geodesic.records.schema import Arrays
from geodesic.tasks import Task, load
from geodesic.tasks.methods import build, resolve
from geodesic.training.ordering import Waiting
from geodesic.training.outstanding import Outstanding
from geodesic.training.trainer import Evaluation, Report

RECENT = 20  # training episodes that a progress bar's return is the mean of
AUTOSAVE = 20.0  # seconds
CURRICULUM, AGENT = "curriculum/", "agent/"
_SAMPLE = 0x73616D70  # sets the generators of samples apart from those of updates


class Lesson:
    """One run's curriculum under way: what trainers and loops share. `Teacher` is its public side.

    The curriculum's generator is made from the seed and the number of updates so far, so that nothing but the
    curriculum's state has to be kept.
    """

    def __init__(self, config: RunConfig, task: Task, folder: RunFolder | None) -> None:
        self.config = config
        self.task = task
        self.folder = folder
        self.curriculum: Curriculum[Any] = build(task, config.method, config.options, config.metric, config.threshold)
        self.state: State = self.curriculum.init(self._rng(0))
        self.waiting = Waiting.nothing(task.space.dim)
        self.updates = 0
        self.train_score = math.nan
        self.target_score = math.nan
        self.curriculum_seconds = 0.0
        self._unwritten: list[Callable[[], None]] = []

    def begin(self) -> None:
        """The first stage on record, in a folder of its own."""
        if self.folder is not None:
            self.folder.create()
        self._record_stage(0, self.state)

    def take(self, report: Report, step: int) -> bool:
        """Episodes to the record and, in the order they began, to the curriculum; whether a new stage began."""
        if len(report.episodes):
            self.train_score = float(report.episodes.returns[-RECENT:].mean())
        self._unwritten.append(partial(self._record_episodes, report))
        ready, self.waiting = self.waiting.release(report.episodes, report.began, report.under_way)
        self.updates += 1
        began, stage = time.perf_counter(), self.state.stage
        self.state = self.curriculum.update(self.state, ready, self._rng(self.updates))
        self.curriculum_seconds += time.perf_counter() - began
        if self.state.stage == stage:
            return False
        self._unwritten.append(partial(self._record_stage, step, self.state))
        return True

    def evaluated(self, step: int, evaluation: Evaluation) -> None:
        """An evaluation on the target, to the record."""
        self.target_score = float(evaluation.scores.mean())
        self._unwritten.append(partial(self._record_evaluation, step, evaluation, self.state, self.train_score))

    def write(self) -> None:
        """What was heard, to the folder. Apart from hearing it, so that a trainer can be at work meanwhile."""
        for record in self._unwritten:
            record()
        self._unwritten.clear()
        if self.folder is not None:
            self.folder.flush()

    def _record_evaluation(self, step: int, evaluation: Evaluation, state: State, train_score: float) -> None:
        if self.folder is None:
            return
        self.folder.evaluation(
            step, state.stage, state.alpha, evaluation.returns, evaluation.successes, evaluation.scores
        )
        scalars = {
            "target/return": float(evaluation.returns.mean()),
            "target/success": float(evaluation.successes.mean()),
            "target/score": float(evaluation.scores.mean()),
            "train/score": train_score,
            "curriculum/alpha": state.alpha,
            "curriculum/stage": float(state.stage),
        }
        self.folder.scalars(step, {name: value for name, value in scalars.items() if math.isfinite(value)})

    def save(self, agent: Arrays, **meta: Any) -> None:
        """A checkpoint: with the agent's arrays, everything that decides the rest of the run."""
        if self.folder is None:
            return
        self.write()
        own = self.curriculum.save(self.state).items()
        arrays = {**agent, **{CURRICULUM + name: value for name, value in own}, **self.waiting.save()}
        seen = {"updates": self.updates, "train_score": self.train_score, "target_score": self.target_score}
        self.folder.save(arrays, {**seen, **meta})

    def restore(self) -> tuple[Arrays, dict[str, Any]]:
        """Go on from the last checkpoint; what else it holds."""
        if self.folder is None:
            raise InvalidInput("expected a run folder to go on from, got none")
        arrays, meta = self.folder.load()
        own = {name.removeprefix(CURRICULUM): arrays[name] for name in arrays if name.startswith(CURRICULUM)}
        try:
            self.state = self.curriculum.load(own)
            self.waiting = Waiting.load(arrays)
            self.updates = int(meta["updates"])
            self.train_score, self.target_score = float(meta["train_score"]), float(meta["target_score"])
        except KeyError as error:
            path = checkpoint_path(self.folder.path)
            raise CheckpointError(f"{path} is of another version: it has no {error}") from error
        return arrays, meta

    def finish(self, steps: int, **more: Any) -> None:
        """The end: a folder with a summary holds a finished run."""
        if self.folder is None:
            return
        self.write()
        self.folder.close()
        self.folder.summary(
            {
                "steps": steps,
                "stage": self.state.stage,
                "alpha": self.state.alpha,
                "target_score": self.target_score,
                "failures": int(getattr(self.state, "failures", 0)),
                "curriculum_seconds": self.curriculum_seconds,
                **more,
            }
        )

    def _rng(self, count: int) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, count])

    def _record_episodes(self, report: Report) -> None:
        if self.folder is None:
            return
        own = report.episodes
        rest = (own.successes, own.returns, *own.contexts.T)
        self.folder.episodes(report.ended, own.stages, report.returns, own.lengths, rest)

    def _record_stage(self, step: int, state: State) -> None:
        if self.folder is None:
            return
        target = self.task.target_particles
        snapshot = self.curriculum.snapshot(state)
        new = StageDistribution(state.stage, step, state.alpha, state.distribution, snapshot)
        distance = float(np.linalg.norm(state.distribution.mean() - target.mean()))
        self.folder.stage(new, state.kind, state.event, self.task.infeasible(state.distribution), distance)


class Teacher:
    """A curriculum for a training loop of one's own.

        teacher = gd.Teacher(task, "gradient", out="runs/mine")
        while teacher.step < 100_000:
            contexts = teacher.sample(8)
            returns, lengths = ...                      # an episode in each context, and learning from it
            teacher.report(contexts, returns, lengths)
            teacher.save({"weights": weights})          # now and then: a killed loop that is started again goes on
        teacher.finish()

    With a folder that holds a checkpoint of this task and method it goes on from there: `teacher.restored` are the
    arrays that `save` was given (empty at the start), `step` and the stage are what they were. Episodes under way at
    the kill are forgotten. A loop that never calls `save` is saved every 20 seconds, without its agent.

    Contexts may be reported in any order and number; each belongs to the stage in which it was sampled, and episodes
    reach the curriculum in the order in which they began. One that a thousand others have overtaken, or that is never
    reported, no longer holds them up.
    """

    def __init__(
        self,
        task: Task | str,
        method: str = "gradient",
        out: str | Path | None = None,
        seed: int = 0,
        steps: int | None = None,
        metric: str | None = None,
        threshold: float | None = None,
    ) -> None:
        task = load(task)
        config = own_config(task, method, seed, steps, metric, threshold)
        folder = None if out is None else RunFolder(Path(out), config)
        self._lesson = Lesson(config, task, folder)
        self._outstanding = Outstanding(task.space.dim)
        self._samples = 0
        self._saved: float | None = time.monotonic()
        self.step = 0
        self.restored: Arrays = {}
        if folder is not None and folder.begun():
            self._go_on(folder)
        else:
            self._lesson.begin()
            self._save({})

    @property
    def state(self) -> State:
        """Where the curriculum stands."""
        return self._lesson.state

    @property
    def distribution(self) -> Particles:
        return self.state.distribution

    @property
    def stage(self) -> int:
        return self.state.stage

    @property
    def alpha(self) -> float:
        return self.state.alpha

    @property
    def done(self) -> bool:
        """Whether the distribution will not change any more; training on it goes on."""
        return self.state.done

    def sample(self, n: int = 1) -> FloatArray:
        """Contexts (n, d) for the next episodes; each is to be reported when its episode has ended."""
        rng = np.random.default_rng([self._lesson.config.seed, _SAMPLE, self._samples])
        contexts = self.distribution.sample(rng, as_count(n))
        self._samples += 1
        self._outstanding.add(contexts, self.stage)
        return contexts.copy()

    def report(
        self,
        contexts: ArrayLike,
        returns: ArrayLike,
        lengths: ArrayLike,
        successes: ArrayLike | None = None,
        discounted: ArrayLike | None = None,
    ) -> bool:
        """Episodes that ended: contexts (n, d), or one (d,), and a value for each; whether a new stage began."""
        points = np.atleast_2d(np.asarray(contexts, np.float64))
        columns = [_column(values, name, len(points)) for name, values in (("returns", returns), ("lengths", lengths))]
        if (columns[1] < 1).any():
            raise InvalidInput(f"expected lengths of at least 1 step, got {columns[1].min():g}")
        flags = np.full(len(points), np.nan) if successes is None else _column(successes, "successes", len(points))
        scores = self._scores(columns[0], flags, discounted)
        stages, began = self._outstanding.take(points)
        episodes = Episodes(points, scores, columns[1], stages, flags)
        ended = self.step + np.cumsum(episodes.lengths)
        self.step = int(ended[-1])
        report = Report(episodes, columns[0], ended, began, self._outstanding.earliest)
        new = self._lesson.take(report, self.step)
        self._autosave()
        return new

    def evaluation(
        self, returns: ArrayLike, successes: ArrayLike | None = None, discounted: ArrayLike | None = None
    ) -> None:
        """Returns (n,) of episodes on the target, for the record: tables and figures are about them."""
        values = as_vector(np.atleast_1d(np.asarray(returns, np.float64)), "returns")
        flags = np.full(len(values), np.nan) if successes is None else _column(successes, "successes", len(values))
        self._lesson.evaluated(self.step, Evaluation(values, flags, self._scores(values, flags, discounted)))
        self._lesson.write()

    def save(self, agent: Arrays | None = None) -> None:
        """A checkpoint, with arrays of one's own that `restored` gives back."""
        own = {} if agent is None else {AGENT + name: np.asarray(value) for name, value in agent.items()}
        self._saved = None
        self._save(own)

    def finish(self) -> None:
        """The end of the run: its folder is complete."""
        if self._saved is not None:
            self._save({})
        self._lesson.finish(self.step)

    def _save(self, agent: Arrays) -> None:
        self._lesson.save(agent, step=self.step, samples=self._samples, began=self._outstanding.count)

    def _autosave(self) -> None:
        self._lesson.write()
        if self._saved is not None and time.monotonic() - self._saved > AUTOSAVE:
            self._save({})
            self._saved = time.monotonic()

    def _go_on(self, folder: RunFolder) -> None:
        if read_config(folder.path).to_json() != folder.config.to_json():
            raise InvalidInput(f"{folder.path} holds another run (see its config.json); try another out=")
        if finished(folder.path):
            raise InvalidInput(f"the run in {folder.path} is finished; try another out=")
        arrays, meta = self._lesson.restore()
        self.restored = {name.removeprefix(AGENT): arrays[name] for name in arrays if name.startswith(AGENT)}
        self.step, self._samples = int(meta["step"]), int(meta["samples"])
        self._outstanding.start_at(int(meta["began"]))

    def _scores(self, returns: FloatArray, successes: FloatArray, discounted: ArrayLike | None) -> FloatArray:
        """The episodes in the task's measure."""
        measure = self._lesson.config.measure
        if measure == "discounted":
            if discounted is None:
                raise InvalidInput("expected discounted=, since that is what the task measures, got none")
            return _column(discounted, "discounted", len(returns))
        if measure == "success" and np.isnan(successes).any():
            raise InvalidInput("expected successes=, since that is what the task measures, got none")
        return successes if measure == "success" else returns


def own_config(
    task: Task, method: str, seed: int, steps: int | None, metric: str | None, threshold: float | None
) -> RunConfig:
    """The description of a run whose loop is somebody else's."""
    name, options, chosen = resolve(task, method, metric)
    level = task.threshold if threshold is None else float(threshold)
    return RunConfig(
        task=task.reference or task.name,
        name=task.name,
        portable=task.reference is not None,
        contexts=list(task.space.names),
        method=name,
        label=method,
        seed=as_seed(seed),
        steps=as_count(task.steps if steps is None else steps, "steps"),
        threshold=level,
        solved=task.solved_above if threshold is None else level,
        measure=task.measure,
        discount=task.discount,
        metric=chosen,
        backend="own",
        learner=None,
        segment=1,
        eval_every=1,
        eval_episodes=task.eval_episodes,
        eval_policy=task.eval_policy,
        options=options,
    )


def as_seed(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**31:
        raise InvalidInput(f"expected seed to be an integer in [0, 2^31), got {seed!r}")
    return int(seed)


def _column(values: ArrayLike, name: str, n: int) -> FloatArray:
    column = np.atleast_1d(np.asarray(values, np.float64))
    return as_vector(column, name, n)
