"""Runs that train in no time, and a system that kills them at any of their writes."""

import os

import numpy as np

from geodesic.contexts import Episodes
from geodesic.records import archive, files, tables, writer
from geodesic.training.trainer import Evaluation, Report

DEADLY = ("open", "fdopen", "replace", "fsync", "ftruncate")


class Killed(BaseException):
    """What SIGKILL looks like from inside: nothing after it has an effect."""


class Mortal:
    """The module `os` until the n-th call that writes; half of what is being appended then still arrives."""

    def __init__(self, last):
        self.last = last
        self.calls = 0

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in (*DEADLY, "unlink"):
            return real

        def call(*arguments, **options):
            self.calls += name in DEADLY
            if self.calls < self.last:
                return real(*arguments, **options)
            if name == "fdopen" and self.calls == self.last:
                return Half(real(*arguments, **options))
            raise Killed

        return call


class Half:
    """A file that dies in the middle of its first write."""

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
    """From now on, until the patch is undone, the last-th write kills; the system itself, to ask for its count."""
    system = Mortal(last)
    for module in (files, tables, writer):
        patch.setattr(module, "os", system)
    return system


class Instant:
    """A trainer without training. What it earns depends on what it earned before and on how many runs it has."""

    segment_steps = 100
    open = None

    def prepare(self, runs):
        self.runs = runs

    def begin(self, seeds, distributions):
        self.state = [np.array([seed, 1.0]) for seed in seeds]
        self.distributions, self.stages = list(distributions), [0] * len(seeds)

    def shapes(self):
        return {"device": archive.Header(np.dtype(float), (2,))}

    def restore(self, arrays, distributions, stages):
        assert len(arrays) == self.runs
        self.state = [own["device"].copy() for own in arrays]
        self.distributions, self.stages = list(distributions), list(stages)

    def save(self):
        return [{"device": state.copy()} for state in self.state]

    def enter(self, run, distribution, stage):
        self.distributions[run], self.stages[run] = distribution, stage

    def start_segment(self):
        pass

    def finish_segment(self, before):
        return [self._report(seat, before) for seat in range(self.runs)]

    def _report(self, seat, before):
        state = self.state[seat]
        if not np.isfinite(state).all():
            nothing = np.zeros(0, np.int64)
            return Report(Episodes.empty(2), np.zeros(0), nothing, nothing, 0, finite=False)
        rng = np.random.default_rng([int(state[0]), before])
        contexts = self.distributions[seat].sample(rng, 5)
        returns = 3 + state[1] * rng.random(5) + self.runs / 7
        state[1] = 0.5 * state[1] + 0.1 * returns.mean()
        ended = before + 20 * np.arange(1, 6)
        episodes = Episodes(contexts, returns, np.full(5, 20), np.full(5, self.stages[seat]), np.ones(5))
        return Report(episodes, returns, ended, ended - 20, before + 100)

    def evaluate(self, seeds, step):
        earned = [state[1] * np.arange(3.0) + self.runs for state in self.state]
        return [Evaluation(each, np.ones(3), each) for each in earned]
