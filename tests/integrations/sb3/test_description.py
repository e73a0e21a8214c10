"""Policies of Stable-Baselines3 and SBX as data: equal actions, also of the best one, and what has no description."""

from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import geodesic as gd
from clocks import task
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.integrations.sb3.description import describe
from geodesic.integrations.sb3.models import save_model, save_policy
from geodesic.numpy_policy import load_policy
from geodesic.records.network import Network

torch.set_num_threads(1)
OBSERVATIONS = np.random.default_rng(0).normal(0, 5, (40, 3)).astype(np.float32)
DISCRETE = gym.spaces.Discrete(4, start=1)
CONTINUOUS = gym.spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32))
OFF_POLICY = {"buffer_size": 100, "learning_starts": 10}
SMALL = {"net_arch": [6, 5]}


class Noise(gym.Env):
    """Random observations, whatever the actions."""

    def __init__(self, actions, observed=None):
        self.observation_space = observed or gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = actions

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def model_of(algorithm, actions, normalize=True, observed=None, kind="MlpPolicy", **more):
    env = make_vec_env(lambda: gym.wrappers.TimeLimit(Noise(actions, observed), 10), seed=0)
    env = VecNormalize(env, clip_obs=2.0) if normalize else env
    return algorithm(kind, env, seed=0, **deepcopy({"policy_kwargs": SMALL, **more}))


MODELS = {
    "ppo discrete": (PPO, DISCRETE, {"n_steps": 16, "batch_size": 16}),
    "ppo continuous": (PPO, CONTINUOUS, {"n_steps": 16, "batch_size": 16, "policy_kwargs": {"net_arch": []}}),
    "a2c": (A2C, CONTINUOUS, {"policy_kwargs": {**SMALL, "activation_fn": torch.nn.ELU}}),
    "sac": (SAC, CONTINUOUS, OFF_POLICY),
    "td3": (TD3, CONTINUOUS, OFF_POLICY),
    "dqn": (DQN, gym.spaces.Discrete(4), OFF_POLICY),
}


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(("algorithm", "actions", "options"), MODELS.values(), ids=MODELS)
def test_the_described_network_acts_as_the_model(algorithm, actions, options, normalize):
    model = model_of(algorithm, actions, normalize, **options)
    model.learn(50)
    policy = Network.from_json(describe(model)).policy(save_policy(model))
    check_actions(policy, model)
    kept = save_policy(model)
    assert all((save_model(model)[name] == array).all() for name, array in kept.items())
    assert not [name for name in kept if "optimizer" in name or "buffer" in name or "reward" in name]
    assert not [name for name in kept if "target" in name or ("critic" in name and algorithm in (SAC, TD3))]


def check_actions(policy, model, observations=OBSERVATIONS):
    normalizer = model.get_vec_normalize_env()
    seen = observations if normalizer is None else normalizer.normalize_obs(observations)
    expected = model.predict(seen, deterministic=True)[0]
    np.testing.assert_allclose(policy(observations), expected, atol=1e-5)
    assert policy(observations).dtype == expected.dtype


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_models_of_sbx_are_described(name):
    sbx = pytest.importorskip("sbx")
    options = {"ppo": {"n_steps": 16, "batch_size": 16}, "sac": OFF_POLICY}[name]
    model = model_of(getattr(sbx, name.upper()), CONTINUOUS, **options)
    model.learn(20)
    kept = save_policy(model)
    check_actions(Network.from_json(describe(model)).policy(kept), model)
    assert not [each for each in kept if any(part in each for part in ("opt_state", "vf_state", "qf_state", "target"))]


def test_early_ppo_with_one_network_is_described():
    from geodesic.integrations.sb3.legacy import shared_policy

    model = model_of(PPO, DISCRETE, n_steps=16, batch_size=16, policy_kwargs=shared_policy([6, 5], torch.nn.Tanh))
    check_actions(Network.from_json(describe(model)).policy(save_policy(model)), model)


IMAGE = gym.spaces.Box(0, 255, (36, 36, 3), np.uint8)
PARTS = gym.spaces.Dict({"a": CONTINUOUS, "b": CONTINUOUS})
REFUSED = {
    "images": ({"observed": IMAGE, "kind": "CnnPolicy", "normalize": False}, "images of shape"),
    "parts": ({"observed": PARTS, "kind": "MultiInputPolicy"}, "observations Dict"),
    "activation": ({"policy_kwargs": {**SMALL, "activation_fn": torch.nn.SELU}}, "layers Linear, SELU, Linear"),
    "several actions": ({"actions": gym.spaces.MultiDiscrete([2, 2])}, "actions MultiDiscrete"),
}


@pytest.mark.parametrize(("options", "reason"), REFUSED.values(), ids=REFUSED)
def test_other_policies_are_named(options, reason):
    if "images" in reason:
        pytest.importorskip("torch")
    model = model_of(
        **{"algorithm": A2C, "actions": DISCRETE, **options, "policy_kwargs": options.get("policy_kwargs")}
    )
    assert describe(model).startswith(reason)


def ppo():
    env = VecNormalize(make_vec_env(task().make, n_envs=2))
    return PPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, policy_kwargs={"net_arch": [8]}, seed=0)


def curriculum(out, **more):
    few = task(evaluation=gd.EvaluationSettings(episodes=3))
    return gd.sb3.CurriculumCallback(few, "uniform", out=out, **{"eval_freq": 64, **more})


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """A script's model, its folder, and the model's policies at the evaluations with the returns 1, 9, 5, 0, ..."""
    out, policies = tmp_path_factory.mktemp("run"), []
    model, callback = ppo(), curriculum(out)
    log = gd.training.session.CurriculumSession.log_evaluation
    returns = iter([1.0, 9.0, 5.0, *[0.0] * 99])

    def scripted(session, step, evaluation, policy):
        policies.append(policy)
        given = np.full(3, next(returns))
        log(session, step, type(evaluation)(given, evaluation.successes, given), policy)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("geodesic.training.session.CurriculumSession.log_evaluation", scripted)
        model.learn(320, callback=callback)
    return model, out, policies


def test_the_best_and_the_last_policy_of_a_script_are_loaded_in_another_place(script, tmp_path):
    model, out, policies = script
    result = gd.load(out)
    env_observations = np.random.default_rng(1).normal(5, 3, (30, 2)).astype(np.float32)
    obs = env_observations[:, : model.observation_space.shape[0]]
    check_actions(result.policy(which="last"), model, obs)
    best = result.policy(which="best")
    name = Network.from_json(describe(model)).kernels[0]
    kept = [k for k, policy in enumerate(policies) if (best.arrays["kernel_0"] == policy[name].T).all()]
    assert kept == [2]  # min(5, (1 + 9 + 5) / 3) is the best smoothed evaluation
    result.export(tmp_path / "policy.npz")
    assert (load_policy(tmp_path / "policy.npz")(obs) == best(obs)).all()
    restored = gd.sb3.restore(ppo(), out)
    check_actions(best, restored, obs)
    restored.save(tmp_path / "policy.zip")
    assert (
        PPO.load(tmp_path / "policy.zip").policy.state_dict()["action_net.bias"].numpy() == best.arrays["bias_1"]
    ).all()
    last = gd.sb3.restore(ppo(), out, which="last")
    assert (last.get_vec_normalize_env().obs_rms.mean == model.get_vec_normalize_env().obs_rms.mean).all()


def test_a_model_of_another_kind_is_refused(script, tmp_path):
    _, out, _ = script
    other = PPO("MlpPolicy", make_vec_env(task().make), n_steps=16, batch_size=16, policy_kwargs={"net_arch": [9]})
    before = save_model(other)
    with pytest.raises(CheckpointError, match="with these spaces and sizes, got"):
        gd.sb3.restore(other, out)
    assert before.keys() == save_model(other).keys()
    with pytest.raises(InvalidInput, match="to be a run folder with a config.json, found none"):
        gd.sb3.restore(other, tmp_path)


def test_the_best_policy_of_a_killed_script_is_kept(script, tmp_path):
    """Resumed by the same script, whose evaluations are worse."""
    model, callback = ppo(), curriculum(tmp_path)
    model.learn(64, callback=callback)
    (tmp_path / "summary.json").unlink(missing_ok=True)
    first = gd.load(tmp_path).policy()
    log = gd.training.session.CurriculumSession.log_evaluation

    def worse(session, step, evaluation, policy):
        log(session, step, type(evaluation)(*(values - 100 for values in vars(evaluation).values())), policy)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("geodesic.training.session.CurriculumSession.log_evaluation", worse)
        ppo().learn(320, callback=curriculum(tmp_path))
    best, last = (gd.load(tmp_path).policy(which=which) for which in ("best", "last"))
    assert (best.arrays["kernel_0"] == first.arrays["kernel_0"]).all()
    assert (last.arrays["kernel_0"] != first.arrays["kernel_0"]).any()


def test_scripts_that_never_evaluate_have_a_last_policy_only(tmp_path):
    model = ppo()
    model.learn(64, callback=curriculum(tmp_path, eval_freq=0))
    result = gd.load(tmp_path)
    with pytest.raises(InvalidInput, match=r"expected a run that was evaluated on the target, .*; try which='last'"):
        result.policy()
    assert result.policy(which="last").about["step"] == 64
    with pytest.raises(InvalidInput, match=r"got one of a script, which makes its model; try gd.sb3.restore\(model"):
        result.export(tmp_path / "policy.zip", which="last")
    with pytest.raises(InvalidInput, match="expected a run of geodesic.train, got one of another training loop"):
        result.policy(which="last", stochastic=True)


def test_runs_of_the_backend_are_saved_as_their_library_saves_models(tmp_path):
    learner = gd.PPO(n_envs=2, rollout=16, batch_size=16, epochs=1, net=(8,), normalize_observations=True)
    result = gd.train(task(), "uniform", learner=learner, steps=64, out=tmp_path, backend="sb3")
    written = result.export(tmp_path / "policy.zip")
    assert [path.name for path in written] == ["policy.zip", "policy_vecnormalize.pkl"]
    env = VecNormalize.load(written[1], make_vec_env(result.task.make))
    model = PPO.load(written[0], env=env)
    obs = np.random.default_rng(1).normal(5, 3, (30, *env.observation_space.shape)).astype(np.float32)
    check_actions(result.policy(), model, obs)
