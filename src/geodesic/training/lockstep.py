"""Runs whose steps are taken together: actions from the device, environments in threads, rollouts to the device."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

import gymnasium as gym
import jax
import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import Array, Arrays, Episodes, FloatArray, Particles
from geodesic.errors import CheckpointError, GeodesicError, RunFailed
from geodesic.learners.base import Learner
from geodesic.records import checkpoint
from geodesic.tasks import Task
from geodesic.training.agents import Agents, AgentState
from geodesic.training.expected import check_finite
from geodesic.training.program import stack
from geodesic.training.slots import Ended, Slot, Threads, make_env
from geodesic.training.trainer import Evaluation, Report

AGENT, SLOT = "device", "slot/"
EVALUATION = 0x6576616C  # sets the episodes of evaluations apart from those of training
MEASURED = {"return": "total", "success": "success", "discounted": "discounted"}


class Shared(Protocol):
    """What the groups of a trainer share."""

    task: Task
    learner: Learner
    agents: Agents
    threads: Threads
    eval_episodes: int
    eval_policy: str
    seconds: dict[str, float]


class Group:
    """Slots are numbered run by run: run r has those from r * n_envs on."""

    def __init__(
        self,
        shared: Shared,
        seeds: Sequence[int],
        distributions: Sequence[Particles],
        stages: Sequence[int],
        saved: Sequence[Arrays] = (),
    ) -> None:
        self.shared = shared
        self.seeds, self.distributions, self.stages = list(seeds), list(distributions), list(stages)
        self.n = shared.learner.n_envs
        self.slots = [self._slot(seed, env) for seed in seeds for env in range(self.n)]
        self.obs = np.zeros((len(seeds), self.n, shared.agents.n_obs), np.float32)
        self.rows = np.zeros((len(seeds), shared.learner.rollout, self.n, shared.agents.width), np.float32)
        self._evaluators: list[Slot] = []
        self._moving: list[Future[None]] = []
        self.unbroken = True  # whether all episodes that were under way go on
        if saved:
            self._restore(saved)
        else:
            self.state = shared.agents.states(self.seeds)
            self._all(self._begin_episode, range(len(self.slots)))

    def _slot(self, *entropy: int) -> Slot:
        return Slot(make_env(self.shared.task), entropy, self.shared.task.discount)

    def _begin_episode(self, place: int) -> None:
        run, env = divmod(place, self.n)
        self.obs[run, env] = self.slots[place].begin(self.distributions[run], self.stages[run])

    def look(self, time: int) -> None:
        """Have the device decide on the actions of this time."""
        self._chosen = self.shared.agents.act(self.state, self.obs.copy(), time)

    def move(self, time: int) -> None:
        """The actions are there: set the environments going."""
        began = clock.perf_counter()
        actions, stored = jax.device_get(self._chosen)
        given = as_given(actions, self.shared.agents.spaces[1])
        now = clock.perf_counter()
        n_obs = self.shared.agents.n_obs
        rows = self.rows[:, time % self.shared.learner.rollout]
        rows[..., :n_obs] = self.obs
        rows[..., 2 * n_obs : -3] = stored.reshape(*rows.shape[:2], -1)

        def one(place: int) -> None:
            run, env = divmod(place, self.n)
            slot, own = self.slots[place], rows[run, env]
            step = slot.step(given[place], time)
            own[n_obs : 2 * n_obs] = step.obs
            own[-3:] = step.reward, step.terminated, step.truncated
            if step.terminated or step.truncated:
                self._begin_episode(place)
            else:
                self.obs[run, env] = step.obs

        self._start(one, range(len(self.slots)))
        self.shared.seconds["update"] += now - began
        self.shared.seconds["physics"] += clock.perf_counter() - now

    def hear(self, time: int, last: bool) -> None:
        """The environments have moved: learn where a rollout is whole, and decide on the next actions."""
        began = clock.perf_counter()
        self._wait()
        now = clock.perf_counter()
        agents = self.shared.agents
        if (time + 1) % self.shared.learner.rollout:
            self.look(time + 1)
        elif last:
            self.state = agents.learn(self.state, self.rows.copy(), time)
        else:  # copies: the device may read what it is given after the call has returned
            self.state, self._chosen = agents.learn_and_act(self.state, self.rows.copy(), self.obs.copy(), time)
        self.shared.seconds["physics"] += now - began
        self.shared.seconds["update"] += clock.perf_counter() - now

    def reports(self, end: int) -> list[Report]:
        """What ended in each run since the last time; end: the time of the next step."""
        finite = jax.device_get(self.shared.agents.finite(self.state))
        return [self._report(run, end, bool(good)) for run, good in enumerate(finite)]

    def _report(self, run: int, end: int, finite: bool) -> Report:
        own = self.slots[run * self.n : (run + 1) * self.n]
        found = sorted(((e.time, env, e) for env, slot in enumerate(own) for e in slot.ended), key=lambda f: f[:2])
        for slot in own:
            slot.ended = []
        ended = [episode for _, _, episode in found]
        returns, dim = _column(ended, "total"), self.shared.task.space.dim
        if not (finite and np.isfinite(returns).all()):
            nothing = np.zeros(0, np.int64)
            return Report(Episodes.empty(dim), np.zeros(0), nothing, nothing, 0, finite=False)
        steps = np.array([time * self.n + env + 1 for time, env, _ in found], np.int64)
        episodes = Episodes(
            np.array([e.context for e in ended]).reshape(-1, dim),
            self._scores(ended),
            _column(ended, "length"),
            _column(ended, "stage"),
            _column(ended, "success"),
        )
        under_way = end - max(slot.length for slot in own)
        return Report(episodes, returns, steps, (steps - 1) // self.n + 1 - episodes.lengths, under_way)

    def _scores(self, ended: Sequence[Ended]) -> FloatArray:
        """Episodes in the task's measure."""
        return _column(ended, MEASURED[self.shared.task.measure])

    def evaluate(self, step: int) -> list[Evaluation]:
        """Each run's policy on the target, in as many environments as it trains in, those of its own kept aside.

        An episode is told by the run's seed, the step and its number, whichever environment it is in.
        """
        count, target = self.shared.eval_episodes, self.shared.task.evaluation_particles
        lanes = min(self.n, count)
        self._evaluators = self._evaluators or [self._slot() for _ in self.seeds for _ in range(lanes)]
        obs = np.zeros((len(self.seeds), lanes, self.obs.shape[-1]), np.float32)
        going = set(range(len(self._evaluators)))

        def begin(place: int, number: int) -> None:
            run, lane = divmod(place, lanes)
            slot = self._evaluators[place]
            slot.entropy, slot.episode = [EVALUATION, self.seeds[run], step], number - 1
            obs[run, lane] = slot.begin(target, 0)

        def one(place: int, actions: Array) -> None:
            slot = self._evaluators[place]
            made = slot.step(actions[place], slot.episode)
            if not (made.terminated or made.truncated):
                obs[divmod(place, lanes)] = made.obs
            elif slot.episode + lanes < count:
                begin(place, slot.episode + lanes)
            else:
                going.discard(place)

        self._all(lambda place: begin(place, place % lanes), sorted(going))
        time = (EVALUATION ^ step) % 2**31
        while going:
            actions = as_given(jax.device_get(self._decided(obs, time)), self.shared.agents.spaces[1])
            self._all(partial(one, actions=actions), sorted(going))
            time += 1
        return [self._evaluation(self._evaluators[run * lanes : (run + 1) * lanes]) for run in range(len(self.seeds))]

    def _decided(self, obs: NDArray[np.float32], time: int) -> Any:
        if self.shared.eval_policy == "stochastic":
            return self.shared.agents.act(self.state, obs.copy(), time)[0]
        return self.shared.agents.best(self.state, obs.copy())

    def _evaluation(self, slots: Sequence[Slot]) -> Evaluation:
        ended = sorted((episode for slot in slots for episode in slot.ended), key=lambda e: e.time)
        for slot in slots:
            slot.ended = []
        return evaluation_of(ended, self.shared.task.measure)

    def save(self) -> list[Arrays]:
        host = jax.device_get(self.state)
        return [self._saved(run, jax.tree.map(lambda leaf, r=run: leaf[r], host)) for run in range(len(self.seeds))]

    def _saved(self, run: int, agent: AgentState) -> Arrays:
        arrays = {**checkpoint.flatten(AGENT, agent), "seed": np.int64(self.seeds[run]), "obs": self.obs[run].copy()}
        for env in range(self.n):
            own = self.slots[run * self.n + env].save()
            arrays |= {f"{SLOT}{env}/{name}": value for name, value in own.items()}
        return arrays

    def _restore(self, saved: Sequence[Arrays]) -> None:
        """Go on from what `save` gave, with new episodes where those under way could not be kept."""
        like = self.shared.agents.like()
        states: list[AgentState] = [checkpoint.unflatten(AGENT, like, own) for own in saved]
        for state in states:
            check_finite(jax.tree.leaves(self.shared.learner.params(state.learner)))
        self.state = stack(states)
        for place, slot in enumerate(self.slots):
            run, env = divmod(place, self.n)
            prefix = f"{SLOT}{env}/"
            own = {k.removeprefix(prefix): v for k, v in saved[run].items() if k.startswith(prefix)}
            try:
                kept = slot.restore(own)
                self.obs[run, env] = saved[run]["obs"][env]
            except (KeyError, IndexError, ValueError, TypeError, OverflowError) as error:
                raise CheckpointError(f"the checkpoint is of another run: environment {env}: {error}") from error
            if not kept:
                self.unbroken = False
                self._begin_episode(place)

    def _all(self, work: Callable[[int], None], places: Sequence[int]) -> None:
        self._start(work, places)
        self._wait()

    def _start(self, work: Callable[[int], None], places: Sequence[int]) -> None:
        try:
            self._moving = self.shared.threads.start(work, places)
        except GeodesicError:
            raise
        except Exception as error:
            raise self._failed(error) from error

    def _wait(self) -> None:
        moving, self._moving = self._moving, []
        try:
            for future in moving:
                future.result()
        except GeodesicError:
            raise
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> RunFailed:
        said = " ".join(str(error).split())
        return RunFailed(f"the environment of {self.shared.task.name} failed: {type(error).__name__}: {said}")


def as_given(actions: Array, space: gym.Space[Any]) -> Array:
    """Actions (runs, n, ...) of all slots in a row, as the environment wants them."""
    flat = actions.reshape(-1, *actions.shape[2:])
    return flat + int(space.start) if isinstance(space, gym.spaces.Discrete) else flat.astype(space.dtype)


def evaluation_of(ended: Sequence[Ended], measure: str) -> Evaluation:
    return Evaluation(_column(ended, "total"), _column(ended, "success"), _column(ended, MEASURED[measure]))


def _column(ended: Sequence[Ended], name: str) -> FloatArray:
    return np.array([getattr(episode, name) for episode in ended], np.float64)
