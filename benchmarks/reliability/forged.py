"""Forge one value of a run's config.json, or of its checkpoint with a valid checksum, and resume the run.

    python -m benchmarks.reliability.forged --configs 500 --checkpoints 500 --seed 0

Each forgery must be refused in one short line, in little time and memory, and leave the folder as it was. One that is
accepted counts as silent unless the value cannot matter: another budget, interval of evaluations, versions or
signature, a random key, the state of an environment, a score or a step that is only shown, or which policy was best.
The rest of an accepted run is trained, and may not fail with a traceback either. Forgeries of config.json are also
repeated as new runs (`--config`) and read.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import shutil
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geodesic.runtime import configure_process

configure_process()

import numpy as np  # noqa: E402

from geodesic.errors import GeodesicError  # noqa: E402
from geodesic.records import checkpoint, checkpoint_path, generations, load_run  # noqa: E402
from geodesic.runs import run  # noqa: E402
from geodesic.runs.config import read_file  # noqa: E402
from geodesic.training.configure import configure, curriculum_of, task_of  # noqa: E402

SECONDS, MEMORY, LETTERS = 30.0, 200 * 2**20, 1000  # of one refusal
ANYTHING: list[Any] = [
    None, True, -1, 0, 0.5, 10**6, 2**31, 2**61, 2**63 - 1, 10**30, 10**400, float("nan"), float("inf"), -1e300,
    "", "x", "\x1b[31m", "x" * 10**6, "os:abort", "/dev/zero", [], [1], ["x"] * 10**5, {}, {"x": {}},
]  # fmt: skip
# values of a configuration and of a checkpoint's description that do not decide what the rest of a run is
FREE = (
    "steps",
    "eval_every",
    "versions",
    "signature",
    "train_score",
    "target_score",
    "config/steps",
    "config/eval_every",
    "policy",  # how the policy acts, which is read with the policy alone
    "best/score",
    "best/recent",
    "best/step",
)
FREE_ARRAYS = ("curriculum/event", "device.slots.env", "device.key", "device.finite")


@dataclass
class Outcomes:
    """What became of the forgeries."""

    refused: int = 0
    harmless: int = 0
    bad: list[str] = field(default_factory=list)

    def report(self, name: str) -> None:
        print(f"{name}: {self.refused} refused, {self.harmless} accepted that cannot matter, {len(self.bad)} bad")
        for line in self.bad:
            print(f"  {line:.300}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configs", type=int, default=500)
    parser.add_argument("--checkpoints", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as work:
        whole = interrupted(Path(work) / "whole")
        configs, checkpoints = (
            forge_configs(whole, options.configs, rng),
            forge_checkpoints(whole, options.checkpoints, rng),
        )
    configs.report("config.json")
    checkpoints.report("checkpoints")
    return int(bool(configs.bad or checkpoints.bad))


def interrupted(folder: Path) -> Path:
    """A Maze run that was interrupted after the first of two segments."""
    batch = run.start([configure("maze", "gradient:window=5", 0, 1000)], [folder])
    batch._evaluate()
    batch._start_segment()
    batch._finish_segment()
    batch.save()
    batch.close()
    generations(folder)[1].unlink()
    return folder


def forge_configs(whole: Path, count: int, rng: np.random.Generator) -> Outcomes:
    """Change one value of config.json at a time; read, resume and repeat the run."""
    outcomes, values = Outcomes(), json.loads((whole / "config.json").read_text())
    places = list(_places(values))
    for number in range(count):
        place = places[number % len(places)]
        wrong = _other(values, place, rng)
        folder = _copied(whole)
        (folder / "config.json").write_text(json.dumps(_replaced(values, place, wrong)))
        what = f"config.json {'/'.join(map(str, place))} = {wrong!r:.60}"
        judge(outcomes, what, folder, lambda folder=folder: resume(folder), free=place[0] in FREE)
        for act in (read, repeat):  # a valid value of another run is no mistake here
            judge(Outcomes(bad=outcomes.bad), what, folder, lambda act=act, folder=folder: act(folder), free=True)
        shutil.rmtree(folder)
    return outcomes


def forge_checkpoints(whole: Path, count: int, rng: np.random.Generator) -> Outcomes:
    """Change one value of a checkpoint at a time, with a valid checksum, and resume the run."""
    outcomes, kept = Outcomes(), checkpoint.load(checkpoint_path(whole))
    arrays, places = list(kept.arrays), list(_places(kept.meta))
    for number in range(count):
        folder = _copied(whole)
        if number % 2:
            place = places[number // 2 % len(places)]
            wrong = _other(kept.meta, place, rng)
            name = "/".join(map(str, place))
            what, free = f"meta {name} = {wrong!r:.60}", place[0] in FREE or "/".join(map(str, place[:2])) in FREE
            checkpoint.save(checkpoint_path(folder), kept.arrays, _replaced(kept.meta, place, wrong))
        else:
            name = arrays[number // 2 % len(arrays)]
            forged = _forged(kept.arrays[name], rng)
            what, free = (
                f"array {name} = {forged.dtype}{forged.shape} {forged.ravel()[:3]}",
                name.startswith(FREE_ARRAYS),
            )
            free |= not forged.size or bool(np.array_equal(forged, kept.arrays[name]))
            checkpoint.save(checkpoint_path(folder), {**kept.arrays, name: forged}, kept.meta)
        judge(outcomes, what, folder, lambda folder=folder: resume(folder), free)
        shutil.rmtree(folder)
    return outcomes


def resume(folder: Path) -> None:
    run.extend(folder, None).train()


def repeat(folder: Path) -> None:
    """Everything before a new run's folder is made."""
    config = read_file(folder / "config.json")
    task = task_of(config)
    run.trainer_of([config], task).shapes()
    curriculum_of(task, config)


def read(folder: Path) -> None:
    load_run(folder)


def judge(outcomes: Outcomes, what: str, folder: Path, act: Callable[[], None], free: bool) -> None:
    """Count what an action on a forged folder does."""
    before, began = contents(folder), time.perf_counter()
    tracemalloc.start()
    try:
        with warnings.catch_warnings(record=True) as said:
            act()
        outcomes.bad += [
            f"{what}: a warning of {len(str(each.message))}" for each in said if len(str(each.message)) > LETTERS
        ]
    except GeodesicError as error:
        problems = _problems(str(error), folder, before, time.perf_counter() - began)
        outcomes.bad += [f"{what}: {problem}" for problem in problems]
        outcomes.refused += not problems
    except Exception as error:
        outcomes.bad.append(f"{what}: {type(error).__name__}: {error}")
    else:
        outcomes.harmless += free
        outcomes.bad += [] if free else [f"{what}: accepted"]
    finally:
        tracemalloc.stop()


def _problems(message: str, folder: Path, before: dict[str, bytes], seconds: float) -> list[str]:
    found = []
    if "\n" in message or len(message) > LETTERS:
        found.append(f"a message of {len(message)} characters: {message!r:.200}")
    if contents(folder) != before:
        found.append("the folder was changed")
    if tracemalloc.get_traced_memory()[1] > MEMORY:
        found.append(f"{tracemalloc.get_traced_memory()[1] / 2**20:.0f} MiB")
    if seconds > SECONDS:
        found.append(f"{seconds:.0f} s")
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _copied(whole: Path) -> Path:
    folder = whole.parent / "forged"
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    return Path(shutil.copytree(whole, folder))


def _places(values: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value in nested objects and lists."""
    if place:
        yield place
    parts = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, value in parts:
        yield from _places(value, (*place, key))


def _other(values: Any, place: tuple[Any, ...], rng: np.random.Generator) -> Any:
    """Another value for a place; numbers that differ in their type only are equal."""
    for key in place:
        values = values[key]
    return next(other for other in (ANYTHING[i] for i in rng.permutation(len(ANYTHING))) if other != values)


def _replaced(values: Any, place: tuple[Any, ...], wrong: Any) -> Any:
    forged = copy.deepcopy(values)
    owner = forged
    for key in place[:-1]:
        owner = owner[key]
    owner[place[-1]] = wrong
    return forged


def _forged(array: Any, rng: np.random.Generator) -> Any:
    """An array of another shape or type, or with one impossible number in it."""
    choices = [np.zeros((*array.shape, 2), array.dtype), np.zeros(array.shape, "S3"), np.zeros(array.shape, complex)]
    if array.size and array.dtype.kind in "fiu":
        limits = np.iinfo(array.dtype) if array.dtype.kind != "f" else None
        wrong = [np.nan, np.inf, -np.inf] if limits is None else [limits.min, limits.max]
        for value in wrong:
            changed = array.copy()
            changed.flat[int(rng.integers(array.size))] = value
            choices += [changed] * 2
    return choices[int(rng.integers(len(choices)))]


if __name__ == "__main__":
    raise SystemExit(main())
