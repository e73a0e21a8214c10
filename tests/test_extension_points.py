"""A user's own curriculum, pace, metric and learner: as objects, on the command line, in workers, and with SB3."""

import inspect
import shutil
from pathlib import Path

import numpy as np
import pytest

import geodesic as gd
from geodesic.cli import main
from geodesic.errors import InvalidInput
from geodesic.records import load_comparison, load_run, read_config
from geodesic.runs.compare import compare, plan_comparison
from geodesic.runs.executors import LocalProcesses
from geodesic.training.configure import objects_of
from known_returns import known_returns
from my_extensions import Doubling, Manhattan, Reinforce, ScaledPPO, Stepwise
from run_files import Interrupted, contents, interrupt_first_segment

HERE = Path(__file__).parent
TASK = known_returns(training={"steps": 300, "methods": {}}, evaluation={"every": 3})
STEPS = ["--steps", "300", "--quiet"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a user's file, in which the commands are called."""
    shutil.copy(HERE / "my_extensions.py", tmp_path / "my.py")
    shutil.copy(HERE / "known_returns.py", tmp_path / "problem.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stepwise(parts=2):
    return Stepwise(TASK.source_particles, TASK.target_particles, 2.0, parts)


def gradient(pace=None, metric=None):
    pace = Doubling(0.5) if pace is None else pace
    return gd.Gradient(TASK.source_particles, TASK.target_particles, metric=metric, pace=pace, threshold=2.0)


@pytest.mark.parametrize(("extension", "lines"), [(Stepwise, 20), (Doubling, 15), (Manhattan, 15), (ScaledPPO, 15)])
def test_extensions_are_short(extension, lines):
    assert len([line for line in inspect.getsource(extension).splitlines() if line.strip()]) <= lines


@pytest.mark.parametrize(
    ("options", "label", "alphas"),
    [
        ({"method": stepwise()}, "Stepwise", [0.0, 0.5, 1.0]),
        ({"method": Stepwise}, "Stepwise", [0.0, 0.25, 0.5, 0.75]),
        ({"method": lambda problem: stepwise(1)}, "<lambda>", [0.0, 1.0]),
        ({"method": gradient()}, "gradient", [0.0, 0.5, 1.0]),
        ({"method": "gradient:step=0.5:window=5", "metric": Manhattan()}, None, [0.0, 0.5, 1.0]),
        pytest.param(
            {"method": "target-only", "learner": ScaledPPO(scale=0.5)},
            "target-only:ScaledPPO",
            [1.0],
            marks=pytest.mark.slow,  # another program; the command below trains it too
        ),
        ({"method": "target-only", "learner": Reinforce()}, "target-only:Reinforce", [1.0]),
    ],
    ids=["curriculum", "class", "function", "pace", "metric", "subclass of PPO", "learner"],
)
def test_objects_are_trained(tmp_path, options, label, alphas):
    result = gd.train(TASK, out=tmp_path, **options)
    (run,) = result.runs
    assert run.finished
    assert run.label == (label or "gradient:step=0.5:window=5:metric=Manhattan")
    assert run.stages.alphas.tolist()[: len(alphas)] == alphas
    assert TASK.env.action_space.contains(np.int64(result.policy()(np.zeros(2, np.float32))))
    before = contents(run.folder)
    assert gd.train(TASK, out=tmp_path, **options).runs[0].finished  # the same object again: reloads the run
    assert contents(run.folder) == before


def test_a_learned_policy_depends_on_the_learner(tmp_path):
    """The rows of the weights that REINFORCE learned are not all equal to their start."""
    from geodesic.records import checkpoint, checkpoint_path

    result = gd.train(TASK, "target-only", learner=Reinforce(), out=tmp_path)
    kept = checkpoint.load(checkpoint_path(result.runs[0].folder))
    assert any(array.shape[-2:] == (2, 3) and array.any() for array in kept.arrays.values())


def test_a_run_with_an_object_resumes_with_an_equal_object_only(tmp_path, monkeypatch, capsys):
    whole = gd.train(TASK, stepwise(), out=tmp_path / "whole")

    with monkeypatch.context() as patch:
        interrupt_first_segment(patch)
        with pytest.raises(Interrupted):
            gd.train(TASK, stepwise(), out=tmp_path / "interrupted")
    (folder,) = (tmp_path / "interrupted").glob("runs/*/seed-0")
    with pytest.raises(InvalidInput, match=r"holds another run \(it differs in method\)"):
        gd.train(TASK, stepwise(parts=3), out=tmp_path / "interrupted")
    assert main(["run", "--resume", str(folder)]) == 2
    assert "which was passed as an object" in capsys.readouterr().err
    resumed = gd.train(TASK, stepwise(), out=tmp_path / "interrupted")
    assert contents(resumed.runs[0].folder) == contents(whole.runs[0].folder)


@pytest.mark.parametrize(
    ("words", "method", "label", "learner"),
    [
        (
            "--method my.py:Stepwise:parts=2 --learner my.py:Reinforce:learning_rate=0.1",
            "Stepwise",
            "Stepwise:parts=2:Reinforce:learning_rate=0.1",
            "Reinforce",
        ),
        (
            "--method gradient:pace=my.py:Doubling:first=0.5 --metric my.py:Manhattan --learner my.py:ScaledPPO",
            "gradient",
            "gradient:pace=my.py:Doubling:first=0.5:metric=Manhattan:ScaledPPO",
            "ScaledPPO",
        ),
    ],
    ids=["curriculum and learner", "pace, metric and subclass of PPO"],
)
def test_the_command_line_takes_references(folder, monkeypatch, words, method, label, learner):
    """A reference is recorded with its full path, so a run can be resumed from any folder."""
    assert main(["run", "problem.py:task", *words.split(), *STEPS, "--out", "run"]) == 0
    run = load_run(folder / "run")
    assert run.finished
    assert run.stages.alphas.tolist() == [0.0, 0.5, 1.0]
    config = read_config(folder / "run")
    assert config.label == label
    assert config.objects == {}
    place = f"{folder / 'my.py'}:"
    assert config.method.removeprefix(place) == method
    assert config.learner == place + learner
    monkeypatch.chdir(HERE)
    assert main(["run", "--resume", str(folder / "run"), "--steps", "400", "--quiet"]) == 0
    assert load_run(folder / "run").evaluations.steps[-1] == 400


def test_references_are_compared_in_workers(folder):
    methods = "my.py:Stepwise:parts=2,gradient:pace=my.py:Doubling:first=0.5:metric=my.py:Manhattan"
    words = ["--methods", methods, "--learner", "my.py:Reinforce", "--seeds", "1", "--workers", "2"]
    assert main(["compare", "problem.py:task", *words, *STEPS, "--out", "out"]) == 0
    runs = {run.method.rpartition(":")[2]: run for run in load_comparison(folder / "out")}
    assert set(runs) == {"Stepwise", "gradient"}
    assert all(run.finished and run.stages.alphas[-1] == 1.0 for run in runs.values())


def test_objects_are_compared_in_workers(tmp_path):
    methods, learner = [stepwise(), lambda problem: gradient(metric=Manhattan())], Reinforce()
    configs = plan_comparison(TASK, methods, [0], 200, tmp_path, learner=learner)
    objects = [objects_of(TASK, method, None, learner) for method in methods]
    outcome = compare(configs, tmp_path, TASK, LocalProcesses(2), objects=objects)
    assert (outcome.done, outcome.failed) == (2, {})
    assert all(len(run.stages.stages) > 1 for run in load_comparison(tmp_path))


def test_registered_names_are_compared_in_workers(tmp_path, monkeypatch):
    for registry, name, part in (
        (gd.curricula.REGISTRY, "stepwise", Stepwise),
        (gd.metrics.REGISTRY, "manhattan", Manhattan),
        (gd.learners.REGISTRY, "reinforce", Reinforce),
    ):
        monkeypatch.setattr(registry, "_values", dict(registry._values))
        registry.register(name, part)
    methods = ["stepwise:parts=2", "gradient:step=0.5:window=5:metric=manhattan"]
    result = gd.compare(TASK, methods, "reinforce", 200, 1, tmp_path, workers=2)
    assert all(run.finished and len(run.stages.stages) > 1 for run in result.runs)
    assert {run.config.learner for run in result.runs} == {"reinforce"}


def test_the_sb3_callback_takes_all_of_them(folder):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    from clocks import task

    def train(method, metric=None):
        model = PPO("MlpPolicy", make_vec_env(task().make, n_envs=2), n_steps=16, batch_size=16, n_epochs=1)
        callback = gd.sb3.CurriculumCallback(task(), method, metric=metric, eval_freq=0)
        model.learn(160, callback=callback)
        return callback

    curriculum = Stepwise(task().source_particles, task().target_particles, 1.0, 2)
    for method, metric in (
        (curriculum, None),
        ("my.py:Stepwise:parts=2", None),
        ("gradient:pace=my.py:Doubling:first=0.5", "my.py:Manhattan"),
        (lambda problem: gd.Gradient(problem.source, problem.target, problem.metric, Doubling(0.5), 1.0), None),
        ("gradient:step=0.5:window=5", Manhattan()),
    ):
        assert train(method, metric).alpha == 1.0


def test_a_teacher_takes_all_of_them_and_resumes_with_equal_objects(folder):
    for number, (method, metric) in enumerate(
        (
            (stepwise(), None),
            (Stepwise, None),
            ("my.py:Stepwise:parts=2", None),
            (gradient(metric=Manhattan()), None),
            ("gradient:step=0.5:window=5", Manhattan()),
            ("gradient:pace=my.py:Doubling:first=0.5", "my.py:Manhattan"),
        )
    ):
        alphas = []
        while not alphas or alphas[-1] < 1.0:  # a new teacher for every few episodes
            teacher = gd.Teacher(TASK, method, folder / str(number), metric=metric)
            for _ in range(10):
                contexts = teacher.sample(4)
                teacher.report(contexts, np.full(4, 5.0), np.full(4, 5))
            alphas.append(teacher.alpha)
            teacher.save()
            teacher.close()
        assert len(alphas) <= 3
    with pytest.raises(InvalidInput, match=r"holds another run \(it differs in method\)"):
        gd.Teacher(TASK, stepwise(parts=3), folder / "0")
