"""The teacher in front of a loop of one's own: stages, order, records, and what survives a kill."""

import csv

import numpy as np
import pytest

import geodesic as gd
from geodesic.errors import InvalidInput, RunFailed
from geodesic.records import load_run
from geodesic.training.outstanding import MOST, PATIENCE, Outstanding


def task(**options):
    given = {"contexts": {"size": (0.0, 1.0)}, "source": {"size": (0.8, 1.0)}, "target": {"size": (0.0, 0.1)}}
    return gd.Task("CartPole-v1", apply=lambda env, size: None, **{**given, "threshold": 10.0, **options})


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def practise(teacher, times, value=20.0, n=5):
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


def test_report_says_whether_a_new_stage_began():
    teacher = gd.Teacher(task(), "gradient:step=0.5:window=4")
    first = teacher.report(teacher.sample(3), [20] * 3, [1] * 3)
    second = teacher.report(teacher.sample(3), [20] * 3, [1] * 3)
    assert (first, second) == (False, True)


def test_episodes_count_for_the_stage_in_which_they_were_sampled():
    teacher = gd.Teacher(task(), "gradient:step=0.5:window=5")
    late = teacher.sample(1)
    begun = teacher.sample(20)
    teacher.report(late, [20.0], [1])
    teacher.report(begun[:10], np.full(10, 20.0), np.ones(10))
    assert teacher.stage == 1
    teacher.report(begun[10:], np.full(10, 20.0), np.ones(10))  # good, but of the stage before
    assert teacher.stage == 1
    practise(teacher, 1)
    assert teacher.stage == 2


def test_episodes_wait_for_those_that_began_before_them():
    teacher = gd.Teacher(task(), "gradient:step=0.5:window=5")
    slow = teacher.sample(1)
    practise(teacher, 3)
    assert teacher.stage == 0  # fifteen good ones, but an earlier one is still under way
    teacher.report(slow, [-1000.0], [1])
    assert teacher.stage == 1  # the last five are what counts


def test_a_context_that_is_never_reported_does_not_hold_up_the_others_for_ever():
    many = task(source=lambda rng: gd.Particles.uniform([0.8], [1.0], 100_000, rng))  # no two contexts are the same
    teacher = gd.Teacher(many, "gradient:step=0.5:window=5")
    lost = teacher.sample(1)
    practise(teacher, PATIENCE // 100, n=100)
    assert teacher.stage == 0
    practise(teacher, 1)
    assert teacher.stage >= 1
    teacher.report(lost, [20.0], [1])  # even so late it is welcome


def test_contexts_may_come_back_as_float32_one_by_one_and_in_any_order():
    teacher = gd.Teacher(task())
    contexts = teacher.sample(4)
    teacher.report(contexts[3].astype(np.float32), 1.0, 5)
    teacher.report(contexts[[2, 0]].astype(np.float32), [1.0, 2.0], [5, 5])
    teacher.report(contexts[1], 1.0, 5)
    assert teacher.step == 20


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (lambda c: (c + 0.3, [1.0], [1]), "expected contexts that sample() gave and that were not reported"),
        (lambda c: (np.zeros((1, 2)), [1.0], [1]), "expected contexts of shape (n, 1), got shape (1, 2)"),
        (lambda c: (c, [np.nan], [1]), "expected returns to be finite, got [nan]"),
        (lambda c: (c, [1.0, 2.0], [1]), "expected returns of shape (1,), got shape (2,)"),
        (lambda c: (c, [1.0], [0]), "expected lengths of at least 1 step, got 0"),
    ],
)
def test_reports_that_are_refused_lose_nothing(report, message):
    teacher = gd.Teacher(task())
    contexts = teacher.sample(1)
    with pytest.raises(InvalidInput) as error:
        teacher.report(*report(contexts))
    assert message in str(error.value)
    assert teacher.step == 0
    teacher.report(contexts, [1.0], [1])
    assert teacher.step == 1


def test_it_looks_at_what_the_task_measures():
    success = gd.Teacher(task(threshold=0.5, measure="success"), "gradient:step=0.5:window=4")
    with pytest.raises(InvalidInput, match="expected successes=, since that is what the task measures"):
        success.report(success.sample(4), [0.0] * 4, [1] * 4)
    success = gd.Teacher(task(threshold=0.5, measure="success"), "gradient:step=0.5:window=4")
    success.report(success.sample(4), [-50.0] * 4, [1] * 4, successes=[1, 1, 1, 0])
    assert success.stage == 1
    discounted = gd.Teacher(task(threshold=5.0, measure="discounted"), "gradient:step=0.5:window=4")
    with pytest.raises(InvalidInput, match="expected discounted=, since that is what the task measures"):
        discounted.evaluation([1.0])
    discounted.report(discounted.sample(4), [100.0] * 4, [1] * 4, discounted=[4.0] * 4)
    assert discounted.stage == 0


def test_its_folder_is_like_every_other(tmp_path):
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


def test_it_goes_on_where_it_was_saved(tmp_path):
    whole = gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path / "whole")
    practise(whole, 6)
    broken = gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path / "broken")
    practise(broken, 3)
    broken.save({"weights": np.arange(3.0)})
    practise(broken, 2)  # lost, as if the process had been killed here
    broken.close()
    again = gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path / "broken")
    assert again.restored["weights"].tolist() == [0.0, 1.0, 2.0]
    assert (again.step, again.stage) == (105, 1)
    practise(again, 3)
    for teacher in (whole, again):
        teacher.finish()
    for name in ("episodes.csv", "stages.csv"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_loop_that_never_saves_is_saved_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("geodesic.training.teacher.AUTOSAVE", -1.0)
    first = gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path)
    practise(first, 3)
    first.close()
    assert gd.Teacher(task(), "gradient:step=0.25:window=10", out=tmp_path).step == first.step


def test_a_folder_has_one_teacher_at_a_time(tmp_path):
    first = gd.Teacher(task(), out=tmp_path)
    with pytest.raises(InvalidInput, match=r"is being written by process \d+ on .*"):
        gd.Teacher(task(), out=tmp_path)
    first.close()
    with pytest.raises(RunFailed, match="is not held by this process any more"):
        practise(first, 1)
    gd.Teacher(task(), out=tmp_path).finish()
    assert not (tmp_path / ".lock").exists()


def test_a_second_evaluation_at_a_step_is_left_out_also_after_a_kill(tmp_path):
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


def test_what_cannot_be_kept_without_pickle_is_refused(tmp_path):
    teacher = gd.Teacher(task(), out=tmp_path)
    with pytest.raises(InvalidInput, match=r"expected agent\['memory'\] to be an array of numbers, got"):
        teacher.save({"memory": np.array([{}])})
    teacher.save({"words": np.array(["a", "bc"]), "turned": np.arange(6).reshape(2, 3).T, "none": np.zeros((0, 2))})
    teacher.close()
    restored = gd.Teacher(task(), out=tmp_path).restored
    assert restored["words"].tolist() == ["a", "bc"]
    assert restored["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert restored["none"].shape == (0, 2)
    restored["turned"][0, 0] = 7  # they are the user's own


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


def test_outstanding_contexts_are_bounded_in_number():
    under_way = Outstanding(1)
    under_way.add(np.zeros((MOST + 10, 1)), 0)
    assert len(under_way.order) == MOST
    assert under_way.earliest == 10


WRONG = {"lengths": (2.5, 0, 1e300), "returns": (np.nan, "x"), "successes": (2,)}


@pytest.mark.parametrize("wrong", [{name: value} for name, values in WRONG.items() for value in values])
def test_a_report_that_is_refused_can_be_made_again(wrong):
    teacher = gd.Teacher(task(), "gradient")
    (context,) = teacher.sample()
    with pytest.raises(InvalidInput):
        teacher.report(**{"contexts": context, "returns": 1.0, "lengths": 3, **wrong})
    assert teacher.step == 0
    teacher.report(context, 1.0, 3)
    assert teacher.step == 3
