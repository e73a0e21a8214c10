"""A run's configuration: one flat description, kept in config.json, from which the run can be repeated."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np

from geodesic.checks import (
    Count,
    Discount,
    Number,
    as_count,
    as_name,
    as_seed,
    as_string,
    as_strings,
    check_fields,
    check_instance,
    is_number,
)
from geodesic.contexts import SCORE_NAMES, Score
from geodesic.curricula.base import AUTO, Threshold, as_threshold
from geodesic.errors import InvalidInput, UnknownName, short_repr
from geodesic.records.files import read_json
from geodesic.tasks.task import Policy

PACKAGES = ("geodesic-rl", "numpy", "scipy", "jax", "jaxlib", "optax", "pot", "scikit-learn", "gymnasium")
BACKENDS = {
    "jax": "PPO and SAC, compiled together with environments in JAX; any number of runs at once",
    "sb3": "PPO and SAC from Stable-Baselines3 with the same hyperparameters",
    "sbx": "PPO and SAC from SBX, which is Stable-Baselines3 in JAX",
}
LOOPS = ("own", "rllib")  # backends whose training loop is not ours
LONGEST_NAME = 255  # characters of what tables, figures and folders call something
LONGEST_REFERENCE = 8192  # characters of what leads to a task or a part, with its options
MOST_ITERATIONS = 10**6  # of a segment, for whose episodes memory is taken
MOST_EPISODES = 10**4  # of an evaluation, which are played at once: some 20 kB each


def _text(value: object, name: str, most: int = LONGEST_NAME) -> str:
    text = as_string(value, name)
    if len(text) > most:
        raise InvalidInput(f"expected {name} of at most {most} characters, got {len(text)}")
    return text


def _names(value: object, name: str) -> list[str]:
    return [_text(each, f"each of {name}") for each in as_strings(value, name)]


def _options(value: object, name: str) -> dict[str, Any]:
    options = check_instance(Mapping, value, name)  # type: ignore[type-abstract]
    as_strings(list(options), f"the keys of {name}")
    return dict(options)


def _categories(value: object, name: str) -> dict[str, list[str]]:
    return {key: _names(each, f"{name} of {short_repr(key)}") for key, each in _options(value, name).items()}


def _fingerprints(value: object, name: str) -> dict[str, str]:
    fingerprints = _options(value, name)
    as_strings(list(fingerprints.values()), f"the values of {name}")
    return fingerprints


Name = Annotated[str, _text]
Reference = Annotated[str, partial(_text, most=LONGEST_REFERENCE)]
Options = Annotated[dict[str, Any], _options]


@dataclass(frozen=True)
class RunConfig:
    """Everything needed to repeat a run.

    Each field has the rule that its value must meet, whether it comes from a caller or from a file.

    Args:
        task: How the task is found (a name, `module:object` or `file.py:object`), or the name of an object.
        name: What tables and figures call the task.
        contexts: The names of the context values.
        method: The name of the method or a reference to it.
        label: The method with everything else that sets this run apart; names its folder.
        seed: The seed of everything random.
        steps: The budget in environment steps.
        threshold: The score above which a stage is mastered; "auto": found during training.
        solved: The score above which the target counts as solved; None: none is stated.
        score: The kind of score.
        discount: The discount of the discounted return.
        metric: The name of the metric, if the method uses one.
        backend: What trains.
        learner: The name of the learner or a reference to it; None for a training loop that is not ours.
        segment: Learner iterations between two updates of the curriculum.
        eval_every: Segments between two evaluations.
        eval_episodes: Episodes of an evaluation.
        eval_policy: The policy that is evaluated, "deterministic" or "stochastic".
        categories: The categories of each context value that has some, which tables hold as their places in the list.
        options: Options of the method.
        learner_options: Hyperparameters of the learner.
        objects: Parts that were passed as objects, with a fingerprint of each: whoever resumes the run has to pass
            them again.
    """

    task: Reference
    name: Name
    contexts: Annotated[list[str], _names]
    method: Reference
    label: Name
    seed: Annotated[int, as_seed]
    steps: Count
    threshold: Annotated[Threshold, as_threshold]
    solved: Number | None
    score: Score
    discount: Discount
    metric: Reference | None
    backend: Annotated[str, partial(as_name, known=(*BACKENDS, *LOOPS))]
    learner: Reference | None
    segment: Annotated[int, partial(as_count, most=MOST_ITERATIONS)]
    eval_every: Count
    eval_episodes: Annotated[int, partial(as_count, most=MOST_EPISODES)]
    eval_policy: Policy
    categories: Annotated[dict[str, list[str]], _categories] = field(default_factory=dict)
    options: Options = field(default_factory=dict)
    learner_options: Options = field(default_factory=dict)
    objects: Annotated[dict[str, str], _fingerprints] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def stated_threshold(self) -> float:
        """The mean training score above which a stage is mastered; NaN if it is found during training."""
        own = self.options.get("threshold")
        level = own if is_number(own) or own == AUTO else self.threshold
        return math.nan if isinstance(level, str) else float(level)

    @property
    def score_name(self) -> str:
        """What its scores are, in words."""
        return SCORE_NAMES[self.score]

    def to_json(self) -> dict[str, Any]:
        """The configuration as JSON has it: numbers, strings, lists and objects only."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=_plain))
        return plain

    def replace(self, **changes: Any) -> Self:
        """The configuration with some fields changed."""
        return replace(self, **changes)

    def differences(self, other: RunConfig) -> list[str]:
        """The names of the fields and of the objects in which two configurations differ."""
        mine, theirs = self.to_json(), other.to_json()
        differing = [name for name in mine if name != "objects" and mine[name] != theirs[name]]
        objects = sorted({part for part, _ in self.objects.items() ^ other.objects.items()})
        return list(dict.fromkeys([*differing, *objects]))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunConfig:
        """The configuration that `to_json` gave; keys that are no fields are ignored."""
        missing = [item.name for item in fields(cls) if item.name not in values]
        if missing:
            raise InvalidInput(f"expected a run's config.json, got one without {', '.join(missing)}")
        try:
            return cls(**{item.name: values[item.name] for item in fields(cls)})
        except UnknownName:
            raise
        except InvalidInput as error:
            raise InvalidInput(f"invalid configuration of a run: {error}") from error


def read_config(folder: Path) -> RunConfig:
    """The configuration of the run in a folder."""
    return config_in(folder / "config.json")


def config_in(path: Path) -> RunConfig:
    """The configuration in a file."""
    try:
        return RunConfig.from_json(read_json(path))
    except FileNotFoundError:
        raise InvalidInput(f"expected {path.parent} to be a run folder with a config.json, found none") from None


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise InvalidInput(f"expected options that can be written to a run's config.json, got {short_repr(value)}")


@cache
def versions() -> dict[str, str]:
    """The versions of packages that a run's numbers depend on."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
