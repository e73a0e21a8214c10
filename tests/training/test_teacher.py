"""The teacher of a user's own training loop: stages, order of episodes, records, and resuming after a kill."""

import copy
import csv
import pickle

import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import CheckpointError, InvalidInput, RunFailed
from geodesic.records import checkpoint, checkpoint_path, load_run
from geodesic.training.teacher import MOST, PATIENCE, PendingContexts, SampledContexts
from mixed_walk import mixed_walk


def task(**options):
    given = {"contexts": {"size": (0.0, 1.0)}, "source": {"size": (0.8, 1.0)}, "target": {"size": (0.0, 0.1)}}
    return gd.Task("CartPole-v1", set_context=lambda env, size: None, **{**given, "threshold": 10.0, **options})


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def practise(teacher, times, value=20.0, n=5):
    """Sample and report n episodes, several times."""
    for _ in range(times):
        contexts = teacher.sample(n)
        teacher.report(contexts, np.full(n, value), np.full(n, 7))


def test_it_moves_from_source_to_target_and_stays_there():
    teacher = gd.Teacher(task(), "gradient:step=0.5:window=10")
    assert teacher.distribution == teacher.state.distribution
    assert (teacher.stage, teacher.alpha, teacher.done) == (0, 0.0, False)
    practise(teacher, 2)
    assert (teacher.stage, teacher.alpha) == (1, 0.5)
    practise(teacher, 2)
    assert teacher.done
    assert teacher.distribution is task().target_particles or teacher.distribution == task().target_particles
    practise(teacher, 3)
    assert (teacher.stage, teacher.step) == (2, 7 * 5 * 7)


def test_report_returns_whether_a_new_stage_began():
    teacher = gd.Teacher(task(), "gradient:step=0.5:window=4")
    first = teacher.report(teacher.sample(3), [20] * 3, [1] * 3)
    second = teacher.report(teacher.sample(3), [20] * 3, [1] * 3)
    assert (first, second) == (False, True)


def test_episodes_belong_to_the_stage_in_which_they_were_sampled():
    teacher = gd.Teacher(task(), "gradient:step=0.5:window=5")
    late = teacher.sample(1)
    early = teacher.sample(20)
    teacher.report(late, [20.0], [1])
    teacher.report(early[:10], np.full(10, 20.0), np.ones(10))
    assert teacher.stage == 1
    teacher.report(early[10:], np.full(10, 20.0), np.ones(10))  # good, but of an earlier stage
    assert teacher.stage == 1
    practise(teacher, 1)
    assert teacher.stage == 2


def test_episodes_wait_for_those_that_began_before_them():
    teacher = gd.Teacher(task(), "gradient:step=0.5:window=5")
    slow = teacher.sample(1)
    practise(teacher, 3)
    assert teacher.stage == 0  # fifteen good episodes, but an earlier one is still running
    teacher.report(slow, [-1000.0], [1])
    assert teacher.stage == 1  # only the last five count


def test_an_overtaken_context_no_longer_delays_the_others():
    many = task(source=lambda rng: gd.Particles.uniform([0.8], [1.0], 100_000, rng))
    teacher = gd.Teacher(many, "gradient:step=0.5:window=5")
    overtaken = teacher.sample(1)
    practise(teacher, PATIENCE // 100, n=100)
    assert teacher.stage == 0
    practise(teacher, 1)
    assert teacher.stage >= 1
    teacher.report(overtaken, [20.0], [1])  # still accepted


def test_contexts_may_be_reported_as_rows_in_any_order():
    teacher = gd.Teacher(task())
    contexts = teacher.sample(4)
    teacher.report(contexts[3], 1.0, 5)
    teacher.report(contexts[[2, 0]], [1.0, 2.0], [5, 5])
    teacher.report(contexts[1], 1.0, 5)
    assert teacher.step == 20


def test_contexts_that_were_converted_are_reported_by_their_ids():
    teacher = gd.Teacher(task())
    contexts = teacher.sample(3)
    with pytest.raises(InvalidInput, match=r"or their ids; .* keep contexts\.ids"):
        teacher.report(contexts.astype(np.float32), [1.0] * 3, [5] * 3)
    teacher.report(contexts.ids[[2, 0]], [1.0, 1.0], [5, 5])
    teacher.report(int(contexts.ids[1]), 1.0, 5)
    assert teacher.step == 15


def test_equal_contexts_are_different_samples():
    """With one point in the source, every context is the same: the id decides which episode is reported."""
    teacher = gd.Teacher(task(source={"size": 0.9}), "gradient:step=0.5:window=2")
    slow, fast = teacher.sample(1), teacher.sample(2)
    teacher.report(fast, [20.0, 20.0], [1, 1])
    assert teacher.stage == 0  # the first sample is still running
    teacher.report(slow, [20.0], [1])
    assert teacher.stage == 1


def test_rows_of_sampled_contexts_keep_their_ids():
    contexts = SampledContexts.of(np.arange(10.0).reshape(5, 2), np.arange(5) + 70)
    assert contexts[3].ids == 73
    assert contexts[-1].ids == 74
    assert contexts[1:3].ids.tolist() == [71, 72]
    assert contexts[[4, 0]].ids.tolist() == [74, 70]
    assert contexts[contexts[:, 0] > 3].ids.tolist() == [72, 73, 74]
    assert contexts[2:, :].ids.tolist() == [72, 73, 74]
    assert [row.ids for row in contexts] == [70, 71, 72, 73, 74]
    assert contexts[1:][1].ids == 72
    assert contexts[2, 1] == 5.0


@pytest.mark.parametrize(
    "duplicate", [lambda c: c.copy(), copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]
)
def test_copies_of_sampled_contexts_keep_their_ids(duplicate):
    contexts = SampledContexts.of(np.arange(10.0).reshape(5, 2), np.arange(5) + 70)
    copied = duplicate(contexts)
    assert copied.ids.tolist() == [70, 71, 72, 73, 74]
    assert duplicate(contexts[1]).ids == 71
    assert duplicate(contexts[:, 0]).ids is None
    copied[0] = contexts[4]  # changes neither the values nor the ids of the original
    assert contexts[0].tolist() == [0.0, 1.0]
    assert contexts.ids.tolist() == [70, 71, 72, 73, 74]


def test_contexts_may_be_reported_as_a_list_of_rows():
    teacher = gd.Teacher(task())
    done = list(teacher.sample(3))
    done[1:1] = [teacher.sample(2)]
    teacher.report([done[3], done[1]], [1.0] * 3, [5] * 3)
    teacher.report((done[0],), [1.0], [5])
    with pytest.raises(InvalidInput, match="expected contexts as sample"):
        teacher.report([done[2], np.array([0.9])], [1.0] * 2, [5] * 2)
    assert teacher.step == 20


def test_other_arrays_made_of_sampled_contexts_have_no_ids():
    contexts = SampledContexts.of(np.arange(10.0).reshape(5, 2), np.arange(5))
    for other in (contexts + 1.0, contexts.astype(np.float32), contexts.view(), contexts[:, 0], contexts[...]):
        assert other.ids is None
    assert np.mean(contexts) == 4.5


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (lambda c: (c + 0.3, [1.0], [1]), "expected contexts as sample() returned them, or their ids"),
        (lambda c: (np.zeros((1, 2)), [1.0], [1]), "expected contexts as sample() returned them, or their ids"),
        (lambda c: (np.zeros((1, 1), int), [1.0], [1]), "expected contexts as sample() returned them, or their ids"),
        (lambda c: ([], [], []), "expected contexts as sample() returned them, or their ids"),
        (lambda c: ([7], [1.0], [1]), "sample() returned and that were not reported yet, got sample 7"),
        (lambda c: ([0, 0], [1.0] * 2, [1] * 2), "that were not reported yet, got the same sample twice"),
        (lambda c: (c, [np.nan], [1]), "expected returns to be finite, got [nan]"),
        (lambda c: (c, [1.0, 2.0], [1]), "expected returns of shape (1,), got shape (2,)"),
        (lambda c: (c, [1.0], [0]), "expected lengths of at least 1 step, got 0"),
    ],
)
def test_a_refused_report_changes_nothing(report, message):
    teacher = gd.Teacher(task())
    contexts = teacher.sample(1)
    with pytest.raises(InvalidInput) as error:
        teacher.report(*report(contexts))
    assert message in str(error.value)
    assert teacher.step == 0
    teacher.report(contexts, [1.0], [1])
    assert teacher.step == 1
    with pytest.raises(InvalidInput, match="that were not reported yet, got sample 0"):
        teacher.report(contexts, [1.0], [1])
    assert teacher.step == 1


def test_value_losses_reach_methods_that_need_them():
    teacher = gd.Teacher(task(), "plr:buffer=8:fill=0.5:episodes_per_update=4")
    contexts = teacher.sample(4)
    with pytest.raises(InvalidInput, match="expected value_l1 or positive_value_loss of each episode for this method"):
        teacher.report(contexts, np.ones(4), np.ones(4))
    with pytest.raises(InvalidInput, match="expected positive_value_loss >= 0, got -1"):
        teacher.report(contexts, np.ones(4), np.ones(4), positive_value_loss=[0.0, 1.0, -1.0, 2.0])
    assert teacher.step == 0
    assert teacher.report(contexts, np.ones(4), np.ones(4), positive_value_loss=[0.0, 1.0, 3.0, 2.0])
    assert teacher.distribution.weights[:4].argmax() == 2
    np.testing.assert_array_equal(teacher.distribution.points[:4], contexts)


def test_the_score_of_the_task_decides_and_is_required():
    success = gd.Teacher(task(threshold=0.5, score="success"), "gradient:step=0.5:window=4")
    contexts = success.sample(4)
    with pytest.raises(InvalidInput, match="expected successes .*, since the task's score is 'success'"):
        success.report(contexts, [0.0] * 4, [1] * 4)
    success.report(contexts, [-50.0] * 4, [1] * 4, successes=[1, 1, 1, 0])
    assert success.stage == 1
    discounted = gd.Teacher(task(threshold=5.0, score="discounted_return"), "gradient:step=0.5:window=4")
    with pytest.raises(InvalidInput, match="expected discounted returns, since the task's score is"):
        discounted.evaluation([1.0])
    discounted.report(discounted.sample(4), [100.0] * 4, [1] * 4, discounted=[4.0] * 4)
    assert discounted.stage == 0


def test_its_folder_is_a_run_folder(tmp_path):
    teacher = gd.Teacher(task(), "gradient:step=0.5:window=10", out=tmp_path / "run", steps=210)
    practise(teacher, 2)
    teacher.evaluation([1.0, 3.0], successes=[0, 1])
    practise(teacher, 4)
    teacher.evaluation([20.0])
    teacher.finish()
    run = load_run(tmp_path / "run")
    assert run.finished
    assert run.contexts == ("size",)
    assert run.stages.events == ("start", "mastered", "mastered")
    assert run.stages.alphas.tolist() == [0.0, 0.5, 1.0]
    assert run.evaluations.steps.tolist() == [70, 210]
    assert run.evaluations.scores.tolist() == [2.0, 20.0]
    assert run.episodes.steps.tolist() == list(range(7, 211, 7))
    assert run.episodes.stages.tolist() == [0] * 10 + [1] * 10 + [2] * 10
    assert len(run.curriculum) == 3


def test_it_resumes_from_its_last_checkpoint(tmp_path):
    whole = gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path / "whole")
    practise(whole, 6)
    broken = gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path / "broken")
    practise(broken, 3)
    broken.save({"weights": np.arange(3.0)})
    practise(broken, 2)  # not saved, as if the process had been killed here
    broken.close()
    again = gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path / "broken")
    assert again.restored["weights"].tolist() == [0.0, 1.0, 2.0]
    assert (again.step, again.stage) == (105, 1)
    practise(again, 3)
    for teacher in (whole, again):
        teacher.finish()
    for name in ("episodes.csv", "stages.csv"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_loop_that_never_saves_is_saved_automatically(tmp_path, monkeypatch):
    monkeypatch.setattr("geodesic.training.teacher.AUTOSAVE", -1.0)
    first = gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path)
    practise(first, 3)
    first.close()
    assert gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path).step == first.step


def test_a_loop_that_never_saves_is_saved_when_it_closes(tmp_path):
    first = gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path)
    practise(first, 3)
    first.close()
    again = gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path)
    assert (again.step, again.stage) == (first.step, 1)
    again.close()
    again.close()  # a second time does nothing


def test_a_saved_agent_is_kept_until_it_is_saved_again(tmp_path, monkeypatch):
    first = gd.Teacher(task(), out=tmp_path)
    first.save({"weights": np.arange(3.0)})
    first.close()
    monkeypatch.setattr("geodesic.training.teacher.AUTOSAVE", -1.0)
    second = gd.Teacher(task(), out=tmp_path)
    practise(second, 1)
    second.close()
    assert gd.Teacher(task(), out=tmp_path).restored["weights"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        ({"started": 13}, "an episode began before its context was sampled"),
        ({"samples": 16}, "expected samples as a count, got 16"),
        ({"step": 104}, "its step 104 is before the last one recorded"),
        ({"step": 10**6}, "expected step 105, where its last episode ended, got 1000000"),
        ({"evaluated": 105}, "expected its last evaluation at step 105, got another step"),
        ({"evaluated": 0}, "expected its last evaluation at step 105, got another step"),
    ],
)
def test_counts_that_contradict_the_tables_are_refused(tmp_path, forged, reason):
    teacher = gd.Teacher(task(), out=tmp_path)
    practise(teacher, 2)
    first, second = teacher.sample(1), teacher.sample(4)  # the first is still running
    teacher.report(second, np.full(4, 20.0), np.array([7, 7, 7, 14]))
    teacher.evaluation([1.0])
    teacher.close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    kept = checkpoint.load(checkpoint_path(tmp_path))
    assert (kept.count("started"), kept.count("samples"), len(first)) == (15, 4, 1)
    checkpoint.save(checkpoint_path(tmp_path), kept.arrays, {**kept.meta, **forged})
    with pytest.raises(CheckpointError, match=reason):
        gd.Teacher(task(), out=tmp_path)
    checkpoint_path(tmp_path).write_bytes(before[checkpoint_path(tmp_path)])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before
    gd.Teacher(task(), out=tmp_path).close()


def test_a_folder_has_one_teacher_at_a_time(tmp_path):
    first = gd.Teacher(task(), out=tmp_path)
    with pytest.raises(InvalidInput, match=r"is being written by process \d+ on .*"):
        gd.Teacher(task(), out=tmp_path)
    first.close()
    with pytest.raises(RunFailed, match="is no longer held by this process"):
        practise(first, 1)
    gd.Teacher(task(), out=tmp_path).finish()
    assert not (tmp_path / ".lock").exists()


def test_a_second_evaluation_at_a_step_is_ignored_also_after_a_kill(tmp_path):
    teacher = gd.Teacher(task(), out=tmp_path)
    teacher.evaluation([0.0])
    practise(teacher, 1)
    teacher.evaluation([1.0])
    teacher.save()
    teacher.close()
    again = gd.Teacher(task(), out=tmp_path)
    again.evaluation([2.0])
    practise(again, 1)
    again.evaluation([3.0])
    again.finish()
    assert load_run(tmp_path).evaluations.returns.tolist() == [0.0, 1.0, 3.0]


def test_arrays_of_objects_cannot_be_saved(tmp_path):
    teacher = gd.Teacher(task(), out=tmp_path)
    with pytest.raises(InvalidInput, match=r"expected agent\['memory'\] to be an array of numbers, got"):
        teacher.save({"memory": np.array([{}])})
    teacher.save({"words": np.array(["a", "bc"]), "turned": np.arange(6).reshape(2, 3).T, "none": np.zeros((0, 2))})
    teacher.close()
    restored = gd.Teacher(task(), out=tmp_path).restored
    assert restored["words"].tolist() == ["a", "bc"]
    assert restored["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert restored["none"].shape == (0, 2)
    restored["turned"][0, 0] = 7  # a copy that may be changed


def test_a_folder_of_another_run_is_refused(tmp_path):
    gd.Teacher(task(), "gradient", out=tmp_path)
    with pytest.raises(InvalidInput, match="holds another run"):
        gd.Teacher(task(), "linear", out=tmp_path)
    finished = gd.Teacher(task(), "gradient", out=tmp_path)
    finished.finish()
    with pytest.raises(InvalidInput, match="is finished"):
        gd.Teacher(task(), "gradient", out=tmp_path)


def test_the_same_seed_samples_the_same_contexts_and_another_does_not():
    samples = [gd.Teacher(task(), seed=seed).sample(50) for seed in (0, 0, 1)]
    assert np.array_equal(samples[0], samples[1])
    assert not np.array_equal(samples[0], samples[2])


def test_pending_contexts_are_bounded_in_number():
    pending = PendingContexts()
    ids = pending.add(np.zeros((MOST + 10, 1)), 0)
    assert pending.earliest == 10
    with pytest.raises(InvalidInput, match="got sample 9"):
        pending.remove(ids[:10][::-1])
    contexts, stages = pending.remove(ids[10:])
    assert (contexts.shape, len(stages)) == ((MOST, 1), MOST)
    assert pending.earliest == MOST + 10


WRONG = {"lengths": (2.5, 0, 1e300), "returns": (np.nan, "x"), "successes": (2,)}


@pytest.mark.parametrize("wrong", [{name: value} for name, values in WRONG.items() for value in values])
def test_a_corrected_report_is_accepted(wrong):
    teacher = gd.Teacher(task(), "gradient")
    (context,) = teacher.sample()
    with pytest.raises(InvalidInput):
        teacher.report(**{"contexts": context, "returns": 1.0, "lengths": 3, **wrong})
    assert teacher.step == 0
    teacher.report(context, 1.0, 3)
    assert teacher.step == 3


def test_contexts_with_integers_and_categories_are_sampled_and_written(tmp_path):
    task = mixed_walk()
    teacher = gd.Teacher(task, "gradient:step=0.5:window=3", out=tmp_path)
    for _ in range(4):
        contexts = teacher.sample(5)
        assert task.space.contains(contexts).all()
        values = [task.space.decode(context) for context in contexts]
        assert {type(value) for value in values[0].values()} == {float, str, int}
        teacher.report(contexts, np.full(5, -10.0), np.full(5, 9))
        teacher.evaluation([-30.0])
    assert teacher.alpha == 1.0
    teacher.finish()
    assert load_run(tmp_path).stages.distances[-1] == 0.0
