"""Build hostile run folders of every kind, and run every command that reads a folder on each of them.

    python -m benchmarks.reliability.hostile
    python -m benchmarks.reliability.hostile --only pipe --commands report,watch

No command may execute anything from a folder, change a file outside it, need 1 GB or 30 seconds of processor time, end
later than after two minutes, or end with a traceback or without the reason in one line. Each command runs in a separate
process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from geodesic.runtime import configure_process

configure_process()

import numpy as np  # noqa: E402

import geodesic.report.page  # noqa: E402, F401  (imported once, and not by each command)
from benchmarks.reliability.forged import interrupted  # noqa: E402
from geodesic.cli import main as command_line  # noqa: E402
from geodesic.records import checkpoint, checkpoint_path  # noqa: E402

SECONDS = 30.0
MEMORY = 2**30  # bytes that a command may have in memory at once
LETTERS = 1000  # of what a command writes to standard error
TRAP = "TRAPPED"  # a file that executed code leaves behind
COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "report": lambda folder: ["report", str(folder)],
    "watch": lambda folder: ["watch", str(folder), "--once"],
    "resume": lambda folder: ["run", "--resume", str(folder), "--quiet"],
    "repeat": lambda folder: ["run", "--config", str(folder / "config.json"), "--out", f"{folder}-again", "--quiet"],
}
CODE = "import pathlib; pathlib.Path({trap!r}).touch()\ntask = Method = PPO = lambda *a, **k: None\n"


class Trap:
    """Executes code when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (open, (str(self.place), "w"))


@dataclass(frozen=True)
class Place:
    """A copy of a run's folder that is made hostile, beside files that must stay as they are."""

    folder: Path
    outside: Path
    trap: Path

    def config(self, **values: object) -> None:
        """Change config.json, which loses its signature."""
        path = self.folder / "config.json"
        known = json.loads(path.read_text()) | {"signature": "0" * 64}
        path.write_text(json.dumps(known | values))

    def checkpoint(self, **changes: object) -> None:
        """Change the description of the checkpoint, which has a valid checksum again."""
        kept = checkpoint.load(checkpoint_path(self.folder))
        checkpoint.save(checkpoint_path(self.folder), kept.arrays, kept.meta | changes)

    def forge(self, **values: object) -> None:
        """Change config.json and the configuration in the checkpoint alike."""
        self.config(**values)
        kept = checkpoint.load(checkpoint_path(self.folder))
        self.checkpoint(config={**kept.meta["config"], **values})


def kinds() -> Iterator[tuple[str, Callable[[Place], None]]]:
    """Every way to make a folder hostile."""
    yield "as it was written", lambda place: None
    for field in ("task", "method", "learner", "metric"):
        yield f"{field} in a file", lambda place, field=field: place.forge(**{field: f"{_code(place)}:task"})
        yield f"{field} in a module", lambda place, field=field: place.forge(**{field: "antigravity:task"})
    yield "pace in a file", lambda place: place.forge(options={"pace": f"{_code(place)}:task"})
    yield "task that ends the process", lambda place: place.forge(task="os:abort")
    yield "pickle of an SB3 model", _pickle
    for name in (
        "episodes.csv",
        "evaluations.csv",
        "stages.csv",
        "curriculum.npz",
        "config.json",
        ".lock",
        "report.html",
    ):
        yield f"link to a file at {name}", lambda place, name=name: _link(place, name, place.outside / "precious.csv")
        yield f"link to /dev/zero at {name}", lambda place, name=name: _link(place, name, Path("/dev/zero"))
        yield f"pipe at {name}", lambda place, name=name: _pipe(place, name)
        yield f"hard link at {name}", lambda place, name=name: _hard_link(place, name)
    for name in ("checkpoint", "figures"):
        yield f"link to a folder at {name}", lambda place, name=name: _link_folder(place, name)
    yield "link to /dev/zero at the checkpoint", lambda place: _link(place, "checkpoint/latest.npz", Path("/dev/zero"))
    yield "pipe at the checkpoint", lambda place: _pipe(place, "checkpoint/latest.npz")
    yield "layout /dev/zero", lambda place: place.forge(task="maze:layout=/dev/zero")
    yield (
        "layout in a pipe",
        lambda place: (os.mkfifo(place.folder / "p"), place.forge(task=f"maze:layout={place.folder}/p")),
    )
    numbers = {
        "segment": 2**61,
        "steps": 2**63 - 1,
        "eval_episodes": 10**9,
        "seed": -1,
        "threshold": 1e300,
        "backend": "x",
    }
    for field, value in numbers.items():
        yield f"{field} {value!r}", lambda place, field=field, value=value: place.forge(**{field: value})
    for field, value in {"n_envs": 10**9, "rollout": 2**31, "batch_size": -1, "net": [10**9]}.items():
        yield f"{field} {value!r}", lambda place, field=field, value=value: _learner(place, field, value)
    yield "100,000 runs at once", lambda place: place.checkpoint(batch_members=[f"x{k}" for k in range(100_000)])
    yield "segment of a checkpoint 2^61", lambda place: place.checkpoint(segment=2**61)
    yield "a task of a million characters", lambda place: place.forge(task="x" * 10**6)
    yield "a label of a million characters", lambda place: place.forge(label="x" * 10**6)
    for name in ("episodes.csv", "curriculum.npz"):
        yield f"{name} of holes", lambda place, name=name: os.truncate(place.folder / name, 2**40)
    yield (
        "a name for every stage",
        lambda place: _stages(place, [f"{k},{k},0,train,,1,0,0,a{k}=1" for k in range(10**4)]),
    )
    for value in ("inf", "nan", "1e300"):
        yield f"{value} in a table", lambda place, value=value: _stages(place, [",".join([value] * 8) + ","])
    yield "1e308 in the evaluations", lambda place: _evaluation(place, "1000,0,0,1e308,0,0,-1e308")
    yield "one context of two", lambda place: place.forge(contexts=["row"])
    yield "a folder like a temporary file", lambda place: (place.folder / ".x.tmp").mkdir()
    for what, text in {
        "letters of another script": "".join(map(chr, range(0x4E00, 0x4E78))),
        "escape codes": "\x1b]0;x\x07\x1b[2J",
        "mathtext": r"$\frac{1}$_^{",
        "formula": "=cmd|'/c x'!A1",
    }.items():
        yield (
            f"{what} in names",
            lambda place, text=text: place.forge(name=text, label=text, contexts=[text, text + "2"]),
        )


def _code(place: Place) -> Path:
    path = place.folder / "own.py"
    path.write_text(CODE.format(trap=str(place.trap)))
    return path


def _stages(place: Place, lines: list[str]) -> None:
    path = place.folder / "stages.csv"
    path.write_text("\n".join([path.read_text().splitlines()[0], *lines, ""]))


def _evaluation(place: Place, line: str) -> None:
    path = place.folder / "evaluations.csv"
    path.write_text(f"{path.read_text()}{line}\n")


def _pickle(place: Place) -> None:
    kept = checkpoint.load(checkpoint_path(place.folder))
    trap = np.frombuffer(pickle.dumps(Trap(place.trap)), np.uint8)
    config = {**kept.meta["config"], "backend": "sb3"}
    place.config(backend="sb3")
    archive = {**kept.arrays, "sb3/model": trap, "sb3/state/policy": trap}
    checkpoint.save(checkpoint_path(place.folder), archive, {**kept.meta, "config": config})


def _learner(place: Place, field: str, value: object) -> None:
    own = json.loads((place.folder / "config.json").read_text())["learner_options"]
    place.forge(learner_options={**own, field: value})


def _link(place: Place, name: str, target: Path) -> None:
    (place.folder / name).unlink(missing_ok=True)
    (place.folder / name).symlink_to(target)


def _pipe(place: Place, name: str) -> None:
    (place.folder / name).unlink(missing_ok=True)
    os.mkfifo(place.folder / name)


def _hard_link(place: Place, name: str) -> None:
    if (place.folder / name).exists():
        shutil.move(place.folder / name, place.outside / name)
    else:
        (place.outside / name).write_text("do not touch")
    os.link(place.outside / name, place.folder / name)


def _link_folder(place: Place, name: str) -> None:
    target = place.outside / name
    if (place.folder / name).exists():
        shutil.move(place.folder / name, target)
    else:
        target.mkdir()
        for file in ("run.png", "contexts.png", "stages.png", ".x.tmp"):
            (target / file).write_text("do not touch")
    (place.folder / name).symlink_to(target)


def attack(
    whole: Path, work: Path, make: Callable[[Place], None], commands: list[str], run: Callable[..., str]
) -> list[str]:
    """Make a copy of a run's folder hostile, run commands on it, and say what went wrong."""
    found = []
    for command in commands:
        shutil.rmtree(work, ignore_errors=True)
        place = Place(work / "run", work / "outside", work / TRAP)
        shutil.copytree(whole, place.folder)
        place.outside.mkdir()
        (place.outside / "precious.csv").write_text("do not touch")
        make(place)
        before = _contents(place.outside)
        problems = run(COMMANDS[command](place.folder))
        if place.trap.exists():
            problems = f"{problems} code was executed"
        if _contents(place.outside) != before:
            problems = f"{problems} a file outside was changed"
        found += [f"{command}: {problems.strip()}"] if problems else []
    return found


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def in_process(arguments: list[str]) -> str:
    """Run a command in a fork of this process, which has imported all it needs; what is wrong with how it ended."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = os.fork()
        if not process:
            os.dup2(output.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            os._exit(run_measured(arguments))
        deadline = time.monotonic() + 4 * SECONDS
        while not (ended := os.wait4(process, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                return f"no end after {4 * SECONDS:g} s"
            time.sleep(0.01)
        _, status, usage = ended
        output.seek(0)
        errors.seek(0)
        *said, last = errors.read().splitlines() or ["0"]
        seconds, memory = usage.ru_utime + usage.ru_stime, int(last) if last.isdigit() else 0
        return judged(os.waitstatus_to_exitcode(status), "\n".join(said), output.read(), seconds, memory)


def judged(code: int, errors: str, output: str, seconds: float = 0.0, memory: int = 0) -> str:
    """What is wrong with the end of a command."""
    found = []
    if code not in (0, 1, 2) or "Traceback" in errors:
        found.append(f"exit code {code}: {errors[-200:]}")
    lines = [line for line in errors.splitlines() if line.startswith("geodesic: ")]
    if code and len(lines) != 1:
        found.append(f"{len(lines)} lines of reasons")
    if len(errors) > LETTERS:
        found.append(f"{len(errors)} characters of errors")
    if "site-packages" in errors:
        found.append("a warning of a library")
    if "\x1b]" in errors + output:
        found.append("escape codes")
    if seconds > SECONDS:
        found.append(f"{seconds:.0f} s")
    if memory > MEMORY:
        found.append(f"{memory / 2**20:.0f} MiB")
    return "; ".join(found)


def run_measured(arguments: list[str]) -> int:
    """Run a command here, and write the most memory that it and its processes had as the last line of its errors."""
    try:
        code = command_line(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    own = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())  # ru_maxrss begins with the parent's
    most = max(int(own[1]) if own else 0, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    sys.stderr.write(f"{most * 1024}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def whole_run(folder: Path) -> Path:
    """A run that was interrupted, made in another process: one that has started JAX cannot be forked."""
    process = multiprocessing.get_context("spawn").Process(target=interrupted, args=(folder,))
    process.start()
    process.join()
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="kinds of folders whose names contain this text")
    parser.add_argument("--commands", default=",".join(COMMANDS), help="commands, separated by commas")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        whole = whole_run(Path(folder) / "whole")
        for name, make in kinds():
            if options.only not in name:
                continue
            found = attack(whole, Path(folder) / "work", make, options.commands.split(","), in_process)
            failed += bool(found)
            print(f"{name:<40} {'; '.join(found) or 'harmless'}", flush=True)
    print(f"{failed} kinds of hostile folders are not harmless")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
