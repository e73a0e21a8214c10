"""The default method: the geodesic, hedged by training on the target and on the whole space at the same time."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import Count, IntArray, Positive, Size, as_weights
from geodesic.contexts import Arrays, ContextSpace, EpisodeBatch, FloatArray, Particles, are_drawn_from
from geodesic.curricula.base import Curriculum, State, Wrapper, WrapperState, is_auto
from geodesic.curricula.gradient.gradient import Gradient
from geodesic.curricula.gradient.paces import AdaptivePace, Path
from geodesic.curricula.gradient.staged import StagedState
from geodesic.curricula.search import Search
from geodesic.errors import InvalidInput
from geodesic.metrics.base import LearnedMetric, Metric

ARMS = ("path", "target", "space")
PATH, TARGET, SPACE = range(3)
OTHER = -1  # an episode of none of the current arms, such as one that began before the path's last move
CHANGED = 0.04  # if a share changes by more, a new stage begins
DRIFTED = 0.5  # likewise for the logarithm of an arm's odds
LEFT = 0.05  # from this alpha on, the path counts as paying
ERRORS = 2.0  # by so many standard errors a mean has to beat the best one so far,
GAIN = 0.1  # and by so much of what has been gained since the first one
SAME = 1e-9  # scores count as equal if they differ by less than this part of their mean
RECENT = 0.5  # the later part of a run so far
RARE = 3  # with fewer episodes, an arm's mean length is taken to be that of all episodes
ATOMS = 64  # particles, about, of a distribution ahead on the path at which scores are estimated
RATIO = 20.0  # an arm's episodes count as at most this much longer or shorter than the others


def _as_shares(value: object, name: str) -> tuple[float, ...]:
    return tuple(as_weights(value, 3, name).tolist())  # type: ignore[arg-type]


Shares = Annotated[tuple[float, ...], _as_shares]


@dataclass(frozen=True)
class HedgedPace(AdaptivePace):
    """`AdaptivePace`, but alpha moves by at least `step` when the stage's own episodes are good enough.

    Args:
        stride: The farthest that alpha can move at once, in (0, 1].
        window: The number of episodes of a stage between two decisions.
        memory: The number of latest episodes that the estimate is fitted to.
        bandwidth: The bandwidth of the kernel, in diagonals of the context space.
        success: A success rate that is also required, if it is above 0 and the environment reports successes.
        threshold: The mean score that is good enough; None: the curriculum's.
        step: How far alpha moves when the mean of the stage's last `window` episodes exceeds the threshold.
    """

    window: int = 10
    memory: int = 300
    step: float = 0.1

    def stage_status(self, state: StagedState) -> str:
        """Return "mastered", "below the threshold", or "" while the stage continues."""
        if state.fresh >= self.window and state.alpha < 1.0 and self._mastered(state):
            return "mastered"
        return super().stage_status(state.replace(distribution=_some(state.distribution.positive())))

    def next_alpha(self, state: StagedState, path: Path) -> float:
        """The largest alpha within a stride that is estimated to be good enough; at least a step after mastery."""
        alpha = super().next_alpha(state, lambda alpha: _some(path(alpha).positive()))
        return max(alpha, min(state.alpha + self.step, 1.0)) if self._mastered(state) else alpha

    def _mastered(self, state: StagedState) -> bool:
        return len(state.recent) >= self.window and bool(state.recent.mean() > self.required)


def _some(distribution: Particles) -> Particles:
    """About ATOMS of the particles, evenly spread over them: enough for an estimate of the mean."""
    every = max(1, round(len(distribution) / ATOMS))
    return Particles(distribution.points[::every], distribution.weights[::every])


@dataclass(frozen=True, eq=False)
class Record:
    """How well an agent has done, to tell whether it is still improving.

    Args:
        recent: The latest scores and returns, (n, 2).
        first: The means of the first scores and returns, (2,); NaN if there are too few so far.
        best: The best means so far, (2,), likewise.
        improved: The clock when one of the best means was last beaten.
        count: The episodes since the record began.
    """

    recent: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))
    first: FloatArray = field(default_factory=lambda: np.full(2, math.nan))
    best: FloatArray = field(default_factory=lambda: np.full(2, math.nan))
    improved: float = -math.inf
    count: int = 0

    def restart(self) -> Record:
        """A record that begins again, because what it records has changed."""
        return replace(self, first=np.full(2, math.nan), best=np.full(2, math.nan), count=0)

    def observe(self, new: FloatArray, window: int, clock: float) -> Record:
        """The record after more scores and returns (n, 2).

        It improves when the mean of the latest `window` is clearly above the best one so far, for the scores or for the
        returns: where the score is success, returns tell of progress before the first success.
        """
        if not len(new):
            return self
        recent, count = np.concatenate([self.recent, new])[-window:], self.count + len(new)
        latest = replace(self, recent=recent, count=count)
        if count < window:
            return latest
        mean = recent.mean(axis=0)
        if np.isnan(self.best).all():
            return replace(latest, first=mean, best=mean)
        if (mean <= self.best).all():
            return latest
        error = recent.std(axis=0) / math.sqrt(window)
        beaten = mean > self.best + np.maximum(ERRORS * error, GAIN * (self.best - self.first))
        improved = clock if beaten.any() else self.improved
        return replace(latest, best=np.where(beaten, mean, self.best), improved=improved)

    @property
    def score(self) -> float:
        """The mean of the latest scores; NaN before the first."""
        return float(self.recent[:, 0].mean()) if len(self.recent) else math.nan

    def gained(self, threshold: float) -> float:
        """How far the score has come from its first value to a threshold, in [0, 1]; 0 with too few scores."""
        first = float(self.first[0])
        if math.isnan(first):
            return 0.0
        return min(max((self.score - first) / (threshold - first), 0.0), 1.0) if threshold > first else 1.0


@dataclass(frozen=True, eq=False)
class Trend:
    """Whether scores or returns keep improving, judged from blocks of episodes that double in size.

    Each block has to beat the one before, for the scores or for the returns: clearly (`ERRORS`), and by a part of what
    has been gained so far (`GAIN`). A block that does not ends the trend for good. So does a first block of identical
    episodes, which have nothing to teach.

    Args:
        size: Episodes of the current block.
        count: The number of episodes in the block so far.
        mean: Their mean score and return, (2,).
        squares: The sums of squared deviations from that mean, (2,).
        before: The mean of the block before, and the squared standard error of that mean, (2, 2); NaN if there is none.
        first: The mean of the first block, (2,); NaN while it lasts.
        improved: Whether a block has beaten the one before.
        over: Whether the trend is over.
    """

    size: int
    count: int = 0
    mean: FloatArray = field(default_factory=lambda: np.zeros(2))
    squares: FloatArray = field(default_factory=lambda: np.zeros(2))
    before: FloatArray = field(default_factory=lambda: np.full((2, 2), math.nan))
    first: FloatArray = field(default_factory=lambda: np.full(2, math.nan))
    improved: bool = False
    over: bool = False

    def observe(self, new: FloatArray, alike: int) -> Trend:
        """The trend after more scores and returns (n, 2); `alike`: how many equal ones are enough to end it."""
        if self.over or not len(new):
            return self
        count = self.count + len(new)
        step = new.mean(axis=0) - self.mean
        mean = self.mean + step * len(new) / count if self.count else new.mean(axis=0)
        within = self.squares + ((new - new.mean(axis=0)) ** 2).sum(axis=0)
        grown = replace(self, count=count, mean=mean, squares=within + step**2 * self.count * len(new) / count)
        equal = np.sqrt(grown.squares / count) <= SAME * np.abs(mean)
        if np.isnan(self.first).any() and count >= alike and equal.all():
            return replace(grown, over=True)
        return grown if count < self.size else grown._next_block()

    def _next_block(self) -> Trend:
        """The trend after a whole block."""
        now = np.stack([self.mean, self.squares / self.count**2])
        fresh = replace(self, count=0, mean=np.zeros(2), squares=np.zeros(2), before=now)
        if np.isnan(self.first).any():
            return replace(fresh, first=self.mean)
        needed = np.maximum(ERRORS * np.sqrt(now[1] + self.before[1]), GAIN * (self.before[0] - self.first))
        improved = bool((now[0] - self.before[0] > needed).any())
        return replace(fresh, size=2 * self.size, improved=improved, over=not improved)


@dataclass(frozen=True, repr=False)
class HedgedState(WrapperState):
    """A `State` with the memory of `HedgedGradient`.

    Args:
        inner: The path's state: that of GRADIENT, or of the search for its source.
        began: This curriculum's stage in which the path's current stage began.
        arms: The arms of the latest episodes, (n,).
        lengths: Their lengths (n,).
        on_path: The record of the path.
        on_target: The record of the target.
        trend: Whether the target keeps improving, from the first episode on.
        tried: The number of episodes on the path so far.
        paying: Whether the path has begun to pay.
        farthest: The highest alpha so far.
        moved: The clock when `farthest` was reached.
        clock: The environment steps of all episodes.
        shares: The arms' shares of the environment steps, (3,).
        odds: Their shares of the episodes, (3,).
    """

    began: int = 0
    arms: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    lengths: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    on_path: Record = field(default_factory=Record)
    on_target: Record = field(default_factory=Record)
    trend: Trend = field(default_factory=lambda: Trend(1))
    tried: int = 0
    paying: bool = False
    farthest: float = 0.0
    moved: float = -math.inf
    clock: float = 0.0
    shares: FloatArray = field(default_factory=lambda: np.zeros(3))
    odds: FloatArray = field(default_factory=lambda: np.zeros(3))

    def is_recent(self, clock: float) -> bool:
        """Whether a moment is in the later part of the run so far."""
        return self.clock - clock <= RECENT * self.clock


@dataclass(frozen=True)
class HedgedGradient(Wrapper[HedgedState]):
    """GRADIENT hedged by the target and the whole space: the default, for problems without tuned settings.

    It trains on a mixture of three arms: the frontier of the geodesic, the target and the whole space.

        distribution = sum over arms a of odds_a * arm_a,   odds_a ~ share_a / mean episode length of a

    At first the shares are `waiting`: hard contexts get most of the steps, because an agent that has only seen easy
    contexts may never explore what hard ones need. If the target improves during the first blocks of episodes on it,
    all steps go to the target (`alone`) for as long as it keeps improving (`Trend`). After that,

        shares = (1 - n) * s + n * solved,   n = clip((S - S_0) / (threshold - S_0), 0, 1) ** (2 ** (1 - 2 alpha))

    S is the mean score of the latest `window` episodes on the target and S_0 that of the first ones. So training moves
    to the target as the score there rises, and the shares are `solved` once that score reaches the threshold. At the
    start of the path (alpha = 0) the exponent is 2, since a target whose score stalls at half the threshold needs the
    path; at the end of the path it is 1/2. The shares s favour what makes progress:

    - `waiting` until the path pays.
    - `paying` from then on: once alpha has moved, once the score on the path has come a quarter of the way to the
      threshold, or after `trial` episodes on it.
    - If neither alpha nor the scores on the path have risen in the later half of the run so far: `direct` if the scores
      on the target have, else `waiting` again after `patience` episodes on the path. Scores rise when the mean score or
      the mean return of the latest `window` episodes beats the best one so far by two standard errors and by a tenth of
      what has been gained since the first one (on the path: since the path last moved).

    The path is `Gradient` under any metric. Its pace estimates scores from the episodes of the path and the target
    (`HedgedPace`). Without a source, the path is a `Search` until there is one.

    Shares are of environment steps: where episodes end at success or failure, an arm of long episodes would otherwise
    take most of the steps.

    Args:
        source: Contexts the agent can learn from at the start, or `"auto"` to search for them.
        target: The contexts to master.
        metric: The distance between contexts; None: Euclidean. A `LearnedMetric` is fitted during training.
        threshold: The score that is good enough.
        space: Where contexts live. Missing bounds are replaced by those of a box around source and target.
        waiting: The shares of path, target and space until the target improves or the path pays, and when nothing makes
            progress.
        alone: The shares while the target keeps improving from the start.
        paying: The shares while the path pays.
        direct: The shares when the target improves and the path does not.
        solved: The shares once the score on the target reaches the threshold.
        trial: After this many episodes on the path, it counts as paying in any case. Also the size of the first block
            of episodes on the target (see `Trend`).
        patience: After this many episodes on the path, it no longer counts as paying if neither alpha nor its scores
            rise.
        window: The number of latest episodes in the mean scores on target and path.
        path_window: The number of episodes on the path between two decisions of its pace.
        stride: The farthest that alpha can move at once.
        memory: The number of latest episodes used to fit the pace's estimate and to average episode lengths.
        bandwidth: The bandwidth of that estimate's kernel, in diagonals of the context space.
        particles: The number of contexts that represent a continuous space; resampled for each stage.
        explore_steps: The environment steps spent on an exploration under a learned metric.
        score: Which score of an episode counts.

    Example:
        >>> import numpy as np
        >>> import geodesic as gd
        >>> space = gd.ContextSpace([0.0], [5.0])
        >>> problem = gd.Problem(gd.Particles([[0.0]]), gd.Particles([[4.0]]), space, threshold=3.0)
        >>> curriculum = gd.curricula.build("auto", problem)
        >>> curriculum.init(np.random.default_rng(0)).shares
        array([0.25, 0.5 , 0.25])
    """

    colour: ClassVar[str | None] = "#7B3294"
    searches: ClassVar[bool] = True
    follows_threshold: ClassVar[bool] = True

    source: Particles | Literal["auto"]
    target: Particles
    metric: Metric | LearnedMetric | None = None
    threshold: float = 0.0
    _: KW_ONLY
    space: ContextSpace | None = None
    waiting: Shares = (0.25, 0.5, 0.25)
    alone: Shares = (0.0, 1.0, 0.0)
    paying: Shares = (0.85, 0.05, 0.1)
    direct: Shares = (0.3, 0.6, 0.1)
    solved: Shares = (0.0, 0.9, 0.1)
    trial: Count = 60
    patience: Count = 200
    window: Count = 20
    path_window: Count = 10
    stride: float = 0.2
    memory: Count = 300
    bandwidth: Positive = 0.04
    particles: Size = 1000
    explore_steps: Count = 10_000

    def __post_init__(self) -> None:
        if is_auto(self.source) and (self.space is None or not self.space.bounded):
            raise InvalidInput("expected a bounded space to search for a source in, got none; try source=...")
        super().__post_init__()
        self.path  # noqa: B018  refuses invalid options of the path
        if is_auto(self.source):
            self._gradient(self.target)  # and those of what follows the search

    @cached_property
    def path(self) -> Gradient | Search:
        """What the path follows: GRADIENT, after a search for its source if there is none."""
        if isinstance(self.source, Particles):
            return self._gradient(self.source)
        return Search(self._gradient, self.box, self.threshold, score=self.score)

    def _gradient(self, source: Particles) -> Gradient:
        pace = HedgedPace(stride=self.stride, window=self.path_window, memory=self.memory, bandwidth=self.bandwidth)
        more: dict[str, Any] = {"space": self.space, "explore_steps": self.explore_steps, "score": self.score}
        return Gradient(source, self.target, self.metric, pace, self.threshold, **more)

    @cached_property
    def box(self) -> ContextSpace:
        """The space, with missing bounds replaced by those of a box around source and target."""
        ends = np.concatenate([end.points for end in (self.source, self.target) if isinstance(end, Particles)])
        if self.space is None:
            return ContextSpace(ends.min(axis=0), ends.max(axis=0))
        return self.space.bounded_around(ends)

    def inside(self, state: HedgedState) -> Gradient | Search:
        """The path."""
        return self.path

    def init(self, rng: np.random.Generator) -> HedgedState:
        """The mixture until it is known whether the target improves."""
        inner = self.path.init(rng)
        state = HedgedState(inner.distribution, kind=inner.kind, inner=inner, trend=Trend(self.trial))
        return self._enter(state, inner, np.array(self.waiting), "start", rng).replace(stage=0, began=0)

    def update(self, state: HedgedState, episodes: EpisodeBatch, rng: np.random.Generator) -> HedgedState:
        """The state after more episodes: the path may move, and the shares may change."""
        if not self.has_episodes(state, episodes, rng) or state.inner is None:
            return state
        before = state.inner
        on_path, on_target = self._drawn(state, before, episodes)
        state = self._absorb(state, episodes, on_path, on_target)
        inner = self._follow_path(state, before, episodes, on_path, on_target, rng)
        if inner.stage != before.stage:
            state = state.replace(on_path=state.on_path.restart())
        if inner.alpha > state.farthest:
            state = state.replace(farthest=inner.alpha, moved=state.clock)
        state = state.replace(paying=state.paying or self._pays(state, inner))
        shares = self._shares(state, inner.alpha)
        if inner.stage != before.stage:
            return self._enter(state, inner, shares, inner.event, rng)
        changed = np.abs(shares - state.shares).max() > CHANGED
        drift = np.abs(np.log(self._odds(state, shares).clip(1e-3) / state.odds.clip(1e-3))).max()
        if changed or drift > DRIFTED:
            event = "new lengths" if np.array_equal(shares, state.shares) else "new shares"
            return self._enter(state, inner, shares, event, rng)
        return state.replace(inner=inner)

    def snapshot(self, state: HedgedState) -> Arrays:
        """The arms' shares of the steps and their latest mean scores, and what the path's own snapshot has."""
        scores = np.array([state.on_path.score, state.on_target.score])
        own = {"shares": state.shares, "odds": state.odds, "scores": scores}
        return {**super().snapshot(state), **own}

    def scalars(self, state: HedgedState) -> dict[str, float]:
        """The arms' shares of the steps, and the latest mean scores on path and target."""
        shares = {f"share of {arm}": float(share) for arm, share in zip(ARMS, state.shares)}
        scores = {"score on path": state.on_path.score, "score on target": state.on_target.score}
        return {**super().scalars(state), **shares, **scores}

    def _drawn(
        self, state: HedgedState, inner: State, episodes: EpisodeBatch
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which episodes (n,) had a context of the current path, and which of the target; some have both."""
        on_path = are_drawn_from(episodes.contexts, inner.distribution) & (episodes.stages >= state.began)
        return on_path, are_drawn_from(episodes.contexts, self.target)

    def _absorb(
        self, state: HedgedState, episodes: EpisodeBatch, on_path: NDArray[np.bool_], on_target: NDArray[np.bool_]
    ) -> HedgedState:
        both = np.stack([episodes.scores(self.score), episodes.returns], axis=1)
        rest = np.where(episodes.stages >= state.began, SPACE, OTHER)
        arms = np.where(on_target, TARGET, np.where(on_path, PATH, rest))
        clock = state.clock + float(episodes.lengths.sum())
        return state.replace(
            arms=np.concatenate([state.arms, arms])[-self.memory :],
            lengths=np.concatenate([state.lengths, episodes.lengths])[-self.memory :],
            on_path=state.on_path.observe(both[on_path], self.window, clock),
            on_target=state.on_target.observe(both[on_target], self.window, clock),
            trend=state.trend.observe(both[on_target], self.window),
            tried=state.tried + int(on_path.sum()),
            clock=clock,
        )

    def _follow_path(
        self,
        state: HedgedState,
        inner: State,
        episodes: EpisodeBatch,
        on_path: NDArray[np.bool_],
        on_target: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> State:
        """The path's state after its own episodes and those on the target; a search and a metric see all of them."""
        given = episodes.with_stages(np.where(on_path, inner.stage, OTHER))
        if not isinstance(self.metric, LearnedMetric) and inner.kind == "train":
            given = given[on_path | on_target]
        path: Curriculum[State] = self.path  # type: ignore[assignment]
        return path.update(inner.replace(threshold=state.threshold), given, rng)

    def _pays(self, state: HedgedState, inner: State) -> bool:
        moved, tried = inner.alpha >= LEFT, state.tried >= self.trial
        return moved or tried or state.on_path.gained(self.required(state)) >= 0.25

    def _shares(self, state: HedgedState, alpha: float) -> FloatArray:
        """The arms' shares of the steps, (3,); n is rounded, so that not every episode changes them."""
        if not state.trend.over:
            return np.array(self.alone if state.trend.improved else self.waiting)
        rises = state.farthest == 1.0 or any(map(state.is_recent, (state.moved, state.on_path.improved)))
        if not state.paying:
            shares = self.waiting
        elif not rises and state.is_recent(state.on_target.improved):
            shares = self.direct
        else:
            shares = self.paying if rises or state.tried < self.patience else self.waiting
        gained, power = state.on_target.gained(self.required(state)), 2.0 ** (1 - 2 * alpha)
        n = round(math.pow(gained, power), 1)
        return (1 - n) * np.array(shares) + n * np.array(self.solved)

    def _odds(self, state: HedgedState, shares: FloatArray) -> FloatArray:
        """The arms' shares of the episodes, (3,)."""
        if not len(state.lengths):
            return shares
        mean = max(float(state.lengths.mean()), 1e-9)
        own = [state.lengths[state.arms == arm] for arm in (PATH, TARGET, SPACE)]
        relative = np.array([lengths.mean() / mean if len(lengths) >= RARE else 1.0 for lengths in own])
        odds = shares / relative.clip(1 / RATIO, RATIO)
        return np.asarray(odds / odds.sum())

    def _enter(
        self, state: HedgedState, inner: State, shares: FloatArray, event: str, rng: np.random.Generator
    ) -> HedgedState:
        """The next stage, on the mixture with these shares."""
        odds = self._odds(state, shares)
        arms = (inner.distribution, self.target, self.box.uniform(self.particles, rng))
        points = np.concatenate([arm.points for arm in arms])
        mixture = Particles(points, np.concatenate([part * arm.weights for part, arm in zip(odds, arms)]))
        moved = state.inner is None or inner.stage != state.inner.stage
        return state.replace(
            distribution=mixture.merged() if self.box.finite else mixture.positive(),
            stage=state.stage + 1,
            alpha=1.0 if np.array_equal(shares, self.solved) else inner.alpha,
            event=event,
            kind=inner.kind,
            inner=inner,
            began=state.stage + 1 if moved else state.began,
            shares=shares,
            odds=odds,
        )
