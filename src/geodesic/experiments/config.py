"""What a run is: one flat description, made from the paper's tables and the user's words, kept in config.json."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from geodesic import curricula, envs
from geodesic.curricula import Curriculum, Problem
from geodesic.distributions import Particles, as_count
from geodesic.envs.cmdp import ContextualMDP
from geodesic.errors import InvalidInput, UnknownName

LEARNERS = {"jax": "PPO and SAC compiled together with the environment; any number of runs at once"}
LEARNED_METRICS = ("embedding", "return-lift")
METRICS = {
    "l2": "straight lines between contexts",
    "graph": "steps between discrete contexts",
    "contextual": "the exact contextual distance of a tabular environment under its optimal policy (Algorithm 3)",
    "embedding": "a latent space learned from return differences while training (Algorithms 4 and 5)",
    "return-lift": "shortest paths over a nearest-neighbour graph lifted by the return, refitted while training",
}


@dataclass(frozen=True)
class RunConfig:
    """Everything needed to repeat a run."""

    env: str
    method: str
    label: str
    seed: int
    steps: int
    threshold: float  # a stage is mastered above this mean return
    solved: float  # the target counts as solved above this mean return
    metric: str
    learner: str
    algorithm: str
    segment: int
    eval_every: int
    eval_episodes: int
    eval_policy: str
    options: dict[str, Any] = field(default_factory=dict)
    learner_options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RunConfig:
        missing = [item.name for item in fields(cls) if item.name not in values]
        if missing:
            raise InvalidInput(f"expected a run's config.json, got one without {', '.join(missing)}")
        return cls(**{item.name: values[item.name] for item in fields(cls)})


@cache
def table(env: str) -> dict[str, Any]:
    """The paper's values for an environment."""
    if env not in envs.REGISTRY:
        raise UnknownName("environment", env, envs.REGISTRY)
    text = resources.files("geodesic.experiments").joinpath("tables", f"{env}.toml").read_text()
    return tomllib.loads(text)


def configure(
    env: str,
    method: str = "gradient",
    seed: int = 0,
    steps: int | None = None,
    metric: str | None = None,
    threshold: float | None = None,
    learner: str = "jax",
) -> RunConfig:
    """A run of `method`, written as name[:option=value ...]; what is not given comes from the environment's table.

    `metric` is also accepted as an option of the method: gradient:metric=embedding:step=0.1.
    """
    values = table(env)
    if learner not in LEARNERS:
        raise UnknownName("learner", learner, LEARNERS)
    name, options = parse_method(method)
    chosen = options.pop("metric", None) or metric or values["metric"]
    if chosen not in values["metrics"]:
        raise UnknownName(f"metric of {env}", chosen, values["metrics"])
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise InvalidInput(f"expected seed to be an integer in [0, 2^31), got {seed!r}")
    return RunConfig(
        env=env,
        method=name,
        label=method,
        seed=seed,
        steps=as_count(values["steps"] if steps is None else steps, "steps"),
        threshold=float(values["threshold"] if threshold is None else threshold),
        solved=float(values.get("solved", values["threshold"]) if threshold is None else threshold),
        metric=chosen,
        learner=learner,
        algorithm=values["algorithm"],
        segment=values["segment"],
        eval_every=values["eval_every"],
        eval_episodes=values["eval_episodes"],
        eval_policy=values["eval_policy"],
        options={**values["methods"].get(name, {}), **options},
        learner_options=dict(values["learner"]),
    )


def parse_method(text: str) -> tuple[str, dict[str, Any]]:
    """'gradient:step=0.05:window=10' -> ('gradient', {'step': 0.05, 'window': 10})."""
    name, *parts = text.split(":")
    if name not in curricula.REGISTRY:
        raise UnknownName("method", name, curricula.REGISTRY)
    options = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise InvalidInput(f"expected a method as name:option=value, got {text!r}")
        options[key] = _value(value)
    return name, options


def _value(text: str) -> Any:
    """A number, a truth value or a list as TOML writes them; anything else is a word."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        try:
            return float(text)
        except ValueError:
            return text


def problem_of(config: RunConfig, mdp: ContextualMDP) -> Problem:
    """Source and target (the same for every seed), their space, the metric and the threshold."""
    target = target_of(mdp)
    best = float(target.weights @ mdp.best_return(target.points))
    if not config.threshold < best:
        raise InvalidInput(f"expected a threshold that the target can reach (below {best:g}), got {config.threshold:g}")
    return Problem(
        source=mdp.source(np.random.default_rng(1)),
        target=target,
        space=mdp.context_space,
        threshold=config.threshold,
        metric=None if config.metric in LEARNED_METRICS else mdp.metric(config.metric),
        worst_return=mdp.worst_return,
        source_moments=getattr(mdp, "source_moments", None),
        target_moments=getattr(mdp, "target_moments", None),
    )


def target_of(mdp: ContextualMDP) -> Particles:
    """The target of an environment: one set of particles for every seed and method."""
    return mdp.target(np.random.default_rng(0))


def curriculum_of(config: RunConfig, mdp: ContextualMDP) -> Curriculum:
    problem = problem_of(config, mdp)
    if config.method == "gradient" and config.metric in LEARNED_METRICS:
        from geodesic.curricula.learned import LearnedGradient

        return curricula.construct(LearnedGradient, problem, learned=config.metric, **config.options)
    return curricula.build(config.method, problem, **config.options)


def learner_of(config: RunConfig) -> Any:
    """The learner's frozen hyperparameters."""
    from geodesic.learners.ppo import PPO
    from geodesic.learners.sac import SAC

    options = {key: tuple(value) if isinstance(value, list) else value for key, value in config.learner_options.items()}
    return {"ppo": PPO, "sac": SAC}[config.algorithm](**options)


def slug(label: str) -> str:
    """A label as a folder name."""
    return label.replace(":", "-").replace("/", "-")


def versions() -> dict[str, str]:
    """The versions that a run's numbers depend on."""
    from importlib.metadata import version

    names = ("geodesic-rl", "numpy", "scipy", "jax", "jaxlib", "optax", "pot", "scikit-learn", "gymnasium")
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = version(name)
        except ModuleNotFoundError:
            found[name] = "not installed"
    return found


def default_folder(config: RunConfig) -> Path:
    return Path("runs") / config.env / slug(config.label) / f"seed-{config.seed}"
