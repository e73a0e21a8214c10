"""The trainer of environments on the host: our learners on any Gymnasium environment, such as MuJoCo's.

Runs train in lock-step, in groups: while the device learns for one group, the environments of the others are stepped in
threads. The runs of a group share one mapped update. A run's numbers do not depend on the threads.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import gymnasium as gym
import jax
import numpy as np
from numpy.typing import NDArray

from geodesic.checks import MOST, explain_errors
from geodesic.contexts import Array, Arrays, FloatArray, Particles
from geodesic.errors import CheckpointError, RunFailed, RunWarning
from geodesic.learners.base import Learner
from geodesic.records import RunConfig, checkpoint
from geodesic.records.archive import Header, Headers
from geodesic.tasks import Task
from geodesic.training.agents import Agents, AgentState, as_policy, keys_of, load_states, refuse_images, split_states
from geodesic.training.collector import EpisodeCollector, ErrorSums
from geodesic.training.env_runner import COUNTS, LIMIT, EnvRunner, EnvThreads, as_vector_env
from geodesic.training.policy_part import PolicyPart
from geodesic.training.trainer import Evaluation, Policy, SegmentResult, Trainer
from geodesic.training.validate_checkpoint import check_episode

AGENT, RUNNER = "device", "env/"  # prefixes of a checkpoint's arrays
ERRORS = "errors"  # the sums of value errors over the running episodes
EVALUATION = 0x6576616C  # sets the episodes of evaluations apart from those of training


class HostTrainer(Trainer):
    """Runs that share environment, learner and counts (see `Trainer`)."""

    unchecked = RUNNER

    def __init__(self, task: Task, learner: Learner, config: RunConfig, value_errors: bool = False) -> None:
        self.task = task
        self.learner = learner
        self.segment_steps = config.segment * learner.rollout * learner.n_envs
        self.eval_episodes = config.eval_episodes
        self.stochastic = config.eval_policy == "stochastic"  # in evaluations
        env = task.make()
        refuse_images(learner, env.observation_space)
        env = as_vector_env(env)
        self.agents = Agents(learner, env.observation_space, env.action_space, value_errors)
        self._policy = PolicyPart(f"{AGENT}.learner", learner, self.agents.like.learner, *self.agents.spaces)
        self.description = self._policy.description
        self._name = str(env.unwrapped)
        env.close()  # type: ignore[no-untyped-call]

    def prepare(self, runs: int) -> None:
        """Threads for the environments, and groups of runs.

        An accelerator updates many runs in about the time of one. Where environments have to wait for a core there are
        two groups, so that accelerator and cores can work at the same time. On a CPU that gains nothing, and each run
        is a separate group: its numbers are then the same to the last bit whatever else trains.
        """
        envs, cores = runs * self.learner.n_envs, len(os.sched_getaffinity(0))
        self.threads = EnvThreads(min(cores, envs))
        together = runs if envs <= cores else (runs + 1) // 2
        self._size = 1 if jax.default_backend() == "cpu" else together  # of a group
        self._parts = [slice(first, first + self._size) for first in range(0, runs, self._size)]

    def begin(self, seeds: Sequence[int], distributions: Sequence[Particles]) -> None:
        """Create fresh agents, on the first stages."""
        self._groups = [Group(self, seeds[own], distributions[own], [0] * len(seeds[own])) for own in self._parts]

    def shapes(self) -> Headers:
        """Names, types and shapes of what `save` gives for one run."""
        n, dim = self.learner.n_envs, self.task.space.dim
        counts, context = Header(np.dtype(np.float64), (len(COUNTS),)), Header(np.dtype(np.float64), (dim,))
        return {
            **checkpoint.shapes(AGENT, self.agents.like),
            "seed": Header(np.dtype(np.int64), ()),
            "obs": Header(np.dtype(np.float32), (n, self.agents.n_obs)),
            **({ERRORS: Header(np.dtype(np.float64), (n, 2))} if self.agents.value_errors else {}),
            **{f"{RUNNER}{env}/counts": counts for env in range(n)},
            **{f"{RUNNER}{env}/context": context for env in range(n)},
        }

    def restore(
        self, arrays: Sequence[Arrays], distributions: Sequence[Particles], stages: Sequence[int], step: int
    ) -> None:
        """Restore agents and environments from what `save` gave."""
        seeds = [int(own["seed"]) for own in arrays]
        if not all(0 <= seed <= MOST for seed in seeds):
            raise CheckpointError("damaged checkpoint: its seed is out of range")
        self._groups = [Group(self, seeds[own], distributions[own], stages[own], arrays[own]) for own in self._parts]
        if any(runner.length > step // self.learner.n_envs for group in self._groups for runner in group.runners):
            raise CheckpointError("damaged checkpoint: a running episode has impossible numbers")
        if not all(group.unbroken for group in self._groups):
            warnings.warn(
                f"the state of {self._name} cannot be saved: its unfinished episodes start over, so this run will "
                "differ from an uninterrupted one (give it save_state() and restore_state(arrays) to change that)",
                RunWarning,
                stacklevel=2,
            )

    def save(self) -> list[Arrays]:
        """Everything that decides the rest of each run, as named arrays."""
        return [arrays for group in self._groups for arrays in group.save()]

    def save_policies(self) -> list[Arrays]:
        """Those of the arrays of `save` that the actions of each run depend on."""
        return [arrays for group in self._groups for arrays in self._policy.save(group.state.learner)]

    def enter(self, run: int, distribution: Particles, stage: int) -> None:
        """Draw the contexts of this run's next episodes from here."""
        group, place = self._groups[run // self._size], run % self._size
        group.distributions[place], group.stages[place] = distribution, stage

    def finish_segment(self, before: int) -> list[SegmentResult | None]:
        """Wait for the segment; None for a run that diverged."""
        first = before // self.learner.n_envs
        end = first + self.segment_steps // self.learner.n_envs
        for group in self._groups:
            group.select_actions(first)
        for time in range(first, end):
            for group in self._groups:
                group.step_envs(time)
            for group in self._groups:
                group.update(time, last=time + 1 == end)
        return [result for group in self._groups for result in group.results(end)]

    def evaluate(self, seeds: Sequence[int], step: int) -> list[Evaluation]:
        """Evaluate each run's policy on the target."""
        return [evaluation for group in self._groups for evaluation in group.evaluate(step)]

    def evaluate_contexts(self, arrays: Arrays, contexts: FloatArray, seed: int) -> Evaluation:
        """Play the agent in a checkpoint of one run, an episode in each of the contexts (n, d), one after another."""
        act = self.policy(arrays, self.stochastic, seed)
        collector = EpisodeCollector(self.task.space.dim)
        runner = EnvRunner(self.task, [EVALUATION, seed], collector)
        for number, context in enumerate(np.asarray(contexts)):
            obs, over = runner.begin(Particles(context[None]), 0), False
            while not over:
                action = as_given(act(obs)[None, None], self.agents.spaces[1])[0]
                step = runner.step(action, number, number)
                obs, over = step.obs, step.terminated or step.truncated
        runner.env.close()  # type: ignore[no-untyped-call]
        return evaluation_of(collector)

    def policy(self, arrays: Arrays, stochastic: bool = False, seed: int = 0) -> Policy:
        """The agent in a checkpoint of one run."""
        state: AgentState = checkpoint.unflatten(AGENT, self.agents.like, arrays)
        return as_policy(self.learner, state.learner, self.agents.spaces[1], stochastic, seed)


class Group:
    """Runs that share one mapped update. Environments are numbered run by run: run r has r * n_envs and following."""

    def __init__(
        self,
        trainer: HostTrainer,
        seeds: Sequence[int],
        distributions: Sequence[Particles],
        stages: Sequence[int],
        saved: Sequence[Arrays] = (),
    ) -> None:
        self.trainer = trainer
        self.seeds, self.distributions, self.stages = list(seeds), list(distributions), list(stages)
        self.n = trainer.learner.n_envs
        self.collectors = [EpisodeCollector(trainer.task.space.dim) for _ in seeds]
        pairs = list(zip(seeds, self.collectors))
        self.runners = [EnvRunner(trainer.task, (seed, env), own) for seed, own in pairs for env in range(self.n)]
        self.obs = np.zeros((len(seeds), self.n, trainer.agents.n_obs), np.float32)
        self.rows = np.zeros((len(seeds), trainer.learner.rollout, self.n, trainer.agents.width), np.float32)
        self.metrics: list[dict[str, Any]] = []  # of the updates since the last results, still on the device
        self.errors: list[tuple[Any, NDArray[np.bool_]]] = []  # likewise, with which steps ended an episode
        self.sums = [ErrorSums(self.n) for _ in seeds]
        self._evaluators: list[EnvRunner] = []
        self._stepping: list[Future[None]] = []
        self.unbroken = True  # whether all episodes that were running when saved could be continued
        if saved:
            self._restore(saved)
        else:
            self.state = trainer.agents.init(keys_of(self.seeds))
            self._for_all(self._begin_episode, range(len(self.runners)))

    def _begin_episode(self, place: int) -> None:
        run, env = divmod(place, self.n)
        self.obs[run, env] = self.runners[place].begin(self.distributions[run], self.stages[run])

    def select_actions(self, time: int) -> None:
        """Start choosing the actions of this time on the device; the call does not wait for them."""
        self._actions = self.trainer.agents.act(self.state, self.obs.copy(), time)

    def step_envs(self, time: int) -> None:
        """Wait for the actions and start stepping the environments with them."""
        actions, stored = jax.device_get(self._actions)
        given = as_given(actions, self.trainer.agents.spaces[1])
        n_obs = self.trainer.agents.n_obs
        rows = self.rows[:, time % self.trainer.learner.rollout]
        rows[..., :n_obs] = self.obs
        rows[..., 2 * n_obs : -3] = stored.reshape(*rows.shape[:2], -1)

        def one(place: int) -> None:
            run, env = divmod(place, self.n)
            own = rows[run, env]
            step = self.runners[place].step(given[place], time, time * self.n + env + 1)
            own[n_obs : 2 * n_obs] = step.obs
            own[-3:] = step.reward, step.terminated, step.truncated
            if step.terminated or step.truncated:
                self._begin_episode(place)
            else:
                self.obs[run, env] = step.obs

        self._start(one, range(len(self.runners)))

    def update(self, time: int, last: bool) -> None:
        """Wait for the environments, learn where a rollout is complete, and start choosing the next actions."""
        self._wait()
        agents = self.trainer.agents
        if (time + 1) % self.trainer.learner.rollout:
            self.select_actions(time + 1)
        elif last:
            self.state, metrics, errors = agents.update(self.state, self.rows.copy(), time)
            self._keep(metrics, errors)
        else:  # copies: the device may read what it is given after the call has returned
            self.state, metrics, errors, self._actions = agents.update_and_act(
                self.state, self.rows.copy(), self.obs.copy(), time
            )
            self._keep(metrics, errors)

    def _keep(self, metrics: dict[str, Any], errors: Any) -> None:
        """Keep what an update gave until the results are needed."""
        self.metrics.append(metrics)
        if self.trainer.agents.value_errors:
            self.errors.append((errors, np.asarray((self.rows[..., -2:] > 0).any(axis=-1))))

    def results(self, end: int) -> list[SegmentResult | None]:
        """What ended in each run since the last time; end: the time of the next step."""
        finite, updates = jax.device_get((self.trainer.agents.finite(self.state), self.metrics))
        self.metrics = []
        errors = self._episode_errors()
        metrics = {name: np.mean([update[name] for update in updates], axis=0) for name in (updates or [{}])[0]}
        found: list[SegmentResult | None] = []
        for run, collector in enumerate(self.collectors):
            episodes = collector.batch()
            if errors and finite[run] and episodes is not None:
                episodes = episodes.with_value_errors(errors[run])
            earliest = end - max(runner.length for runner in self.runners[run * self.n : (run + 1) * self.n])
            own = {name: float(values[run]) for name, values in metrics.items()}
            found.append(SegmentResult(episodes, earliest, own) if finite[run] and episodes is not None else None)
        return found

    def _episode_errors(self) -> list[FloatArray]:
        """The sums of value errors (n, 2) of each run's episodes, in the order in which they ended; [] if not kept."""
        kept, self.errors = self.errors, []
        if not self.trainer.agents.value_errors:
            return []
        errors, ended = (np.concatenate(parts, axis=1) for parts in zip(*jax.device_get(kept)))
        return [sums.add(*own) for sums, *own in zip(self.sums, errors, ended)]

    def evaluate(self, step: int) -> list[Evaluation]:
        """Evaluate each run's policy on the target, in as many separate environments as it trains in.

        An episode is determined by the run's seed, the step and its number, whichever environment it is in.
        """
        count, target = self.trainer.eval_episodes, self.trainer.task.evaluation_particles
        lanes = min(self.n, count)
        collectors = [EpisodeCollector(self.trainer.task.space.dim) for _ in self.seeds]
        self._evaluators = self._evaluators or [
            EnvRunner(self.trainer.task, (), collector) for collector in collectors for _ in range(lanes)
        ]
        obs = np.zeros((len(self.seeds), lanes, self.obs.shape[-1]), np.float32)
        running = set(range(len(self._evaluators)))

        def begin(place: int, number: int) -> None:
            run, lane = divmod(place, lanes)
            runner = self._evaluators[place]
            runner.entropy, runner.episode = [EVALUATION, self.seeds[run], step], number - 1
            runner.collector = collectors[run]
            obs[run, lane] = runner.begin(target, 0)

        def one(place: int, actions: Array) -> None:
            runner = self._evaluators[place]
            made = runner.step(actions[place], runner.episode, runner.episode)
            if not (made.terminated or made.truncated):
                obs[divmod(place, lanes)] = made.obs
            elif runner.episode + lanes < count:
                begin(place, runner.episode + lanes)
            else:
                running.discard(place)

        self._for_all(lambda place: begin(place, place % lanes), sorted(running))
        time = (EVALUATION ^ step) % 2**31
        while running:
            actions = as_given(jax.device_get(self._evaluated_actions(obs, time)), self.trainer.agents.spaces[1])
            self._for_all(partial(one, actions=actions), sorted(running))
            time += 1
        return [evaluation_of(collector) for collector in collectors]

    def _evaluated_actions(self, obs: NDArray[np.float32], time: int) -> Any:
        if self.trainer.stochastic:
            return self.trainer.agents.act(self.state, obs.copy(), time)[0]
        return self.trainer.agents.best(self.state, obs.copy())

    def save(self) -> list[Arrays]:
        """The state of each run, as named arrays."""
        return [self._saved(run, agent) for run, agent in enumerate(split_states(self.state))]

    def _saved(self, run: int, agent: AgentState) -> Arrays:
        arrays = {**checkpoint.flatten(AGENT, agent), "seed": np.int64(self.seeds[run]), "obs": self.obs[run].copy()}
        if self.trainer.agents.value_errors:
            arrays[ERRORS] = self.sums[run].running.copy()
        for env in range(self.n):
            own = self.runners[run * self.n + env].save()
            arrays |= {f"{RUNNER}{env}/{name}": value for name, value in own.items()}
        return arrays

    def _restore(self, saved: Sequence[Arrays]) -> None:
        """Continue from what `save` gave, with new episodes where the running ones could not be saved."""
        self.state = load_states(self.trainer.learner, AGENT, self.trainer.agents.like, saved)
        if self.trainer.agents.value_errors:
            self.sums = [ErrorSums(self.n, own[ERRORS]) for own in saved]
        for place, runner in enumerate(self.runners):
            run, env = divmod(place, self.n)
            prefix = f"{RUNNER}{env}/"
            own = {k.removeprefix(prefix): v for k, v in saved[run].items() if k.startswith(prefix)}
            try:
                kept = runner.restore(own)
                check_episode(
                    self.stages[run], LIMIT, runner.length, runner.stage,
                    saved[run]["obs"][env], runner.context, runner.total, runner.discounted,
                )  # fmt: skip
                self.obs[run, env] = saved[run]["obs"][env]
            except (KeyError, IndexError, ValueError, TypeError, OverflowError) as error:
                raise CheckpointError(f"the checkpoint belongs to another run: environment {env}: {error}") from error
            if not kept:
                self.unbroken = False
                self.sums[run].running[env] = 0.0
                self._begin_episode(place)

    def _for_all(self, work: Callable[[int], None], places: Sequence[int]) -> None:
        self._start(work, places)
        self._wait()

    def _start(self, work: Callable[[int], None], places: Sequence[int]) -> None:
        with self._explained():
            self._stepping = self.trainer.threads.start(work, places)

    def _wait(self) -> None:
        stepping, self._stepping = self._stepping, []
        with self._explained():
            for future in stepping:
                future.result()

    def _explained(self) -> AbstractContextManager[None]:
        return explain_errors(f"the environment of {self.trainer.task.name} failed: ", RunFailed)


def as_given(actions: Array, space: gym.Space[Any]) -> Array:
    """Actions (runs, n, ...) of all environments in a row, in the type that the action space has."""
    flat = actions.reshape(-1, *actions.shape[2:])
    return flat + int(space.start) if isinstance(space, gym.spaces.Discrete) else flat.astype(space.dtype)


def evaluation_of(collector: EpisodeCollector) -> Evaluation:
    """The episodes of an evaluation; their returns must be finite."""
    episodes = collector.batch()
    if episodes is None:
        raise RunFailed("expected finite returns in an evaluation, got NaN or infinite ones")
    return Evaluation(episodes.returns, episodes.successes, episodes.discounted)
