"""The callback for Stable-Baselines3: episodes, stages, evaluations, checkpoints, and what it refuses."""

import sys
from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers import FlattenObservation
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.callbacks import StopTrainingOnMaxEpisodes
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import geodesic as gd
from clocks import Clock, particles, set_rings, task
from geodesic.errors import CheckpointError, InvalidInput, MissingExtra
from geodesic.integrations.sb3.evaluation import Evaluator
from geodesic.records import load_comparison, load_run
from mixed_walk import mixed_walk

torch.set_num_threads(1)
SMALL = {"net_arch": [8]}
QUICK = "gradient:step=0.5:window=5"


def ppo(n_envs=2, env=None, **more):
    env = make_vec_env(task().make, n_envs=n_envs) if env is None else env
    return PPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, policy_kwargs=SMALL, seed=0, **more)


def dqn(n_envs=2, env=None, **more):
    env = make_vec_env(task().make, n_envs=n_envs) if env is None else env
    return DQN("MlpPolicy", env, learning_starts=50, buffer_size=1000, policy_kwargs=SMALL, seed=0, **more)


def a2c(n_envs=2):
    return A2C("MlpPolicy", make_vec_env(task().make, n_envs=n_envs), n_steps=4, policy_kwargs=SMALL, seed=0)


def few_evaluations(**more):
    return task(evaluation=gd.EvaluationSettings(episodes=3), **more)


def callback(out=None, **more):
    more = {"eval_freq": 100, "save_every": 0.0, **more}
    return gd.sb3.CurriculumCallback(more.pop("task", few_evaluations()), QUICK, out=out, **more)


class Recorder(KVWriter):
    """Keeps everything that a model logs."""

    def __init__(self):
        self.seen = {}

    def write(self, key_values, key_excluded, step=0):
        for key, value in key_values.items():
            self.seen.setdefault(key, []).append(value)

    def close(self):
        pass


@pytest.mark.parametrize(("make", "n_envs"), [(ppo, 1), (ppo, 3), (dqn, 1), (dqn, 3)])
def test_every_episode_is_recorded_once_with_the_context_and_stage_in_which_it_began(tmp_path, make, n_envs):
    model, curriculum = make(n_envs), callback(tmp_path)
    model.learn(400, callback=curriculum)
    run = load_run(tmp_path)
    assert run.finished
    assert run.config.backend == "sb3"
    contexts, stages = run.episodes.contexts[:, 0], run.episodes.stages
    assert (np.round(contexts) == run.episodes.lengths).all()  # an episode lasts as long as its context says
    assert (run.episodes.returns == run.episodes.lengths).all()
    assert (np.diff(run.episodes.steps) > 0).all()
    assert run.stages.alphas.tolist() == [0.0, 0.5, 1.0]
    for stage in run.curriculum:
        own = contexts[stages == stage.stage]
        assert len(own)
        assert set(own) <= set(stage.particles.points[:, 0])
    late = run.stages.steps[stages] - (run.episodes.steps - run.episodes.lengths * n_envs)
    assert (late < n_envs).all()  # no episode began before its stage
    assert model.num_timesteps - 5 * n_envs <= run.episodes.lengths.sum() <= model.num_timesteps  # none is missing
    assert [step // 100 for step in run.evaluations.steps[:5]] == [0, 1, 2, 3, 4]
    assert run.evaluations.steps[-1] == model.num_timesteps
    assert (run.evaluations.returns == 5.0).all()  # the target's length
    assert (curriculum.stage, curriculum.alpha) == (2, 1.0)


@pytest.mark.parametrize("make", [ppo, a2c])
def test_value_losses_are_the_means_of_the_advantages_of_an_episode(make):
    """Summed by hand from the buffers of all rollouts; an episode of the clock lasts longer than a rollout of A2C."""
    seen, advantages, dones = [], [], []
    model = make(n_envs=2)
    kept = gd.sb3.CurriculumCallback(few_evaluations(), "plr:buffer=8", eval_freq=0, verbose=0)
    after = kept._on_rollout_end

    def end():
        advantages.append(model.rollout_buffer.advantages.copy())
        after()

    kept._on_rollout_end = end
    kept._on_training_start, begin = lambda: (begin(), watch()), kept._on_training_start

    def watch():
        observe = kept.session.observe
        kept.session.observe = lambda batch, *rest: (seen.append(batch), observe(batch, *rest))[1]
        step = kept._collector.step
        kept._collector.step = lambda *given: (dones.append(np.array(given[2])), step(*given))[1]

    model.learn(320, callback=kept)
    found = [loss for batch in seen for loss in batch.value_losses("l1")] if seen else []
    sums, expected = np.zeros((2, 2)), []
    for each, over in zip(np.concatenate(advantages), dones):
        sums += np.stack([np.abs(each), np.ones(2)], axis=1)
        for place in np.flatnonzero(over):
            expected.append(sums[place, 0] / sums[place, 1])
            sums[place] = 0
    assert len(expected) > 20
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_algorithm_without_advantages_is_refused_for_methods_that_need_them(tmp_path):
    kept = gd.sb3.CurriculumCallback(few_evaluations(), "plr", out=tmp_path / "run")
    with pytest.raises(InvalidInput, match="expected an on-policy algorithm for this method, .* got DQN; try PPO"):
        dqn().learn(100, callback=kept)


def test_stages_are_logged():
    recorder, model = Recorder(), ppo()
    model.set_logger(Logger(None, [recorder]))
    model.learn(400, callback=callback())
    assert recorder.seen["curriculum/alpha"] == sorted(recorder.seen["curriculum/alpha"])
    assert recorder.seen["curriculum/alpha"][-1] == 1.0
    assert recorder.seen["curriculum/stage"][-1] == 2
    assert recorder.seen["curriculum/distance"][0] > 0.0
    assert recorder.seen["curriculum/distance"][-1] == 0.0
    assert max(recorder.seen["curriculum/episodes"]) > 5
    assert set(recorder.seen["curriculum/target"]) == {5.0}


def test_the_same_seed_gives_the_same_episodes(tmp_path):
    for name in ("one", "two"):
        ppo().learn(200, callback=callback(tmp_path / name))
    ppo().learn(200, callback=callback(tmp_path / "other", seed=1))
    one, two, other = ((tmp_path / name / "episodes.csv").read_bytes() for name in ("one", "two", "other"))
    assert one == two != other


@pytest.mark.parametrize("make", [ppo, dqn])
def test_an_interrupted_run_resumes_with_the_same_model(tmp_path, make):
    first = make(env=VecNormalize(make_vec_env(task().make, n_envs=2)))
    first.learn(400, callback=[callback(tmp_path), StopTrainingOnMaxEpisodes(8)])
    assert not load_run(tmp_path).finished
    steps, stage = first.num_timesteps, load_run(tmp_path).stages.stages[-1]
    assert 0 < steps < 400

    second = make(env=VecNormalize(make_vec_env(task().make, n_envs=2)))
    seen = {}

    class Recording(gd.sb3.CurriculumCallback):
        def _on_training_start(self):
            super()._on_training_start()
            seen.update(step=self.model.num_timesteps, stage=self.stage)
            seen["weights"] = deepcopy(self.model.get_parameters())
            seen["moments"] = self.model.get_vec_normalize_env().obs_rms.mean.copy()
            seen["updates"] = self.model._n_updates
            if make is dqn:
                seen["buffer"] = self.model.replay_buffer.observations[: self.model.replay_buffer.pos].copy()

    recording = Recording(few_evaluations(), QUICK, out=tmp_path, eval_freq=100, save_every=0.0)
    second.learn(400, callback=recording)
    assert (seen["step"], seen["stage"]) == (steps, stage)
    assert seen["updates"] == first._n_updates
    for name, values in first.get_parameters()["policy"].items():
        torch.testing.assert_close(seen["weights"]["policy"][name], values, msg=name)
    gap = np.abs(seen["moments"] - first.get_vec_normalize_env().obs_rms.mean)
    assert gap.max() < 0.2  # the observations of a reset were added
    if make is dqn:
        np.testing.assert_array_equal(seen["buffer"], first.replay_buffer.observations[: first.replay_buffer.pos])
    run = load_run(tmp_path)
    assert run.finished
    assert second.num_timesteps >= 400
    assert run.evaluations.steps.tolist() == sorted(set(run.evaluations.steps.tolist()))
    assert len(run.stages.stages) == len(set(run.stages.stages)) == 3


def test_a_finished_run_is_kept_and_can_be_extended(tmp_path):
    ppo().learn(96, callback=callback(tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.csv")}
    again = ppo()
    again.learn(96, callback=callback(tmp_path))
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.csv")} == before
    again.learn(128, callback=callback(tmp_path))
    run = load_run(tmp_path)
    assert run.finished
    assert run.steps == again.num_timesteps == 128
    assert (tmp_path / "episodes.csv").read_bytes().startswith(before["episodes.csv"])


def test_a_resumed_script_says_where_it_resumes(tmp_path, capsys):
    ppo().learn(64, callback=callback(tmp_path))
    assert capsys.readouterr().out == ""
    ppo().learn(96, callback=callback(tmp_path))
    assert capsys.readouterr().out == f"Resuming at step 64 of 96, stage 2 from {tmp_path}\n"
    ppo().learn(128, callback=callback(tmp_path, verbose=0))
    assert capsys.readouterr().out == ""


def test_several_calls_of_learn_are_one_run(tmp_path):
    model, curriculum = ppo(), callback(tmp_path)
    model.learn(64, callback=curriculum)
    model.learn(64, callback=curriculum, reset_num_timesteps=False)
    run = load_run(tmp_path)
    assert run.finished
    assert run.steps == 128
    with pytest.raises(InvalidInput, match="reset_num_timesteps=False"):
        model.learn(64, callback=curriculum)


def test_a_replay_buffer_and_running_moments_are_kept_when_a_stage_ends():
    model = dqn(env=VecNormalize(make_vec_env(task().make, n_envs=2)))
    sizes, counts = [], []

    class Recording(gd.sb3.CurriculumCallback):
        def _enter(self):
            super()._enter()
            sizes.append(self.model.replay_buffer.pos)
            counts.append(self.model.get_vec_normalize_env().obs_rms.count)

    model.learn(300, callback=Recording(task(), QUICK, eval_freq=0))
    assert len(sizes) == 3
    assert 0 == sizes[0] < sizes[1] < sizes[2]
    assert counts[0] < counts[1] < counts[2]
    assert model.replay_buffer.pos * 2 == model.num_timesteps


def test_evaluations_normalise_observations_as_training_does():
    env = VecNormalize(make_vec_env(task(observe_context=False).make, n_envs=1))
    model = ppo(env=env)
    env.obs_rms.mean[:], env.obs_rms.var[:] = 3.0, 4.0
    seen = []

    def predict(obs, state, starts, deterministic):
        seen.append((obs.copy(), deterministic))
        return np.zeros(len(obs), int), state

    model.predict = predict
    found = Evaluator(task(observe_context=False), 2, "stochastic").evaluate(model, 0, 0)
    assert [obs[0, 0] for obs, _ in seen] == pytest.approx([(time - 3) / 2 for time in range(5)], abs=1e-5)
    assert {deterministic for _, deterministic in seen} == {False}
    assert found.returns.tolist() == [5.0, 5.0]
    assert env.obs_rms.mean == 3.0


@pytest.mark.parametrize("score", ["success", "discounted_return"])
def test_the_curriculum_uses_the_tasks_score(tmp_path, score):
    class Winning(Clock):
        def step(self, action):
            *rest, info = super().step(action)
            return *rest, {**info, "is_success": self.time >= self.due}

    facts = {"source": particles(2, 3), "target": particles(5), "set_context": set_rings, "threshold": 0.9}
    settings = {"score": score, "discount": 0.5, "evaluation": gd.EvaluationSettings(episodes=2)}
    own = gd.Task(Winning, {"rings": (1.0, 9.0)}, **facts, **settings)
    env = VecNormalize(make_vec_env(own.make, n_envs=2))  # rewards are scaled; scores are not
    ppo(env=env).learn(64, callback=callback(tmp_path, task=own))
    run = load_run(tmp_path)
    discounted = 2 - 2.0 ** (1 - run.episodes.lengths)
    expected = np.ones(len(run.episodes.lengths)) if score == "success" else discounted
    np.testing.assert_allclose(run.episodes.scores, expected)
    assert run.evaluations.scores[0] == pytest.approx(1.0 if score == "success" else 2 - 2.0**-4)


def test_tables_and_figures_read_its_folders(tmp_path):
    from geodesic.report.figures import write_comparison_figures, write_run_figures

    for seed in (0, 1):
        ppo().learn(128, callback=callback(tmp_path / "runs" / "gradient" / f"seed-{seed}", seed=seed))
    assert [run.seed for run in load_comparison(tmp_path)] == [0, 1]
    figures = [
        *write_comparison_figures(tmp_path, task()),
        *write_run_figures(tmp_path / "runs/gradient/seed-0", task()),
    ]
    assert figures
    assert all(path.exists() for path in figures)


# --- errors -----------------------------------------------------------------------------------------------------------


def other_contexts():
    return gd.ContextWrapper(Clock(), {"minutes": (1.0, 9.0)}, lambda env, minutes: None)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (lambda: make_vec_env(Clock), r"environments that take contexts, got others; try make_vec_env\(task.make"),
        (lambda: make_vec_env(other_contexts), "with the task's contexts rings, got minutes; try make_vec_env"),
        (
            lambda: DummyVecEnv([task().make]),
            r"expected info\['episode'\] at an episode's end, got none; try",
        ),
    ],
)
def test_unsuitable_environments_are_refused_with_a_hint(tmp_path, env, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        ppo(env=env()).learn(64, callback=callback(tmp_path))
    assert "\n" not in str(caught.value)
    ppo().learn(32, callback=callback(tmp_path / "next"))  # a refused call has no effect on later ones


def test_a_model_of_other_observations_is_refused_with_a_hint():
    stacked = make_vec_env(
        lambda: gym.wrappers.FrameStackObservation(task().make(), 2), wrapper_class=FlattenObservation
    )
    with pytest.raises(InvalidInput, match="observations that task.make.. gives.*try eval_freq=0"):
        ppo(env=stacked).learn(32, callback=callback())
    ppo(env=stacked).learn(32, callback=callback(eval_freq=0))


def test_a_folder_of_another_run_is_refused(tmp_path):
    ppo().learn(32, callback=callback(tmp_path))
    for other in (callback(tmp_path, seed=1), callback(tmp_path, threshold=2.0)):
        with pytest.raises(InvalidInput, match=r"holds another run \(it differs in .*\); try another out="):
            ppo().learn(64, callback=other)
    with pytest.raises(InvalidInput, match="holds another run"):
        A2C("MlpPolicy", make_vec_env(task().make)).learn(64, callback=callback(tmp_path))


def test_a_model_of_other_sizes_is_refused(tmp_path):
    ppo().learn(32, callback=callback(tmp_path))
    unseen = make_vec_env(task(observe_context=False).make, n_envs=2)
    with pytest.raises(CheckpointError, match="with these spaces and sizes"):
        ppo(env=unseen).learn(64, callback=callback(tmp_path, eval_freq=0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eval_freq": -1}, r"expected eval_freq \(0: never\) to be an integer of at least 0, got -1"),
        ({"save_every": -1.0}, "expected save_every to be non-negative, got -1.0"),
        ({"seed": -1}, "expected seed"),
        ({"task": "nowhere"}, "nowhere"),
    ],
)
def test_arguments_are_validated_before_training(options, message):
    with pytest.raises(InvalidInput, match=message):
        callback(**options)


def test_the_state_cannot_be_read_before_training():
    with pytest.raises(InvalidInput, match="before reading the curriculum's state"):
        _ = callback().stage


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    for name in [name for name in sys.modules if name.startswith("geodesic.integrations.sb3")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtra, match=r"not installed; try: pip install 'geodesic-rl\[sb3\]'"):
        _ = gd.sb3


def test_contexts_with_integers_and_categories(tmp_path):
    task = mixed_walk(evaluation=gd.EvaluationSettings(episodes=3))
    model = ppo(env=make_vec_env(task.make, n_envs=2))
    model.learn(300, callback=callback(tmp_path, task=task))
    run = load_run(tmp_path)
    assert run.finished
    assert task.space.contains(run.episodes.contexts).all()
    assert run.categories == {"steering": ["straight", "mirrored", "slow"]}
    other = mixed_walk(contexts={**task.contexts, "steering": ["slow", "mirrored", "straight"]})
    with pytest.raises(InvalidInput, match="expected environments with the task's contexts place, steering, cost"):
        ppo(env=make_vec_env(other.make, n_envs=2)).learn(300, callback=callback(task=task))
