"""Time one plan and 20 alphas, and measure their memory, against a barycenter from a random start for each alpha.

    python -m benchmarks.speed.transport

The peer is POT's free_support_barycenter, called as the authors of GRADIENT do. Where that takes seconds, it is timed
on a few of the 20 alphas and scaled.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

import geodesic as gd

SIZES = (100, 1000, 2000, 10_000, 100_000)
PEER_ALPHAS = {100: 20, 1000: 4}
ALPHAS = np.linspace(0, 1, 22)[1:-1]


def clouds(n: int) -> tuple[gd.Particles, gd.Particles]:
    rng = np.random.default_rng(0)
    return gd.Particles.gaussian([0, 4.25], [2, 1.875], n, rng), gd.Particles.gaussian([2.5, 0.5], [0.4, 0.375], n, rng)


def ours(n: int) -> tuple[float, float, float]:
    """Seconds for the plan, seconds for the alphas, and the plan's excess cost."""
    source, target = clouds(n)
    start = time.perf_counter()
    path = gd.Geodesic(source, target)
    excess = path.plan.excess
    planned = time.perf_counter()
    for alpha in ALPHAS:
        path(alpha)
    return planned - start, time.perf_counter() - planned, excess


def peer(n: int, alphas: int) -> tuple[float, float]:
    """Seconds for all alphas, scaled from some; W2 of the last barycenter to the geodesic, relative to the whole W2."""
    import ot

    source, target = clouds(n)
    rng = np.random.default_rng(1)
    start = time.perf_counter()
    for alpha in ALPHAS[:: len(ALPHAS) // alphas]:
        points = ot.lp.free_support_barycenter(
            [source.points, target.points],
            [source.weights, target.weights],
            X_init=rng.uniform(-4, 8, (n, 2)),
            weights=np.array([1 - alpha, alpha]),
        )
    seconds = (time.perf_counter() - start) * len(ALPHAS) / alphas
    path = gd.Geodesic(source, target)
    return seconds, gd.wasserstein(gd.Particles(points), path(alpha)) / path.length


def peak_memory() -> float:
    """The peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def row(n: int) -> str:
    """A row of the table."""
    import ot.lp  # noqa: F401  so that the import is not timed

    before = peak_memory()
    plan, alphas, excess = ours(n)
    memory = peak_memory() - before
    line = f"{n:>8} {plan:>9.3f} {alphas:>10.4f} {excess:>9.2%} {memory:>9.0f}"
    if n not in PEER_ALPHAS:
        return line
    seconds, off = peer(n, PEER_ALPHAS[n])
    return f"{line} {seconds:>9.2f} {seconds / (plan + alphas):>7.1f} {off:>9.2%}"


def main() -> None:
    if len(sys.argv) > 1:
        print(row(int(sys.argv[1])), flush=True)
        return
    heads = ("n", 8), ("plan s", 9), ("20 alphas", 10), ("excess <", 9), ("MiB", 9), ("peer s", 9), ("ratio", 7)
    print(*(f"{name:>{width}}" for name, width in (*heads, ("peer off", 9))), flush=True)
    for n in SIZES:  # one process each, so that memory peaks do not mix
        subprocess.run([sys.executable, "-m", "benchmarks.speed.transport", str(n)], check=True)
    print("peer: free_support_barycenter from a random start, timed on", PEER_ALPHAS, "alphas, scaled to 20")


if __name__ == "__main__":
    main()
