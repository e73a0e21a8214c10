"""Command lines of every command, with a wrong word, run through `geodesic.cli.main` in this process."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import strategies as st

import geodesic
from benchmarks.reliability.fuzz import world
from benchmarks.reliability.fuzz.judge import Verdict, Verdicts, judge
from geodesic.cli import main
from geodesic.runs.executors import Job, JobResult, LocalProcesses, RayTasks
from geodesic.runs.executors.base import run_in_worker

Line = tuple[str, ...]
SECONDS = 60

WALK = f"{world.__name__}:walk"
TASKS = (
    WALK, "maze", "u-maze", "no-such-task", "", "maze:layout=nothing.txt", "maze:size=3", "os:getcwd", "json:loads",
    "u-maze:goal_noise=-1", "u-maze:goal_noise=x", "fetch-push",
    ":", "nowhere.py:task", "broken.py:task", "exits.py:task", "empty.py:task", "a.b.c:d", "maze:", "point-mass:x",
    "\udcff",
)  # fmt: skip
METHODS = (
    "auto", "auto:waiting=[1,1,1]", "auto:paying=2",
    "gradient", "gradient:step=0.5", "gradient:pace=particles", "gradient:pace=slow", "gradient:step=2",
    "gradient:step=nan", "gradient:step=[1]", "gradient:=",
    "spdl", "spdl:zeta=-1", "currot:epsilon=inf", "uniform:particles=0", "uniform:particles=1e9",
    "alp-gmm:fit_rate=true", "nothing", "", "gradient:metric=5", "gradient:step=" + "[" * 3000,
    "linear:window=9999999999999999999999", "target-only:target=1979-05-27", "goal-gan:noise={a=1}", "GRADIENT",
    "gradient:window=3:window=4",
)  # fmt: skip
LEARNERS = (
    "ppo", "ppo:n_envs=2", "sac", "ppo:n_envs=0", "ppo:learning_rate=nan", "ppo:net=[8]", "ppo:net=8", "nothing",
    "ppo:batch_size=1", "ppo:gamma=2", "ppo:activation=sin", "", "sac:tau=x", "ppo:rollout=99999999999999",
)  # fmt: skip
NUMBERS = (
    "0", "1", "-1", "2", "64", "1e3", "nan", "inf", "-inf", "", "x", "1.5", "9" * 20, "9" * 5000, "٣", "0x10", "1_000",
)  # fmt: skip
PATHS = ("new", "new/deeper", "file.txt", "file.txt/under", "/dev/null", "/dev/null/x", "run",
    "compared", "x" * 300, "", ".", "\udcff", "broken.json", "broken.toml", "list.json", "deep.json",
    "run/config.json", "bytes.toml", "words.toml", "half", "good.toml", "a b", "'",
)  # fmt: skip
METRICS = ("l2", "graph", "embedding", "return-lift", "practice", "contextual", "", "x")
ALPHAS = ("0,1", "0.5", "", ",", "a", "nan", "2", "-1", "inf", "1e400", "0,,1", ",".join(["0.5"] * 30))

OPTIONS: dict[str, tuple[Sequence[str], ...]] = {
    "list": (),
    "check": (),
    "plan": (("--alphas", *ALPHAS), ("--metric", *METRICS), ("--out", *PATHS)),
    "run": (
        ("--method", *METHODS),
        ("--learner", *LEARNERS),
        ("--backend", "jax", "torch", ""),
        ("--metric", *METRICS),
        ("--threshold", *NUMBERS, "auto"),
        ("--seed", *NUMBERS),
        ("--steps", *NUMBERS),
        ("--config", *PATHS),
        ("--out", *PATHS),
        ("--save-every", *NUMBERS),
        ("--resume", *PATHS),
    ),
    "compare": (
        ("--methods", *METHODS, "all,all", ",", "uniform,uniform", "gradient,nothing"),
        ("--learner", *LEARNERS),
        ("--seeds", "0", "1", "-1", "2", "nan", "", "x", "1.5", "9" * 20, "9" * 5000),
        ("--first-seed", *NUMBERS),
        ("--steps", *NUMBERS),
        ("--threshold", *NUMBERS, "auto"),
        ("--out", *PATHS),
        ("--cvar", *NUMBERS, "0.3"),
        ("--executor", "local", "ray", "nothing", ""),
        ("--address", "auto", "", "nowhere:1"),
        ("--cpus", *NUMBERS),
        ("--gpus", *NUMBERS),
        ("--save-every", *NUMBERS),
        ("--workers", *NUMBERS),
        ("--at-once", *NUMBERS),
        ("--record", *PATHS),
    ),
}
STRAY = (
    "--help", "--version", "--nothing", "-x", "--steps", "--out=", "extra", "--", "-1", "--quiet", "--ste", "--seed=1",
)  # fmt: skip
FILES = {
    "file.txt": b"text",
    "broken.py": b"1 / 0",
    "exits.py": b"import sys; sys.exit(3)",
    "empty.py": b"",
    "broken.json": b'{"task": ',
    "list.json": b"[1, 2]",
    "deep.json": b"[" * 100_000,
    "broken.toml": b"task = ",
    "bytes.toml": b"\xff\xfe\x00",
    "words.toml": b'task = "maze"\nseed = "one"\nsteps = 1.5',
    "good.toml": f'task = "{WALK}"\nmethod = "uniform"\nsteps = 32\n'.encode(),
}


@st.composite
def words(draw: st.DrawFn) -> Line:
    command = draw(st.sampled_from((*OPTIONS, "run", "run", "compare", "compare", "plan", "nonsense")))
    task = WALK if draw(st.integers(0, 9)) < 7 else draw(st.sampled_from(TASKS))
    line = [command] if command in ("list", "nonsense") else [command, task]
    options = OPTIONS.get(command, ())
    if command == "run" and draw(st.integers(0, 4)) == 0:
        line = ["run"]
    for name, *values in draw(st.lists(st.sampled_from(options), max_size=3, unique=True)) if options else []:
        line += [name, draw(st.sampled_from(values))]
    if command == "compare" and "--seeds" not in line:
        line += ["--seeds", "1"]
    if command == "compare" and "--methods" not in line:
        line += ["--methods", "uniform"]
    if command in ("run", "compare") and "--steps" not in line and "--resume" not in line:
        line += ["--steps", "32"]
    if draw(st.integers(0, 5)) == 0:
        line.insert(draw(st.integers(0, len(line))), draw(st.sampled_from(STRAY)))
    return tuple(line)


lines: st.SearchStrategy[Line] = words()


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """Work in a folder with files of many kinds, and run the jobs of a comparison in this process."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory(dir=world.SCRATCH) as name:
        for file, content in FILES.items():
            (Path(name) / file).write_bytes(content)
        shutil.copytree(world.RUN, Path(name) / "run")
        (Path(name) / "half").mkdir()
        (Path(name) / "compared").mkdir()
        (Path(name) / "compared" / "comparison.json").write_text("{")
        os.chdir(name)
        try:
            own = {"run": _run_here, "at_once": lambda self, runs: 1}
            cold = {"warm_up": lambda self, jobs: contextlib.nullcontext()}
            with mock.patch.multiple(LocalProcesses, **own, **cold), mock.patch.multiple(RayTasks, **own):
                yield Path(name)
        finally:
            os.chdir(here)


def _run_here(self: object, jobs: Sequence[Job]) -> Iterator[JobResult]:
    for job in jobs:
        yield JobResult(job, run_in_worker(job))


def judge_line(line: Line, verdicts: Verdicts) -> None:
    """Run a command line; it must exit with 0, or with 1 or 2 and one line that says why."""
    out, complaint = io.StringIO(), io.StringIO()

    def work() -> Any:
        with workplace(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaint):
            try:
                return main(line)
            except SystemExit as exit:
                return exit.code

    verdict, result = judge(work, SECONDS)
    text = complaint.getvalue().strip()
    if verdict == "accepted":
        verdict, result = _judge_exit(result, text)
    verdicts.add(" ".join(["geodesic", *map(repr, line)]), verdict, f"{result} {text!r:.300}")


def _judge_exit(code: Any, text: str) -> tuple[Verdict, str]:
    if code in (0, None):
        return "accepted", ""
    if code in (1, 2) and text and len(text.splitlines()) == 1 and "Traceback" not in text:
        return "refused", ""
    return "raw exception", f"exit code {code!r}, expected one line:"


def judge_process(line: Line, verdicts: Verdicts) -> None:
    """Run a command line in a separate process, on a terminal without Unicode."""
    command = [sys.executable, "-m", "geodesic", *line]
    source = str(Path(geodesic.__file__).parents[1])
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LANG": "C", "PYTHONPATH": source}
    with workplace():
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    verdict, result = _judge_exit(done.returncode, done.stderr.strip())
    verdicts.add(" ".join(["geodesic", *map(repr, line)]), verdict, f"{result} {done.stderr!r:.300}")


PROCESSES: tuple[Line, ...] = (
    ("list",),
    ("plan", "point-mass", "--out", "new"),
    ("run", "maze", "--steps", "200", "--out", "new", "--save-every", "nan"),
    ("run", "maze", "--steps", "200", "--out", "file.txt/under"),
    ("run", "--resume", "run"),
    ("compare", "maze", "--methods=gradient,uniform", "--seeds=1", "--steps=300", "--out=new", "--workers=1"),
)
