"""Making a run's configuration from a task and the caller's arguments."""

import copy
import json
import pickle

import gymnasium as gym
import numpy as np
import pytest

import geodesic as gd
from geodesic import learners
from geodesic.curricula import REGISTRY, AutoThreshold
from geodesic.errors import InvalidInput, UnknownName
from geodesic.records import RunConfig
from geodesic.records.config import BACKENDS
from geodesic.tasks import load
from geodesic.tasks.catalogue import BUILT_IN, table
from geodesic.training.configure import configure, curriculum_of, evaluation_schedule, task_of
from known_returns import known_returns


def test_defaults_come_from_the_task():
    config = configure("maze")
    stated = table("maze")
    for name in ("steps", "threshold", "solved", "metric", "segment", "eval_every", "eval_episodes", "eval_policy"):
        assert getattr(config, name) == stated[name]
    assert (config.task, config.name, config.objects) == ("maze", "maze", {})
    assert (config.method, config.label, config.seed, config.backend) == ("auto", "auto", 0, "jax")
    assert (config.learner, config.learner_options) == (stated["algorithm"], stated["learner"])
    assert config.options == {}
    assert configure("maze", "gradient").options == stated["methods"]["gradient"]
    assert config.contexts == ["row", "column"]


def test_a_method_can_have_options():
    config = configure("maze", "gradient:step=.2:metric=graph")
    assert (config.options["step"], config.metric, config.label) == (0.2, "graph", "gradient:step=.2:metric=graph")
    assert configure("maze", "uniform").metric is None


def test_a_task_without_settings_gets_the_documented_defaults():
    settings = {"learner": None, "segment": None, "steps": 100_000, "methods": {}}
    task = known_returns(training=settings, evaluation={"every": None})
    config = configure(task)
    assert (config.learner, config.learner_options) == learners.DEFAULT
    made = learners.make(config.learner, config.learner_options)
    steps = config.segment * made.rollout * made.n_envs
    assert config.segment == 1  # an iteration has 2048 steps, more than 1000
    assert round(100_000 / (config.eval_every * steps)) == 49  # about 50 evaluations, on whole segments
    assert (config.task, config.name, list(config.objects)) == ("KnownReturns", "KnownReturns", ["task"])
    assert config.eval_episodes == 4
    small = configure(known_returns(training={"segment": None}), learner=gd.PPO(n_envs=2, rollout=25))
    assert small.segment == 20  # 1000 environment steps


def on_host(limit, **evaluation):
    return gd.Task(
        lambda: gym.wrappers.TimeLimit(gym.make("CartPole-v1").unwrapped, limit),
        contexts={"length": (0.1, 2.0)},
        target={"length": 2.0},
        set_context=lambda env, length: setattr(env, "length", length),
        evaluation=gd.EvaluationSettings(**evaluation),
    )


@pytest.mark.parametrize("limit", [20, 200, 500, 1000])
@pytest.mark.parametrize("steps", [100_000, 300_000, 1_000_000])
def test_evaluations_on_the_host_cost_at_most_a_fifth_of_the_training(limit, steps):
    config = configure(on_host(limit), steps=steps)
    segment = config.segment * 2048
    segments = -(-steps // segment)
    evaluations = 1 + -(-segments // config.eval_every)
    assert 3 <= evaluations <= 21
    assert 5 <= config.eval_episodes <= 30
    assert evaluations * config.eval_episodes * limit <= steps / 5
    if steps / limit >= 5 * 21 * 30:
        assert config.eval_episodes == 30


def test_a_short_run_on_the_host_has_three_evaluations_of_five_episodes():
    every, episodes = evaluation_schedule(on_host(200), 8000, None, 1000)
    assert (every, episodes) == (4, 5)


def test_stated_evaluations_are_kept():
    assert evaluation_schedule(on_host(500, episodes=20), 10**6, None) == (52_632, 20)  # 19 after the first
    assert evaluation_schedule(on_host(500), 10**5, 10**4) == (10**4, 5)
    assert evaluation_schedule(on_host(500, episodes=20), 10**5, 10**4) == (10**4, 20)
    assert evaluation_schedule(known_returns(evaluation={"episodes": None}), 10**5, None) == (5000, 30)


def test_evaluations_of_episodes_without_a_known_end_are_twenty():
    class Own(gym.Env):
        observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)

    task = gd.Task(
        Own, contexts={"size": (0, 1)}, target={"size": 1}, set_context=lambda env, size: None, observe_context=False
    )
    assert (task.episode_limit, task.name) == (None, "Own")
    assert evaluation_schedule(task, 10**5, None) == (5000, 30)


@pytest.mark.parametrize(
    ("text", "name", "changed"),
    [
        ("ppo:learning_rate=1e-3", "ppo", {"learning_rate": 1e-3}),
        ("ppo:net=[32, 16]:rollout=50", "ppo", {"net": [32, 16], "rollout": 50}),
    ],
)
def test_a_string_changes_the_tasks_learner(text, name, changed):
    config = configure("maze", learner=text)
    assert config.learner == name
    assert config.learner_options == {**table("maze")["learner"], **changed}


def test_a_string_for_another_algorithm_starts_from_its_defaults():
    config = configure("point-mass", learner="ppo:learning_rate=1e-3")
    assert (config.learner, config.learner_options) == ("ppo", {"learning_rate": 1e-3})
    assert learners.make(config.learner, config.learner_options) == gd.PPO(learning_rate=1e-3)
    kept = configure("point-mass", learner="sac:learning_rate=1e-3")
    assert kept.learner_options == {**table("point-mass")["learner"], "learning_rate": 1e-3}


def test_a_string_changes_a_learner_that_the_task_has_as_an_object():
    config = configure(known_returns(), learner="ppo:gamma=0.5")
    assert learners.make(config.learner, config.learner_options) == gd.PPO(
        n_envs=2, rollout=25, batch_size=50, epochs=1, net=(8,), gamma=0.5
    )


def test_a_task_may_have_its_learner_as_a_string():
    task = known_returns(training={"learner": "ppo:n_envs=4:gamma=0.9"})
    assert (configure(task).learner, configure(task).learner_options) == ("ppo", {"n_envs": 4, "gamma": 0.9})
    changed = configure(task, learner="ppo:gamma=0.5")
    assert changed.learner_options == {"n_envs": 4, "gamma": 0.5}
    assert changed.label == "auto:ppo:gamma=0.5"
    assert configure(task, learner="sac").learner_options == {}
    assert configure(task, learner=gd.PPO(n_envs=3)).learner_options["n_envs"] == 3


def test_an_object_changes_the_values_that_its_caller_has_set():
    text = configure("maze", learner="ppo:learning_rate=1e-3")
    assert configure("maze", learner=gd.PPO(learning_rate=1e-3)).differences(text) == ["label"]
    config = configure("maze", learner=gd.PPO(50, entropy_coef=0.0, net=(32, 16)))
    assert config.learner_options == {**table("maze")["learner"], "rollout": 50, "entropy_coef": 0.0, "net": [32, 16]}
    assert config.label == "auto:ppo"
    assert configure("maze", learner=gd.PPO()) == configure("maze")
    default = configure(known_returns(training={"learner": None}), learner=gd.PPO(n_envs=4))
    assert default.learner_options == {**learners.DEFAULT[1], "n_envs": 4}
    assert default.segment == 2  # of 4 * 128 environment steps


def test_what_was_set_survives_copies():
    learner = gd.SAC(5, learning_rate=1e-3)
    for same in (copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert (same, same.given) == (learner, ("rollout", "learning_rate"))
    assert hash(learner) == hash(gd.SAC(rollout=5, learning_rate=1e-3, tau=0.005))


def test_an_object_of_another_class_replaces_the_tasks_learner():
    config = configure("maze", learner=gd.SAC(batch_size=32))
    assert learners.make(config.learner, config.learner_options) == gd.SAC(batch_size=32)
    assert configure("maze", learner=("ppo", {"gamma": 0.5})).learner_options == {"gamma": 0.5}


def test_a_given_threshold_also_defines_solved():
    assert configure("maze", threshold=-20.0).solved == -20.0
    assert configure("maze").solved == -17.333


def test_a_threshold_may_be_found_during_training():
    stated = configure(known_returns(threshold="auto"))
    assert (stated.threshold, stated.solved, stated.label) == ("auto", None, "auto")
    given = configure("maze", threshold="auto")
    assert (given.threshold, given.solved, given.label) == ("auto", -17.333, "auto:threshold=auto")
    assert isinstance(curriculum_of(load("maze"), given), AutoThreshold)
    fixed = configure(known_returns(threshold="auto"), "gradient", threshold=3.0)
    assert (fixed.threshold, fixed.solved, fixed.label) == (3.0, 3.0, "gradient:threshold=3")
    rates = configure(known_returns(score="success", threshold="auto"))
    assert (rates.threshold, rates.solved) == (0.8, 0.8)


REFUSED = [
    (
        {"task": "nowhere"},
        f"expected task to be one of {', '.join(BUILT_IN)}, module:object, file.py:object; got 'nowhere'",
    ),
    (
        {"task": "mze"},
        f"expected task to be one of {', '.join(BUILT_IN)}, module:object, file.py:object; "
        "got 'mze'; did you mean maze?",
    ),
    ({"task": ""}, "expected a task, its name, module:object or file.py:object, got ''"),
    (
        {"method": "nonsense"},
        f"expected method to be one of {', '.join(REGISTRY)}; got 'nonsense'",
    ),
    ({"method": "gradient:"}, "expected a method as name:option=value, got 'gradient:'"),
    ({"method": 3}, "expected a method as a name, a Curriculum or a function, got 3"),
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
        "expected a method that uses a metric (auto, gradient), got uniform with metric l2",
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
    ({"learner": "ppo:normalize_observations=yes"}, "expected normalize_observations to be a boolean, got 'yes'"),
    (
        {"learner": "sac:clip=0.1"},
        "expected an option of sac (rollout, n_envs, gradient_steps, batch_size, buffer_size, learning_starts, "
        "learning_rate, gamma, tau, net, activation, normalize_observations), got 'clip'",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[str(options) for options, _ in REFUSED])
def test_invalid_arguments_are_refused(options, message):
    with pytest.raises(InvalidInput) as caught:
        configure(**{"task": "maze", **options})
    assert str(caught.value) == message


def test_unknown_names_raise_one_class_of_error():
    for options in ({"method": "magic"}, {"metric": "taxi"}, {"backend": "abacus"}, {"learner": "abacus"}):
        with pytest.raises(UnknownName):
            configure("maze", **options)
    assert list(BACKENDS) == ["jax", "sb3", "sbx"]


def test_a_configuration_survives_json():
    config = configure("point-mass", "spdl", 3, learner="sac:net=[8]")
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert task_of(config) is load("point-mass")
    found = configure(known_returns(threshold="auto"))
    assert (found.to_json()["threshold"], found.to_json()["solved"]) == ("auto", None)
    assert RunConfig.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_tasks_options_become_json_when_they_are_written():
    methods = {"spdl": {"std_lower_bound": (0.2, np.float64(0.1))}, "gradient": {"step": object()}}
    task = known_returns(training={"methods": methods}, worst_return=0.0)
    config = configure(task, "spdl")
    stored = RunConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert stored.options["std_lower_bound"] == [0.2, 0.1]
    assert stored.to_json() == config.to_json()
    with pytest.raises(InvalidInput, match="expected options that can be written to a run's config.json, got <object"):
        configure(task, "gradient").to_json()


def test_a_task_that_was_an_object_cannot_be_found_by_name():
    config = configure(known_returns(name="mine"))
    with pytest.raises(
        InvalidInput, match=r"expected the task 'mine', which was passed as an object .*geodesic.train\(task, ...\)"
    ):
        task_of(config)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("steps", "many", "expected steps to be a positive integer, got 'many'"),
        ("steps", 0, "expected steps to be a positive integer, got 0"),
        ("segment", -1, "expected segment to be a positive integer, got -1"),
        ("threshold", "found", "expected threshold to be a finite number, got 'found'"),
        ("solved", "auto", "expected solved to be a finite number, got 'auto'"),
        ("threshold", None, "expected threshold to be a finite number, got None"),
        ("options", [], "expected options to be Mapping, got list"),
        ("learner_options", 3, "expected learner_options to be Mapping, got int"),
        ("objects", 1, "expected objects to be Mapping, got int"),
        ("objects", {"task": 1}, "expected the values of objects to be a list of names, got [1]"),
    ],
)
def test_a_config_json_with_invalid_values_is_refused(key, value, message):
    values = {**configure("maze").to_json(), key: value}
    with pytest.raises(InvalidInput) as caught:
        RunConfig.from_json(values)
    assert str(caught.value).startswith(f"invalid configuration of a run: {message}")


@pytest.mark.parametrize("changes", [{"contexts": ["row"]}, {"contexts": ["row", "x"]}, {"categories": {"row": ["a"]}}])
def test_a_configuration_with_other_contexts_than_its_task_is_refused(changes):
    """Its tables would have other columns than contexts, or name them wrongly."""
    config = configure("maze")
    assert task_of(config).name == "maze"
    with pytest.raises(InvalidInput, match=r"expected the contexts of maze, \['row', 'column'\], got"):
        task_of(config.replace(**changes))
