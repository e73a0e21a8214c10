"""Simulate how often 95 % intervals over seeds cover: ours and the bootstrap's, on seeds from known distributions.

    python -m benchmarks.studies.coverage [--samples 4000]

For each distribution the true median, interquartile mean or probability of improvement is known. It prints the fraction
of samples whose interval contains it ("-" where ours needs more seeds) and the mean width, in standard deviations (for
a probability: as it is). The bootstrap is the percentile one, as in rliable; `t` is Student's on the trimmed mean
(Tukey and McLaughlin 1963).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from scipy import stats

from geodesic.analysis.intervals import (
    Ends,
    interquartile_mean,
    iqm_interval,
    median,
    median_interval,
    probability_interval,
)

Sampler = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

SEEDS = (3, 5, 10, 20)
RESAMPLES = 500


def modes(low: float, spread: float) -> Sampler:
    """A fraction `low` of the seeds fail, around 0; the others solve the task, around 10."""
    return lambda rng, size: np.where(rng.random(size) < low, 0.0, 10.0) + spread * rng.normal(size=size)


SHAPES: dict[str, Sampler] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "skewed (lognormal)": lambda rng, size: rng.lognormal(size=size),
    "heavy-tailed (t, 2 degrees)": lambda rng, size: rng.standard_t(2, size),
    "bimodal, half fail": modes(0.5, 1.0),
    "bimodal, 70 % fail": modes(0.7, 0.3),
    "all or nothing, 72 % fail": modes(0.72, 0.0),
}

STATISTICS = {"median": (median, median_interval), "interquartile mean": (interquartile_mean, iqm_interval)}


def truth(shape: Sampler, statistic: Callable[[np.ndarray], np.ndarray]) -> float:
    return float(statistic(shape(np.random.default_rng(1), (2_000_000,))))


def improvement(shape: Sampler, other: Sampler) -> float:
    """P(X > Y) + P(X = Y) / 2, from a million pairs."""
    x, y = (draw(np.random.default_rng(k), (1_000_000,)) for k, draw in enumerate((shape, other)))
    return float(((x > y) + 0.5 * (x == y)).mean())


def fractions(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fraction of the pairs that the first side wins: x, y (samples, seeds) -> (samples,)."""
    return ((x[:, :, None] > y[:, None]) + 0.5 * (x[:, :, None] == y[:, None])).mean(axis=(1, 2))


def probability_ends(values: np.ndarray, pairs: int) -> Ends:
    """Our interval for each estimate (samples,)."""
    levels, inverse = np.unique(values, return_inverse=True)
    ends = np.array([probability_interval(float(level), pairs) for level in levels])
    return ends[inverse, 0], ends[inverse, 1]


def percentiles(resampled: np.ndarray) -> Ends:
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0)
    return low, high


def bootstrap(values: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator) -> Ends:
    """Percentile interval of each column of values (seeds, samples)."""
    draws = rng.integers(len(values), size=(RESAMPLES, len(values)))
    return percentiles(np.stack([statistic(values[row]) for row in draws]))


def bootstrap_fractions(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Ends:
    wins = (x[:, :, None] > y[:, None]) + 0.5 * (x[:, :, None] == y[:, None])
    rows = rng.integers(x.shape[1], size=(RESAMPLES, x.shape[1]))
    columns = rng.integers(y.shape[1], size=(RESAMPLES, y.shape[1]))
    return percentiles(np.stack([wins[:, a][:, :, b].mean(axis=(1, 2)) for a, b in zip(rows, columns)]))


def trimmed_t(values: np.ndarray) -> Ends:
    """Student's interval of the trimmed mean, from the winsorised variance, of each column."""
    n = len(values)
    cut = n // 4
    ordered = np.sort(values, axis=0)
    ordered[:cut], ordered[n - cut :] = ordered[cut], ordered[n - cut - 1]
    error = ordered.std(axis=0, ddof=1) / (1 - 2 * cut / n) / np.sqrt(n)
    reach = stats.t.ppf(0.975, n - 2 * cut - 1) * error
    middle = interquartile_mean(values)
    return middle - reach, middle + reach


def covered(ends: Ends, true: float) -> float:
    return float(((ends[0] <= true) & (true <= ends[1])).mean())


def cell(ends: Ends, true: float, unit: float = 1.0) -> str:
    if np.isnan(ends[0]).all():
        return f"{'-':>14}"
    return f"{covered(ends, true):>6.1%} ({(ends[1] - ends[0]).mean() / unit:4.2f})"


def order_statistics(samples: int, rng: np.random.Generator) -> None:
    """Print the coverage for medians and interquartile means."""
    for name, (statistic, interval) in STATISTICS.items():
        rivals = ["bootstrap"] if name == "median" else ["bootstrap", "t (trimmed)"]
        print(f"\n{name:<28} seeds  {' '.join(f'{who:>14}' for who in ['ours', *rivals])}")
        for shape, draw in SHAPES.items():
            true, unit = truth(draw, statistic), float(draw(rng, (100_000,)).std())
            for seeds in SEEDS:
                values = draw(rng, (seeds, samples))
                given = [interval(values), bootstrap(values, statistic, rng)]
                given += [trimmed_t(values)] * (len(rivals) - 1)
                print(f"{shape:<28} {seeds:>5}  {' '.join(cell(ends, true, unit) for ends in given)}")


def probabilities(samples: int, rng: np.random.Generator) -> None:
    """Print the coverage for probabilities of improvement."""
    print(f"\n{'probability of improvement':<40} seeds  {'ours':>14} {'bootstrap':>14}")
    for shape, draw in SHAPES.items():
        for shift in (0.5, 2.0):
            other = OTHERS.get(shape, lambda rng, size, draw=draw, shift=shift: draw(rng, size) - shift)
            true = improvement(draw, other)
            for seeds in SEEDS:
                x, y = draw(rng, (samples, seeds)), other(rng, (samples, seeds))
                given = [probability_ends(fractions(x, y), seeds), bootstrap_fractions(x, y, rng)]
                name = f"{shape}, truth {true:.2f}"
                print(f"{name:<40} {seeds:>5}  {' '.join(cell(ends, true) for ends in given)}")
            if shape in OTHERS:
                break


# Values between the modes: the pairs are then as random as the seeds of one side alone.
OTHERS: dict[str, Sampler] = {
    "bimodal, 70 % fail": lambda rng, size: np.full(size, 5.0),
    "all or nothing, 72 % fail": modes(0.95, 0.0),
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4000)
    options = parser.parse_args()
    order_statistics(options.samples, np.random.default_rng(0))
    probabilities(options.samples, np.random.default_rng(0))
