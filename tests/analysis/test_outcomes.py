"""How runs ended, in folders with known content."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from geodesic.analysis.intervals import probability_interval
from geodesic.analysis.outcomes import SEPARABLE, SeedOutcome, at_source, outcomes_of, path_problems
from geodesic.errors import InvalidInput
from geodesic.records import load_comparison, load_run
from run_folders import write_comparison, write_run

LOW = {"returns": [0.0, 5.0, 5.0, 5.0]}
REST = {**LOW, "alphas": [0.0, 0.3], "begins": [0, 300]}
RISING = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 15.0, 20.0, 30.0, 38.0]


def outcome(folder: Path, **options: Any) -> SeedOutcome:
    methods, comparisons = outcomes_of([load_run(write_run(folder / "run", **options))])
    assert comparisons == ()
    (method,) = methods
    (seed,) = method.seeds
    return seed


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({}, "solved"),
        ({"returns": [0.0, 50.0, 60.0, 10.0]}, "lost"),
        ({**LOW, "alphas": [0.0, 0.3, 0.6], "begins": [0, 300, 900]}, "moving"),
        (REST, "resting"),
        ({**LOW, "stages": 1}, "resting"),
        ({"returns": RISING}, "improving"),
        ({"returns": RISING, "method": "uniform", "stages": 1}, "improving"),
        (LOW, "below"),
        ({**LOW, "method": "uniform", "stages": 1}, "below"),
        ({**LOW, "method": "own", "stages": 1}, "below"),  # whose alpha is unknown
        ({"reached": 500}, "unfinished"),
    ],
)
def test_each_run_has_one_cause(tmp_path: Path, options: dict[str, Any], cause: str) -> None:
    assert outcome(tmp_path, **options).cause == cause


def test_a_run_that_was_never_evaluated_is_unknown(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "evaluations.csv").unlink()
    ((method,), _) = outcomes_of([load_run(folder)])
    assert method.seeds[0].cause == "unevaluated"
    assert math.isnan(method.seeds[0].final)


def test_a_run_above_the_level_at_its_last_evaluations_only_was_improving(tmp_path: Path) -> None:
    """The rolling mean of ten evaluations lags behind the final score, which is that of the last four."""
    returns = [0.0] * 36 + [60.0] * 4
    assert outcome(tmp_path, returns=returns).cause == "improving"
    assert outcome(tmp_path / "again", returns=[0.0] * 30 + [60.0] * 10).cause == "solved"


def test_where_a_run_rests(tmp_path: Path) -> None:
    seed = outcome(tmp_path, **REST, infeasible=[0.0, 0.4])
    assert (seed.alpha, seed.stage, seed.since, seed.step) == (0.3, 1, 300, 1000)
    assert (seed.threshold, seed.stated, seed.mastered, seed.searching) == (40.0, True, False, False)
    assert 4.0 < seed.best < 7.0  # the best mean of 20 episodes around 5
    assert (seed.failing, seed.infeasible) == (1.0, 0.4)


def test_the_highest_alpha_counts_and_small_steps_do_not(tmp_path: Path) -> None:
    seed = outcome(tmp_path, **LOW, alphas=[0.0, 0.5, 0.505, 0.2], begins=[0, 100, 400, 800])
    assert (seed.alpha, seed.stage, seed.since, seed.cause) == (0.5, 1, 100, "resting")


def test_a_mixture_is_judged_by_the_scores_on_its_path(tmp_path: Path) -> None:
    details = ["score on path=1; threshold=7", "score on path=6; threshold=7"]
    seed = outcome(tmp_path, **REST, method="auto", threshold="auto", solved=40.0, details=details)
    assert (seed.best, seed.threshold, seed.stated) == (6.0, 7.0, False)


def test_a_run_that_only_explored_is_searching(tmp_path: Path) -> None:
    assert outcome(tmp_path, **LOW, alphas=[0.0, 0.0], kinds=["explore"] * 2).searching


def test_without_a_level_nothing_is_solved(tmp_path: Path) -> None:
    seed = outcome(tmp_path, threshold="auto", returns=[0.0, 20.0, 50.0, 60.0])
    assert (seed.cause, seed.final) == ("below", 60.0)
    assert math.isnan(seed.time)


def test_comparisons_are_of_curricula_with_baselines(tmp_path: Path) -> None:
    labels = {
        "gradient": {},
        "auto": {"method": "auto", "returns": [0.0, 0.0, 0.0, 50.0]},
        "target-only": {"method": "target-only", "stages": 1, **LOW},
        "uniform": {"method": "uniform", "stages": 1, "returns": lambda seed: [0.0, 0.0, 50.0, 60.0 - seed % 2]},
    }
    methods, comparisons = outcomes_of(load_comparison(write_comparison(tmp_path, labels, seeds=7)))
    assert [(each.label, each.solved, len(each.finished), each.time) for each in methods] == [
        ("auto", 7, 7, 1000.0), ("gradient", 7, 7, 750.0), ("target-only", 0, 7, math.inf), ("uniform", 7, 7, 750.0),
    ]  # fmt: skip
    found = {(each.label, each.baseline): (each.better, each.worse) for each in comparisons}
    assert found == {
        ("auto", "target-only"): (True, False), ("gradient", "target-only"): (True, False),
        ("auto", "uniform"): (False, True), ("gradient", "uniform"): (False, False),
    }  # fmt: skip
    assert {each.seeds for each in comparisons} == {7}


def test_the_number_of_seeds_that_can_show_a_difference() -> None:
    assert probability_interval(1.0, SEPARABLE)[0] > 0.5 >= probability_interval(1.0, SEPARABLE - 1)[0]


def test_unfinished_runs_are_not_compared(tmp_path: Path) -> None:
    labels = {"gradient": {}, "uniform": {"method": "uniform", "stages": 1, "reached": 500}}
    methods, comparisons = outcomes_of(load_comparison(write_comparison(tmp_path, labels)))
    assert comparisons == ()
    assert [len(each.finished) for each in methods] == [3, 0]
    assert math.isnan(methods[1].time)


def test_no_runs_are_refused() -> None:
    with pytest.raises(InvalidInput, match="expected at least one run, got none"):
        outcomes_of([])


def test_values_that_are_not_finite_are_no_error(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", **REST)
    for name in ("episodes.csv", "evaluations.csv", "stages.csv"):
        header, *rows = (folder / name).read_text().splitlines()
        rows[1::2] = [",".join([*row.split(",")[:2], *["inf"] * (len(row.split(",")) - 2)]) for row in rows[1::2]]
        if name == "episodes.csv":
            rows = [",".join("7" if k == 3 else cell for k, cell in enumerate(row.split(","))) for row in rows]
        if name != "stages.csv":
            (folder / name).write_text("\n".join([header, *rows, ""]))
    ((method,), _) = outcomes_of([load_run(folder)])
    assert method.seeds[0].cause == "resting"


def test_runs_that_never_left_their_source_are_named(tmp_path: Path) -> None:
    """Only of methods that start at a source: uniform has a single stage, and an unfinished run may still leave it."""
    one = {"stages": 1}
    write_comparison(tmp_path, {"gradient": {}, "linear": one | {"method": "linear"}}, seeds=2)
    write_comparison(tmp_path, {"uniform": one | {"method": "uniform"}, "own": one | {"method": "own"}}, seeds=2)
    write_run(tmp_path / "runs/gradient/seed-2", seed=2, stages=1)
    write_run(tmp_path / "runs/gradient/seed-3", seed=3, stages=2, kinds=["explore", "train"])
    write_run(tmp_path / "runs/gradient/seed-4", seed=4, stages=1, reached=500)
    runs = load_comparison(tmp_path)
    notes = ["gradient: 2 of 4 seeds never left the source", "linear: 2 of 2 seeds never left the source"]
    assert at_source(runs) == notes
    assert at_source([run for run in runs if run.label == "gradient"][:2]) == []


def test_runs_without_a_way_to_the_target_are_named(tmp_path: Path) -> None:
    details = ["", "hop=0.1; distance to target=0.4; blocked=0.95", ""]
    for seed, last in enumerate((0.6, 1.0)):
        alphas = [0.0, last / 2, last]
        write_run(tmp_path / f"runs/mine/seed-{seed}", label="mine", seed=seed, alphas=alphas, details=details)
    note = "mine: 1 of 2 seeds found no way to the target: all lead through contexts practised in vain"
    assert path_problems(load_comparison(tmp_path)) == [note]
