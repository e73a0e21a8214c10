"""Running: training, evaluating and recording one run, or several of one environment at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from geodesic import envs
from geodesic.curricula import Curriculum, Episodes, State
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.experiments.config import RunConfig, curriculum_of, learner_of, target_of
from geodesic.experiments.folder import RunFolder, read_config
from geodesic.training import checkpoint
from geodesic.training.compiled import Draw, Program, as_draw, episodes_of, stack
from geodesic.training.ordering import Held

_EVALUATION = 0x6576616C  # sets the keys of evaluations apart from those of training


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for a progress bar."""

    step: int
    steps: int
    stage: int
    alpha: float
    train_return: float
    target_return: float


Report = Callable[[int, Progress], None]  # (index of the run, where it stands)


def _silent(index: int, progress: Progress) -> None:
    """Nobody is watching."""


@dataclass
class Run:
    """One run under way: its curriculum, its folder and what was last seen of it."""

    config: RunConfig
    folder: RunFolder
    curriculum: Curriculum
    state: State
    train_return: float = float("nan")
    target_return: float = float("nan")
    curriculum_seconds: float = 0.0
    held: Held = field(init=False)

    def __post_init__(self) -> None:
        self.held = Held.nothing(self.state.distribution.dim)

    def progress(self, step: int) -> Progress:
        return Progress(
            min(step, self.config.steps),
            self.config.steps,
            self.state.stage,
            self.state.alpha,
            self.train_return,
            self.target_return,
        )


@dataclass
class Batch:
    """Runs that train at once, as one program. They share the environment, the learner and all counts."""

    runs: list[Run]
    program: Program
    device: Any = None  # RunState with a leading axis (runs,)
    draws: Any = None
    segment: int = 0
    report: Report = _silent
    checkpoint_seconds: float = 20.0

    @property
    def step(self) -> int:
        return self.segment * self.program.segment_steps

    @property
    def config(self) -> RunConfig:
        return self.runs[0].config

    def train(self) -> None:
        """To the end: segments of training, with the curricula, evaluations and checkpoints in between."""
        started = saved = time.monotonic()
        target = self._target_draws()
        self.draws = stack([as_draw(run.state.distribution, run.state.stage) for run in self.runs])
        if self.segment == 0:
            self._evaluate(target)
        try:
            while self.step < self.config.steps:
                self._segment()
                if self.segment % self.config.eval_every == 0:
                    self._evaluate(target)
                if time.monotonic() - saved > self.checkpoint_seconds:
                    self.save()
                    saved = time.monotonic()
        except KeyboardInterrupt:
            self.save()
            raise
        self.save()
        self._finish(time.monotonic() - started)

    def save(self) -> None:
        """A checkpoint of every run. Everything that decides the rest of a run is in it."""
        device = jax.device_get(self.device)
        for index, run in enumerate(self.runs):
            own = jax.tree.map(lambda leaf, i=index: leaf[i], device)
            arrays = checkpoint.flatten("device", own)
            arrays.update({f"curriculum/{k}": v for k, v in run.curriculum.save(run.state).items()})
            arrays.update(run.held.save())
            seen = {"train_return": run.train_return, "target_return": run.target_return}
            run.folder.save(arrays, {"segment": self.segment, **seen})

    def _segment(self) -> None:
        self.device, log = self.program.segment(self.device, self.draws)
        log, lengths = jax.device_get((log, self.device.lanes.length))
        before = self.step
        self.segment += 1
        for index, run in enumerate(self.runs):
            episodes, when = episodes_of(log, index)
            if len(episodes):
                run.train_return = float(episodes.returns[-20:].mean())
            run.folder.episodes(episodes, before + when)
            episodes, run.held = run.held.release(episodes, *self._beginnings(before + when, episodes, lengths[index]))
            stage = run.state.stage
            began = time.perf_counter()
            rng = np.random.default_rng([run.config.seed, self.segment])
            run.state = run.curriculum.update(run.state, episodes, rng)
            run.curriculum_seconds += time.perf_counter() - began
            if run.state.stage != stage:
                run.folder.stage(self.step, run.state, run.curriculum)
                self._renew(index, run)
            self.report(index, run.progress(self.step))

    def _beginnings(self, ended: Any, episodes: Episodes, under_way: Any) -> tuple[Any, int]:
        """When these episodes began, and when the earliest of those under way (by their lengths) did, in time steps."""
        n_envs = self.program.learner.n_envs
        return (ended - 1) // n_envs + 1 - episodes.lengths, self.step // n_envs - int(under_way.max())

    def _renew(self, index: int, run: Run) -> None:
        # in a copy: JAX may still be reading the arrays that it was given
        fresh = [whole.copy() for whole in self.draws]
        for whole, part in zip(fresh, as_draw(run.state.distribution, run.state.stage)):
            whole[index] = part
        self.draws = Draw(*fresh)

    def _target_draws(self) -> Any:
        return stack([as_draw(target_of(self.program.mdp), 0)] * len(self.runs))

    def _evaluate(self, target: Any) -> None:
        keys = np.array([(_EVALUATION ^ run.config.seed, self.step) for run in self.runs], dtype=np.uint32)
        returns, successes = jax.device_get(self.program.evaluate(self.device, target, keys))
        for index, run in enumerate(self.runs):
            run.target_return = float(returns[index].mean())
            run.folder.evaluation(self.step, run.state, returns[index], successes[index])
            run.folder.scalars(
                self.step,
                {
                    "target/return": run.target_return,
                    "target/success": float(successes[index].mean()),
                    "train/return": run.train_return,
                    "curriculum/alpha": run.state.alpha,
                    "curriculum/stage": float(run.state.stage),
                },
            )
            self.report(index, run.progress(self.step))

    def _finish(self, seconds: float) -> None:
        for run in self.runs:
            run.folder.close()
            run.folder.summary(
                {
                    "steps": self.step,
                    "stage": run.state.stage,
                    "alpha": run.state.alpha,
                    "target_return": run.target_return,
                    "failures": int(getattr(run.state, "failures", 0)),
                    "seconds": seconds,
                    "curriculum_seconds": run.curriculum_seconds,
                    "runs_at_once": len(self.runs),
                }
            )


def start(configs: list[RunConfig], folders: list[Path], report: Report = _silent) -> Batch:
    """New runs, with everything checked and their folders made before any work starts."""
    program = program_of(configs)
    runs = []
    for config, path in zip(configs, folders):
        curriculum = curriculum_of(config, program.mdp)
        state = curriculum.init(np.random.default_rng([config.seed, 0]))
        runs.append(Run(config, _folder(path, config, program), curriculum, state))
    for run in runs:
        run.folder.create()
        run.folder.stage(0, run.state, run.curriculum)
    keys = np.stack([np.asarray(jax.random.PRNGKey(config.seed)) for config in configs])
    draws = stack([as_draw(run.state.distribution, run.state.stage) for run in runs])
    batch = Batch(runs, program, device=program.init(keys, draws), report=report)
    batch.save()
    return batch


def resume(configs: list[RunConfig], folders: list[Path], report: Report = _silent) -> Batch:
    """Runs taken up from their last checkpoints, which must be of one step."""
    program = program_of(configs)
    runs, own, segments = [], [], set()
    for config, path in zip(configs, folders):
        folder = _folder(path, config, program)
        arrays, meta = folder.load()
        try:
            runs.append(_resumed(folder, curriculum_of(config, program.mdp), arrays, meta))
            own.append(_device_state(program, arrays))
            segments.add(int(meta["segment"]))
        except KeyError as error:
            raise CheckpointError(f"{folder.checkpoint_path} is of another version: it has no {error}") from error
    if len(segments) > 1:
        raise InvalidInput(f"expected runs at one step to go on together, got segments {sorted(segments)}")
    return Batch(runs, program, device=stack(own), segment=segments.pop(), report=report)


def _resumed(folder: RunFolder, curriculum: Curriculum, arrays: checkpoint.Arrays, meta: dict[str, Any]) -> Run:
    own = {key.removeprefix("curriculum/"): value for key, value in arrays.items() if key.startswith("curriculum/")}
    state = curriculum.load(own)
    run = Run(folder.config, folder, curriculum, state, meta["train_return"], meta["target_return"])
    run.held = Held.load(arrays)
    return run


def _device_state(program: Program, arrays: checkpoint.Arrays) -> Any:
    """One run's arrays in the program, checked against the shapes that the program has."""
    draws = stack([as_draw(target_of(program.mdp), 0)])
    like = jax.eval_shape(program.init, np.zeros((1, 2), np.uint32), draws)
    return checkpoint.unflatten("device", jax.tree.map(_without_runs, like), arrays)


def load_policy(folder: Path) -> Callable[[NDArray[np.float32]], NDArray[Any]]:
    """The trained agent of a run folder: observation -> deterministic action, as its Gymnasium environment has them."""
    config = read_config(folder)
    program = program_of([config])
    arrays, _ = checkpoint.load(folder / "checkpoint" / "latest.npz")
    learner = _device_state(program, arrays).learner
    act = jax.jit(lambda obs: program.legal(program.learner.policy(learner, obs[None]))[0])
    return lambda obs: np.asarray(act(obs))


def program_of(configs: list[RunConfig]) -> Program:
    """The compiled program that these runs share."""
    shared = {(c.env, c.algorithm, c.steps, c.segment, c.eval_every, c.eval_episodes, c.eval_policy) for c in configs}
    options = {repr(sorted(c.learner_options.items())) for c in configs}
    if len(shared) != 1 or len(options) != 1:
        raise InvalidInput("expected runs at once to share environment, learner and steps")
    config = configs[0]
    return _program(config.env, learner_of(config), config.segment, config.eval_episodes, config.eval_policy)


@cache
def _program(env: str, learner: Any, segment: int, eval_episodes: int, eval_policy: str) -> Program:
    return Program(envs.make(env), learner, segment, eval_episodes, eval_policy)


def _folder(path: Path, config: RunConfig, program: Program) -> RunFolder:
    return RunFolder(path, config, program.mdp, target_of(program.mdp))


def _without_runs(leaf: Any) -> Any:
    return np.empty(leaf.shape[1:], leaf.dtype)


def use_compilation_cache(folder: Path | None = None) -> None:
    """Keep compiled programs on disk, so that the next run of the same shape starts at once."""
    import os

    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "geodesic" / "programs"
    settings: dict[str, Any] = {
        "jax_compilation_cache_dir": str(folder or default),
        "jax_persistent_cache_min_compile_time_secs": 0.2,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
