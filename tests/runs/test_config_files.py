"""Where runs are kept, and configurations in files: what they may repeat and what contradicts them."""

import pytest

import geodesic as gd
from geodesic.cli import main
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.records import read_config
from geodesic.runs.config import default_folder, read_file, slug
from geodesic.tasks import load
from geodesic.training.configure import configure
from run_files import contents


@pytest.mark.parametrize(
    ("options", "label", "folder"),
    [
        ({"method": "gradient"}, "gradient", "gradient"),
        ({}, "auto", "auto"),
        ({"metric": "contextual"}, "auto", "auto"),
        ({"threshold": -15.0}, "auto", "auto"),
        ({"threshold": -15}, "auto", "auto"),
        ({"learner": "ppo"}, "auto", "auto"),
        ({"learner": "ppo:learning_rate=1e-4"}, "auto", "auto"),
        ({"steps": 100_000}, "auto", "auto"),
        ({"metric": "graph"}, "auto:metric=graph", "auto-metric=graph"),
        ({"method": "gradient:metric=graph", "metric": "graph"}, "gradient:metric=graph", "gradient-metric=graph"),
        ({"threshold": -60.5}, "auto:threshold=-60.5", "auto-threshold=-60.5"),
        ({"threshold": "auto"}, "auto:threshold=auto", "auto-threshold=auto"),
        ({"learner": "ppo:gamma=0.9"}, "auto:ppo:gamma=0.9", "auto-ppo-gamma=0.9"),
        ({"learner": gd.PPO(n_envs=2)}, "auto:ppo", "auto-ppo"),
        ({"steps": 5000}, "auto", "auto-steps=5000"),
        (
            {"method": "gradient:step=.2", "metric": "l2", "threshold": -20.0, "learner": "ppo:clip=0.1", "steps": 500},
            "gradient:step=.2:metric=l2:threshold=-20:ppo:clip=0.1",
            "gradient-step=.2-metric=l2-threshold=-20-ppo-clip=0.1-steps=500",
        ),
    ],
)
def test_runs_that_differ_have_different_labels_and_folders(options, label, folder):
    config = configure("maze", seed=7, **options)
    assert config.label == label
    assert str(default_folder(config, load("maze"))) == f"runs/maze/{folder}/seed-7"


def test_folder_names_need_no_quotes():
    assert slug("my/task: ü (a b)") == "my-task--ü--a-b-"
    assert [slug(name) for name in (".", "..", "a..b")] == ["-", "--", "a..b"]
    assert "/" not in slug("spdl:std_lower_bound=[0.2, 0.1]")


SHORT = ["--steps", "1000", "--threshold", "-60", "--method", "gradient:window=5", "--metric", "graph"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A short run of the command."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    learner = ["--learner", "ppo:gamma=0.9", "--seed", "5"]
    assert main(["run", "maze", *SHORT, *learner, "--out", str(folder), "--quiet"]) == 0
    return folder


def test_a_config_json_repeats_the_run(finished, tmp_path):
    again = tmp_path / "again"
    assert main(["run", "--config", str(finished / "config.json"), "--out", str(again), "--quiet"]) == 0
    assert contents(again) == contents(finished)
    assert read_config(again) == read_config(finished)


def test_a_toml_file_has_the_arguments_of_configure(finished, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        'task = "maze"\nmethod = "gradient:window=5"\nmetric = "graph"\nthreshold = -60.0\nsteps = 1000\n'
        'learner = "ppo:gamma=0.9"\nseed = 5\n'
    )
    assert read_file(file) == read_config(finished)
    assert main(["run", "--config", str(file), "--out", str(tmp_path / "again"), "--quiet"]) == 0
    assert contents(tmp_path / "again") == contents(finished)


def test_a_threshold_in_a_file_may_be_auto(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('task = "maze"\nthreshold = "auto"\n')
    assert read_file(file) == configure("maze", threshold="auto")


def test_seed_and_steps_may_differ_from_the_file(finished, tmp_path):
    other = ["--seed", "6", "--steps", "500", "--out", str(tmp_path / "other"), "--quiet"]
    assert main(["run", "--config", str(finished / "config.json"), *other]) == 0
    config = read_config(tmp_path / "other")
    assert (config.seed, config.steps) == (6, 500)
    assert config.replace(seed=5, steps=1000) == read_config(finished)


def test_options_that_agree_with_the_file_are_accepted(finished, tmp_path):
    same = ["maze", *SHORT, "--learner", "ppo:gamma=0.9", "--backend", "jax"]
    out = ["--out", str(tmp_path / "again"), "--quiet"]
    assert main(["run", *same, "--config", str(finished / "config.json"), *out]) == 0


CONTRADICTIONS = [
    (["point-mass"], "expected the run's own task 'maze', got 'point-mass'"),
    (["--method", "uniform"], "expected the run's own method 'gradient:window=5"),
    (["--method", "grad"], "expected the run's own method 'gradient:window=5"),
    (["--method", "gradient"], "expected the run's own method 'gradient:window=5"),
    (["--method", "gradient:window=5:step=0.2"], "expected the run's own method 'gradient:window=5"),
    (["--metric", "l2"], "expected the run's own metric 'graph', got 'l2'"),
    (["--method", "gradient:window=5:metric=l2"], "expected the run's own method 'gradient:window=5"),
    (["--threshold", "-50"], "expected the run's own threshold -60.0, got -50.0"),
    (["--learner", "ppo"], "expected the run's own learner 'ppo:gamma=0.9', got 'ppo'"),
    (["--learner", "sac"], "expected the run's own learner 'ppo:gamma=0.9', got 'sac'"),
    (["--backend", "abacus"], "expected the run's own backend 'jax', got 'abacus'"),
]


@pytest.mark.parametrize("source", ["--config", "--resume"])
@pytest.mark.parametrize(("given", "message"), CONTRADICTIONS, ids=[" ".join(given) for given, _ in CONTRADICTIONS])
def test_options_that_contradict_a_run_are_refused(finished, tmp_path, monkeypatch, capsys, source, given, message):
    monkeypatch.chdir(tmp_path)
    before = contents(finished)
    place = finished / "config.json" if source == "--config" else finished
    assert main(["run", *given, source, str(place)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert contents(finished) == before
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--seed", "6"], "expected the run's own seed 5, got 6"),
        (["--steps", "999"], "expected at least the run's 1000 steps, got 999"),
        (["--out", "elsewhere"], "expected --resume DIR without --config and --out"),
        (["--config", "some.json"], "expected --resume DIR without --config and --out"),
        ([], "is finished; nothing to resume (--steps N trains on to N steps)"),
    ],
)
def test_options_that_a_resumed_run_cannot_have_are_refused(finished, capsys, given, message):
    before = contents(finished)
    assert main(["run", "--resume", str(finished), *given]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert contents(finished) == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--seed", "-1"], "expected seed to be an integer in [0, 2^31), got -1"),
        (["--steps", "0"], "expected steps to be a positive integer, got 0"),
    ],
)
def test_seed_and_steps_given_with_a_file_are_validated(finished, tmp_path, capsys, given, message):
    out = ["--out", str(tmp_path / "never")]
    assert main(["run", "--config", str(finished / "config.json"), *given, *out]) == 2
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
        ("a.json", '{"task": "maze"}', "expected a run's config.json, got one without name, contexts"),
    ],
)
def test_files_without_a_configuration_are_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises((InvalidInput, CheckpointError), match=message):
        read_file(tmp_path / name)


@pytest.mark.parametrize("name", ["none.toml", "none.json"])
def test_a_missing_file_is_refused(tmp_path, name):
    with pytest.raises(InvalidInput, match=r"expected a run"):
        read_file(tmp_path / name)
