"""PLR: prioritised level replay (Jiang, Grefenstette and Rocktäschel, ICML 2021)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from geodesic.checks import Count, Fraction, Positive, Size
from geodesic.contexts import BoundedSpace, EpisodeBatch, FloatArray, IntArray, Particles, ValueLoss, rows_of
from geodesic.curricula.base import Curriculum, State


@dataclass(frozen=True, repr=False)
class PLRState(State):
    """A `State` with the buffer of contexts.

    Args:
        points: The contexts in the buffer (k, d).
        losses: The value loss (k,) of the latest episode in each of them.
        played: The number (k,) of that episode.
        episodes: The number of episodes so far.
        fresh: Episodes since the last update of the distribution.
    """

    points: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    losses: FloatArray = field(default_factory=lambda: np.zeros(0))
    played: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    episodes: int = 0
    fresh: int = 0


@dataclass(frozen=True)
class PLR(Curriculum[PLRState]):
    """Replay contexts in which the agent's value function was off, mixed with new ones.

    A buffer keeps contexts, each with the value loss L of its latest episode. With `rank` 1 for the largest loss, and t
    the number of episodes since the one in that context, a replayed context is drawn in proportion to

        P = (1 - staleness) h / sum h + staleness t / sum t,   h = (1 / rank)^(1 / temperature)

    With probability `replay` an episode takes place in a replayed context, otherwise in one drawn uniformly from the
    space. All contexts are new until the fraction `fill` of the buffer is full. A new context enters the buffer while
    it is not full; after that it replaces the one with the lowest P if its loss is larger. L is the mean of max(A, 0)
    over the steps of the episode (`loss="positive"`) or of |A| (`loss="l1"`), where A is the generalised advantage of
    PPO or the temporal difference error of SAC; see `EpisodeBatch.value_losses`.

    Differs from the paper: the context itself is the level, a point of a space instead of a seed. P is updated every
    `episodes_per_update` episodes instead of after each one. The replay probability does not grow with the number of
    levels seen, as it does in the paper, whose levels are finite in number. The defaults are JaxUED's, except for a
    buffer of 500 contexts instead of 4000, as runs here have thousands of episodes.

    This is not the robust form (Jiang et al., NeurIPS 2021), where the agent learns from replayed levels only. Here,
    episodes in new contexts update the agent as well. So the guarantee of a minimax-regret policy at equilibrium does
    not hold. Losses that practice cannot remove keep their contexts in the buffer: where returns are a matter of luck,
    the value function stays off.

    Args:
        space: Where contexts live; bounded.
        loss: `"positive"`, where the agent did better than its value function expected, or `"l1"`, where it was off.
        replay: The probability of replaying a context.
        temperature: Higher values make the rank matter less; near 0 only the largest loss counts.
        staleness: The fraction of P that goes to contexts not played for a long time.
        buffer: The largest number of contexts in the buffer.
        fill: The fraction of the buffer that must be full before contexts are replayed.
        episodes_per_update: The number of episodes between two updates.
        particles: The number of new contexts in a stage.
        score: Not used.
    """

    colour: ClassVar[str | None] = "#8C6D31"
    needs_value_losses: ClassVar[bool] = True

    space: BoundedSpace
    loss: ValueLoss = "positive"
    replay: Fraction = 0.8
    temperature: Positive = 0.3
    staleness: Fraction = 0.3
    buffer: Size = 500
    fill: Fraction = 0.5
    episodes_per_update: Count = 20
    particles: Size = 500

    def init(self, rng: np.random.Generator) -> PLRState:
        """New contexts."""
        return PLRState(self.space.uniform(self.particles, rng), points=np.zeros((0, self.space.dim)))

    def update(self, state: PLRState, episodes: EpisodeBatch, rng: np.random.Generator) -> PLRState:
        """The state after more episodes, with another distribution after every `episodes_per_update` of them."""
        if not self.has_episodes(state, episodes, rng):
            return state
        state = self.absorb(state, episodes)
        if state.fresh < self.episodes_per_update:
            return state
        new = self.space.uniform(self.particles, rng)
        count, replayed = len(state.points), self.replay
        if count < self.fill * self.buffer:
            count, replayed = 0, 0.0
        return state.replace(
            distribution=Particles(
                np.concatenate([state.points[:count], new.points]),
                np.concatenate([replayed * self.priorities(state)[:count], (1 - replayed) * new.weights]),
            ),
            stage=state.stage + 1,
            event=f"{count} contexts replayed" if count else "new contexts",
            fresh=0,
        )

    def priorities(self, state: PLRState) -> FloatArray:
        """Compute how likely each context in the buffer is among the replayed ones.

        Args:
            state: The state.

        Returns:
            The probabilities (k,).
        """
        return self._priorities(state.losses, state.episodes - state.played)

    def absorb(self, state: PLRState, episodes: EpisodeBatch) -> PLRState:
        """Add episodes to the buffer, one by one.

        Args:
            state: The state.
            episodes: Episodes with value losses.

        Returns:
            The state with them.

        Raises:
            InvalidInput: If the learner does not report value losses.
        """
        losses = episodes.value_losses(self.loss).tolist()
        points, known = list(state.points), {row: k for k, row in enumerate(rows_of(state.points).tolist())}
        kept, played, number = state.losses.tolist(), state.played.tolist(), state.episodes
        for context, row, loss in zip(episodes.contexts, rows_of(episodes.contexts).tolist(), losses):
            number += 1
            place = known.get(row)
            if place is None and len(points) < self.buffer:
                place = len(points)
                points.append(context)
                kept.append(loss)
                played.append(number)
            elif place is None:
                place = int(self._priorities(np.array(kept), number - np.array(played)).argmin())
                if loss <= kept[place]:
                    continue
                del known[rows_of(points[place][None]).tolist()[0]]
                points[place] = context
            known[row], kept[place], played[place] = place, loss, number
        return state.replace(
            points=np.array(points).reshape(-1, self.space.dim),
            losses=np.array(kept, np.float64),
            played=np.array(played, np.int64),
            episodes=number,
            fresh=state.fresh + len(episodes),
        )

    def _priorities(self, losses: FloatArray, ages: IntArray) -> FloatArray:
        """P (k,) of contexts with these losses, played so many episodes ago."""
        ranks = np.empty(len(losses))
        ranks[np.argsort(-losses, kind="stable")] = np.arange(1, len(losses) + 1)
        weights = ranks ** (-1 / self.temperature)
        by_loss = weights / weights.sum()
        by_age = ages / ages.sum() if ages.any() else by_loss
        return np.asarray((1 - self.staleness) * by_loss + self.staleness * by_age)
