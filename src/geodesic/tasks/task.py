"""A task: everything that a problem is, in one object."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from geodesic.checks import (
    FloatArray,
    as_a,
    as_array,
    as_count,
    as_flag,
    as_function,
    as_name,
    as_number,
    as_text,
    as_vector,
    as_words,
    check,
    optional,
)
from geodesic.contexts import ContextSpace, Particles, Side, as_bounded
from geodesic.curricula.base import is_auto
from geodesic.envs.gymnasium import Apply, ContextualEnv, ContextWrapper, Env
from geodesic.errors import GeodesicError, InvalidInput, UnknownName, shown
from geodesic.metrics.base import Metric, Recipe, as_metric_or_recipe
from geodesic.metrics.euclidean import Euclidean
from geodesic.tasks.drawing import Drawing

Measure = Literal["return", "discounted", "success"]
Range = Mapping[
    str, float | tuple[float, float]
]  # a value, or bounds within which it is uniform, for each context value
Distribution = Particles | Range | Callable[[np.random.Generator], Particles]
Auto = Literal["auto"]
MetricMaker = Callable[["Task", float], Metric | Recipe]  # (task, threshold) -> the metric
Moments = tuple[FloatArray, FloatArray]

PARTICLES = 200  # that stand for a distribution given as ranges
LEARNED = ("embedding", "return-lift", "embedding-raw")
POLICIES = ("deterministic", "stochastic")


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """A problem: an environment, its contexts, where training starts and where it should lead.

    env: a ContextualMDP in JAX; or a function without arguments that makes a Gymnasium environment, or the id of one,
        with `apply(env, **context)`, which puts a context into it, and `observe`, whether the agent sees the context
    contexts: {"length": (0.05, 1.0), "gravity": (2.0, 30.0, "m/s²")}, a ContextSpace, or the environment's own
    source, target: Particles; ranges such as {"length": 0.5, "gravity": (9, 10)}, uniform within them; or a function
        of a generator. The source may be left to the environment; the target too. The source "auto" is found: methods
        search the whole space until the threshold is first met
    evaluation: the distribution that agents are evaluated on, likewise; the environment's own, or else the target
    threshold: a stage is mastered above this mean; solved: the target counts as solved above this one (default: the
        threshold)
    measure: what thresholds and curricula look at: "return", "discounted" (by `discount`) or "success"
    worst_return: the least that an episode can earn in that measure; needed by spdl and the learned metrics
    best_return: contexts (n, d) -> upper bounds (n,) on the return, so that a threshold out of reach is refused;
        without it nothing is refused
    is_feasible: contexts (n, d) -> which can be solved at all; for reports only, curricula do not see it
    metrics: name -> Metric, Recipe, or a function (task, threshold) -> one; metric: the name of the default. A box has
        "l2", straight lines in units of its sides, "embedding", "return-lift" and "embedding-raw" of itself; a discrete
        space must state its metrics. offers: the names that are on offer, where that is not all of them or the
        environment has metrics
    learner, steps, segment, eval_every, eval_episodes, eval_policy: defaults of a run: a PPO or SAC (default: PPO with
        16 environments and normalised observations), environment steps, learner iterations between two looks at the
        curriculum (default: about 1000 steps), segments between two evaluations (default: 50 evaluations a run, 20
        where the environment is on the host), episodes of an evaluation, and whether its policy is "deterministic" or
        "stochastic"
    methods: "gradient", or "gradient:gate=true" for that with a gate alone -> default options; compare: the methods
        that `geodesic compare` takes without being told
    source_moments, target_moments: (mean, covariance) for methods that know Gaussians only; else the particles' own
    drawing: what figures draw with the contexts
    """

    env: Any
    contexts: ContextSpace | Mapping[str, Side] | None = None
    source: Distribution | Auto | None = None
    target: Distribution | None = None
    threshold: float = math.nan
    solved: float | None = None
    measure: Measure = "return"
    discount: float = 0.99
    worst_return: float | None = None
    best_return: Callable[[FloatArray], FloatArray] | None = None
    is_feasible: Callable[[FloatArray], NDArray[np.bool_]] | None = None
    apply: Apply | None = None
    observe: bool = True
    metric: str | None = None
    metrics: Mapping[str, Metric | Recipe | MetricMaker] = field(default_factory=dict)
    offers: Sequence[str] = ()
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    compare: Sequence[str] = ("gradient", "linear", "uniform", "target-only")
    learner: Any = None
    steps: int = 100_000
    segment: int | None = None
    eval_every: int | None = None
    eval_episodes: int = 30
    eval_policy: Literal["deterministic", "stochastic"] = "deterministic"
    source_moments: Moments | None = None
    target_moments: Moments | None = None
    drawing: Drawing = field(default_factory=Drawing)
    name: str = "task"
    reference: str | None = None  # how another process finds it: a name, module:object or file.py:object
    evaluation: Distribution | None = None

    def __post_init__(self) -> None:
        if self.in_jax and isinstance(self.env, type):
            raise InvalidInput(f"expected env to be an environment, got its class; try env={self.env.__name__}()")
        if not (self.in_jax or callable(self.env) or isinstance(self.env, str)):
            raise InvalidInput(
                f"expected env to be a ContextualMDP, a function that makes a Gymnasium environment or the id of one, "
                f"got {shown(self.env)}"
            )
        if not self.in_jax and not callable(self.apply):
            raise InvalidInput(
                "expected apply=, a function apply(env, **context) that puts a context into the environment"
            )
        if isinstance(self.threshold, float) and math.isnan(self.threshold):
            raise InvalidInput("expected threshold=, the mean return above which a stage counts as mastered")
        check(self, threshold=as_number, solved=optional(as_number), worst_return=optional(as_number))
        check(self, steps=as_count, segment=optional(as_count), eval_every=optional(as_count), eval_episodes=as_count)
        check(self, best_return=optional(as_function), is_feasible=optional(as_function), observe=as_flag)
        check(self, metric=optional(as_text), offers=as_words, compare=as_words, name=as_text, drawing=Drawing)
        check(self, methods=_as_options, metrics=_as_metrics, reference=optional(as_text))
        as_name(self.measure, "measure", get_args(Measure))
        as_name(self.eval_policy, "eval_policy", POLICIES)
        if not 0 < as_number(self.discount, "discount") <= 1:
            raise InvalidInput(f"expected discount in (0, 1], got {self.discount!r}")
        self.drawing.check(self.space)
        if self.metric is not None:
            self.check_metric(self.metric)
        for side in ("source", "target", "evaluation"):
            getattr(self, f"{side}_particles")

    def __repr__(self) -> str:
        contexts = ", ".join(self.space.names)
        return f"Task({self.name!r}, contexts {contexts}, threshold {self.threshold:g} on the {self.measure})"

    @property
    def in_jax(self) -> bool:
        """Whether the environment is a contextual MDP in JAX, which the compiled trainer can take."""
        return all(hasattr(self.env, part) for part in ("initial", "transition", "observation", "reward", "terminal"))

    @cached_property
    def space(self) -> ContextSpace:
        given = self.contexts if self.contexts is not None else self._of_env("context_space")
        if given is None:
            raise InvalidInput(
                'expected contexts=, such as {"length": (0.05, 1.0)}: name and bounds of each context value'
            )
        return given if isinstance(given, ContextSpace) else ContextSpace.named(given)

    @cached_property
    def source_particles(self) -> Particles:
        """Where the curriculum starts, the same for every seed; where it is searched for, the whole space."""
        return self._particles("source", 1)

    @cached_property
    def target_particles(self) -> Particles:
        """Where it should lead, the same for every seed."""
        return self._particles("target", 0)

    @cached_property
    def evaluation_particles(self) -> Particles:
        """Where agents are evaluated, the same for every seed: the target, unless it is said otherwise."""
        stated = self.evaluation is not None or self._of_env("evaluation") is not None
        return self._particles("evaluation", 2) if stated else self.target_particles

    @property
    def solved_above(self) -> float:
        return float(self.threshold if self.solved is None else self.solved)

    @property
    def least(self) -> float | None:
        """The worst return in the task's measure, where it is known."""
        if self.worst_return is not None:
            return float(self.worst_return)
        return 0.0 if self.measure == "success" else self._of_env("worst_return")

    def reachable(self) -> float:
        """An upper bound on the target's mean; infinite where nobody knows one."""
        if self.measure == "success":
            return 1.0
        bound = self.best_return or self._of_env("best_return")
        if bound is None or self.measure != "return":
            return np.inf
        target = self.target_particles
        return float(target.weights @ as_vector(bound(target.points), "best_return(contexts)", len(target)))

    def infeasible(self, distribution: Particles) -> float:
        """The share of a distribution that cannot be solved; 0 where nobody says."""
        feasible = self.is_feasible or self._of_env("is_feasible")
        if feasible is None:
            return 0.0
        can = as_array(feasible(as_a(Particles, distribution, "distribution").points), "is_feasible(contexts)")
        if can.shape != (len(distribution),):
            raise InvalidInput(f"expected is_feasible(contexts) of shape ({len(distribution)},), got {can.shape}")
        return float(distribution.weights @ (can == 0))

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics on offer, the default first."""
        learned = LEARNED if self.least is not None and self.space.bounded else ()
        own = () if self.space.support is not None else ("l2", *learned)
        names = tuple(self.offers) or (*self.metrics, *(name for name in own if name not in self.metrics))
        return tuple(sorted(names, key=lambda name: name != self.metric))

    def check_metric(self, name: str) -> str:
        """The name, if it is of a metric on offer."""
        if isinstance(name, str) and name in self.metric_names:
            return name
        if isinstance(name, str) and name in LEARNED and not self.offers and self.space.support is None:
            what = "bounded contexts" if not self.space.bounded else "worst_return="
            raise InvalidInput(f"expected {what} in task {self.name} for the learned metric {name}")
        raise UnknownName(f"metric of {self.name}", name, self.metric_names)

    def make_metric(self, name: str | None = None, threshold: float | None = None) -> Metric | Recipe:
        """The metric of this name: the task's own, its environment's, or one that every box has."""
        if not self.metric_names:
            raise InvalidInput(
                f"expected metrics= on the discrete contexts of {self.name}, such as "
                "{'steps': geodesic.metrics.Graph(...)}: no distance is known between them"
            )
        name = self.check_metric(self.metric_names[0] if name is None else name)
        stated = self.metrics.get(name)
        if isinstance(stated, (Metric, Recipe)):
            return stated
        level = self.threshold if threshold is None else as_number(threshold, "threshold")
        if stated is not None:
            return as_metric_or_recipe(stated(self, level), f"metric {name!r}")
        of_env = self._of_env("metric")
        found: Metric | Recipe | None = of_env(name) if of_env is not None else None
        return found if found is not None else standard_metric(self, name, level)

    def make(self, render_mode: str | None = None) -> Env:
        """The environment as Gymnasium's, drawing its contexts from the target until it is told otherwise."""
        if self.in_jax:
            return ContextualEnv(self.env, self.space, self.target_particles, render_mode)
        if render_mode is not None:
            as_text(render_mode, "render_mode")
        options: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
        try:
            inner = gym.make(self.env, **options) if isinstance(self.env, str) else self.env(**options)
        except (gym.error.Error, TypeError) as error:
            raise InvalidInput(f"expected env= to make a Gymnasium environment, got {error}") from error
        if not isinstance(inner, gym.Env):
            raise InvalidInput(f"expected env() to make a Gymnasium environment, got {type(inner).__name__}")
        wrapped = ContextWrapper(inner, self.space, self.apply, self.observe)  # type: ignore[arg-type]
        wrapped.set_distribution(self.target_particles)
        return wrapped

    def named(self, name: str, reference: str) -> Task:
        """The same task as it is known elsewhere."""
        return replace(self, name=self.name if self.name != "task" else name, reference=reference)

    def _of_env(self, fact: str) -> Any:
        """A fact that the environment states itself."""
        return getattr(self.env, fact, None) if self.in_jax else None

    def _particles(self, side: str, seed: int) -> Particles:
        given = self._of_env(side) if getattr(self, side) is None else getattr(self, side)
        if given is None:
            found = ', or "auto", which finds one' if side == "source" else ""
            raise InvalidInput(
                f'expected {side}=, such as {{"{self.space.names[0]}": (low, high)}} or Particles(points){found}'
            )
        if side == "source" and is_auto(given):
            return as_bounded(self.space, "contexts, where the source is searched for,").uniform(
                PARTICLES, np.random.default_rng(seed)
            )
        if isinstance(given, Mapping):
            given = uniform_within(given, self.space, side)
        rng = np.random.default_rng(seed)
        try:
            made = given(rng) if callable(given) else given
        except GeodesicError:
            raise
        except Exception as error:
            raise InvalidInput(
                f"expected {side}(rng) to give Particles, got {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, Particles):
            raise InvalidInput(
                f"expected {side} to be Particles, ranges or a function of a generator, got {shown(made)}"
            )
        self.space.check(made.points, side)
        return made


def uniform_within(ranges: Range, space: ContextSpace, what: str) -> Callable[[np.random.Generator], Particles]:
    """The uniform distribution within the ranges given for each context value."""
    if set(ranges) != set(space.names):
        raise InvalidInput(
            f"expected {what} to give a value or a range for each of {', '.join(space.names)}, "
            f"got {', '.join(map(str, ranges))}"
        )
    sides = [ranges[name] for name in space.names]
    if space.support is not None:
        raise InvalidInput(f"expected {what} to be Particles on the support of a discrete context space, got ranges")
    try:
        pairs = [side if isinstance(side, (tuple, list)) else (side, side) for side in sides]
        low, high = np.array([(as_number(a, what), as_number(b, what)) for a, b in pairs]).T
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"expected {what} as {{name: value or (low, high)}}, got {shown(dict(ranges))}") from error
    n = 1 if (low == high).all() else PARTICLES
    return lambda rng: Particles.uniform(low, high, n, rng)


def standard_metric(task: Task, name: str, threshold: float) -> Metric | Recipe:
    """What every bounded box has: straight lines, and the metrics that are learned while training."""
    if name not in ("l2", *LEARNED):
        raise InvalidInput(f"expected metric {name!r} in metrics= of task {task.name}, found none")
    if name == "l2":
        return Euclidean(task.space.sides if task.space.bounded else None)
    from geodesic.metrics.returns import ReturnLift

    worst = 0.0 if task.least is None else task.least
    if name == "return-lift":
        return ReturnLift(task.space, worst, threshold)
    from geodesic.metrics.embedding import Embedding

    return Embedding(task.space, worst, raw=name == "embedding-raw")


def _as_options(value: object, name: str) -> Mapping[str, Mapping[str, Any]]:
    """Options for each of several methods."""
    if not isinstance(value, Mapping) or not all(
        isinstance(label, str) and isinstance(own, Mapping) for label, own in value.items()
    ):
        raise InvalidInput(f"expected {name} as {{method: {{option: value}}}}, got {shown(value)}")
    return value


def _as_metrics(value: object, name: str) -> Mapping[str, Any]:
    """Metrics, recipes, or functions that make one, by name."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidInput(f"expected {name} as {{name: metric}}, got {shown(value)}")
    for key, each in value.items():
        if isinstance(each, type) or not callable(each):
            as_metric_or_recipe(each, f"metric {key!r}")
    return value
