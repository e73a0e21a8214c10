"""GRADIENT with a distance learned while training (Algorithm 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from geodesic.curricula.base import Arrays, Episodes, State
from geodesic.curricula.staged import Staged, StagedState
from geodesic.distributions import ContextSpace, FloatArray, Particles, as_count
from geodesic.errors import InvalidInput, UnknownName
from geodesic.metrics.base import Metric
from geodesic.transport.geodesic import Geodesic

LEARNED = ("embedding", "return-lift")
MEMORY = 200  # episodes that the return model looks back on
CONTEXTS = 500  # that the embedding is trained on
UNIFORM = 1000  # particles that stand for the uniform distribution on a continuous space
LIFT = 5.0  # sides of the context space that climbing from the worst return to the threshold is worth
HEAT = 40  # cells a side of the pictured return
ALPHAS = tuple(k / 10 for k in range(11))


@dataclass(frozen=True)
class LearnedState(StagedState):
    """What the next refit needs: where the source stands, how often it moved, and the latest episodes.

    phase is "train" or "explore"; current is the distribution last trained on, which the next move starts from;
    verdict says why training on it ended; contexts (m, d) and returns (m,) are the latest episodes of any stage;
    picture is what `snapshot` shows of the last refit.
    """

    phase: str = "train"
    moves: int = 0
    verdict: str = ""
    current: Particles | None = None
    contexts: FloatArray = field(default_factory=lambda: np.zeros((0, 1)))
    returns: FloatArray = field(default_factory=lambda: np.zeros(0))
    picture: dict[str, NDArray[Any]] = field(default_factory=dict)

    def remember(self, episodes: Episodes) -> LearnedState:
        """Whatever stage they began in: J is about the agent, not about the distribution."""
        if not len(episodes):
            return self
        return self.replace(
            contexts=np.concatenate([self.contexts, episodes.contexts])[-MEMORY:],
            returns=np.concatenate([self.returns, episodes.returns])[-MEMORY:],
        )


@dataclass(frozen=True)
class LearnedGradient(Staged):
    """Train until mastered, explore uniform contexts, refit the metric, move the source on; K = ceil(1 / step) times.

    The metric changes between stages, so no plan outlives one: move i goes 1 / (K - i) of the way that is left from
    the current distribution to the target, which makes even stages. (The paper's Algorithm 4 moves the source and
    raises alpha as well: uneven ones.) Exploration is a stage of its own: its event is "explore", alpha stays.
    Embedding: the latent space in which |J(c) - J(c')| is Euclidean. Return-lift: shortest paths on the graph of J.
    """

    state_type: ClassVar[type[State]] = LearnedState

    space: ContextSpace = field(kw_only=True)
    worst_return: float = field(kw_only=True)
    learned: str = "return-lift"
    explore_steps: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learned not in LEARNED:
            raise UnknownName("learned metric", self.learned, LEARNED)
        as_count(self.explore_steps, "explore_steps")
        if not self.threshold > self.worst_return:
            raise InvalidInput(f"expected a threshold above the worst return {self.worst_return}, got {self.threshold}")

    @property
    def stages(self) -> int:
        """K, free of rounding: 5 for a step of 0.2."""
        return math.ceil(1 / self.step - 1e-9)

    def init(self, rng: np.random.Generator) -> LearnedState:
        return LearnedState(self.source, current=self.source, contexts=np.zeros((0, self.source.dim)))

    def distribution(self, alpha: float) -> Particles:
        """Known before training at the ends only: what lies between depends on the episodes."""
        if alpha not in (0.0, 1.0):
            raise InvalidInput(f"expected alpha 0 or 1 for a metric that is learned while training, got {alpha!r}")
        return self.target if alpha else self.source

    def update(self, state: LearnedState, episodes: Episodes, rng: np.random.Generator) -> LearnedState:  # type: ignore[override]
        if state.done or not len(episodes):
            return state
        state = state.remember(episodes).absorb(episodes, self.window)
        if state.phase == "explore":
            return self.move(state, rng) if state.steps >= self.explore_steps else state
        verdict = self.verdict(state)
        return self.explore(state, verdict, rng) if verdict else state

    def explore(self, state: LearnedState, verdict: str, rng: np.random.Generator) -> LearnedState:
        """Hand out uniform contexts, to see returns where the path may lead."""
        following = state.enter(self.space.uniform(UNIFORM, rng), state.alpha, "explore")
        return following.replace(phase="explore", verdict=verdict)

    def move(self, state: LearnedState, rng: np.random.Generator) -> LearnedState:
        """Refit the metric to the latest episodes and go one stage on."""
        current = state.current or self.source
        returns = self.returns(state)
        path = Geodesic(current, self.target, self.fit(returns, current, rng))
        following = self.bounded(path(1 / (self.stages - state.moves)), rng)
        moves = state.moves + 1
        alpha = 1.0 if moves == self.stages else moves / self.stages
        picture = {**self.heat(returns), **self.potential(path, rng), "length": np.asarray(path.length)}
        return state.enter(following, alpha, state.verdict).replace(
            phase="train", moves=moves, verdict="", current=following, picture=picture
        )

    def returns(self, state: LearnedState) -> Any:
        from geodesic.metrics.returns import ReturnModel

        return ReturnModel(state.contexts, state.returns, self.space, self.worst_return)

    def fit(self, returns: Any, current: Particles, rng: np.random.Generator) -> Metric:
        """The metric between contexts that this return model gives."""
        if self.learned == "return-lift":
            from geodesic.metrics.returns import ReturnLift

            anchors = np.concatenate([current.points, self.target.points])
            return ReturnLift(returns, self.space, anchors, LIFT / (self.threshold - self.worst_return))
        from geodesic.metrics.embedding import Embedding
        from geodesic.metrics.returns import ReturnDifference

        contexts = self.space.uniform(CONTEXTS, rng).points
        distances = ReturnDifference(returns).pairwise(contexts, contexts)
        return Embedding.fit(contexts, distances, self.space, rng)

    def bounded(self, distribution: Particles, rng: np.random.Generator) -> Particles:
        """The same distribution on at most as many particles as source and target have."""
        held = distribution.weights > 0
        if held.all() and len(distribution) <= self.particles:
            return distribution
        return thinned(Particles(distribution.points[held], distribution.weights[held]), self.particles, rng)

    @property
    def particles(self) -> int:
        return max(len(self.source), len(self.target))

    def heat(self, returns: Any) -> Arrays:
        """J on a grid over the first two dimensions, the others at their middle: heat (rows y, columns x)."""
        cells = (np.arange(HEAT) + 0.5) / HEAT
        sides = self.space.high - self.space.low
        x = self.space.low[0] + cells * sides[0]
        y = self.space.low[-1] + cells * sides[-1]
        grid = np.tile((self.space.low + self.space.high) / 2, (HEAT * HEAT, 1))
        grid[:, -1], grid[:, 0] = np.repeat(y, HEAT), np.tile(x, HEAT)
        return {"heat": returns(grid).reshape(HEAT, HEAT), "heat_x": x, "heat_y": y}

    def potential(self, path: Geodesic, rng: np.random.Generator) -> Arrays:
        """Where this refit would lead for alpha = 0, 0.1, ..., 1: potential (11, n, d), points of equal weight."""
        clouds = [thinned(path(alpha), min(self.particles, 100), rng).points for alpha in ALPHAS]
        return {"potential": np.stack(clouds), "potential_alphas": np.asarray(ALPHAS)}

    def snapshot(self, state: LearnedState) -> Arrays:
        return state.picture


def thinned(distribution: Particles, n: int, rng: np.random.Generator) -> Particles:
    """n particles of equal weight by systematic resampling: each point is drawn n w times, rounded up or down."""
    marks = (np.arange(n) + rng.random()) / n
    cumulated = np.cumsum(distribution.weights)
    chosen = np.searchsorted(cumulated, marks * cumulated[-1], side="right").clip(max=len(distribution) - 1)
    return Particles(distribution.points[chosen])
