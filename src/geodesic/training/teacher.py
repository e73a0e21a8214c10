"""A curriculum for a training loop of the user's own."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import (
    FloatArray,
    IntArray,
    as_array,
    as_arrays,
    as_count,
    as_path,
    as_successes,
    as_vector,
    check_integers,
)
from geodesic.contexts import Arrays, EpisodeBatch
from geodesic.contexts.episodes import loss_column
from geodesic.curricula.base import Threshold
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.metrics.standard import Maker
from geodesic.records import Checkpoint, run_exists
from geodesic.tasks import Task, load
from geodesic.tasks.check import quick_check
from geodesic.tasks.methods import Method
from geodesic.training.configure import configure, objects_of
from geodesic.training.session import CurriculumSession, CurriculumView
from geodesic.training.trainer import Evaluation
from geodesic.training.validate_checkpoint import WAITING

AUTOSAVE = 20.0  # seconds
AGENT = "agent/"
PATIENCE = 1000  # reports that may overtake an episode before later ones no longer wait for it
MOST = 100_000  # contexts that are remembered until they are reported
_SAMPLE = 0x73616D70  # sets the generators of samples apart from those of updates


class SampledContexts(np.ndarray[Any, np.dtype[np.float64]]):
    """Contexts (n, d) that know which samples they are; so do rows taken from or assigned to them, and copies.

    In every other way it is an ordinary array. Arithmetic and conversions drop the identity; `ids` can be kept apart.
    """

    ids: IntArray | None = None

    @classmethod
    def of(cls, contexts: FloatArray, ids: IntArray | None) -> SampledContexts:
        """Attach ids to contexts.

        Args:
            contexts: Contexts (n, d).
            ids: Which sample (n,) each of them is; None: unknown.

        Returns:
            The contexts with their ids.
        """
        made = contexts.view(cls)
        made.ids = ids
        return made

    def __array_finalize__(self, other: object) -> None:
        self.ids = None  # views and results of arithmetic; `__getitem__` and `copy` give rows theirs again

    def copy(self, order: Any = "C") -> SampledContexts:  # type: ignore[override]
        """A copy, whose rows know which samples they are."""
        return SampledContexts.of(np.array(self, order=order), copy.copy(self.ids))

    def __copy__(self) -> SampledContexts:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> SampledContexts:
        return self.copy()

    def __reduce__(self) -> Any:
        return SampledContexts.of, (np.array(self), self.ids)

    def __getitem__(self, key: Any) -> Any:
        part, rows = super().__getitem__(key), self._rows(key)
        if rows is not None and isinstance(part, SampledContexts) and self.ids is not None:
            part.ids = self.ids[rows]
        return part

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        rows = self._rows(key)
        if rows is not None and self.ids is not None:  # other samples bring their ids; other values have none
            ids = value.ids if isinstance(value, SampledContexts) else None
            self.ids[rows] = -1 if ids is None else ids

    def _rows(self, key: Any) -> Any:
        """The part of an index that chooses rows; None if it does not choose whole rows."""
        if self.ids is None or self.ndim != 2:
            return None
        rows, columns = key if isinstance(key, tuple) and len(key) == 2 else (key, slice(None))
        whole = isinstance(columns, slice) and columns == slice(None)
        return rows if whole and rows is not Ellipsis and np.ndim(rows) < 2 else None


class PendingContexts:
    """Contexts that were sampled and not yet reported, by id; ids increase in the order of sampling."""

    def __init__(self, count: int = 0) -> None:
        self.count = count  # sampled so far
        self._pending: dict[int, tuple[FloatArray, int, int]] = {}  # context, stage, reports before it was sampled
        self._reported = 0
        self._oldest = count  # that may be waited for

    def add(self, contexts: FloatArray, stage: int) -> IntArray:
        """Remember contexts (n, d) that are handed out in this stage, and return their ids (n,)."""
        ids = np.arange(self.count, self.count + len(contexts))
        for number, context in zip(ids.tolist(), contexts):
            self._pending[number] = context, stage, self._reported
        self.count += len(contexts)
        while len(self._pending) > MOST:
            del self._pending[next(iter(self._pending))]
        return ids

    def remove(self, ids: IntArray) -> tuple[FloatArray, IntArray]:
        """Forget contexts that are reported, and return them (n, d) with their stages (n,)."""
        numbers = ids.tolist()
        unknown = [number for number in numbers if number not in self._pending]
        if unknown or len(set(numbers)) < len(numbers):
            what = f"sample {unknown[0]}" if unknown else "the same sample twice"
            raise InvalidInput(f"expected contexts that sample() returned and that were not reported yet, got {what}")
        contexts, stages, _ = zip(*(self._pending.pop(number) for number in numbers))
        self._reported += len(numbers)
        return np.array(contexts), np.array(stages, np.int64)

    @property
    def earliest(self) -> int:
        """The oldest id that is waited for; the next one if there is none."""
        while self._oldest < self.count and not self._is_waited_for(self._oldest):
            self._oldest += 1
        return self._oldest

    def _is_waited_for(self, number: int) -> bool:
        return number in self._pending and self._reported - self._pending[number][2] <= PATIENCE


class Teacher(CurriculumView):
    """A curriculum for a training loop of your own.

    With a folder that holds a checkpoint of this task and method, the run resumes from there: `restored` holds the
    arrays that `save` was given (empty at the start), and `step` and the stage are those of the checkpoint. Episodes
    that were running at the interruption are dropped. A loop that never calls `save` is saved every 20 seconds, without
    its agent.

    Contexts may be reported in any order and number. Each episode belongs to the stage in which its context was
    sampled, and episodes reach the curriculum in the order in which they began. One that a thousand others have
    overtaken, or that is never reported, no longer delays the others.

    Args:
        task: A `Task`, the name of a built-in task, or a reference.
        method: A name with options, a reference, a `Curriculum`, or a function `Problem -> Curriculum`.
        out: The run's folder (default: nothing is recorded).
        seed: The seed of everything random in the curriculum.
        steps: The budget in environment steps, for the record (default: the task's).
        metric: The distance between contexts, by name or as an object (default: the task's).
        threshold: The score above which a stage is mastered (default: the task's).

    Raises:
        InvalidInput: If an argument is invalid, or the folder holds another run or a finished one.

    Example:
        >>> import geodesic as gd
        >>> teacher = gd.Teacher("maze", "gradient:step=0.2")
        >>> contexts = teacher.sample(4)  # play an episode in each, and learn from it
        >>> teacher.report(contexts, returns=[-20, -18, -30, -9], lengths=[20, 18, 30, 9])
        False
        >>> teacher.step
        77
    """

    def __init__(
        self,
        task: Task | str,
        method: Method = "auto",
        out: str | Path | None = None,
        seed: int = 0,
        steps: int | None = None,
        metric: str | Maker | None = None,
        threshold: Threshold | None = None,
    ) -> None:
        task = load(task)
        config = configure(task, method, seed, steps, metric, threshold, backend="own")
        folder = None if out is None else as_path(out, "out")
        objects = objects_of(task, method, metric)
        if task.in_jax and not (folder is not None and run_exists(folder)):
            quick_check(task)  # of another environment one would have to be made, of which there may be only one
        self._pending = PendingContexts()
        self._samples = 0
        self._saved: float | None = time.monotonic()
        self._evaluated = -1  # the step of the last evaluation
        self.step = 0
        self.restored: Arrays = {}
        self._session = CurriculumSession.open(
            config, task, folder, objects=objects, unchecked=AGENT, restore=self._restore
        )
        if self.session.restored is None:
            self._save({})

    def sample(self, n: int = 1) -> SampledContexts:
        """Sample contexts for the next episodes.

        Args:
            n: How many.

        Returns:
            Contexts (n, d), an array whose rows know which samples they are. Report them when their episodes have
            ended.
        """
        rng = np.random.default_rng([self.session.config.seed, _SAMPLE, self._samples])
        contexts = self.distribution.sample(rng, as_count(n))
        self._samples += 1
        return SampledContexts.of(contexts.copy(), self._pending.add(contexts, self.stage))

    def report(
        self,
        contexts: SampledContexts | ArrayLike,
        returns: ArrayLike,
        lengths: ArrayLike,
        successes: ArrayLike | None = None,
        discounted: ArrayLike | None = None,
        value_l1: ArrayLike | None = None,
        positive_value_loss: ArrayLike | None = None,
    ) -> bool:
        """Report episodes that ended.

        Args:
            contexts: What `sample` returned, rows of it, or a list of rows; or their `ids`, where contexts were
                converted on the way.
            returns: The undiscounted return (n,) of each episode, or a number for one episode.
            lengths: The environment steps (n,) of each.
            successes: Whether each succeeded (n,); required if the task's score is the success.
            discounted: The discounted return (n,); required if the task's score is that.
            value_l1: The mean |error| (n,) of your value function along each episode, such as its advantages; required
                by methods that look at it, such as plr with `loss=l1`.
            positive_value_loss: The mean (n,) of max(error, 0), likewise; plr looks at it by default.

        Returns:
            Whether a new stage began.

        Raises:
            InvalidInput: If a context was not sampled here or was reported before, or a value is missing or invalid.
        """
        ids = _ids(contexts)
        n = len(ids)
        steps = check_integers(_column(lengths, "lengths", n), "lengths", n)
        if (steps < 1).any():
            raise InvalidInput(f"expected lengths of at least 1 step, got {steps.min()}")
        played = self._evaluation(_column(returns, "returns", n), successes, discounted)
        absolute = loss_column(value_l1, "value_l1", n)
        positive = loss_column(positive_value_loss, "positive_value_loss", n)
        if self.session.curriculum.needs_value_losses and absolute is None and positive is None:
            raise InvalidInput("expected value_l1 or positive_value_loss of each episode for this method, got neither")
        points, stages = self._pending.remove(ids)  # nothing is refused after this
        ended = self.step + np.cumsum(steps)
        values = played.returns, steps, stages, played.discounted, played.successes
        episodes = EpisodeBatch(points, *values, ids, ended, absolute, positive)
        self.step = int(ended[-1])
        new = self.session.observe(episodes, self.step, self._pending.earliest)
        self._autosave()
        return new

    def evaluation(
        self, returns: ArrayLike, successes: ArrayLike | None = None, discounted: ArrayLike | None = None
    ) -> None:
        """Record an evaluation on the target; tables and figures are about evaluations.

        Only the first one at each step counts, so that a resumed loop may evaluate where it was interrupted.

        Args:
            returns: The undiscounted return (n,) of each episode.
            successes: Whether each succeeded (n,).
            discounted: The discounted return (n,).

        Raises:
            InvalidInput: If a value is missing or invalid.
        """
        values = as_vector(np.atleast_1d(as_array(returns, "returns")), "returns")
        evaluation = self._evaluation(values, successes, discounted)
        if self.step > self._evaluated:
            self._evaluated = self.step
            self.session.log_evaluation(self.step, evaluation)
            self.session.write()

    def save(self, agent: Arrays | None = None) -> None:
        """Write a checkpoint.

        Args:
            agent: Arrays by name that a resumed loop needs; `restored` returns them.
        """
        own = {AGENT + name: value for name, value in as_arrays({} if agent is None else agent, "agent").items()}
        self._saved = None
        self._save(own)

    def finish(self) -> None:
        """End the run: write the summary and release the folder."""
        self._save_last()
        self.session.finish(self.step)
        self.session.close()

    def close(self) -> None:
        """Release the folder without ending the run, which another teacher can resume.

        If you call `save`, the run resumes from the last call; otherwise everything is saved here.
        """
        try:
            self._save_last()
        finally:
            self.session.close()

    def _save_last(self) -> None:
        """Write a last checkpoint, unless the caller writes them."""
        if self._saved is not None:
            self._saved = None
            self._save({})

    def _save(self, agent: Arrays) -> None:
        counts = {"step": self.step, "samples": self._samples, "started": self._pending.count}
        self.session.checkpoint(agent, **counts, evaluated=self._evaluated + 1)

    def _restore(self, kept: Checkpoint) -> None:
        """Continue from a checkpoint, before any file is changed."""
        self.restored = {key.removeprefix(AGENT): kept.arrays[key] for key in kept.arrays if key.startswith(AGENT)}
        self._saved = None if self.restored else self._saved  # whoever saves an agent saves it again
        self.step, started = kept.count("step"), kept.count("started")
        self._samples = kept.count("samples", most=started)
        if (kept.arrays[WAITING + "started"] >= started).any():
            raise CheckpointError(f"damaged checkpoint {kept.path}: an episode began before its context was sampled")
        self._pending = PendingContexts(started)
        self._evaluated = kept.count("evaluated") - 1

    def _autosave(self) -> None:
        self.session.write()
        if self._saved is not None and time.monotonic() - self._saved > AUTOSAVE:
            self._save({})
            self._saved = time.monotonic()

    def _evaluation(self, returns: FloatArray, successes: ArrayLike | None, discounted: ArrayLike | None) -> Evaluation:
        """Values (n,) of episodes; refused where the task's score is among what is missing."""
        n = len(returns)
        flags = as_successes(None if successes is None else np.atleast_1d(as_array(successes, "successes")), n)
        later = np.full(n, np.nan) if discounted is None else _column(discounted, "discounted", n)
        evaluation = Evaluation(returns, flags, later)
        evaluation.scores(self.session.task.score)
        return evaluation


def _ids(contexts: object) -> IntArray:
    """The ids (n,) of contexts that were sampled, or ids themselves."""
    if isinstance(contexts, (list, tuple)) and any(isinstance(row, SampledContexts) for row in contexts):
        return np.concatenate([_ids(row) for row in contexts])
    ids = contexts.ids if isinstance(contexts, SampledContexts) else contexts
    array = np.asarray(ids)
    if array.dtype.kind not in "iu" or array.ndim > 1 or array.size == 0:
        raise InvalidInput(
            "expected contexts as sample() returned them, or their ids; conversions lose the identity: "
            "keep contexts.ids"
        )
    return np.atleast_1d(array).astype(np.int64)


def _column(values: ArrayLike, name: str, n: int) -> FloatArray:
    return as_vector(np.atleast_1d(as_array(values, name)), name, n)
