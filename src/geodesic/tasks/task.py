"""A task: the environment, its contexts, where training starts and where it should lead, in one object."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from geodesic.checks import (
    Boolean,
    Count,
    Discount,
    FloatArray,
    Number,
    String,
    as_function,
    as_string,
    as_strings,
    as_vector,
    check_fields,
    check_instance,
    explain_errors,
)
from geodesic.contexts import ContextSpace, Particles, Real, Score
from geodesic.contexts.plot import Plot
from geodesic.curricula.base import AUTO, ENOUGH, Threshold, as_threshold, is_auto
from geodesic.envs.gymnasium import (
    Contexts,
    ContextWrapper,
    Env,
    SetContext,
    find_sampler,
    has_attributes,
    set_attributes,
    time_limit,
)
from geodesic.errors import InvalidInput, UnknownName, format_error, short_repr, some
from geodesic.metrics import standard
from geodesic.metrics.base import LearnedMetric, Metric, as_any_metric

# for each context value one of its values, the bounds (low, high) of several, or a list of integers or categories
Range = Mapping[str, Real | tuple[float, float] | range | Sequence[int | str | bool]]
Distribution = Particles | Range | Callable[[np.random.Generator], Particles]
Automatic = Literal["auto"]
Policy = Literal["deterministic", "stochastic"]
Moments = tuple[FloatArray, FloatArray]

PARTICLES = 200  # of a distribution given as ranges
EMPTY_PLOT = Plot()


def _as_options(value: object, name: str) -> Mapping[str, Mapping[str, Any]]:
    """Options for each of several methods."""
    if not isinstance(value, Mapping) or not all(
        isinstance(label, str) and isinstance(own, Mapping) for label, own in value.items()
    ):
        raise InvalidInput(f"expected {name} as {{method: {{option: value}}}}, got {short_repr(value)}")
    return value


def _as_learner(value: object, name: str) -> object:
    """A learner, by name or itself; its class is in a room that needs JAX."""
    is_learner = all(hasattr(value, part) for part in ("n_envs", "rollout", "init", "act", "update", "policy"))
    if isinstance(value, (str, tuple)) or (is_learner and not isinstance(value, type)):
        return value
    raise InvalidInput(f"expected {name} such as geodesic.PPO(n_envs=8) or 'ppo:n_envs=8', got {short_repr(value)}")


def _as_metrics(value: object, name: str) -> Mapping[str, Any]:
    """Metrics by name, or functions and classes that make one."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidInput(f"expected {name} as {{name: metric}}, got {short_repr(value)}")
    for key, each in value.items():
        if not callable(each):
            as_any_metric(each, f"metric {key!r}")
    return value


@dataclass(frozen=True, eq=False)
class EvaluationSettings:
    """How agents are evaluated on a task.

    Args:
        distribution: Where agents are evaluated, as for `Task.target` (default: the environment's own evaluation
            distribution, else the target).
        episodes: Episodes of one evaluation (default: 30; fewer where they would cost too much, see `every`).
        every: Segments between two evaluations (default: 50 evaluations per run, 20 for environments on the host). By
            default evaluations on the host take at most a fifth as many environment steps as training, if the
            environment has a time limit: a short run has fewer evaluations, about as many as each has episodes, but
            at least three of five episodes.
        policy: `"deterministic"` or `"stochastic"`.
    """

    distribution: Distribution | None = None
    episodes: Count | None = None
    every: Count | None = None
    policy: Policy = "deterministic"

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, eq=False)
class TrainingSettings:
    """Defaults for training on a task; every one can be changed in a call.

    Args:
        learner: `gd.PPO(...)`, `gd.SAC(...)` or another learner, or a string such as `"sac:learning_rate=1e-3"`
            (default: PPO with 16 environments and normalised observations).
        steps: Environment steps of a run.
        segment: Learner iterations between two updates of the curriculum (default: about 1000 environment steps).
        methods: Default options by method: `"gradient"`, or `"gradient:pace=particles"` for that variant only.
        compare: The methods that `geodesic compare` runs by default.
    """

    learner: Annotated[Any, _as_learner] | None = None
    steps: Count = 100_000
    segment: Count | None = None
    methods: Annotated[Mapping[str, Mapping[str, Any]], _as_options] = field(default_factory=dict)
    compare: Annotated[Sequence[str], as_strings] = ("auto", "gradient", "uniform", "target-only")

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """A problem: an environment, its contexts, where training starts and where it should lead.

    Args:
        env: A `ContextualMDP` in JAX, the id of a Gymnasium environment, or a function without arguments that makes
            one. If there is a `ContextWrapper` around it already, its contexts and setter are used.
        contexts: What each context value can be: bounds, `{"length": (0.05, 1.0), "gravity": (2.0, 30.0, "m/s²")}`,
            integers, `{"obstacles": range(10)}`, or categories, `{"opponent": ["passive", "chaser"]}`; or a
            `ContextSpace`, or a `Box`, a `Discrete` or a `Dict` of Gymnasium (default: the environment's own).
        source: Where training starts: `Particles`; ranges such as `{"length": 0.5, "gravity": (9, 10)}`, uniform within
            them, of integers and categories also a list of values; a function of a generator; or `"auto"`, which
            searches the space until the threshold is first met (default: the environment's own, else `"auto"`).
        target: Where training should lead, likewise.
        threshold: A stage is mastered above this mean score; or `"auto"`: 0.8 for successes, and for returns relative
            to what the agent has shown it can earn (`geodesic.curricula.AutoThreshold`).
        solved: The target counts as solved above this score (default: the threshold, if it is a number).
        score: What thresholds, curricula and tables look at: `"return"`, `"discounted_return"` or `"success"`.
        discount: The discount of the discounted return.
        worst_return: The lowest possible score; needed by SPDL and the learned metrics.
        best_return: Contexts (n, d) -> upper bounds (n,) on the return, so that an unreachable threshold is refused.
        is_feasible: Contexts (n, d) -> which of them can be solved at all; used in reports only.
        set_context: `set_context(env, **context)` puts a context into the environment: floats, integers and
            categories by name; see `ContextWrapper` (default: `geodesic.envs.gymnasium.set_attributes`, if
            `env.unwrapped` has attributes of these names).
        observe_context: Whether the agent observes the context.
        metric: The default metric: a name, a reference, or what `metrics` takes.
        metrics: More metrics by name: a `Metric`, a `LearnedMetric`, a class of metrics, or a function
            `(task, threshold)` that makes one.
            Boxes have "l2", "embedding", "return-lift", "practice" and "embedding-raw"; spaces with integers or
            categories have "product" in place of "l2", "return-lift" and "practice"; discrete spaces have none.
        available_metrics: The names on offer, if not all of them are or if the environment has metrics.
        source_moments: (mean, covariance) of the source for methods that only know Gaussians (default: fitted).
        target_moments: The same for the target.
        evaluation: How agents are evaluated.
        training: Defaults for training.
        plot: What figures draw together with the contexts (default: what the environment provides).
        name: What tables and figures call the task (default: the environment's id, or the name of its class or of the
            function that makes it).
        reference: How another process finds it: a name, `module:object` or `file.py:object`; set by `gd.tasks.load`.

    Raises:
        InvalidInput: If an argument is invalid or missing; the message says what to add.

    Example:
        >>> import geodesic as gd
        >>> def set_context(env, gravity):
        ...     env.gravity = gravity
        >>> task = gd.Task(
        ...     "CartPole-v1",
        ...     contexts={"gravity": (2.0, 60.0, "m/s²")},
        ...     source={"gravity": (5.0, 10.0)},
        ...     target={"gravity": (40.0, 50.0)},
        ...     threshold=100.0,
        ...     set_context=set_context,
        ... )
        >>> task.space.labels
        ('gravity (m/s²)',)
    """

    env: Any
    contexts: Contexts | None = None
    source: Distribution | Automatic | None = None
    target: Distribution | None = None
    threshold: Annotated[Threshold, as_threshold] = AUTO
    solved: Number | None = None
    score: Score = "return"
    discount: Discount = 0.99
    worst_return: Number | None = None
    best_return: Annotated[Callable[[FloatArray], FloatArray], as_function] | None = None
    is_feasible: Annotated[Callable[[FloatArray], NDArray[np.bool_]], as_function] | None = None
    set_context: SetContext | None = None
    observe_context: Boolean = True
    metric: str | standard.Maker | None = None
    metrics: Annotated[Mapping[str, standard.Maker], _as_metrics] = field(default_factory=dict)
    available_metrics: Annotated[Sequence[str], as_strings] = ()
    source_moments: Moments | None = None
    target_moments: Moments | None = None
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    plot: Plot = EMPTY_PLOT
    name: String = ""
    reference: String | None = None

    def __post_init__(self) -> None:
        if isinstance(self.name, str) and not self.name:
            object.__setattr__(self, "name", _name_of(self.env))
        self._check_env()
        check_fields(self)
        if self.score == "success" and is_auto(self.threshold):
            object.__setattr__(self, "threshold", ENOUGH)
        if self.plot is EMPTY_PLOT and self.in_jax and hasattr(self.env, "plot"):
            object.__setattr__(self, "plot", self.env.plot())
        self.plot.check(self.space)
        if self.metric is not None and not isinstance(self.metric, str):
            if not callable(self.metric):
                as_any_metric(self.metric)
            name = getattr(self.metric, "__name__", type(self.metric).__name__)
            object.__setattr__(self, "metrics", {**self.metrics, name: self.metric})
            object.__setattr__(self, "metric", name)
        if isinstance(self.metric, str):
            self.check_metric(self.metric)
        for side in ("source", "target", "evaluation"):
            getattr(self, f"{side}_particles")

    def _check_env(self) -> None:
        if self.in_jax:
            if isinstance(self.env, type):
                raise InvalidInput(f"expected env to be an environment, got its class; try env={self.env.__name__}()")
            return
        if not (callable(self.env) or isinstance(self.env, str)):
            raise InvalidInput(
                f"expected env to be a ContextualMDP, a function that makes a Gymnasium environment or the id of one, "
                f"got {short_repr(self.env)}"
            )
        if self.set_context is not None:
            as_function(self.set_context, "set_context")
            return
        made = self._make_inner()
        made.close()  # type: ignore[no-untyped-call]
        sampler = find_sampler(made)
        if sampler is None:
            if not self.contexts or not has_attributes(made, self.space.names):
                raise InvalidInput(
                    "expected set_context=, a function set_context(env, **context) that puts a context into the "
                    "environment, or contexts with the names of its attributes"
                )
            object.__setattr__(self, "set_context", set_attributes)
            return
        own = sampler.context_space
        if self.contexts is None:
            object.__setattr__(self, "contexts", own)
        bounds = zip((self.space.low, self.space.high), (own.low, own.high))
        same = (self.space.names, self.space.values) == (own.names, own.values)
        if not same or not all(np.array_equal(mine, its) for mine, its in bounds):
            raise InvalidInput(
                "expected contexts= as in the environment's ContextWrapper, got others; try no contexts="
            )
        if not self.observe_context and getattr(sampler, "observe_context", False):
            raise InvalidInput("expected observe_context=False in the ContextWrapper, got one that adds the context")

    def __repr__(self) -> str:
        contexts = some(self.space.names)
        threshold = self.threshold if isinstance(self.threshold, str) else f"{self.threshold:g}"
        return f"Task({self.name!r}, contexts {contexts}, threshold {threshold} on the {self.score})"

    @property
    def in_jax(self) -> bool:
        """Whether the environment is a contextual MDP in JAX, which the compiled trainer can take."""
        return all(hasattr(self.env, part) for part in ("initial", "transition", "observation", "reward", "terminal"))

    @cached_property
    def space(self) -> ContextSpace:
        """The space of contexts."""
        given = self.contexts if self.contexts is not None else self._of_env("context_space")
        if given is None:
            raise InvalidInput(
                'expected contexts=, such as {"length": (0.05, 1.0)}: name and bounds of each context value'
            )
        return ContextSpace.of(given)

    @property
    def searches(self) -> bool:
        """Whether the source is searched for: it is "auto", or neither the task nor its environment states one."""
        return is_auto(self.source) or (self.source is None and self._of_env("source") is None)

    @cached_property
    def source_particles(self) -> Particles:
        """Where the curriculum starts, the same for every seed; the whole space if it is searched for."""
        return self._particles("source", 1)

    @cached_property
    def target_particles(self) -> Particles:
        """Where it should lead, the same for every seed."""
        return self._particles("target", 0)

    @cached_property
    def evaluation_particles(self) -> Particles:
        """Where agents are evaluated, the same for every seed; the target by default."""
        stated = self.evaluation.distribution is not None or self._of_env("evaluation") is not None
        return self._particles("evaluation", 2) if stated else self.target_particles

    @cached_property
    def episode_limit(self) -> int | None:
        """The steps after which an episode is truncated; None if the environment does not say."""
        if self.in_jax:
            return int(self.env.max_steps)
        if isinstance(self.env, str) and self.env in gym.registry:
            return gym.registry[self.env].max_episode_steps
        made = self._make_inner()
        made.close()  # type: ignore[no-untyped-call]
        return time_limit(made)

    @property
    def solved_above(self) -> float:
        """The score above which the target counts as solved; NaN if neither that nor a threshold is stated."""
        known = self.threshold if self.solved is None else self.solved
        return math.nan if isinstance(known, str) else float(known)

    @property
    def least(self) -> float | None:
        """The lowest possible score, if it is known."""
        if self.worst_return is not None:
            return float(self.worst_return)
        return 0.0 if self.score == "success" else self._of_env("worst_return")

    def reachable(self, distribution: Particles | None = None) -> float:
        """Bound the mean score on a distribution from above.

        Args:
            distribution: Contexts with weights (default: the target).

        Returns:
            The bound; infinite where none is known.

        Raises:
            InvalidInput: If `best_return` does not give a number for each context.
        """
        if self.score == "success":
            return 1.0
        bound = self.best_return or self._of_env("best_return")
        if bound is None or self.score != "return":
            return np.inf
        there = (
            self.target_particles if distribution is None else check_instance(Particles, distribution, "distribution")
        )
        return float(there.weights @ as_vector(bound(there.points), "best_return(contexts)", len(there)))

    def infeasible(self, distribution: Particles) -> float:
        """Compute the fraction of a distribution that cannot be solved.

        Args:
            distribution: Contexts with weights.

        Returns:
            The fraction; 0 where it is unknown.

        Raises:
            InvalidInput: If `is_feasible` does not give a value for each context.
        """
        feasible = self.is_feasible or self._of_env("is_feasible")
        if feasible is None:
            return 0.0
        points = check_instance(Particles, distribution, "distribution").points
        can = as_vector(feasible(points), "is_feasible(contexts)", len(points))
        return float(distribution.weights @ (can == 0))

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics on offer, the default first."""
        names = tuple(self.available_metrics) or (*self.metrics, *standard.standard_names(self))
        custom = [self.metric] if isinstance(self.metric, str) and standard.is_custom(self.metric) else []
        return tuple(sorted(dict.fromkeys([*names, *custom]), key=lambda name: name != self.metric))

    def check_metric(self, name: str) -> str:
        """The name, if it is of a metric on offer or a reference to one.

        Args:
            name: A name, or `file.py:Name` or `module:Name`.

        Returns:
            The name.

        Raises:
            InvalidInput: If the metric is not on offer; the message says what it needs.
        """
        if isinstance(name, str) and (name in self.metric_names or standard.is_custom(name)):
            return name
        lacking = None if self.available_metrics or not isinstance(name, str) else standard.missing(name, self)
        if lacking:
            raise InvalidInput(f"expected {lacking} in task {self.name} for the learned metric {name}")
        raise UnknownName(f"metric of {self.name}", name, self.metric_names)

    def make_metric(
        self, metric: str | standard.Maker | None = None, threshold: Threshold | None = None
    ) -> Metric | LearnedMetric:
        """Make a metric: the task's own, its environment's, a standard one, or the one that is passed in.

        Args:
            metric: A name, a reference, a metric, or what makes one (default: the task's default).
            threshold: The score that counts as mastered, for metrics that use it (default: the task's). For
                "auto", they get 0.8 if the score is the success, else NaN.

        Returns:
            The metric.

        Raises:
            InvalidInput: If there is none, or none of this name.
        """
        stated = self.threshold if threshold is None else as_threshold(threshold, "threshold")
        level = stated if not isinstance(stated, str) else ENOUGH if self.score == "success" else math.nan
        if metric is not None and not isinstance(metric, str):
            return standard.make(metric, self, level)
        if metric is None and not self.metric_names:
            raise InvalidInput(
                f"expected metrics= on the discrete contexts of {self.name}, such as "
                "{'steps': geodesic.metrics.Graph(...)}: no distance is known between them"
            )
        name = self.check_metric(self.metric_names[0] if metric is None else metric)
        of_env = self._of_env("metric")
        if name in self.metrics:
            return standard.make(self.metrics[name], self, level, name)
        found = of_env(name) if of_env is not None and name in self.metric_names else None
        if found is None:
            return standard.make(name, self, level)
        if isinstance(found, LearnedMetric) and hasattr(found, "score"):  # the environment does not know the task's
            found = replace(found, score=self.score)  # type: ignore[type-var]
        return found

    def make(self, render_mode: str | None = None) -> Env:
        """Make the Gymnasium environment, which draws its contexts from the target until `set_distribution`.

        Args:
            render_mode: As in `gymnasium.make`.

        Returns:
            The environment, which draws a context at every reset.

        Raises:
            InvalidInput: If the environment cannot be made.
        """
        if self.in_jax:
            from geodesic.envs.cmdp import ContextualEnv

            return ContextualEnv(self.env, self.space, self.target_particles, render_mode)
        inner = self._make_inner(render_mode)
        sampler = find_sampler(inner)
        if self.set_context is not None:
            if isinstance(sampler, ContextWrapper):
                raise InvalidInput("expected set_context= or an environment in a ContextWrapper, got both")
            inner = sampler = ContextWrapper(inner, self.space, self.set_context, self.observe_context)
        if sampler is None:
            raise InvalidInput(f"expected env() to make an environment in a ContextWrapper, as before, got {inner}")
        sampler.set_distribution(self.target_particles)
        return inner

    def _make_inner(self, render_mode: str | None = None) -> Env:
        if render_mode is not None:
            as_string(render_mode, "render_mode")
        options: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
        try:
            inner = gym.make(self.env, **options) if isinstance(self.env, str) else self.env(**options)
        except (gym.error.Error, TypeError) as error:
            raise InvalidInput(f"expected env= to make a Gymnasium environment, got {format_error(error)}") from error
        if not isinstance(inner, gym.Env):
            raise InvalidInput(f"expected env() to make a Gymnasium environment, got {type(inner).__name__}")
        return inner

    def named(self, name: str, reference: str) -> Task:
        """Copy the task with a name and a reference.

        Args:
            name: Its name, unless it was given one.
            reference: Where the task is found, as in `"package.module:object"`.

        Returns:
            The copy.
        """
        return replace(self, name=self.name if self.name != _name_of(self.env) else name, reference=reference)

    def _of_env(self, fact: str) -> Any:
        """A fact that the environment itself provides."""
        return getattr(self.env, fact, None) if self.in_jax else None

    def _particles(self, side: str, seed: int) -> Particles:
        stated = self.evaluation.distribution if side == "evaluation" else getattr(self, side)
        given = self._of_env(side) if stated is None else stated
        if side == "source" and self.searches:
            if not self.space.bounded:
                ends = f"low {self.space.low} and high {self.space.high}"
                raise InvalidInput(f"expected bounded contexts to search for a source in, got {ends}; try source=...")
            return self.space.uniform(PARTICLES, np.random.default_rng(seed))
        if given is None:
            name = self.space.names[0]
            raise InvalidInput(f'expected {side}=, such as {{"{name}": (low, high)}} or Particles(points)')
        if isinstance(given, Mapping):
            given = self.space.uniform(PARTICLES, np.random.default_rng(seed), given, side)
        with explain_errors(f"expected {side}(rng) to return Particles, got "):
            made = given(np.random.default_rng(seed)) if callable(given) else given
        if not isinstance(made, Particles):
            raise InvalidInput(
                f"expected {side} to be Particles, ranges or a function of a generator, got {short_repr(made)}"
            )
        self.space.check(made.points, side)
        return made


def _name_of(env: object) -> str:
    """The name of an environment: its id, or that of its class or of the function that makes it."""
    if isinstance(env, str):
        return env
    name = getattr(env, "__name__", type(env).__name__)
    return "task" if name in ("<lambda>", "partial") else str(name)
