"""Making a run's configuration from a task and the caller's arguments, and its parts from the configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from geodesic import curricula, learners
from geodesic.checks import as_count, as_name
from geodesic.curricula import Curriculum
from geodesic.curricula.base import ENOUGH, Threshold, as_threshold, is_auto
from geodesic.errors import InvalidInput, short_repr
from geodesic.metrics.standard import Maker
from geodesic.records import RunConfig
from geodesic.records.config import BACKENDS, LOOPS
from geodesic.registry import is_reference, load_object
from geodesic.tasks import Task, load
from geodesic.tasks.methods import Method, build, name_of_metric, name_of_object, parse, problem, resolve
from geodesic.training.objects import Objects

if TYPE_CHECKING:
    from geodesic.learners.base import Learner

SEGMENT_STEPS = 1000  # environment steps between two updates of the curriculum, where the task does not say
EVALUATIONS = 50  # of a run, where the task does not say
EVALUATIONS_ON_HOST = 20  # the same for environments on the host, where evaluations cost as many steps as training
EPISODES = 30  # of an evaluation, where the task does not say
PART = 5  # one in so many environment steps on the host may be one of an evaluation
FEWEST, FEWEST_EPISODES = 2, 5  # evaluations after the first one, and episodes of each, however short a run is


def configure(
    task: str | Task,
    method: Method = "auto",
    seed: int = 0,
    steps: int | None = None,
    metric: str | Maker | None = None,
    threshold: Threshold | None = None,
    learner: object = None,
    backend: str = "jax",
) -> RunConfig:
    """Configure a run.

    Args:
        task: A task, its name or a reference.
        method: A name with options, a reference, a `Curriculum`, or a function `Problem -> Curriculum`.
        seed: The seed of everything random.
        steps: Environment steps (default: the task's).
        metric: A name, a reference, or a metric (default: the task's).
        threshold: The score above which a stage is mastered, or "auto" (default: the task's).
        learner: A learner, or a string such as `"sac:learning_rate=1e-3"`; see `learner_of`.
        backend: What trains: "jax", "sb3" or "sbx"; or a training loop that is not ours ("own", "rllib").

    Returns:
        The configuration; everything that is not given comes from the task.

    Raises:
        InvalidInput: If an argument is invalid.
    """
    task = load(task)
    name, options, metric_name = resolve(task, method, metric, threshold)
    budget = as_count(task.training.steps if steps is None else steps, "steps")
    level = task.threshold if threshold is None else as_threshold(threshold, "threshold")
    level = ENOUGH if is_auto(level) and task.score == "success" else level
    own_loop = backend in LOOPS
    as_name(backend, "backend", LOOPS if own_loop else BACKENDS)
    algorithm, settings = (None, {}) if own_loop else learner_of(task, learner)
    segment, every, episodes = (1, 1, EPISODES) if own_loop else _schedule(task, learner, budget)
    return RunConfig(
        task=task.reference or task.name,
        name=task.name,
        contexts=list(task.space.names),
        categories=categories_of(task),
        method=name,
        options=options,
        label=label_of(task, method, metric, level, learner, backend),
        seed=seed,
        steps=budget,
        threshold=level,
        solved=_solved(task, threshold),
        score=task.score,
        discount=task.discount,
        metric=metric_name,
        backend=backend,
        learner=algorithm,
        learner_options=settings,
        segment=segment,
        eval_every=every,
        eval_episodes=task.evaluation.episodes or episodes,
        eval_policy=task.evaluation.policy,
        objects=objects_of(task, method, metric, learner).fingerprints,
    )


def _solved(task: Task, threshold: Threshold | None) -> float | None:
    """The score above which the target counts as solved; None if there is none."""
    level = task.solved_above if threshold is None or isinstance(threshold, str) else threshold
    return None if math.isnan(level) else level


def objects_of(task: Task, method: object = None, metric: object = None, learner: object = None) -> Objects:
    """Keep those of a call's arguments that are objects to which no name leads."""
    return Objects(
        task=None if task.reference is not None else task,
        method=None if isinstance(method, str) else method,
        metric=None if isinstance(metric, str) else metric,
        learner=learner if _is_live(learner) and learners.describe(learner)[0] not in learners.REGISTRY else None,
    )


def learner_of(task: Task, given: object) -> learners.Described:
    """The learner as a name and options: the task's own, or one that replaces it.

    A string, and an object that knows which of its fields were set, change only these if the task's own has their name.
    """
    own = _described(task.training.learner)
    if given is None:
        return own
    name, options = _described(given)
    if name == own[0] and isinstance(given, str):
        return name, {**own[1], **options}
    if name == own[0] and hasattr(given, "given"):
        return name, {**own[1], **{field: options[field] for field in given.given}}
    return name, options


def _described(learner: object) -> learners.Described:
    """A learner as a name and options."""
    if not isinstance(learner, str):
        return learners.describe(learner)
    name, options = parse(learner, "a learner")
    if is_reference(name):
        name = load_object(name)[1]
    learners.REGISTRY.get(name)
    return name, options


def make_learner(config: RunConfig, task: Task, objects: Objects) -> Learner:
    """The learner of a run."""
    check_has_learner(config)
    own = task.training.learner
    if objects.learner is not None:
        return cast("Learner", objects.learner)
    if "learner" in config.objects:
        raise _missing("learner", str(config.learner))
    if _is_live(own) and learners.describe(own) == (config.learner, config.learner_options):
        return cast("Learner", own)
    return learners.make(str(config.learner), config.learner_options)


def check_has_learner(config: RunConfig) -> None:
    """Refuse a run whose agent was made by a training loop that is not ours."""
    if config.learner is None:
        hint = "; try gd.sb3.restore(model, folder)" if config.backend in BACKENDS else ""
        raise InvalidInput(f"expected a run of geodesic.train, got one of another training loop ({config.label}){hint}")


def _is_live(learner: object) -> bool:
    """Whether this is a learner itself, rather than its name or name and options."""
    return learner is not None and not isinstance(learner, (str, tuple))


def _schedule(task: Task, given: object, budget: int) -> tuple[int, int, int]:
    """Learner iterations of a segment, segments between two evaluations, and the episodes of each."""
    name, options = learner_of(task, given)
    chosen: Any = task.training.learner if given is None else given
    learner = chosen if _is_live(chosen) and name not in learners.REGISTRY else learners.make(name, options)
    per_iteration = learner.rollout * learner.n_envs
    segment = task.training.segment or max(1, round(SEGMENT_STEPS / per_iteration))
    most = EVALUATIONS if task.in_jax else EVALUATIONS_ON_HOST
    return segment, *evaluation_schedule(task, budget, task.evaluation.every, segment * per_iteration, most)


def evaluation_schedule(
    task: Task, budget: int, every: int | None, unit: int = 1, most: int = EVALUATIONS_ON_HOST
) -> tuple[int, int]:
    """Plan the evaluations of a run.

    On the host they cost at most a fifth of the budget where the length of an episode is bounded: then there are about
    as many of them as each has episodes, up to 20 of 30 episodes, but at least three of five.

    Args:
        task: The task; the episodes that it states are kept.
        budget: Environment steps of the run.
        every: Units between two evaluations, if that is stated.
        unit: Environment steps after each of which an evaluation is possible.
        most: Evaluations of a run that is long enough.

    Returns:
        Units between two evaluations, and the episodes of each.
    """
    episodes = task.evaluation.episodes
    limit = None if task.in_jax or (every and episodes) else task.episode_limit
    if limit is None:
        return every or max(1, round(budget / most / unit)), episodes or EPISODES
    affordable = budget // (PART * limit)  # episodes, in all
    count = min(math.isqrt(affordable), affordable // FEWEST_EPISODES - 1)
    count = affordable // episodes - 1 if episodes else count
    every = every or math.ceil(budget / min(max(count, FEWEST), most) / unit)
    made = 1 + math.ceil(math.ceil(budget / unit) / every)  # at the start, at every multiple, and at the end
    return every, episodes or min(max(affordable // made, FEWEST_EPISODES), EPISODES)


def method_label(method: Method) -> str:
    """A method as it was written; a reference without its file, an object by the name of its class or function."""
    if isinstance(method, str):
        return _without_file(method)
    registered = (name for name in curricula.REGISTRY if curricula.REGISTRY.known(name) is type(method))
    return next(registered, name_of_object(method))


def _without_file(text: str) -> str:
    """A name with options; of a reference, without its file or module."""
    name = parse(text)[0]
    return text.removeprefix(name.rpartition(":")[0]).removeprefix(":") if is_reference(name) else text


def label_of(task: Task, method: Method, metric: object, threshold: Threshold, learner: object, backend: str) -> str:
    """The method as it was written, with everything else that sets the run apart from the task's defaults."""
    parts = [method_label(method)]
    if metric is not None and name_of_metric(metric) != task.metric_names[0] and "metric=" not in parts[0]:
        parts.append(f"metric={_without_file(name_of_metric(metric))}")
    if threshold != task.threshold:
        parts.append(f"threshold={threshold if isinstance(threshold, str) else format(threshold, 'g')}")
    if learner is not None and learner_of(task, learner) != learner_of(task, None):
        parts.append(_without_file(learner if isinstance(learner, str) else learners.describe(learner)[0]))
    if backend in BACKENDS and backend != "jax":
        parts.append(backend)
    return ":".join(parts)


def task_of(config: RunConfig, task: Task | None = None) -> Task:
    """The task of a run: the one that is passed, or the one that its configuration names.

    Raises:
        InvalidInput: If it cannot be found, or has other contexts than the configuration.
    """
    if task is None and "task" in config.objects:
        raise _missing("task", repr(config.name))
    found = load(config.task) if task is None else task
    given, own = (config.contexts, config.categories), (list(found.space.names), categories_of(found))
    if given != own:
        raise InvalidInput(f"expected the contexts of {found.name}, {_listed(*own)}, got {_listed(*given)}")
    return found


def categories_of(task: Task) -> dict[str, list[str]]:
    """The categories of each context value that has some, as a configuration has them."""
    return {name: [str(each) for each in values] for name, values in task.space.categories.items()}


def _listed(names: Sequence[str], categories: Mapping[str, Sequence[str]]) -> str:
    return short_repr([categories.get(name, name) for name in names])


def curriculum_of(task: Task, config: RunConfig, objects: Objects | None = None) -> Curriculum[Any]:
    """The curriculum of a run.

    Args:
        task: The run's task.
        config: The run's configuration.
        objects: What was passed as objects; everything that the configuration says is an object has to be there.

    Returns:
        The curriculum.

    Raises:
        InvalidInput: If an object is missing or differs from the one that the run was started with.
    """
    given = objects or Objects()
    found = given.fingerprints
    for part, recorded in config.objects.items():
        if part not in found and part != "task":
            raise _missing(part, recorded.partition(" ")[0])
    metric = config.metric if given.metric is None else given.metric
    if given.method is None:
        return build(task, config.method, config.options, metric, config.threshold)
    made = curricula.build(given.method, problem(task, metric, config.threshold))
    if made.score != task.score:
        raise InvalidInput(
            f"expected a curriculum for the task's score {task.score!r}, got one for {made.score!r}; "
            f"try {type(made).__name__}(..., score={task.score!r})"
        )
    return made


def _missing(part: str, name: str) -> InvalidInput:
    arguments = "task, ..." if part == "task" else f"..., {part}=..."
    return InvalidInput(
        f"expected the {part} {name}, which was passed as an object and cannot be found by name; "
        f"try geodesic.train({arguments}) with the same out="
    )
