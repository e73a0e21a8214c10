"""Making a run's configuration from a task and the user's words."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from geodesic import learners
from geodesic.checks import as_count, as_name, as_number, as_path, as_seed
from geodesic.errors import GeodesicError, InvalidInput
from geodesic.records import RunConfig, config_in
from geodesic.tasks import Task, load
from geodesic.tasks.methods import parse, resolve

BACKENDS = {
    "jax": "PPO and SAC compiled with environments in JAX, beside others; any number of runs at once",
    "sb3": "Stable-Baselines3's PPO and SAC with the same hyperparameters",
    "sbx": "the same of SBX, which is Stable-Baselines3 in JAX",
}
METRICS = {
    "l2": "straight lines between contexts",
    "graph": "shortest paths between discrete contexts",
    "contextual": "the exact contextual distance of a tabular environment under its optimal policy (Algorithm 3)",
    "optimal-returns": "difference of the best returns of a tabular environment, from value iteration",
    "policy-returns": "difference of the agent's returns, refitted while training",
    "embedding": "a latent space learned from return differences while training (Algorithms 4 and 5)",
    "embedding-raw": "the embedding in the units of contexts and returns, as the paper's authors fit it",
    "return-lift": "shortest paths over a nearest-neighbour graph lifted by the return, refitted while training",
}
SEGMENT_STEPS = 1000  # environment steps between two looks at the curriculum, where the task does not say
EVALUATIONS = 50  # of a run, where the task does not say
ON_HOST = 20  # the same for environments on the host, where an evaluation costs as much as training


def configure(
    task: str | Task,
    method: str = "gradient",
    seed: int = 0,
    steps: int | None = None,
    metric: str | None = None,
    threshold: float | None = None,
    learner: object = None,
    backend: str = "jax",
) -> RunConfig:
    """A run of `method`, written as name[:option=value ...]; what is not given comes from the task.

    learner: PPO(...), SAC(...) or, in words, 'sac:learning_rate=1e-3', which changes the task's own where it is a SAC.
    """
    task = load(task)
    name, options, chosen = resolve(task, method, metric, threshold)
    as_name(backend, "backend", BACKENDS)
    algorithm, settings = learner_of(task, learner)
    made = learners.make(algorithm, settings)
    budget = as_count(task.steps if steps is None else steps, "steps")
    level = task.threshold if threshold is None else threshold
    if level == level:  # NaN is refused with what the target can reach
        as_number(level, "threshold")
    segment = task.segment or max(1, round(SEGMENT_STEPS / (made.rollout * made.n_envs)))
    evaluations = EVALUATIONS if task.in_jax else ON_HOST
    every = task.eval_every or max(1, round(budget / evaluations / (segment * made.rollout * made.n_envs)))
    return RunConfig(
        task=task.reference or task.name,
        name=task.name,
        portable=task.reference is not None,
        contexts=list(task.space.names),
        method=name,
        label=label_of(task, method, metric, threshold, learner, backend),
        seed=as_seed(seed),
        steps=budget,
        threshold=float(level),
        solved=task.solved_above if threshold is None else float(threshold),
        measure=task.measure,
        discount=task.discount,
        metric=chosen,
        backend=backend,
        learner=algorithm,
        segment=segment,
        eval_every=every,
        eval_episodes=task.eval_episodes,
        eval_policy=task.eval_policy,
        options=options,
        learner_options=settings,
    )


def learner_of(task: Task, given: object) -> learners.Described:
    """The learner that is meant: the task's own, one given as an object, or words that change the task's own."""
    own = learners.describe(task.learner)
    if given is None:
        return own
    if not isinstance(given, str):
        return learners.describe(given)
    name, options = parse(given, "a learner")
    learners.learner_class(name)
    base = own[1] if own[0] == name else {}
    return name, {**base, **options}


def label_of(
    task: Task, method: str, metric: str | None, threshold: float | None, learner: object, backend: str
) -> str:
    """The method as it was written, with what else sets the run apart from the task's defaults."""
    parts = [method]
    if metric is not None and metric != task.metric_names[0] and "metric=" not in method:
        parts.append(f"metric={metric}")
    if threshold is not None and threshold != task.threshold:
        parts.append(f"threshold={threshold:g}")
    if learner is not None and learner_of(task, learner) != learners.describe(task.learner):
        parts.append(learner if isinstance(learner, str) else learners.describe(learner)[0])
    if backend != "jax":
        parts.append(backend)
    return ":".join(parts)


def slug(label: str) -> str:
    """A label as a folder name."""
    return "".join(letter if letter.isalnum() or letter in "._=+-" else "-" for letter in label)


def default_folder(config: RunConfig, task: Task) -> Path:
    """runs/TASK/LABEL/seed-N; a budget that is not the task's own is part of it."""
    budget = "" if config.steps == task.steps else f"-steps={config.steps}"
    return Path("runs") / slug(config.name) / (slug(config.label) + budget) / f"seed-{config.seed}"


def read_file(path: Path) -> RunConfig:
    """A run's config.json, to repeat it; or the same keys in TOML."""
    path = as_path(path, "a file")
    if path.suffix != ".toml":
        return config_in(path)
    try:
        values: dict[str, Any] = tomllib.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"expected a run's configuration in {path}, got {error}") from error
    task = load(values.pop("task", ""))
    try:
        return configure(task, **values)
    except GeodesicError:
        raise
    except TypeError as error:
        raise InvalidInput(f"expected keys of a run's configuration in {path}: {error}") from error


def task_of(config: RunConfig, task: Task | None = None) -> Task:
    """The task of a run: the one handed over, or the one that its configuration names."""
    if task is not None:
        return task
    if not config.portable:
        raise InvalidInput(
            f"expected the task {config.name!r} itself: it was an object, and no name or file:object leads to it; "
            f"try geodesic.train(task, ...) with the same out="
        )
    return load(config.task)
