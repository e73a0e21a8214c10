"""Runs that train in no time, and an operating system that kills them at any of their writes."""

import os

import numpy as np

from geodesic.contexts import EpisodeBatch
from geodesic.records import archive, files, tables, writer
from geodesic.training.trainer import Evaluation, SegmentResult

COUNTED = ("open", "fdopen", "replace", "fsync", "ftruncate")


class Killed(BaseException):
    """SIGKILL as seen from inside the process: nothing after it has an effect."""


class KillingOS:
    """The module `os` until the n-th call that writes; half of what is being appended still reaches the file."""

    def __init__(self, last):
        self.last = last
        self.calls = 0

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in (*COUNTED, "unlink"):
            return real

        def call(*arguments, **options):
            self.calls += name in COUNTED
            if self.calls < self.last:
                return real(*arguments, **options)
            if name == "fdopen" and self.calls == self.last:
                return HalfWritten(real(*arguments, **options))
            raise Killed

        return call


class HalfWritten:
    """A file whose process is killed in the middle of the first write."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, content):
        self.file.write(content[: len(content) // 2])
        raise Killed

    def __getattr__(self, name):
        return getattr(self.file, name)


def kill_at(patch, last):
    """Kill at the last-th write, until the patch is undone; returns the fake system, which counts the writes."""
    system = KillingOS(last)
    for module in (files, tables, writer):
        patch.setattr(module, "os", system)
    return system


class InstantTrainer:
    """A trainer without training. Its returns depend on earlier ones and on the number of runs."""

    segment_steps = 100
    unchecked = None
    description = "no network"

    def prepare(self, runs):
        self.runs = runs

    def begin(self, seeds, distributions):
        self.state = [np.array([seed, 1.0]) for seed in seeds]
        self.distributions, self.stages = list(distributions), [0] * len(seeds)

    def shapes(self):
        return {"device": archive.Header(np.dtype(float), (2,))}

    def restore(self, arrays, distributions, stages, step):
        assert len(arrays) == self.runs
        self.state = [own["device"].copy() for own in arrays]
        self.distributions, self.stages = list(distributions), list(stages)

    def save(self):
        return [{"device": state.copy()} for state in self.state]

    def save_policies(self):
        return self.save()

    def enter(self, run, distribution, stage):
        self.distributions[run], self.stages[run] = distribution, stage

    def start_segment(self):
        pass

    def finish_segment(self, before):
        return [self._segment(run, before) for run in range(self.runs)]

    def _segment(self, run, before):
        state = self.state[run]
        if not np.isfinite(state).all():
            return None
        rng = np.random.default_rng([int(state[0]), before])
        contexts = self.distributions[run].sample(rng, 5)
        returns = 3 + state[1] * rng.random(5) + self.runs / 7
        state[1] = 0.5 * state[1] + 0.1 * returns.mean()
        ended = before + 20 * np.arange(1, 6)
        stages, successes = np.full(5, self.stages[run]), np.ones(5)
        episodes = EpisodeBatch(
            contexts, returns, np.full(5, 20), stages, successes=successes, started=ended - 20, ended=ended
        )
        return SegmentResult(episodes, before + 100, {})

    def evaluate(self, seeds, step):
        returns = [state[1] * np.arange(3.0) + self.runs for state in self.state]
        return [Evaluation(each, np.ones(3), each) for each in returns]
