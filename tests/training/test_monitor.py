"""Warnings while a run trains: each once, at evaluations, and the same ones from the tables of its folder."""

import warnings

import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import RunWarning
from geodesic.records import load_run
from geodesic.records.reader import read_tables
from geodesic.training.configure import configure, objects_of
from geodesic.training.monitor import MEMORY, NEAR, RECENT, Monitor, failing_fraction, follows_path, replay
from geodesic.training.session import CurriculumSession
from geodesic.training.trainer import Evaluation
from run_folders import write_run

STEPS, SEGMENT, EPISODES = 20_000, 500, 50


def problem(**options):
    return gd.Task(
        "CartPole-v1", contexts={"size": (0.0, 1.0)}, set_context=lambda env, size: None,
        source={"size": (0.8, 1.0)}, target={"size": (0.0, 0.2)}, **{"threshold": 10.0, **options},
    )  # fmt: skip


TASK = problem()


def opened(out=None, method="gradient:step=0.1:window=20", task=TASK):
    config = configure(task, method, steps=STEPS, backend="own")
    return CurriculumSession.open(config, task, out, objects=objects_of(task))


def train(session, segments, score, on_target, success=lambda contexts: np.ones(len(contexts)), from_segment=0):
    """Feed synthetic episodes; what is warned of, by segment."""
    found = {}
    for k in range(from_segment, from_segment + segments):
        rng = np.random.default_rng(k)
        contexts = session.state.distribution.sample(rng, EPISODES)
        started = k * EPISODES + np.arange(EPISODES)
        returns = np.broadcast_to(score(k, contexts), EPISODES)
        batch = gd.EpisodeBatch(
            contexts, returns, np.full(EPISODES, 10), np.full(EPISODES, session.state.stage),
            successes=success(contexts), started=started, ended=(started + 1) * 10,
        )  # fmt: skip
        session.observe(batch, (k + 1) * SEGMENT, (k + 1) * EPISODES)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values = np.full(4, on_target(k))
            session.log_evaluation((k + 1) * SEGMENT, Evaluation(values, values > 9, values))
        if caught:
            assert {each.category for each in caught} == {RunWarning}
            found[k] = [str(each.message) for each in caught]
    return found


def test_a_stage_that_does_not_improve_is_reported_once_after_a_quarter_of_the_budget():
    found = train(opened(), 40, lambda k, contexts: 3.0, lambda k: 1.0)
    ((segment, (text,)),) = found.items()
    assert (segment + 1) * SEGMENT == STEPS / 4
    name = "gradient:step=0.1:window=20 seed 0, step 5000: stage 0 (alpha 0.00) has not improved for 5,000 steps"
    assert text.startswith(name)
    assert text.endswith("its threshold is 10")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("score", "on_target"),
    [
        (lambda k, contexts: 3.0 + 0.15 * k, lambda k: 1.0),  # training improves
        (lambda k, contexts: 3.0, lambda k: 0.3 * k),  # the target does
        (lambda k, contexts: 12.0, lambda k: 1.0),  # alpha rises
    ],
    ids=["training", "target", "alpha"],
)
def test_progress_of_any_kind_is_enough(score, on_target):
    assert train(opened(), 25, score, on_target) == {}


@pytest.mark.parametrize("method", ["target-only", "uniform"])
def test_methods_without_a_path_have_no_stages_to_improve(method):
    assert train(opened(method=method), 40, lambda k, contexts: 3.0, lambda k: 1.0) == {}


def test_a_target_that_is_solved_at_a_low_alpha_is_reported():
    found = train(opened(), 10, lambda k, contexts: 3.0 + 0.2 * k, lambda k: 20.0 * (k > 0))
    ((segment, (text,)),) = found.items()
    assert segment == 5  # the fifth evaluation in a row
    assert "the target is already solved at alpha 0.00 (mean return 20, above 10)" in text
    assert train(opened(), 10, lambda k, contexts: 12.0, lambda k: 20.0 * (k > 1)) == {}  # alpha is 0.7 by then


def test_contexts_that_never_succeed_are_reported_where_alpha_looks_fine():
    found = train(opened(), 12, lambda k, contexts: 12.0, lambda k: 1.0, lambda contexts: contexts[:, 0] > 0.85)
    ((segment, (text,)),) = found.items()
    assert segment >= 4  # alpha is 0.5 after five stages
    assert "no success was seen near" in text
    assert "although alpha is 0." in text


def test_without_successes_a_score_above_the_threshold_counts():
    unknown = lambda contexts: np.full(len(contexts), np.nan)  # noqa: E731
    assert train(opened(), 12, lambda k, contexts: 12.0, lambda k: 1.0, unknown) == {}


def test_a_folder_tells_the_same_as_the_run(tmp_path):
    session = opened(tmp_path / "run")
    found = train(session, 12, lambda k, contexts: 12.0, lambda k: 1.0, lambda contexts: contexts[:, 0] > 0.85)
    found |= train(session, 20, lambda k, contexts: 3.0, lambda k: 1.0, from_segment=12)
    session.checkpoint({})
    session.close()
    run = load_run(tmp_path / "run")
    notices = replay(run.config, run.episodes, run.evaluations, run.stages).notices
    live = [(k + 1) * SEGMENT for k, texts in found.items() for _ in texts]
    assert [notice.step for notice in notices] == live
    assert [notice.kind for notice in notices] == ["no success"]
    assert all(any(notice.text in text for texts in found.values() for text in texts) for notice in notices)


@pytest.mark.parametrize("stop", [6, 12])
def test_a_resumed_run_warns_where_an_uninterrupted_one_does_and_leaves_the_same_bytes(tmp_path, stop):
    score = lambda k, contexts: 3.0  # noqa: E731
    whole = opened(tmp_path / "whole")
    expected = train(whole, 20, score, lambda k: 1.0)
    broken = opened(tmp_path / "broken")
    found = train(broken, stop, score, lambda k: 1.0)
    broken.checkpoint({}, step=stop * SEGMENT)
    train(broken, 3, score, lambda k: 1.0, from_segment=stop)  # after the checkpoint: dropped
    broken.close()
    broken = opened(tmp_path / "broken")
    found |= train(broken, 20 - stop, score, lambda k: 1.0, from_segment=stop)
    assert found == expected
    for session in (whole, broken):
        session.checkpoint({})
        session.close()
    for name in ("episodes.csv", "evaluations.csv", "stages.csv"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_table_that_cannot_be_read_does_not_stop_a_resumed_run(tmp_path, monkeypatch):
    session = opened(tmp_path / "run")
    train(session, 2, lambda k, contexts: 3.0, lambda k: 1.0)
    session.checkpoint({}, step=2 * SEGMENT)
    session.close()

    def damaged(folder):
        raise gd.errors.CheckpointError("damaged")

    monkeypatch.setattr("geodesic.training.session.read_tables", damaged)
    opened(tmp_path / "run").close()


def test_a_threshold_that_changes_is_the_last_one(tmp_path):
    session = opened(tmp_path / "run", "gradient:step=0.1", problem(threshold="auto"))
    train(session, 5, lambda k, contexts: contexts[:, 0], lambda k: 0.1)
    session.checkpoint({})
    session.close()
    monitor = replay(session.config, *read_tables(tmp_path / "run"))
    assert monitor.threshold == pytest.approx(load_run(tmp_path / "run").stages.numbers()["threshold"][-1])


def test_only_the_latest_episodes_are_kept():
    """A loop may never evaluate."""
    monitor = Monitor(opened().config)
    for _ in range(3):
        ones = np.ones(MEMORY)
        monitor.observe(np.zeros(MEMORY, np.int64), ones, ones, ones, ones[:, None])
    assert sum(value.size for value in vars(monitor).values() if isinstance(value, np.ndarray)) < 4 * MEMORY


def test_a_folder_without_episodes_is_no_error(tmp_path):
    folder = write_run(tmp_path / "run", returns=[5.0] * 20, alphas=[0.0, 0.3], begins=[0, 300])
    (folder / "episodes.csv").unlink()
    run = load_run(folder)
    assert replay(run.config, run.episodes, run.evaluations, run.stages).notices == []


def test_methods_that_follow_a_path():
    paths = ["auto", "gradient", "linear", "spdl", "wb-spdl", "currot", "Gradient"]
    others = ["target-only", "uniform", "alp-gmm", "goal-gan", "procurl-target", "mine", "mine.py:Gradient"]
    assert [name for name in [*paths, *others] if follows_path(name)] == paths


def test_the_failing_fraction_is_that_of_contexts_far_from_every_success():
    contexts = np.linspace(0, 1, 200)[np.random.default_rng(0).permutation(200), None]
    assert failing_fraction(contexts, contexts[:, 0] > -1) == 0.0
    assert failing_fraction(contexts, contexts[:, 0] > 2) == 1.0
    half = failing_fraction(contexts, contexts[:, 0] > 0.5)
    assert half == pytest.approx((contexts[-RECENT:, 0] < 0.5 - NEAR / 2 / 200).mean(), abs=0.02)
    assert failing_fraction(1e6 * contexts, contexts[:, 0] > 0.5) == half  # in any unit
    assert np.isnan(failing_fraction(contexts[: RECENT - 1], contexts[: RECENT - 1, 0] > 0))


def test_different_categories_are_one_apart():
    kinds = np.tile([[0.0], [1.0], [2.0]], (100, 1))
    first = kinds[:, 0] == 0
    assert failing_fraction(kinds, first, [0]) == pytest.approx((kinds[-RECENT:, 0] != 0).mean())
    sizes = np.random.default_rng(0).random((300, 1))
    both = np.hstack([kinds, sizes])  # category 2 is as close to 0 as to 1
    assert failing_fraction(both, first, [0]) == pytest.approx((kinds[-RECENT:, 0] != 0).mean())
