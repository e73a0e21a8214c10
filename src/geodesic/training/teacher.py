"""The teacher: a curriculum in front of a training loop of one's own."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import (
    FloatArray,
    as_array,
    as_arrays,
    as_count,
    as_number,
    as_path,
    as_points,
    as_seed,
    as_successes,
    as_vector,
    as_whole,
)
from geodesic.contexts import Arrays, Episodes, Particles
from geodesic.curricula import State
from geodesic.errors import InvalidInput
from geodesic.records import RunConfig, RunFolder, begun, finished, read_config
from geodesic.tasks import Task, load
from geodesic.tasks.methods import resolve
from geodesic.training.lesson import Lesson
from geodesic.training.outstanding import Outstanding
from geodesic.training.trainer import Evaluation, Report

AUTOSAVE = 20.0  # seconds
AGENT = "agent/"
_SAMPLE = 0x73616D70  # sets the generators of samples apart from those of updates


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
        folder = None if out is None else RunFolder(as_path(out, "out"), config)
        self._lesson = Lesson(config, task, folder)
        self._outstanding = Outstanding(task.space.dim)
        self._samples = 0
        self._saved: float | None = time.monotonic()
        self._evaluated = -1  # the step of the last evaluation
        self.step = 0
        self.restored: Arrays = {}
        try:
            self._begin(folder)
        except BaseException:
            self.close()
            raise

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
        points = as_points(np.atleast_2d(as_array(contexts, "contexts")), "contexts")
        earned, steps = _column(returns, "returns", len(points)), _column(lengths, "lengths", len(points))
        if (as_whole(steps, "lengths", len(points)) < 1).any():
            raise InvalidInput(f"expected lengths of at least 1 step, got {steps.min():g}")
        flags = _successes(successes, len(points))
        scores = self._scores(earned, flags, discounted)
        stages, began = self._outstanding.take(points)  # from here on nothing is refused
        episodes = Episodes(points, scores, steps, stages, flags)
        ended = self.step + np.cumsum(episodes.lengths)
        self.step = int(ended[-1])
        report = Report(episodes, earned, ended, began, self._outstanding.earliest)
        new = self._lesson.take(report, self.step)
        self._autosave()
        return new

    def evaluation(
        self, returns: ArrayLike, successes: ArrayLike | None = None, discounted: ArrayLike | None = None
    ) -> None:
        """Returns (n,) of episodes on the target, for the record: tables and figures are about them.

        There is one a step, the first: a loop that is started again may evaluate where it was killed.
        """
        values = as_vector(np.atleast_1d(as_array(returns, "returns")), "returns")
        flags = _successes(successes, len(values))
        evaluation = Evaluation(values, flags, self._scores(values, flags, discounted))
        if self.step > self._evaluated:
            self._evaluated = self.step
            self._lesson.evaluated(self.step, evaluation)
            self._lesson.write()

    def save(self, agent: Arrays | None = None) -> None:
        """A checkpoint, with arrays of one's own that `restored` gives back."""
        own = {AGENT + name: value for name, value in as_arrays({} if agent is None else agent, "agent").items()}
        self._saved = None
        self._save(own)

    def finish(self) -> None:
        """The end of the run: its folder is complete."""
        if self._saved is not None:
            self._save({})
        self._lesson.finish(self.step)
        self.close()

    def close(self) -> None:
        """Let go of the folder without ending the run: another teacher, here or elsewhere, can go on with it."""
        self._lesson.release()

    def _save(self, agent: Arrays) -> None:
        counts = {"step": self.step, "samples": self._samples, "began": self._outstanding.count}
        self._lesson.save(agent, **counts, evaluated=self._evaluated + 1)

    def _autosave(self) -> None:
        self._lesson.write()
        if self._saved is not None and time.monotonic() - self._saved > AUTOSAVE:
            self._save({})
            self._saved = time.monotonic()

    def _begin(self, folder: RunFolder | None) -> None:
        if folder is not None:
            folder.claim()
        if folder is not None and begun(folder.path):
            self._go_on(folder)
        else:
            self._lesson.begin()
            self._save({})

    def _go_on(self, folder: RunFolder) -> None:
        if read_config(folder.path).to_json() != folder.config.to_json():
            raise InvalidInput(f"{folder.path} holds another run (see its config.json); try another out=")
        if finished(folder.path):
            raise InvalidInput(f"the run in {folder.path} is finished; try another out=")
        kept = self._lesson.restore({}, free=AGENT)
        self.restored = {name.removeprefix(AGENT): kept.arrays[name] for name in kept.arrays if name.startswith(AGENT)}
        self.step, self._samples = kept.count("step"), kept.count("samples")
        self._outstanding.start_at(kept.count("began"))
        self._evaluated = kept.count("evaluated") - 1
        self._lesson.take_up()

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
    name, options, chosen = resolve(task, method, metric, threshold)
    level = task.threshold if threshold is None else as_number(threshold, "threshold")
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


def _column(values: ArrayLike, name: str, n: int) -> FloatArray:
    return as_vector(np.atleast_1d(as_array(values, name)), name, n)


def _successes(values: ArrayLike | None, n: int) -> FloatArray:
    return as_successes(None if values is None else np.atleast_1d(as_array(values, "successes")), n)
