"""Metrics by name: the standard ones, and a user's own."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import InvalidInput, UnknownName
from geodesic.metrics import Embedding, Euclidean, Metric, Practice, ReturnLift, standard

OWN = '''
import numpy as np
from geodesic.metrics import Metric, ReturnLift

class Manhattan(Metric):
    """Distance along the axes."""

    def pairwise(self, x, y):
        return np.abs(x[:, None] - y).sum(axis=2)

ready = Manhattan()

def lift(task, threshold):
    return ReturnLift(task.space, task.least, threshold, lift=1.0)

def nothing(task, threshold):
    return None

class Needy(Manhattan):
    def __init__(self, size):
        self.size = size
'''
BOX = gd.ContextSpace([-1.0, 0.0], [3.0, 1.0])
X, Y = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[3.0, 1.0], [1.0, 0.5]])


@dataclass
class Facts:
    """What metrics need of a task."""

    space: gd.ContextSpace = BOX
    least: float | None = -1.0
    threshold: float | str = 0.5
    score: str = "return"


@pytest.fixture
def own(tmp_path: Path):
    file = tmp_path / "own_metric.py"
    file.write_text(OWN)
    return lambda name: standard.make(f"{file}:{name}", Facts(), 0.5)


@pytest.fixture
def registered():
    """Register a metric for one test."""
    before = dict(gd.metrics.REGISTRY._values)
    yield gd.metrics.register
    gd.metrics.REGISTRY._values = before


def test_an_own_metric_needs_only_its_distances(own):
    assert len(OWN.split("ready")[0].strip().splitlines()) <= 15
    metric = own("Manhattan")
    assert isinstance(metric, Metric)
    np.testing.assert_array_equal(metric.pairwise(X, Y), [[4, 1.5], [2, 0.5]])
    np.testing.assert_array_equal(metric.plan_cost(X, Y), [[16, 2.25], [4, 0.25]])
    points, fractions = metric.interpolate(X, Y, 0.5)
    np.testing.assert_array_equal(points, [[[1.5, 0.5]], [[1, 0.75]]])
    np.testing.assert_array_equal(fractions, [[1], [1]])
    path = gd.Geodesic(gd.Particles(X), gd.Particles(Y), metric)
    assert path(1).points.tolist() == Y.tolist()
    assert path.length == pytest.approx(gd.wasserstein(gd.Particles(X), gd.Particles(Y), metric))


def test_a_metric_without_distances_cannot_be_made():
    with pytest.raises(TypeError, match="abstract method '?pairwise"):
        type("Empty", (Metric,), {})()


def test_the_defaults_are_those_of_straight_lines():
    """The same as Euclidean, for a metric that computes the same distances."""
    plain = type("Plain", (Metric,), {"pairwise": lambda self, x, y: Euclidean().pairwise(x, y)})()
    np.testing.assert_allclose(plain.plan_cost(X, Y), Euclidean().plan_cost(X, Y))
    np.testing.assert_array_equal(plain.interpolate(X, Y, 0.3)[0], Euclidean().interpolate(X, Y, 0.3)[0])
    assert plain.length(np.array([3.0, 4.0]), np.array([0.5, 0.5])) == pytest.approx(np.sqrt(12.5))


def test_a_reference_is_to_a_class_an_instance_or_a_function(own):
    assert own("ready") is own("ready")
    assert own("Manhattan") is not own("Manhattan")
    assert own("lift") == ReturnLift(BOX, -1.0, 0.5, lift=1.0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", r"expected metric '.*own_metric.py:nothing' to be a Metric or a LearnedMetric, got None"),
        ("Needy", "to be a class without arguments, got TypeError: .*'size'; try a function"),
        ("absent", "to have 'absent', found none"),
    ],
)
def test_a_reference_to_anything_else_is_refused(own, name, message):
    with pytest.raises(InvalidInput, match=message):
        own(name)


def test_a_registered_metric_is_made_by_its_name(registered):
    metric = registered("straight", Euclidean([1.0, 2.0]))
    registered("lifted", lambda task, threshold: ReturnLift(task.space, task.least, threshold))
    assert standard.make("straight", Facts(), 0.5) is metric
    assert standard.make("lifted", Facts(), 0.5) == ReturnLift(BOX, -1.0, 0.5)
    assert gd.metrics.descriptions()["straight"] == "The straight-line distance d(x, y) = |(x - y) / scale|."
    assert [standard.is_custom(name) for name in ("straight", "l2", "file.py:Own", "unknown")] == [
        True,
        False,
        True,
        False,
    ]
    with pytest.raises(InvalidInput, match="expected a new name for a metric, got 'l2', which is taken"):
        registered("l2", Euclidean())
    with pytest.raises(InvalidInput, match="expected metric 'five' to be a Metric or a LearnedMetric, got 5"):
        registered("five", 5)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        UnknownName, match="expected metric to be one of l2, product, embedding, .*; did you mean embedding"
    ):
        standard.make("embeding", Facts(), 0.5)


def test_every_bounded_box_has_straight_lines_and_learned_metrics():
    names = ("l2", "embedding", "return-lift", "practice", "embedding-raw")
    assert standard.standard_names(Facts()) == names
    made = [standard.make(name, Facts(score="success"), 0.5) for name in names]
    np.testing.assert_array_equal(made[0].scale, [4, 1])
    assert made[1:] == [
        Embedding(BOX, -1.0, score="success"),
        ReturnLift(BOX, -1.0, 0.5, score="success"),
        Practice(BOX, 0.5, score="success"),
        Embedding(BOX, -1.0, raw=True, score="success"),
    ]


@pytest.mark.parametrize(
    ("facts", "names", "missing"),
    [
        (Facts(least=None), ("l2",), "worst_return="),
        (Facts(gd.ContextSpace([0.0], [np.inf])), ("l2",), "bounded contexts"),
        (Facts(gd.ContextSpace.discrete([[0.0], [1.0]])), (), None),
        (Facts(gd.ContextSpace(np.zeros(4), np.ones(4))), ("l2", "embedding", "return-lift", "embedding-raw"), None),
    ],
)
def test_learned_metrics_need_bounded_contexts_and_a_worst_return(facts, names, missing):
    assert standard.standard_names(facts) == names
    assert standard.missing("embedding", facts) == missing
    assert standard.missing("l2", facts) is None


def test_every_standard_metric_has_a_description():
    assert list(gd.metrics.descriptions())[: len(standard.STANDARD)] == list(standard.STANDARD)
    assert all(gd.metrics.descriptions().values())
