"""A run's configuration: from a task and the user's words, from files, and what is refused."""

import json

import numpy as np
import pytest
from lasting import contents
from steady import steady

import geodesic as gd
from geodesic import learners
from geodesic.cli import main
from geodesic.errors import CheckpointError, InvalidInput, UnknownName
from geodesic.records import RunConfig, read_config
from geodesic.runs.config import BACKENDS, configure, default_folder, read_file, slug, task_of
from geodesic.tasks import load
from geodesic.tasks.catalogue import table


def test_what_is_not_given_comes_from_the_task():
    config = configure("maze")
    stated = table("maze")
    for name in ("steps", "threshold", "solved", "metric", "segment", "eval_every", "eval_episodes", "eval_policy"):
        assert getattr(config, name) == stated[name]
    assert (config.task, config.name, config.portable) == ("maze", "maze", True)
    assert (config.method, config.label, config.seed, config.backend) == ("gradient", "gradient", 0, "jax")
    assert (config.learner, config.learner_options) == (stated["algorithm"], stated["learner"])
    assert config.options == stated["methods"]["gradient"]
    assert config.contexts == ["row", "column"]


def test_methods_are_read_with_their_options():
    config = configure("maze", "gradient:step=.2:metric=graph")
    assert (config.options["step"], config.metric, config.label) == (0.2, "graph", "gradient:step=.2:metric=graph")
    assert configure("maze", "uniform").metric is None


def test_a_task_that_says_nothing_gets_documented_defaults():
    task = steady(learner=None, segment=None, eval_every=None, steps=100_000, methods={})
    config = configure(task)
    assert (config.learner, config.learner_options) == learners.DEFAULT
    made = learners.make(config.learner, config.learner_options)
    steps = config.segment * made.rollout * made.n_envs
    assert config.segment == 1  # an iteration has 2048 steps, more than 1000
    assert round(100_000 / (config.eval_every * steps)) == 49  # about 50 evaluations, on whole segments
    assert (config.task, config.portable) == ("task", False)
    small = configure(steady(segment=None), learner=gd.PPO(n_envs=2, rollout=25))
    assert small.segment == 20  # 1000 environment steps


@pytest.mark.parametrize(
    ("options", "label", "folder"),
    [
        ({}, "gradient", "gradient"),
        ({"metric": "contextual"}, "gradient", "gradient"),
        ({"threshold": -15.0}, "gradient", "gradient"),
        ({"threshold": -15}, "gradient", "gradient"),
        ({"learner": "ppo"}, "gradient", "gradient"),
        ({"learner": "ppo:learning_rate=1e-4"}, "gradient", "gradient"),
        ({"steps": 100_000}, "gradient", "gradient"),
        ({"metric": "graph"}, "gradient:metric=graph", "gradient-metric=graph"),
        ({"method": "gradient:metric=graph", "metric": "graph"}, "gradient:metric=graph", "gradient-metric=graph"),
        ({"threshold": -60.5}, "gradient:threshold=-60.5", "gradient-threshold=-60.5"),
        ({"learner": "ppo:gamma=0.9"}, "gradient:ppo:gamma=0.9", "gradient-ppo-gamma=0.9"),
        ({"learner": gd.PPO(n_envs=2)}, "gradient:ppo", "gradient-ppo"),
        ({"steps": 5000}, "gradient", "gradient-steps=5000"),
        (
            {"method": "gradient:step=.2", "metric": "l2", "threshold": -20.0, "learner": "ppo:clip=0.1", "steps": 500},
            "gradient:step=.2:metric=l2:threshold=-20:ppo:clip=0.1",
            "gradient-step=.2-metric=l2-threshold=-20-ppo-clip=0.1-steps=500",
        ),
    ],
)
def test_label_and_folder_tell_runs_apart(options, label, folder):
    config = configure("maze", seed=7, **options)
    assert config.label == label
    assert str(default_folder(config, load("maze"))) == f"runs/maze/{folder}/seed-7"


def test_folders_have_no_letters_that_need_quotes():
    assert slug("my/task: ü (a b)") == "my-task--ü--a-b-"
    assert "/" not in slug("spdl:std_lower_bound=[0.2, 0.1]")


@pytest.mark.parametrize(
    ("words", "name", "changed"),
    [
        ("ppo:learning_rate=1e-3", "ppo", {"learning_rate": 1e-3}),
        ("ppo:net=[32, 16]:rollout=50", "ppo", {"net": [32, 16], "rollout": 50}),
    ],
)
def test_words_change_the_tasks_own_learner(words, name, changed):
    config = configure("maze", learner=words)
    assert config.learner == name
    assert config.learner_options == {**table("maze")["learner"], **changed}


def test_words_for_another_algorithm_start_from_its_defaults():
    config = configure("point-mass", learner="ppo:learning_rate=1e-3")
    assert (config.learner, config.learner_options) == ("ppo", {"learning_rate": 1e-3})
    assert learners.make(config.learner, config.learner_options) == gd.PPO(learning_rate=1e-3)
    kept = configure("point-mass", learner="sac:learning_rate=1e-3")
    assert kept.learner_options == {**table("point-mass")["learner"], "learning_rate": 1e-3}


def test_words_change_a_learner_that_the_task_has_as_an_object():
    config = configure(steady(), learner="ppo:gamma=0.5")
    assert learners.make(config.learner, config.learner_options) == gd.PPO(
        n_envs=2, rollout=25, batch_size=50, epochs=1, net=(8,), gamma=0.5
    )


def test_a_learner_given_as_an_object_is_all_of_it():
    config = configure("maze", learner=gd.SAC(batch_size=32))
    assert learners.make(config.learner, config.learner_options) == gd.SAC(batch_size=32)


def test_a_threshold_of_ones_own_is_also_what_counts_as_solved():
    assert configure("maze", threshold=-20.0).solved == -20.0
    assert configure("maze").solved == -17.333


REFUSED = [
    (
        {"task": "nowhere"},
        "expected a task (maze, point-mass, fetch-push, u-maze, e-maze, "
        "sparse-goal, point-mass-bimodal, point-mass-nd), module:object or file.py:object; got 'nowhere'",
    ),
    ({"task": ""}, "expected a task, its name, module:object or file.py:object, got ''"),
    (
        {"method": "nonsense"},
        "expected method to be one of gradient, target-only, uniform, linear, alp-gmm, goal-gan, spdl, wb-spdl, "
        "currot, procurl-target; got 'nonsense'",
    ),
    ({"method": "gradient:"}, "expected a method as name:option=value, got 'gradient:'"),
    ({"method": 3}, "expected a method as name:option=value, got 3"),
    ({"seed": -1}, "expected seed to be an integer in [0, 2^31), got -1"),
    ({"seed": 2**31}, "expected seed to be an integer in [0, 2^31), got 2147483648"),
    ({"seed": 1.5}, "expected seed to be an integer in [0, 2^31), got 1.5"),
    ({"seed": True}, "expected seed to be an integer in [0, 2^31), got True"),
    ({"steps": 0}, "expected steps to be a positive integer, got 0"),
    ({"steps": 1e4}, "expected steps to be a positive integer, got 10000.0"),
    ({"metric": "embedding"}, "expected metric of maze to be one of contextual, graph, l2; got 'embedding'"),
    ({"metric": "taxi"}, "expected metric of maze to be one of contextual, graph, l2; got 'taxi'"),
    (
        {"method": "gradient:metric=graph", "metric": "l2"},
        "expected one metric, got 'l2' and 'gradient:metric=graph'",
    ),
    (
        {"method": "uniform", "metric": "l2"},
        "expected a method that uses a metric (gradient), got uniform with metric l2",
    ),
    ({"backend": "abacus"}, "expected backend to be one of jax, sb3, sbx; got 'abacus'"),
    ({"threshold": "high"}, "expected threshold to be a finite number, got 'high'"),
    ({"threshold": float("inf")}, "expected threshold to be a finite number, got inf"),
    ({"learner": "abacus"}, "expected learner to be one of ppo, sac; got 'abacus'"),
    ({"learner": "ppo:"}, "expected a learner as name:option=value, got 'ppo:'"),
    ({"learner": 3}, "expected a learner such as geodesic.PPO(n_envs=8) or geodesic.SAC(), got 3"),
    ({"learner": gd.PPO}, f"expected a learner such as geodesic.PPO(n_envs=8) or geodesic.SAC(), got {gd.PPO!r:.60}"),
    ({"learner": "ppo:rollout=many"}, "expected rollout to be a positive integer, got 'many'"),
    ({"learner": "ppo:rollout=2.5"}, "expected rollout to be a positive integer, got 2.5"),
    ({"learner": "ppo:gamma=high"}, "expected gamma in [0, 1], got 'high'"),
    ({"learner": "ppo:net=64"}, "expected net to be a list of layer sizes, got 64"),
    ({"learner": "ppo:normalize_observations=yes"}, "expected normalize_observations to be true or false, got 'yes'"),
    (
        {"learner": "sac:clip=0.1"},
        "expected an option of sac (rollout, n_envs, gradient_steps, batch_size, buffer_size, learning_starts, "
        "learning_rate, gamma, tau, net, activation, normalize_observations), got 'clip'",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[str(options) for options, _ in REFUSED])
def test_configurations_that_are_refused(options, message):
    with pytest.raises(InvalidInput) as caught:
        configure(**{"task": "maze", **options})
    assert str(caught.value) == message


def test_names_that_are_not_known_are_of_one_class():
    for options in ({"method": "magic"}, {"metric": "taxi"}, {"backend": "abacus"}, {"learner": "abacus"}):
        with pytest.raises(UnknownName):
            configure("maze", **options)
    assert list(BACKENDS) == ["jax", "sb3", "sbx"]


def test_a_configuration_survives_json():
    config = configure("point-mass", "spdl", 3, learner="sac:net=[8]")
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert task_of(config) is load("point-mass")


def test_options_of_a_task_need_not_be_json_to_be_kept():
    methods = {"spdl": {"std_lower_bound": (0.2, np.float64(0.1))}, "gradient": {"step": object()}}
    task = steady(methods=methods, worst_return=0.0)
    config = configure(task, "spdl")
    stored = RunConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert stored.options["std_lower_bound"] == [0.2, 0.1]
    assert stored.to_json() == config.to_json()
    with pytest.raises(InvalidInput, match="expected options that can be written to a run's config.json, got <object"):
        configure(task, "gradient").to_json()


def test_a_task_that_was_an_object_cannot_be_found_again():
    config = configure(steady(name="mine"))
    with pytest.raises(InvalidInput, match=r"expected the task 'mine' itself: .*geodesic.train\(task, ...\)"):
        task_of(config)


# --- files ---------------------------------------------------------------------------------------------------------

SHORT = ["--steps", "1000", "--threshold", "-60", "--method", "gradient:window=5", "--metric", "graph"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A short run, as a command made it."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    learner = ["--learner", "ppo:gamma=0.9", "--seed", "5"]
    assert main(["run", "maze", *SHORT, *learner, "--out", str(folder), "--quiet"]) == 0
    return folder


def test_config_json_given_back_repeats_the_run(finished, tmp_path):
    again = tmp_path / "again"
    assert main(["run", "--config", str(finished / "config.json"), "--out", str(again), "--quiet"]) == 0
    assert contents(again) == contents(finished)
    assert read_config(again) == read_config(finished)


def test_toml_says_the_same(finished, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        'task = "maze"\nmethod = "gradient:window=5"\nmetric = "graph"\nthreshold = -60.0\nsteps = 1000\n'
        'learner = "ppo:gamma=0.9"\nseed = 5\n'
    )
    assert read_file(file) == read_config(finished)
    assert main(["run", "--config", str(file), "--out", str(tmp_path / "again"), "--quiet"]) == 0
    assert contents(tmp_path / "again") == contents(finished)


def test_seed_and_steps_may_differ_beside_a_file(finished, tmp_path):
    other = ["--seed", "6", "--steps", "500", "--out", str(tmp_path / "other"), "--quiet"]
    assert main(["run", "--config", str(finished / "config.json"), *other]) == 0
    config = read_config(tmp_path / "other")
    assert (config.seed, config.steps) == (6, 500)
    assert config.replace(seed=5, steps=1000) == read_config(finished)


def test_saying_the_same_beside_a_file_is_fine(finished, tmp_path):
    said = ["maze", *SHORT, "--learner", "ppo:gamma=0.9", "--backend", "jax"]
    out = ["--out", str(tmp_path / "again"), "--quiet"]
    assert main(["run", *said, "--config", str(finished / "config.json"), *out]) == 0


CONTRADICTIONS = [
    (["point-mass"], "expected the run's own task 'maze', got 'point-mass'"),
    (["--method", "uniform"], "expected the run's own method 'gradient:window=5"),
    (["--method", "grad"], "expected the run's own method 'gradient:window=5"),
    (["--method", "gradient"], "expected the run's own method 'gradient:window=5"),
    (["--method", "gradient:window=5:step=0.2"], "expected the run's own method 'gradient:window=5"),
    (["--metric", "l2"], "expected the run's own metric 'graph', got 'l2'"),
    (["--method", "gradient:window=5:metric=l2"], "expected one metric, got 'graph'"),
    (["--threshold", "-50"], "expected the run's own threshold -60.0, got -50.0"),
    (["--learner", "ppo"], "expected the run's own learner 'ppo:gamma=0.9', got 'ppo'"),
    (["--learner", "sac"], "expected the run's own learner 'ppo:gamma=0.9', got 'sac'"),
    (["--backend", "abacus"], "expected the run's own backend 'jax', got 'abacus'"),
]


@pytest.mark.parametrize("beside", ["--config", "--resume"])
@pytest.mark.parametrize(("said", "message"), CONTRADICTIONS, ids=[" ".join(said) for said, _ in CONTRADICTIONS])
def test_what_contradicts_a_run_is_refused(finished, tmp_path, monkeypatch, capsys, beside, said, message):
    monkeypatch.chdir(tmp_path)
    before = contents(finished)
    place = finished / "config.json" if beside == "--config" else finished
    assert main(["run", *said, beside, str(place)]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    assert contents(finished) == before
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (["--seed", "6"], "expected the run's own seed 5, got 6"),
        (["--steps", "999"], "expected at least the run's 1000 steps, got 999"),
        (["--out", "elsewhere"], "expected --resume DIR without --config and --out"),
        (["--config", "some.json"], "expected --resume DIR without --config and --out"),
        ([], "is finished; nothing to resume (--steps N trains on to N steps)"),
    ],
)
def test_what_a_resumed_run_cannot_be_told(finished, capsys, said, message):
    before = contents(finished)
    assert main(["run", "--resume", str(finished), *said]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    assert contents(finished) == before


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (["--seed", "-1"], "expected seed to be an integer in [0, 2^31), got -1"),
        (["--steps", "0"], "expected steps to be a positive integer, got 0"),
    ],
)
def test_seed_and_steps_beside_a_file_are_checked(finished, tmp_path, capsys, said, message):
    out = ["--out", str(tmp_path / "never")]
    assert main(["run", "--config", str(finished / "config.json"), *said, *out]) == 2
    assert capsys.readouterr().err == f"geodesic: {message}\n"
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", 'task = "maze"\ncolour = "red"\n', "expected keys of a run's configuration in"),
        ("a.toml", 'task = "maze\n', "expected a run's configuration in"),
        ("a.toml", 'method = "gradient"\n', "expected a task, its name, module:object or file.py:object, got ''"),
        ("a.toml", 'task = "maze"\nthreshold = "high"\n', "expected threshold to be a finite number, got 'high'"),
        ("a.toml", 'task = "maze"\nsteps = "many"\n', "expected steps to be a positive integer, got 'many'"),
        ("a.toml", 'task = "maze"\nlearner = 3\n', "expected a learner such as geodesic.PPO"),
        ("a.json", "{", "damaged file"),
        ("a.json", "[1]", "expected a JSON object"),
        ("a.json", '{"task": "maze"}', "expected a run's config.json, got one without name, portable"),
    ],
)
def test_files_that_are_no_configuration_are_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises((InvalidInput, CheckpointError), match=message):
        read_file(tmp_path / name)


@pytest.mark.parametrize("name", ["none.toml", "none.json"])
def test_a_file_that_is_not_there_is_refused(tmp_path, name):
    with pytest.raises(InvalidInput, match=r"expected a run"):
        read_file(tmp_path / name)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("steps", "many", "expected steps of a run to be int, got 'many'"),
        ("steps", 0, "expected steps to be a positive integer, got 0"),
        ("segment", -1, "expected segment to be a positive integer, got -1"),
        ("threshold", None, "expected threshold of a run to be float, got None"),
        ("options", [], "expected options of a run to be dict"),
        ("learner_options", 3, "expected learner_options of a run to be dict"),
        ("portable", 1, "expected portable of a run to be bool, got 1"),
    ],
)
def test_a_config_json_with_values_of_another_kind_is_refused(key, value, message):
    values = {**configure("maze").to_json(), key: value}
    with pytest.raises(InvalidInput) as caught:
        RunConfig.from_json(values)
    assert str(caught.value).startswith(message)
