"""Parts of a run that are passed as objects: their fingerprints, and the curriculum that is built with them."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import InvalidInput
from geodesic.training.configure import configure, curriculum_of, objects_of
from geodesic.training.objects import Objects, fingerprint


def task(**options):
    given = {"contexts": {"size": (0.0, 1.0)}, "source": {"size": (0.8, 1.0)}, "target": {"size": (0.0, 0.1)}}
    return gd.Task("CartPole-v1", set_context=lambda env, size: None, **{**given, "threshold": 10.0, **options})


TASK = task()


def to_uniform(problem):
    return gd.curricula.Uniform(problem.space)


def to_target(problem):
    return gd.curricula.TargetOnly(problem.target)


@dataclass
class Settings:
    scale: np.ndarray
    names: tuple[str, ...] = ("a",)
    more: dict[str, float] = field(default_factory=dict)


class Plain:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    "make",
    [
        lambda: Settings(np.arange(3.0), ("a", "b"), {"x": 1.0}),
        lambda: Plain([1, "a", None]),
        lambda: gd.metrics.Euclidean([1.0, 2.0]),
        lambda: gd.PPO(n_envs=3),
        lambda: gd.curricula.Uniform(TASK.space),
        lambda: gd.curricula.build(
            "gradient", gd.Problem(TASK.source_particles, TASK.target_particles, TASK.space, 1.0)
        ),
    ],
)
def test_equal_objects_have_the_same_fingerprint(make):
    assert fingerprint(make()) == fingerprint(make())


def test_the_fingerprint_names_the_class_or_function():
    assert fingerprint(Plain(3)).split(" ")[0] == f"{__name__}.Plain"
    assert fingerprint(to_uniform).split(" ")[0] == f"{__name__}.to_uniform"
    assert fingerprint(gd.metrics.Euclidean()).split(" ")[0] == "geodesic.metrics.base.Euclidean"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Settings(np.arange(3.0)), Settings(np.arange(3))),
        (Settings(np.arange(3.0)), Settings(np.array([0.0, 1.0, 2.5]))),
        (Settings(np.arange(3.0), ("a",)), Settings(np.arange(3.0), ("b",))),
        (Plain(1), Plain(2)),
        (Plain(1), Plain("1")),
        (to_uniform, to_target),
        (gd.PPO(), gd.PPO(n_envs=3)),
    ],
)
def test_different_objects_have_different_fingerprints(one, other):
    assert fingerprint(one) != fingerprint(other)


def test_only_parts_without_a_name_are_objects():
    named = TASK.named("mine", "mine.py:task")
    assert objects_of(named, "gradient", "l2", "ppo").fingerprints == {}
    assert objects_of(named, "gradient", "l2", gd.PPO()).fingerprints == {}
    assert list(objects_of(TASK, "gradient").fingerprints) == ["task"]
    assert list(objects_of(named, to_uniform, gd.metrics.Euclidean()).fingerprints) == ["method", "metric"]
    assert objects_of(TASK).fingerprints["task"] == objects_of(task()).fingerprints["task"]


def test_a_curriculum_is_built_by_name_from_the_configuration():
    config = configure(TASK, "gradient:step=0.25", threshold=12.0)
    made = curriculum_of(TASK, config)
    assert isinstance(made, gd.Gradient)
    assert made.threshold == 12.0
    assert isinstance(made.metric, gd.metrics.Euclidean)


def test_a_curriculum_a_function_and_a_metric_are_used_as_passed():
    curriculum, metric = gd.curricula.Uniform(TASK.space, particles=3), gd.metrics.Euclidean([5.0])
    config = configure(TASK, curriculum)
    assert curriculum_of(TASK, config, objects_of(TASK, curriculum)) is curriculum
    made = curriculum_of(TASK, configure(TASK, to_uniform), objects_of(TASK, to_uniform))
    assert isinstance(made, gd.curricula.Uniform)
    config = configure(TASK, "gradient", metric=metric)
    assert (config.metric, list(config.objects)) == ("Euclidean", ["task", "metric"])
    assert curriculum_of(TASK, config, objects_of(TASK, "gradient", metric)).metric is metric


@pytest.mark.parametrize(
    ("part", "given"), [("method", {"method": to_uniform}), ("metric", {"metric": gd.metrics.Euclidean()})]
)
def test_a_missing_object_is_named(part, given):
    config = configure(TASK, **given)
    with pytest.raises(
        InvalidInput, match=rf"expected the {part} .*, which was passed as an object .*train\(\.\.\., {part}=\.\.\.\)"
    ):
        curriculum_of(TASK, config, Objects())


def test_a_curriculum_for_another_score_is_refused():
    success = task(score="success", threshold=0.5)
    wrong = gd.Gradient(success.source_particles, success.target_particles, threshold=0.5, score="discounted_return")
    with pytest.raises(InvalidInput, match="expected a curriculum for the task's score 'success', got one for 'disc"):
        curriculum_of(success, configure(success, wrong), objects_of(success, wrong))
    made = curriculum_of(success, configure(success, to_uniform), objects_of(success, to_uniform))
    assert made.score == "success"
