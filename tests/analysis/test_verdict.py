"""Verdicts of folders with known content: what they say, and that they claim no more than the intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from geodesic.analysis.verdict import Verdict, verdict_of
from geodesic.records import load_comparison, load_run
from run_folders import write_comparison, write_run

LOW = {"returns": [0.0, 5.0, 5.0, 5.0]}
REST = {**LOW, "alphas": [0.0, 0.3], "begins": [0, 300]}
RISING = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 15.0, 20.0, 30.0, 38.0]
BASELINES: dict[str, dict[str, Any]] = {
    "target-only": {"method": "target-only", "stages": 1, **LOW},
    "uniform": {"method": "uniform", "stages": 1},
}
FAILED = "gradient did not solve the target of mine: its mean return there ends at 5.00, not above 40."
UNCOMPARED = "train target-only as well: without it, nothing shows whether the curriculum pays off."


def of_run(folder: Path, **options: Any) -> Verdict:
    return verdict_of([load_run(write_run(folder / "run", **options))])


def of_comparison(folder: Path, labels: dict[str, dict[str, Any]], seeds: int = 3) -> Verdict:
    return verdict_of(load_comparison(write_comparison(folder, labels, seeds=seeds)))


def test_a_run_that_solved_its_target(tmp_path: Path) -> None:
    verdict = of_run(tmp_path)
    line = "gradient solved the target of mine: its mean return there is above 40 from step 750 to the end."
    assert verdict.lines == (line,)
    assert verdict.advice == (UNCOMPARED,)
    assert str(verdict) == repr(verdict) == verdict.text == f"{line}\nNext: {UNCOMPARED}"


def test_a_run_that_rests_where_it_does_not_meet_the_threshold(tmp_path: Path) -> None:
    verdict = of_run(tmp_path, **REST)
    assert verdict.lines[0] == FAILED
    (line,) = verdict.lines[1:]
    assert line.startswith("It came to rest at alpha 0.30 (stage 1, step 300): the mean return there was never above ")
    assert line.endswith("and the threshold is 40.0; no success was seen near 100% of the contexts trained on last.")
    assert verdict.advice[:2] == (
        "use another metric, or a source nearer to the target: the path leads where nothing succeeds.",
        'lower the threshold, or set threshold="auto".',
    )
    assert verdict.text.splitlines()[1:] == [f"- {line}", *(f"Next: {each}" for each in verdict.advice)]


def test_a_run_that_never_left_its_source(tmp_path: Path) -> None:
    verdict = of_run(tmp_path, **LOW, stages=1)
    assert verdict.lines[1].startswith("It never left the source (alpha 0): the mean return there was never above ")
    assert len(verdict.lines) == 2
    assert 'start from an easier source (source="auto" searches for one).' in verdict.advice
    assert not any("metric" in each for each in verdict.advice)


def test_a_run_that_found_no_source(tmp_path: Path) -> None:
    verdict = of_run(tmp_path, **LOW, alphas=[0.0, 0.0], kinds=["explore"] * 2, method="currot")
    assert verdict.lines[1].startswith("It never found a source to start from")


def test_a_run_whose_budget_ended_while_alpha_was_rising(tmp_path: Path) -> None:
    verdict = of_run(tmp_path, **LOW, alphas=[0.0, 0.3, 0.6], begins=[0, 300, 900], solved=4.0)
    assert "above 4 from step 500 to the end" in verdict.lines[0]
    verdict = of_run(tmp_path / "more", **LOW, alphas=[0.0, 0.3, 0.4], begins=[0, 300, 900])
    assert verdict.lines[1].startswith("It ran out of steps while alpha was still rising: it came to 0.40")
    assert verdict.advice[0].startswith("train longer: there was progress at the end; the same call with more steps")


def test_a_run_that_lost_its_target(tmp_path: Path) -> None:
    verdict = of_run(tmp_path, returns=[0.0, 50.0, 60.0, 10.0])
    assert verdict.lines[1].startswith("It solved the target at first and lost it again")
    assert verdict.advice[0].startswith("take the best policy, which is kept")


def test_a_run_that_reached_the_end_of_its_path_only(tmp_path: Path) -> None:
    events = ["start", "step cap", "step cap"]
    verdict = of_run(tmp_path, returns=[0.0, 30.0, 30.0, 30.0], threshold=10.0, solved=40.0, events=events)
    line = "It reached the end of the path at step 666 (2 stages ended at the step cap, not mastered) and stayed below"
    assert verdict.lines[1].startswith(f"{line} the level")
    assert verdict.advice[0].startswith("raise the threshold, or state score=")  # no episode earned more than 40


def test_a_threshold_below_the_level_is_named(tmp_path: Path) -> None:
    """Half of the episodes succeed everywhere, so that success is not what is missing."""
    folder = write_run(tmp_path / "run", returns=[0.0, 30.0, 30.0, 30.0], threshold=10.0, solved=40.0)
    header, *rows = (folder / "episodes.csv").read_text().splitlines()
    cells = [row.split(",") for row in rows]
    rows = [",".join([*each[:4], str(k % 2), *each[5:]]) for k, each in enumerate(cells)]
    (folder / "episodes.csv").write_text("\n".join([header, *rows, ""]))
    verdict = verdict_of([load_run(folder)])
    assert verdict.advice[0] == "raise the threshold: stages are mastered above 10.0, the target above 40."


def test_a_run_that_was_still_improving(tmp_path: Path) -> None:
    verdict = of_run(tmp_path, returns=RISING, method="uniform", stages=1)
    assert verdict.lines[1] == "It was still improving on the target at the end."
    assert verdict.advice[0].startswith("train longer")


def test_a_baseline_alone_is_advised_a_curriculum(tmp_path: Path) -> None:
    verdict = of_run(tmp_path, **BASELINES["target-only"])
    assert verdict.lines == (FAILED.replace("gradient", "target-only"),)
    assert verdict.advice == ("train with a curriculum, such as the default method auto.",)


def test_infeasible_contexts_are_named(tmp_path: Path) -> None:
    verdict = of_run(tmp_path, **REST, infeasible=[0.0, 0.4])
    assert verdict.lines[1].endswith("and 40% of the contexts of the last stage are infeasible.")
    assert verdict.advice[0] == "use another metric: the path leads through infeasible contexts."


def test_an_unfinished_run_has_no_verdict_yet(tmp_path: Path) -> None:
    verdict = of_run(tmp_path, reached=500, alphas=[0.0, 0.25], begins=[0, 300])
    assert verdict.lines == ("gradient has not finished: it is at step 1,000 of 1,000 and alpha 0.25.",)
    assert verdict.advice == ("resume the runs that are not finished.",)


def test_a_run_that_was_never_evaluated(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "evaluations.csv").unlink()
    verdict = verdict_of([load_run(folder)])
    assert verdict.lines[0] == "gradient was never evaluated on the target of mine, so nothing is known about it."


def test_without_a_level_the_final_score_is_given(tmp_path: Path) -> None:
    verdict = of_run(tmp_path, threshold="auto", returns=[0.0, 20.0, 50.0, 60.0])
    assert verdict.lines[0] == (
        "No level is stated above which the target of mine counts as solved; its mean return there ends at 60.0 with "
        "gradient (success rate 0%)."
    )
    assert "state solved= in the task" in verdict.advice[0] or "state solved= in the task" in verdict.advice[1]
    both = {"gradient": {"threshold": "auto"}, "uniform": {**BASELINES["uniform"], "threshold": "auto"}}
    many = of_comparison(tmp_path / "many", both)
    assert many.lines[0].endswith("The mean return ends at 60.0 with gradient and 60.0 with uniform.")


def test_seeds_are_named_by_how_they_ended(tmp_path: Path) -> None:
    write_run(tmp_path / "runs/gradient/seed-0", seed=0)
    for seed, alpha in ((1, 0.3), (2, 0.4), (4, 0.1)):
        write_run(tmp_path / f"runs/gradient/seed-{seed}", seed=seed, **{**REST, "alphas": [0.0, alpha]})
    write_run(tmp_path / "runs/gradient/seed-3", seed=3, **LOW, stages=1)
    write_run(tmp_path / "runs/gradient/seed-5", seed=5, reached=400, alphas=[0.0], begins=[0])
    verdict = verdict_of(load_comparison(tmp_path))
    assert verdict.lines[0] == (
        "gradient solved the target of mine in 1 of 5 seeds (1 more not finished): a mean return above 40 to the end."
    )
    seeds = verdict.lines[1].split(". ")
    assert verdict.lines[1].startswith("Seeds 1, 2 and 4 came to rest at alpha 0.10 to 0.40 (stage 1, step 300)")
    assert any(each.startswith("Seed 3 never left the source") for each in seeds)
    assert "Seed 5 is unfinished (step 1,000 of 1,000)" in verdict.lines[1]


def test_a_comparison_with_enough_seeds_says_what_the_intervals_carry(tmp_path: Path) -> None:
    labels = {"gradient": {}, "auto": {"method": "auto", "returns": [0.0, 0.0, 0.0, 50.0]}, **BASELINES}
    verdict = of_comparison(tmp_path, labels, seeds=7)
    assert verdict.lines[0] == (
        "The target of mine (a mean return above 40 to the end) was solved by auto in 7 of 7 seeds, gradient in 7 of "
        "7, target-only in 0 of 7 and uniform in 7 of 7."
    )
    assert tuple(line for line in verdict.lines[1:] if not line.startswith("Warned")) == (
        "target-only: all 7 seeds stayed below the level, at a mean return of 5.00.",
        "auto paid off compared with target-only: the probability is 1.00 [0.59, 1.00] that it solves the target "
        "earlier and 1.00 [0.59, 1.00] that it ends higher.",
        "gradient paid off compared with target-only: the probability is 1.00 [0.59, 1.00] that it solves the target "
        "earlier and 1.00 [0.59, 1.00] that it ends higher.",
        "auto did not pay off compared with uniform: the probability is 0.00 [0.00, 0.41] that it solves the target "
        "earlier and 0.00 [0.00, 0.41] that it ends higher.",
        "gradient and uniform do not differ significantly: the probability is 0.50 [0.15, 0.85] that it solves the "
        "target earlier and 0.50 [0.15, 0.85] that it ends higher.",
    )
    assert verdict.advice == ()


def test_few_seeds_show_nothing(tmp_path: Path) -> None:
    verdict = of_comparison(tmp_path, {"gradient": {}, **BASELINES}, seeds=5)
    assert verdict.lines[-1] == (
        "Whether gradient paid off compared with target-only and uniform cannot be said from 5 seeds: "
        "at least 6 are needed."
    )
    assert not any(" paid off compared with" in line and not line.startswith("Whether") for line in verdict.lines)


def test_a_curriculum_may_be_better_in_one_way_and_worse_in_another(tmp_path: Path) -> None:
    labels = {"gradient": {"returns": [50.0, 50.0, 50.0, 50.0]}, "uniform": BASELINES["uniform"]}
    verdict = of_comparison(tmp_path, labels, seeds=6)
    assert "gradient is better than uniform in one way and worse in another: the probability is 1.00" in verdict.text


def test_a_target_that_is_solved_alone_needs_no_curriculum(tmp_path: Path) -> None:
    labels = {"gradient": {}, "target-only": {"method": "target-only", "stages": 1}}
    verdict = of_comparison(tmp_path, labels, seeds=6)
    assert verdict.advice == (
        "train on the target alone: target-only solves it in 6 of 6 seeds, and no curriculum is shown to be better.",
    )
    faster = {**labels, "gradient": {"returns": [50.0, 60.0, 60.0, 70.0]}}
    assert of_comparison(tmp_path / "faster", faster, seeds=6).advice == ()


def test_no_method_solved_it(tmp_path: Path) -> None:
    verdict = of_comparison(tmp_path, {"gradient": REST, "target-only": BASELINES["target-only"]})
    assert verdict.lines[0] == (
        "No seed of gradient and target-only solved the target of mine (a mean return above 40 to the end)."
    )
    assert verdict.advice[0].endswith("(gradient).")


def test_advice_names_the_seeds_that_it_is_for(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"uniform": BASELINES["uniform"], "gradient": {}}, seeds=2)
    write_run(tmp_path / "runs/gradient/seed-2", seed=2, returns=[0.0, 50.0, 60.0, 10.0])
    verdict = verdict_of(load_comparison(tmp_path))
    assert verdict.advice[0].endswith("or lower the learning rate (gradient seed 2).")


def test_warnings_are_named_unless_the_reason_says_them(tmp_path: Path) -> None:
    solved = {"returns": [50.0] * 10, "alphas": [0.1, 0.2], "begins": [0, 600]}
    line = "Warned while training: the target was solved while alpha was low (at step 500)."
    assert of_run(tmp_path, **solved).lines[1:] == (line,)
    rest = of_run(tmp_path / "rest", returns=[5.0] * 20, alphas=[0.0, 0.3], begins=[0, 300])
    assert [notice.kind for notice in rest.methods[0].seeds[0].notices] == ["no progress"]
    assert not any("Warned" in each for each in rest.lines)
    many = of_comparison(tmp_path / "many", {"gradient": solved, "linear": {**solved, "method": "linear"}, **BASELINES})
    assert (
        "Warned while training: the target was solved while alpha was low (gradient and linear, at step 500)."
        in many.lines
    )


@pytest.mark.parametrize("method", ["goal-gan", "linear"])
def test_seeds_that_stayed_at_their_source_are_named(tmp_path: Path, method: str) -> None:
    verdict = of_comparison(tmp_path, {method: {"method": method, "stages": 1}, "uniform": BASELINES["uniform"]})
    assert f"{method}: 3 of 3 seeds never left the source." in verdict.lines


def test_control_characters_of_a_folder_are_escaped(tmp_path: Path) -> None:
    assert "\x1b" not in of_run(tmp_path, label="a\x1b[2J", task="b\x1b[2J").text


def test_only_a_path_can_be_over(tmp_path: Path) -> None:
    ends = {
        name: of_run(tmp_path / name, **LOW, method=name, alphas=alphas, begins=[0, 300], threshold="auto").advice
        for name, alphas in (("gradient", [0.0, 1.0]), ("alp-gmm", [0.0, 0.0]))
    }
    assert "train longer or change the learner's settings: the curriculum is over." in ends["gradient"]
    assert "train longer or change the learner's settings, or use the default method auto." in ends["alp-gmm"]
