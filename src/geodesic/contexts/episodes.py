"""Finished episodes, as every part of the library passes them on: one row per episode, one array per column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import (
    MOST,
    Array,
    FloatArray,
    IntArray,
    as_array,
    as_column,
    as_count,
    as_integer,
    as_name,
    as_points,
    as_successes,
    as_vector,
    check_instance,
    check_integers,
)
from geodesic.errors import InvalidInput

Score = Literal["return", "discounted_return", "success"]
SCORES: tuple[str, ...] = get_args(Score)
ValueLoss = Literal["l1", "positive"]
LOSS_COLUMNS = {"l1": "value_l1", "positive": "positive_value_loss"}
SCORE_NAMES = {"return": "return", "discounted_return": "discounted return", "success": "success rate"}


@dataclass(frozen=True, eq=False, repr=False)
class EpisodeBatch:
    """Finished episodes, oldest first.

    Args:
        contexts: The contexts (n, d) the episodes were played in.
        returns: Undiscounted returns (n,).
        lengths: Environment steps (n,) of each episode.
        stages: The stage (n,) in which each episode began.
        discounted: Discounted returns (n,); NaN where they were not computed (default: all).
        successes: 0 or 1, or a rate in between, (n,); NaN where the environment does not report success
            (default: all).
        started: When each episode began (n,): integers that put the episodes of a run in order (default: 0).
        ended: The environment step (n,) of the run at which each episode ended (default: 0).
        value_l1: The mean absolute error (n,) of the learner's value function along each episode, such as its
            advantages; NaN where unknown (default: not reported).
        positive_value_loss: The mean (n,) of max(error, 0), where the agent earned more than its value function
            expected, likewise.

    Raises:
        InvalidInput: If a column has another shape, or values that are not finite.

    Example:
        >>> import geodesic as gd
        >>> batch = gd.EpisodeBatch([[0.5], [0.9]], [1.0, 3.0], [10, 12], [0, 0], successes=[0, 1])
        >>> batch.scores("success")
        array([0., 1.])
    """

    contexts: FloatArray
    returns: FloatArray
    lengths: IntArray
    stages: IntArray
    discounted: FloatArray
    successes: FloatArray
    started: IntArray
    ended: IntArray
    value_l1: FloatArray | None
    positive_value_loss: FloatArray | None

    def __init__(
        self,
        contexts: ArrayLike,
        returns: ArrayLike,
        lengths: ArrayLike,
        stages: ArrayLike,
        discounted: ArrayLike | None = None,
        successes: ArrayLike | None = None,
        started: ArrayLike | None = None,
        ended: ArrayLike | None = None,
        value_l1: ArrayLike | None = None,
        positive_value_loss: ArrayLike | None = None,
    ) -> None:
        points = as_array(contexts, "contexts", "an array of numbers of shape (n, d)")
        if points.size:
            points = as_points(points, "contexts")
        elif points.ndim != 2:
            points = points.reshape(0, 1)
        n = len(points)
        vars(self).update(  # the class is frozen
            contexts=points,
            returns=as_vector(returns, "returns", n),
            lengths=check_integers(lengths, "lengths", n),
            stages=check_integers(stages, "stages", n),
            discounted=as_column(discounted, "discounted", n),
            successes=as_successes(successes, n),
            started=check_integers(0 if started is None else started, "started", n),
            ended=check_integers(0 if ended is None else ended, "ended", n),
            value_l1=loss_column(value_l1, "value_l1", n),
            positive_value_loss=loss_column(positive_value_loss, "positive_value_loss", n),
        )
        if (self.lengths < 0).any():
            raise InvalidInput(f"expected lengths >= 0, got {self.lengths.min()}")

    def __len__(self) -> int:
        return len(self.returns)

    def __repr__(self) -> str:
        mean = f", mean return {self.returns.mean():.4g}" if len(self) else ""
        return f"EpisodeBatch({len(self)} episodes{mean})"

    def __getitem__(self, index: Any) -> EpisodeBatch:
        rows = slice(index, index + 1 or None) if isinstance(index, int) and -len(self) <= index < len(self) else index
        return self._of(None if column is None else column[rows] for column in self.columns())

    @classmethod
    def empty(cls, dim: int) -> EpisodeBatch:
        """A batch without episodes.

        Args:
            dim: The dimension of its contexts.

        Returns:
            The empty batch.
        """
        return cls(np.zeros((0, as_count(dim, "dim"))), [], [], [])

    def scores(self, kind: Score) -> FloatArray:
        """What thresholds and curricula look at.

        Args:
            kind: `"return"`, `"discounted_return"` or `"success"`.

        Returns:
            The scores (n,) of that kind.

        Raises:
            InvalidInput: If the episodes do not have them.
        """
        return score_column(kind, self.returns, self.discounted, self.successes)

    def succeeded(self, kind: Score, threshold: float) -> FloatArray:
        """Which episodes were a success.

        Args:
            kind: The score that decides where the environment does not report success.
            threshold: It is a success above this score.

        Returns:
            The reported successes (n,); where there are none, 1 for a success and 0 for a failure.

        Raises:
            InvalidInput: If the episodes do not have that score.
        """
        return np.where(np.isnan(self.successes), self.scores(kind) > threshold, self.successes)

    def value_losses(self, kind: ValueLoss) -> FloatArray:
        """How far the learner's value function was off in each episode.

        Args:
            kind: `"l1"` for `value_l1`, or `"positive"` for `positive_value_loss`.

        Returns:
            The losses (n,), at least 0.

        Raises:
            InvalidInput: If the episodes do not have them.
        """
        column: FloatArray | None = getattr(self, LOSS_COLUMNS[as_name(kind, "loss", tuple(LOSS_COLUMNS))])
        if column is None or np.isnan(column).any():
            raise InvalidInput(
                f"expected the learner's {LOSS_COLUMNS[kind]} for each episode, got none; try PPO or SAC with the "
                "backend jax, an on-policy algorithm of Stable-Baselines3, or Teacher.report with this column"
            )
        return column

    def with_value_errors(self, sums: ArrayLike) -> EpisodeBatch:
        """The same episodes with value losses.

        Args:
            sums: The sums (n, 2) of |error| and of max(error, 0) over the steps of each episode.

        Returns:
            A batch that shares the other columns.

        Raises:
            InvalidInput: If the sums have another shape, or are negative or infinite.
        """
        given = as_array(sums, "sums")
        if given.shape != (len(self), 2):
            raise InvalidInput(f"expected sums of shape ({len(self)}, 2), got shape {given.shape}")
        means = given / np.maximum(self.lengths, 1)[:, None]
        losses = {name: loss_column(column, name, len(self)) for name, column in zip(LOSS_COLUMNS.values(), means.T)}
        return self._of({**dict(zip(COLUMNS, self.columns())), **losses}.values())

    def with_stages(self, stages: ArrayLike) -> EpisodeBatch:
        """The same episodes with other stages.

        Args:
            stages: The stages (n,).

        Returns:
            A batch that shares the other columns.

        Raises:
            InvalidInput: If they are not integers, or not one for each episode.
        """
        made = check_integers(stages, "stages", len(self))
        return self._of({**dict(zip(COLUMNS, self.columns())), "stages": made}.values())

    def of_stage(self, stage: int) -> EpisodeBatch:
        """The episodes that began in a stage.

        Args:
            stage: The number of the stage.

        Returns:
            Those episodes, in the same order.
        """
        return self[self.stages == as_integer(stage, "stage", -MOST)]

    def concatenate(self, other: EpisodeBatch) -> EpisodeBatch:
        """These episodes followed by others.

        Args:
            other: Episodes in contexts of the same dimension.

        Returns:
            One batch of both.

        Raises:
            InvalidInput: If the dimensions differ.
        """
        if not len(self) or not len(check_instance(EpisodeBatch, other, "episodes")):
            return other if len(other) else self
        if self.contexts.shape[1] != other.contexts.shape[1]:
            dims = f"{self.contexts.shape[1]} and {other.contexts.shape[1]}"
            raise InvalidInput(f"expected episodes in contexts of one dimension, got {dims}")
        return self._of(_joined(*pair, len(self), len(other)) for pair in zip(self.columns(), other.columns()))

    def columns(self) -> tuple[Array | None, ...]:
        """The arrays, in the order of `COLUMNS`; None for value losses that were not reported."""
        return tuple(getattr(self, name) for name in COLUMNS)

    @classmethod
    def _of(cls, columns: Iterable[Array | None]) -> EpisodeBatch:
        """A batch from columns that were checked before."""
        batch = object.__new__(cls)
        vars(batch).update(zip(COLUMNS, columns))
        return batch


COLUMNS = tuple(field.name for field in fields(EpisodeBatch))


def loss_column(values: ArrayLike | None, name: str, n: int) -> FloatArray | None:
    """Losses (n,) of at least 0, NaN where unknown; None if they were not reported."""
    if values is None:
        return None
    column = as_column(np.atleast_1d(as_array(values, name)), name, n)
    if (column < 0).any():
        raise InvalidInput(f"expected {name} >= 0, got {np.nanmin(column):g}")
    return column


def _joined(one: Array | None, other: Array | None, n: int, m: int) -> Array | None:
    """Two parts of a column, of n and m episodes; NaN where only one of them was reported."""
    if one is None and other is None:
        return None
    return np.concatenate([np.full(n, np.nan) if one is None else one, np.full(m, np.nan) if other is None else other])


def score_column(kind: str, returns: FloatArray, discounted: FloatArray, successes: FloatArray) -> FloatArray:
    """The column that holds scores of this kind; one with NaN is refused with the name of what is missing."""
    column = {"return": returns, "discounted_return": discounted, "success": successes}[as_name(kind, "score", SCORES)]
    if kind != "return" and np.isnan(column).any():
        missing = {
            "success": "successes (info['is_success'] or info['success'] at the end of an episode)",
            "discounted_return": "discounted returns",
        }
        raise InvalidInput(f"expected {missing[kind]}, since the task's score is {kind!r}; got none")
    return column
