"""`gd.train` and its result."""

import json
import shutil

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

import geodesic as gd
from geodesic.cli import main
from geodesic.errors import GeodesicError, InvalidInput, RunFailed
from geodesic.runs.run import segment_of
from known_returns import LEARNER, KnownReturns, known_returns, varied_returns
from run_files import Interrupted, contents, interrupt_first_segment

TASK = varied_returns(name="varied")


METHODS = ["gradient:step=0.25|0.5", "target-only"]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    return gd.compare(TASK, METHODS, seeds=2, out=tmp_path_factory.mktemp("compare") / "mine", workers=0)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return gd.train(TASK, seeds=3, out=tmp_path_factory.mktemp("train") / "mine")


def test_each_seed_has_a_run_folder(result):
    assert list(result.folders) == [("auto", 0), ("auto", 1), ("auto", 2)]
    assert all(folder.is_relative_to(result.folder / "runs" / "auto") for folder in result.folders.values())
    assert [run.seed for run in result.runs] == [0, 1, 2]
    assert all(run.finished and run.steps == 600 for run in result.runs)
    assert all(run.evaluations.steps[-1] == 600 for run in result.runs)
    assert repr(result) == f"Result('varied', 3 runs in {result.folder})"


def test_a_run_does_not_depend_on_the_other_seeds(result, tmp_path):
    alone = gd.train(TASK, seeds=[1], out=tmp_path)
    assert contents(alone.folders["auto", 1]) == contents(result.folders["auto", 1])
    assert contents(result.runs[0].folder)["episodes.csv"] != contents(result.runs[1].folder)["episodes.csv"]


def test_a_comparison_has_every_method_and_seed(comparison):
    labels = ["gradient:step=0.25", "gradient:step=0.5", "target-only"]
    assert list(comparison.folders) == [(label, seed) for label in labels for seed in (0, 1)]
    assert [(run.label, run.seed, run.finished) for run in comparison.runs] == [
        (*key, True) for key in comparison.folders
    ]
    assert [line.split()[0] for line in comparison.table().splitlines()[2:5]] == labels
    assert repr(comparison) == f"Result('varied', 6 runs in {comparison.folder})"
    assert {path.parent.parent for path in comparison.figures()} == {
        comparison.folder, *(comparison.folders[label, 0] for label in labels)
    }  # fmt: skip


def test_a_run_of_a_comparison_is_the_same_alone(comparison, tmp_path):
    alone = gd.train(TASK, "gradient:step=0.5", seeds=[1], out=tmp_path)
    assert contents(alone.runs[0].folder) == contents(comparison.folders["gradient:step=0.5", 1])


def test_policies_of_a_comparison_are_found_by_method_and_seed(comparison, monkeypatch):
    folders = comparison.folders
    monkeypatch.setattr("geodesic.api.load_policy", lambda folder, *given, **options: folder)
    assert comparison.policy(1, "gradient:step=0.5") == folders["gradient:step=0.5", 1]
    assert comparison.policy(method="target-only") == folders["target-only", 0]
    assert comparison.policy(seed=1) == folders["gradient:step=0.25", 1]
    with pytest.raises(InvalidInput, match=r"the method to be one of gradient:step=0.25, .*, target-only; got 'auto'"):
        comparison.policy(method="auto")
    with pytest.raises(InvalidInput, match="expected one of the seeds 0, 1, got 2"):
        comparison.policy(2, "target-only")


def test_a_comparison_is_reloaded_and_extended(comparison):
    stamps = {path: path.stat().st_mtime_ns for path in comparison.folder.rglob("*.csv")}
    again = gd.compare(TASK, [*METHODS, "uniform"], seeds=2, out=comparison.folder, workers=0)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert len(again.runs) == 8


def test_a_comparison_takes_objects_and_functions(tmp_path):
    """By the names of their classes, or by those in a dictionary."""
    ends = TASK.source_particles, TASK.target_particles
    quick, slow = (gd.Gradient(*ends, pace=gd.FixedStep(step), threshold=2.0) for step in (0.5, 0.25))

    def jump(problem):
        return gd.curricula.build("target-only", problem)

    made = gd.compare(TASK, [quick, jump, "uniform"], seeds=1, steps=200, out=tmp_path / "list", workers=0)
    assert [run.label for run in made.runs] == ["gradient", jump.__qualname__, "uniform"]
    assert made.policy(method=quick)(np.array([0.0, 4.0], np.float32)) in (0, 1, 2)
    both = gd.compare(TASK, {"quick": quick, "slow": slow}, seeds=1, steps=200, out=tmp_path / "named", workers=0)
    assert list(both.folders) == [("quick", 0), ("slow", 0)]
    with pytest.raises(InvalidInput, match="expected methods with different names, got two of 'gradient'; try a dict"):
        gd.compare(TASK, [quick, slow], out=tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_the_command_resumes_a_comparison_from_python(tmp_path, capsys):
    made = gd.compare("maze", ["target-only"], seeds=1, steps=500, out=tmp_path, workers=0)
    stamp = (made.runs[0].folder / "episodes.csv").stat().st_mtime_ns
    words = ["compare", "maze", "--methods", "target-only,linear:window=10|20", "--seeds", "1", "--steps", "500"]
    assert main([*words, "--out", str(tmp_path), "--quiet", "--workers", "1"]) == 0
    assert (made.runs[0].folder / "episodes.csv").stat().st_mtime_ns == stamp
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()[3:6]] == [
        "target-only",
        "linear:window=10",
        "linear:window=20",
    ]


def test_failures_of_a_comparison_are_named(tmp_path):
    class Failing(KnownReturns):
        def reward(self, state, action, next_state, rng, context):
            return jnp.float32(np.nan)

    with pytest.raises(RunFailed, match="target-only seed 0: .*diverged"):
        gd.compare(known_returns(Failing()), ["target-only"], seeds=1, out=tmp_path, workers=0)


def test_the_table_summarises_all_seeds(result):
    header, _, line, *notes = result.table().splitlines()
    assert header.split()[:3] == ["method", "seeds", "reached"]
    assert line.split()[:2] == ["auto", "3"]
    assert "3/3" in line  # every evaluation is above the threshold
    assert "100%" in line
    assert "too few seeds for an interval" in notes[-1]


def test_the_verdict_is_about_all_seeds(result, comparison):
    first, *_ = result.verdict().lines
    assert first.startswith("auto solved the target of varied in 3 of 3 seeds: a mean return above 2 to the end, from ")
    verdict = comparison.verdict()
    assert [each.label for each in verdict.methods] == ["gradient:step=0.25", "gradient:step=0.5", "target-only"]
    assert {each.baseline for each in verdict.comparisons} == {"target-only"}
    assert "cannot be said from 2 seeds" in str(verdict)


def test_the_table_uses_the_given_threshold(tmp_path):
    """No return is above 8."""
    _, _, line, *_ = gd.train(TASK, threshold=9.0, steps=200, out=tmp_path).table().splitlines()
    assert "0/1" in line


def test_figures_are_drawn(result):
    written = result.figures()
    assert {path.name for path in written} >= {"returns.png", "returns-iqm.png", "contexts.png", "run.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    assert {path.parent for path in written} == {result.folder / "figures", result.runs[0].folder / "figures"}


@pytest.mark.parametrize("stochastic", [False, True])
def test_policies_act(result, stochastic):
    env = TASK.make()
    policy = result.policy(seed=1, stochastic=stochastic)
    obs, _ = env.reset(seed=0)
    actions, ended = [], False
    while not ended:
        action = policy(obs)
        assert env.action_space.contains(action)
        actions.append(int(action))
        obs, _, terminated, truncated, _ = env.step(action)
        ended = terminated or truncated
    assert len(actions) in (7, 8)


def test_a_deterministic_policy_repeats_its_action_and_a_stochastic_one_does_not(result):
    obs = np.array([0.0, 4.0], np.float32)
    best, drawn = result.policy(0), result.policy(0, stochastic=True)
    assert len({int(best(obs)) for _ in range(20)}) == 1
    assert {int(drawn(obs)) for _ in range(50)} == {0, 1, 2}  # barely trained, so all three are likely
    again = result.policy(0, stochastic=True)
    first = result.policy(0, stochastic=True)
    assert [int(again(obs)) for _ in range(20)] == [int(first(obs)) for _ in range(20)]


class ContinuousActions(KnownReturns):
    """Continuous actions within asymmetric bounds."""

    action_space = gym.spaces.Box(np.array([-0.1, 2.0], np.float32), np.array([0.1, 3.0], np.float32))


@pytest.mark.parametrize("learner", [LEARNER, gd.SAC(batch_size=8, buffer_size=100, net=(8,))])
def test_continuous_actions_are_within_the_bounds(tmp_path, learner):
    training = {"learner": learner, "steps": 100, "segment": None}
    task = known_returns(ContinuousActions(), evaluation={"every": None}, training=training)
    trained = gd.train(task, "target-only", out=tmp_path)
    rng = np.random.default_rng(0)
    for stochastic in (False, True):
        policy = trained.policy(stochastic=stochastic)
        for _ in range(20):
            action = policy(rng.normal(0, 10, 2).astype(np.float32))
            assert task.env.action_space.contains(action)


def test_the_default_policy_is_the_first_seeds(result):
    obs = np.array([0.0, 4.0], np.float32)
    assert int(result.policy()(obs)) == int(result.policy(0)(obs))
    with pytest.raises(InvalidInput, match="expected one of the seeds 0, 1, 2, got 7"):
        result.policy(7)


def test_finished_runs_are_reloaded_and_more_seeds_added(tmp_path):
    first = gd.train(TASK, seeds=3, out=tmp_path)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    again = gd.train(TASK, seeds=3, out=tmp_path)
    assert again.folders == first.folders
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == stamps
    more = gd.train(TASK, seeds=[5, 1], out=tmp_path)
    assert [run.seed for run in more.runs] == [5, 1]
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


def test_interrupted_runs_resume(result, tmp_path, monkeypatch):
    """One was interrupted at its end, one at its start, and one is new when `train` is called again."""
    gd.train(TASK, seeds=[0], out=tmp_path)
    (tmp_path / "runs" / "auto" / "seed-0" / "summary.json").unlink()

    with monkeypatch.context() as patch:
        interrupt_first_segment(patch)
        with pytest.raises(Interrupted):
            gd.train(TASK, seeds=[1], out=tmp_path)
    assert segment_of(tmp_path / "runs" / "auto" / "seed-1") < 2  # of 6
    again = gd.train(TASK, seeds=3, out=tmp_path)
    for run, whole in zip(again.runs, result.runs, strict=True):
        assert contents(run.folder) == contents(whole.folder)


@pytest.mark.parametrize(
    "changes",
    [{"threshold": 2.0, "learner": gd.PPO(rollout=50)}, {"method": "gradient"}],
)
def test_another_run_in_the_same_folder_is_refused(tmp_path, changes):
    """With the same label: a learner of the same name, other defaults of the method."""
    own = varied_returns(training={"methods": {"gradient": {"step": 0.25}}}) if "method" in changes else TASK
    learner = gd.PPO(rollout=20) if "learner" in changes else None
    first = gd.train(TASK, changes.get("method", "auto"), learner=learner, steps=200, out=tmp_path)
    before = contents(first.runs[0].folder)
    with pytest.raises(InvalidInput, match=r"seed-0 holds another run \(it differs in .*\); try another out="):
        gd.train(own, **{"steps": 200, **changes}, out=tmp_path)
    assert contents(first.runs[0].folder) == before


def test_more_steps_extend_runs(result, tmp_path):
    """To the same files as if they had been asked for at once; a new seed starts beside them."""
    gd.train(TASK, steps=200, seeds=2, out=tmp_path)
    longer = gd.train(TASK, steps=600, seeds=3, out=tmp_path)
    assert all(run.steps == 600 and run.finished for run in longer.runs)
    for run, whole in zip(longer.runs, result.runs, strict=True):
        assert contents(run.folder) == contents(whole.folder)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert gd.train(TASK, steps=600, seeds=3, out=tmp_path).table() == longer.table()
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    with pytest.raises(InvalidInput, match=r"seed-0 holds a run of 600 steps, more than 400; try steps=600, or"):
        gd.train(TASK, steps=400, seeds=3, out=tmp_path)


def test_methods_share_a_folder(tmp_path):
    for method in ("gradient:step=0.25", "target-only"):
        gd.train(TASK, method, steps=200, out=tmp_path)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["gradient-step=0.25", "target-only"]


def test_options_given_as_tuples_are_the_same_run_again(tmp_path):
    task = varied_returns(
        worst_return=0.0, training={"methods": {"spdl": {"std_lower_bound": (0.2, 0.1)}}, "steps": 200}
    )
    first = gd.train(task, "spdl", out=tmp_path)
    (first.runs[0].folder / "summary.json").unlink()
    gd.train(task, "spdl", out=tmp_path)
    assert first.runs[0].finished


def test_the_default_folder_is_a_temporary_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = gd.train(TASK, "target-only", steps=100)
    assert made.folder.parent == tmp_path
    assert made.folder.name.startswith("geodesic-")
    assert made.runs[0].finished


def test_learner_metric_and_threshold_reach_the_run(tmp_path):
    task = varied_returns(worst_return=0.0, name="varied")
    made = gd.train(task, learner="ppo:gamma=0.9", metric="return-lift", threshold=3, steps=100, out=tmp_path)
    config = made.runs[0].config
    assert (config.metric, config.threshold, config.solved) == ("return-lift", 3.0, 3.0)
    assert config.learner_options["gamma"] == 0.9
    assert config.label == "auto:metric=return-lift:threshold=3:ppo:gamma=0.9"


@pytest.mark.parametrize(("progress", "shown"), [(True, True), (False, False), (None, False)])
def test_progress_is_shown_on_request(tmp_path, capsys, monkeypatch, progress, shown):
    monkeypatch.setattr("geodesic.report.progress.LINE_SECONDS", 0.0)
    trained = gd.train(TASK, seeds=3, steps=200, out=tmp_path, progress=progress)
    out, error = capsys.readouterr()
    assert out == ""
    assert ("all runs: 600 of 600 steps" in error) == shown
    assert error.endswith(f"{trained.verdict()}\n") == shown


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (0, "expected at least one seed, got none"),
        ([], "expected at least one seed, got none"),
        (-2, "expected at least one seed, got none"),
        ([-1], r"expected seed to be an integer in \[0, 2\^31\), got -1"),
        (["a"], r"expected seed to be an integer in \[0, 2\^31\), got 'a'"),
        (2.5, "expected seeds as a number or a list of seeds, got 2.5"),
        (True, "expected seeds as a number or a list of seeds, got True"),
        (None, "expected seeds as a number or a list of seeds, got None"),
    ],
)
def test_invalid_seeds_are_refused(tmp_path, seeds, message):
    with pytest.raises(InvalidInput, match=message):
        gd.train(TASK, seeds=seeds, out=tmp_path / "never")
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("seeds", [np.int64(3), [0, 1, 0, 2], (np.int32(0), 1, 2), range(3)])
def test_seeds_can_be_given_in_several_forms(tmp_path, seeds):
    made = gd.train(TASK, "target-only", steps=100, seeds=seeds, out=tmp_path)
    assert [run.seed for run in made.runs] == [0, 1, 2]
    assert all(run.finished for run in made.runs)


def test_a_gymnasium_task_trains(tmp_path):
    def set_context(env, length):
        env.length, env.polemass_length = length, env.masspole * length

    task = gd.Task(
        env="CartPole-v1",
        contexts={"length": (0.25, 1.0)},
        source={"length": 1.0},
        target={"length": 0.25},
        threshold=100.0,
        set_context=set_context,
        evaluation=gd.EvaluationSettings(episodes=3),
        name="pole",
    )
    made = gd.train(task, learner=gd.PPO(n_envs=2, rollout=64), steps=256, out=tmp_path)
    assert [run.finished for run in made.runs] == [True]
    obs, _ = task.make().reset(seed=0)
    assert int(made.policy(seed=0)(obs)) in (0, 1)


def test_a_run_of_a_custom_loop_has_no_policy_to_load(tmp_path):
    teacher = gd.Teacher(TASK, out=tmp_path)
    teacher.finish()
    from geodesic.runs.run import load_policy

    with pytest.raises(InvalidInput, match="expected a run of geodesic.train, got one of another training loop"):
        load_policy(tmp_path, TASK)


def test_runs_are_loaded_from_the_folders_of_every_call(result, comparison):
    for made in (result, comparison):
        loaded = gd.load(made.folder)
        assert set(loaded.folders) >= set(made.folders)
        obs = np.array([0.0, 4.0], np.float32)
        for method, seed in made.folders:
            assert loaded.policy(seed, method)(obs) == made.policy(seed, method)(obs)
    loaded = gd.load(result.folder)
    assert (loaded.table(), repr(loaded)) == (result.table(), repr(result))
    assert [path.name for path in loaded.figures()] == [path.name for path in result.figures()]


def test_a_single_run_is_loaded_with_its_table_figures_page_and_policy(result, tmp_path):
    folder = shutil.copytree(result.runs[1].folder, tmp_path / "moved")
    loaded = gd.load(folder)
    assert list(loaded.folders.items()) == [(("auto", 1), folder)]
    assert loaded.runs[0].seed == 1
    assert "auto" in loaded.table()
    assert {path.parent for path in loaded.figures()} == {folder / "figures"}
    assert loaded.policy()(np.array([0.0, 4.0], np.float32)) in (0, 1, 2)
    for needs_the_task in (lambda: loaded.task, lambda: loaded.policy(stochastic=True), lambda: loaded.cvar(0.5)):
        with pytest.raises(
            InvalidInput, match="expected the task 'varied', which was passed as an object and cannot be"
        ):
            needs_the_task()


def test_a_task_with_a_name_is_loaded_with_its_run(tmp_path):
    gd.train("maze", "target-only", steps=500, out=tmp_path)
    loaded = gd.load(str(tmp_path))
    env = loaded.task.make()
    obs, _ = env.reset(seed=0)
    assert env.action_space.contains(loaded.policy(which="last")(obs))
    assert env.action_space.contains(loaded.policy(stochastic=True)(obs))


def test_folders_of_a_loop_are_loaded_and_name_what_they_lack(tmp_path):
    teacher = gd.Teacher(TASK, out=tmp_path)
    teacher.report(teacher.sample(2), [5.0, 6.0], [7, 8])
    teacher.evaluation([6.0])
    teacher.finish()
    loaded = gd.load(tmp_path)
    assert "1/1" in loaded.table()
    for which in ("best", "last"):
        with pytest.raises(InvalidInput, match="expected a run of geodesic.train, got one of another training loop"):
            loaded.policy(which=which)
        with pytest.raises(InvalidInput, match="got a run of another training loop, which keeps its agent in"):
            loaded.export(tmp_path / "policy.npz", which=which)


def test_code_that_a_folder_names_runs_only_if_it_is_trusted(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import geodesic as gd\nopen('ran', 'w').close()\ntask = gd.Task('CartPole-v1', {'gravity': (5.0, 20.0)}, "
        "target={'gravity': 15.0}, set_context=lambda env, gravity: setattr(env, 'gravity', gravity))"
    )
    monkeypatch.chdir(tmp_path)
    learner = gd.PPO(n_envs=2, rollout=16, batch_size=16, epochs=1, net=(8,))
    folder = (
        gd.train(f"{tmp_path / 'mine.py'}:task", "target-only", learner=learner, steps=32, out="run").runs[0].folder
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "signature": "0" * 64}))
    (tmp_path / "ran").unlink()
    loaded = gd.load(folder)
    assert loaded.policy()(np.zeros(5, np.float32)) in (0, 1)
    assert loaded.table()
    assert loaded.figures()
    assert loaded.export("policy.npz")
    for runs_code in (lambda: loaded.task, lambda: loaded.policy(stochastic=True)):
        with pytest.raises(InvalidInput, match="was not written by you on this machine and names code: .*trust=True"):
            runs_code()
    assert not (tmp_path / "ran").exists()
    assert gd.load(folder, trust=True).policy(stochastic=True)(np.zeros(5, np.float32)) in (0, 1)
    with pytest.raises(InvalidInput, match="expected trust to be a boolean, got 'yes'"):
        gd.load(folder, trust="yes")


@pytest.mark.parametrize(("files", "message"), [
    ({}, "to hold config.json or runs at runs/<label>/seed-<k>, got neither"),
    ({"notes.txt": "hello"}, "got neither"),
    ({"config.json": "{}"}, "expected a run's config.json, got one without task, name, contexts"),
    ({"config.json": "{"}, "damaged file .*config.json"),
    ({"runs/auto/seed-0/config.json": "[]"}, "damaged file .*config.json: expected a JSON object"),
])  # fmt: skip
def test_folders_of_others_are_refused_in_one_line(tmp_path, files, message):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(GeodesicError, match=message) as error:
        gd.load(tmp_path)
    assert "\n" not in str(error.value)


def test_a_folder_that_does_not_exist_and_a_damaged_table_are_refused(result, tmp_path):
    with pytest.raises(InvalidInput, match="never to hold config.json or runs"):
        gd.load(tmp_path / "never")
    folder = shutil.copytree(result.runs[0].folder, tmp_path / "run")
    (folder / "evaluations.csv").write_text("1,2\n")
    with pytest.raises(InvalidInput, match="expected .*evaluations.csv to have the columns"):
        gd.load(folder)


def test_a_built_in_task_by_name(tmp_path):
    made = gd.train("maze", "target-only", steps=500, seeds=[3], out=tmp_path)
    assert made.runs[0].task == "maze"
    assert isinstance(made.task, gd.Task)
