"""A run's session: curriculum, records and checkpoint, from the start to the summary, without JAX."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import geodesic as gd
from geodesic.analysis.outcomes import path_problems
from geodesic.analysis.verdict import verdict_of
from geodesic.errors import CheckpointError, InvalidInput, RunWarning
from geodesic.records import RunFolder, checkpoint, checkpoint_path, load_run, read_config
from geodesic.records.files import read_json
from geodesic.training.configure import configure, objects_of
from geodesic.training.session import CurriculumSession, TrainingStats, continue_run
from geodesic.training.trainer import Evaluation

TASK = gd.Task(
    "CartPole-v1",
    contexts={"size": (0.0, 1.0)},
    set_context=lambda env, size: None,
    source={"size": (0.8, 1.0)},
    target={"size": (0.0, 0.1)},
    threshold=10.0,
)
CONFIG = configure(TASK, "gradient:step=0.5:window=4", steps=1000, backend="own")
AGENT = "agent/"


def opened(out, config=CONFIG, **options):
    return CurriculumSession.open(config, TASK, out, objects=objects_of(TASK), unchecked=AGENT, **options)


def batch(started, value=20.0, stage=0, length=10):
    """An episode for each start; they end one after another."""
    n = len(started)
    ended = (np.asarray(started) + 1) * length
    return gd.EpisodeBatch(
        np.full((n, 1), 0.9), np.full(n, value), np.full(n, length), np.full(n, stage),
        discounted=np.full(n, value / 2), successes=np.ones(n), started=started, ended=ended,
    )  # fmt: skip


def observe(session, episodes, step):
    """Give a session episodes of one environment, in which none is running."""
    return session.observe(episodes, step, int(episodes.started.max()) + 1)


def evaluation(*returns):
    values = np.array(returns)
    return Evaluation(values, values > 1, values / 2)


def test_a_session_without_a_folder_records_nothing():
    session = opened(None)
    assert session.folder is None
    assert session.restored is None
    observe(session, batch([0, 1]), 20)
    session.log_evaluation(20, evaluation(1.0, 3.0))
    session.checkpoint({})
    session.finish(20)
    session.close()
    assert (session.train_score, session.target_score) == (20.0, 2.0)


def test_observe_returns_whether_a_new_stage_began():
    session = opened(None)
    assert not observe(session, batch([0, 1, 2]), 30)
    assert observe(session, batch([3, 4]), 50)
    assert (session.state.stage, session.state.alpha) == (1, 0.5)
    assert not observe(session, batch([5, 6, 7, 8], stage=0), 90)  # of an earlier stage


def test_episodes_wait_for_earlier_ones_that_are_running():
    session = opened(None)
    assert not session.observe(batch([1, 2, 3, 4, 5]), 60, earliest_running=0)
    assert session.state.stage == 0
    assert len(session.waiting) == 5
    assert session.observe(batch([0]), 70, earliest_running=6)
    assert len(session.waiting) == 0


def test_the_curriculum_sees_scores_of_the_tasks_kind():
    success = gd.Task(
        "CartPole-v1", contexts={"size": (0.0, 1.0)}, set_context=lambda env, size: None, source={"size": 0.9},
        target={"size": 0.1}, threshold=0.5, score="success",
    )  # fmt: skip
    config = configure(success, "gradient:step=0.5:window=4", backend="own")
    session = CurriculumSession.open(config, success, None, objects=objects_of(success))
    assert observe(session, batch([0, 1, 2, 3], value=-500.0), 40)
    assert session.train_score == 1.0


def test_records_are_written_by_write_only(tmp_path):
    session = opened(tmp_path / "run")
    observe(session, batch([0, 1, 2, 3]), 40)
    session.log_evaluation(40, evaluation(1.0, 3.0))
    assert len(load_run(tmp_path / "run").episodes.steps) == 0
    session.write()
    run = load_run(tmp_path / "run")
    assert run.episodes.steps.tolist() == [10, 20, 30, 40]
    assert run.evaluations.scores.tolist() == [2.0]
    assert run.evaluations.stages.tolist() == [1]
    assert (run.stages.steps.tolist(), run.stages.events) == ([0, 40], ("start", "mastered"))
    session.close()


def test_a_finished_run_has_a_summary(tmp_path):
    session = opened(tmp_path / "run")
    observe(session, batch([0, 1, 2, 3]), 40)
    session.log_evaluation(40, evaluation(1.0, 3.0))
    session.checkpoint({}, step=40)
    session.finish(40, seconds=1.5)
    session.close()
    summary = read_json(tmp_path / "run" / "summary.json")
    assert (summary["steps"], summary["stage"], summary["alpha"], summary["target_score"]) == (40, 1, 0.5, 2.0)
    assert summary["seconds"] == 1.5
    assert load_run(tmp_path / "run").finished
    with pytest.raises(InvalidInput, match="the run in .* is finished; try another out="):
        opened(tmp_path / "run")


def test_a_resumed_session_continues_from_its_checkpoint(tmp_path):
    session = opened(tmp_path / "run")
    observe(session, batch([0, 1, 2, 3]), 40)
    session.observe(batch([5, 6], stage=1), 70, earliest_running=4)  # these wait
    session.checkpoint({AGENT + "weights": np.arange(3.0)}, step=70)
    before = session.state, session.train_score
    observe(session, batch([4, 7, 8, 9], stage=1), 100)  # after the checkpoint: dropped
    session.write()
    assert session.state.stage == 2
    session.close()
    again = opened(tmp_path / "run")
    assert again.restored.count("step") == 70
    assert again.restored.arrays[AGENT + "weights"].tolist() == [0.0, 1.0, 2.0]
    assert (again.state.stage, again.state.alpha, again.train_score) == (1, before[0].alpha, before[1])
    np.testing.assert_array_equal(again.state.distribution.points, before[0].distribution.points)
    assert again.waiting.started.tolist() == [5, 6]
    assert again.updates == 2
    assert load_run(tmp_path / "run").episodes.steps.tolist() == [10, 20, 30, 40, 60, 70]
    again.close()


def test_waiting_episodes_are_kept_in_a_checkpoint(tmp_path):
    waiting = gd.EpisodeBatch(
        [[1.0], [0.5]], [5.0, 6.0], [7, 8], [0, 1],
        discounted=[2.5, np.nan], successes=[1.0, np.nan], started=[3, 4], ended=[11, 12],
    )  # fmt: skip
    session = opened(tmp_path / "run")
    session.observe(waiting, 12, earliest_running=0)
    session.checkpoint({}, step=12)
    session.close()
    again = opened(tmp_path / "run")
    for ours, theirs in zip(again.waiting.columns(), waiting.columns(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert getattr(ours, "dtype", None) == getattr(theirs, "dtype", None)  # there are no value losses
    again.close()


def test_the_same_batches_after_a_resume_leave_the_same_files(tmp_path):
    for name, stop in (("whole", None), ("broken", 2)):
        session = opened(tmp_path / name)
        for k in range(5):
            if k == stop:
                session.checkpoint({}, step=30 * k)
                session.close()
                session = opened(tmp_path / name)
            session.observe(batch([3 * k, 3 * k + 2], stage=session.state.stage), 30 * k + 30, 3 * k + 1)
        session.checkpoint({}, step=150)
        session.finish(150)
        session.close()
    for name in ("episodes.csv", "stages.csv"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


class Stays(gd.metrics.Euclidean):
    """Paths that stay where they begin and jump to the end."""

    def interpolate(self, x, y, t):
        return super().interpolate(x, y, float(t == 1.0))


def test_a_path_that_jumps_is_warned_about_once_and_recorded(tmp_path):
    task = replace(TASK, metric=Stays())
    config = configure(task, "gradient:step=0.25:window=4", steps=1000, backend="own")
    session = CurriculumSession.open(config, task, tmp_path / "run", objects=objects_of(task), unchecked=AGENT)
    for stage in range(3):
        observe(session, batch(4 * stage + np.arange(4), stage=stage), 40 * stage + 40)
    assert session.state.alpha == 0.75
    with pytest.warns(RunWarning, match=r"the path jumped; stage 4 is 0\.\d\d diagonals .* try another metric"):
        observe(session, batch(12 + np.arange(4), stage=3), 160)
    with warnings.catch_warnings(action="error"):
        session._warn_of_jump()  # the second time, it says nothing
    session.finish(160)
    session.close()
    run = load_run(tmp_path / "run")
    numbers = run.stages.numbers()
    np.testing.assert_array_equal(numbers["jump"], [np.nan, np.nan, np.nan, np.nan, 1.0])
    assert numbers["hop"].max() > 0.8
    assert numbers["distance to target"][-1] == 0.0
    line = f"{config.label}: the path of 1 of 1 seed jumped; try another metric"
    assert path_problems([run]) == [line]
    assert f"{line}." in verdict_of([run]).lines


def test_a_folder_with_another_run_is_refused_and_unchanged(tmp_path):
    session = opened(tmp_path / "run")
    session.checkpoint({}, step=0)
    session.close()
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")}
    other = configure(TASK, "gradient:step=0.25:window=4", seed=1, steps=1000, backend="own")
    with pytest.raises(
        InvalidInput, match=r"holds another run \(it differs in label, seed, options\); try another out="
    ):
        opened(tmp_path / "run", other)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")} == before
    opened(tmp_path / "run").close()  # the lock was released


def test_a_run_may_be_extended(tmp_path):
    session = opened(tmp_path / "run")
    session.checkpoint({}, step=0)
    session.finish(1000)
    session.close()
    longer = CONFIG.replace(steps=2000)
    session = opened(tmp_path / "run", longer, extend=True)
    session.extend(longer, 1000)
    assert read_config(tmp_path / "run").steps == 2000
    assert not load_run(tmp_path / "run").finished
    session.close()


def test_an_extended_run_keeps_its_evaluations_unless_the_task_states_others(tmp_path):
    session = opened(tmp_path / "run", CONFIG.replace(eval_every=7, eval_episodes=11))
    session.checkpoint({}, step=0)
    session.close()
    longer = continue_run(CONFIG.replace(steps=2000, eval_every=3, eval_episodes=5), tmp_path / "run", TASK)
    assert (longer.steps, longer.eval_every, longer.eval_episodes) == (2000, 7, 11)
    stated = replace(TASK, evaluation=gd.EvaluationSettings(every=3))
    with pytest.raises(InvalidInput, match=r"holds another run \(it differs in eval_every\)"):
        continue_run(CONFIG.replace(eval_every=3), tmp_path / "run", stated)
    with pytest.raises(InvalidInput, match=r"holds a run of 1000 steps, more than 999; try steps=1000, or another"):
        continue_run(CONFIG.replace(steps=999), tmp_path / "run", TASK)
    assert continue_run(CONFIG, tmp_path / "none", TASK) is CONFIG


def test_nothing_is_changed_if_the_agent_cannot_be_restored(tmp_path):
    session = opened(tmp_path / "run")
    session.checkpoint({AGENT + "weights": np.zeros(2)}, step=0)
    observe(session, batch([0, 1]), 20)
    session.write()
    session.close()
    before = (tmp_path / "run" / "episodes.csv").read_bytes()

    def refuse(checkpoint):
        raise CheckpointError("another agent")

    with pytest.raises(CheckpointError, match="another agent"):
        opened(tmp_path / "run", restore=refuse)
    assert (tmp_path / "run" / "episodes.csv").read_bytes() == before
    opened(tmp_path / "run").close()
    assert (tmp_path / "run" / "episodes.csv").read_bytes() != before


def test_unexpected_members_of_a_checkpoint_are_refused(tmp_path):
    session = opened(tmp_path / "run")
    session.checkpoint({AGENT + "weights": np.zeros(2)}, step=0)
    session.close()
    config, folder = CONFIG, RunFolder(tmp_path / "run", CONFIG)
    strict = CurriculumSession(config, TASK, folder, objects_of(TASK))
    with pytest.raises(CheckpointError, match="expected no 'agent/weights'"):
        strict.load_checkpoint({})
    with pytest.raises(InvalidInput, match="expected a run folder to resume from, got none"):
        opened(None).load_checkpoint({})


def test_training_stats_are_nan_where_nothing_is_known():
    empty = TrainingStats(0).scalars(0)
    assert all(np.isnan(value) for value in empty.values())
    stats = TrainingStats(100, since=0.0, metrics={"loss": 0.5})
    stats.lengths.append(np.array([10, 20]))
    stats.successes.append(np.array([1.0, np.nan]))
    found = stats.scalars(200)
    assert (found["train/episode_length"], found["train/success"], found["learner/loss"]) == (15.0, 1.0, 0.5)
    assert found["time/steps_per_second"] > 0


def test_an_unnamed_task_with_other_contexts_is_another_run(tmp_path):
    session = opened(tmp_path / "run")
    session.checkpoint({}, step=0)
    session.close()
    other = replace(TASK, contexts={"size": (0.0, 9.0)})
    config = configure(other, "gradient:step=0.5:window=4", steps=1000, backend="own")
    with pytest.raises(InvalidInput, match=r"holds another run \(it differs in task\)"):
        CurriculumSession.open(config, other, tmp_path / "run", objects=objects_of(other), unchecked=AGENT)


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        ({"step": 39}, "its step 39 is before the last one recorded"),
        ({"step": 41}, "expected step 40, where its last episode ended, got 41"),
        ({"updates": 5}, "expected at most 4 updates, one for each episode, got 5"),
        ({"evaluated": 1}, "expected its last evaluation at step 40, got another step"),
        (
            {"best": {"recent": [2.0], "score": 2.0, "step": 41}},
            "its best policy is of a step after its last evaluation",
        ),
    ],
)
def test_counts_that_contradict_the_tables_are_refused(tmp_path, meta, reason):
    session = opened(tmp_path / "run")
    observe(session, batch([0, 1, 2, 3]), 40)
    session.log_evaluation(40, evaluation(1.0, 3.0))
    session.checkpoint({}, step=40, evaluated=41)
    observe(session, batch([4, 5], stage=1), 60)  # after the checkpoint
    session.write()
    session.close()
    path = checkpoint_path(tmp_path / "run")
    kept = checkpoint.load(path)
    checkpoint.save(path, kept.arrays, {**kept.meta, **meta})
    with pytest.raises(CheckpointError, match=reason):
        opened(tmp_path / "run")
    checkpoint.save(path, kept.arrays, kept.meta)
    opened(tmp_path / "run").close()
