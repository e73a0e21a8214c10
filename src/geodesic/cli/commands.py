"""The commands that train nothing, one function each; everything they do is a call into the library."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from geodesic.errors import InvalidInput, RunFailed

if TYPE_CHECKING:
    from rich.console import Console

Command = Callable[[argparse.Namespace, "Console"], None]


def list_all(options: argparse.Namespace, console: Console) -> None:
    from geodesic import curricula, learners, tasks
    from geodesic.runs.config import BACKENDS, METRICS

    tables = {
        "tasks": tasks.names(),
        "methods": {name: (method.__doc__ or "").split("\n")[0] for name, method in curricula.REGISTRY.items()},
        "learners": {name: line for name, (_, line) in learners.REGISTRY.items()},
        "backends": BACKENDS,
        "metrics": METRICS,
    }
    for title, rows in tables.items():
        console.print(title, style="bold")
        for name, text in rows.items():
            console.print(f"  {name:<13} {text}")


def check_one(options: argparse.Namespace, console: Console) -> None:
    from geodesic.tasks import check_task, load

    task = load(options.task)
    check_task(task)
    console.print(f"{task} is fine")


def plan_curriculum(options: argparse.Namespace, console: Console) -> None:
    from geodesic.report.figures import write_plan_figures
    from geodesic.runs.config import slug
    from geodesic.runs.plan import plan
    from geodesic.tasks import load

    task = load(options.task)
    made = plan(task, _alphas(options.alphas), options.metric)
    out = options.out or Path("runs") / slug(task.name) / "plan"
    written = write_plan_figures(out, task, made.alphas, made.paths, made.distances, made.metric)
    for line in [*made.lines(), *(f"  wrote {path}" for path in written)]:
        console.print(line)


def report(options: argparse.Namespace, console: Console) -> None:
    """The figures are drawn in a process of their own, while the page is made."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from geodesic.report.figures import write_comparison_figures, write_run_figures
    from geodesic.report.page import check_extra, write_report

    check_extra()
    draw = write_run_figures if (options.folder / "config.json").exists() else write_comparison_figures
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        drawn = pool.submit(draw, options.folder, None, ("pdf", "svg"))
        page = write_report(options.folder, film=not options.no_film, figures=drawn.result)
    for path in drawn.result():
        console.print(f"  wrote {path} and the same as PDF and SVG")
    console.print(f"  wrote {page}")


def watch_runs(options: argparse.Namespace, console: Console) -> None:
    from geodesic.checks import as_positive
    from geodesic.report.watch import watch

    every = as_positive(options.every, "--every")
    try:
        watch(options.folder, console, every, options.once)
    except KeyboardInterrupt:
        return  # whoever watches may leave; the runs go on


def theory(options: argparse.Namespace, console: Console) -> None:
    import numpy as np

    from geodesic.analysis.theory import check

    findings = check(np.random.default_rng(0))
    for finding in findings:
        console.print(finding)
    failed = [finding.claim for finding in findings if not finding.holds]
    if failed:
        raise RunFailed(f"expected every claim to hold, got {len(failed)} that fail: {'; '.join(failed)}")
    console.print(f"Verdict: all {len(findings)} claims hold.")


def _alphas(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"expected --alphas as numbers separated by commas, got {text!r}") from None
