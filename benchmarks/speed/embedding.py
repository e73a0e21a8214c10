"""Time the training of the embedding for one stage: one compiled loop against a plain PyTorch DataLoader loop.

Both learn the same distances between 500 contexts for 100 epochs, in batches of about 512 pairs, with Adam 1e-3 and
beta 10. The PyTorch side visits every ordered pair once per epoch, as the authors' procedure does. It is timed on a few
epochs and scaled, because all of them take many minutes. Ours visits every unordered pair once per epoch on average,
all pairs of 32 contexts at a time. An epoch therefore means a different number of updates on each side, so errors on
held-out contexts are printed for both, and the second ratio is the time to equal errors.

    python -m benchmarks.speed.embedding [--torch-epochs 2]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import cdist

from geodesic.contexts import ContextSpace
from geodesic.metrics.embedding import Embedding, Latent

EPOCHS, CONTEXTS = 100, 500
Map = Callable[[np.ndarray], np.ndarray]


def sheet(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Contexts (n, 3) on a swiss roll and the distances (n, n) along it."""
    turn, height = rng.uniform(2.4, 7.1, n), rng.uniform(0, 10, n)
    flat = np.stack([(turn * np.sqrt(1 + turn**2) + np.arcsinh(turn)) / 2, height], axis=1)
    return np.stack([turn * np.cos(turn), height, turn * np.sin(turn)], axis=1), cdist(flat, flat)


def torch_epochs(x: np.ndarray, distances: np.ndarray, epochs: int, seed: int) -> tuple[float, Map, Map]:
    """Train with a dataset of pairs, a shuffling loader and a Python loop; seconds per epoch, encoder, decoder."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    torch.set_num_threads(1)

    def mlp(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, outputs))

    encoder, decoder = mlp(x.shape[1], 2), mlp(2, x.shape[1])
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    i, j = np.nonzero(~np.eye(len(x), dtype=bool))
    columns = [torch.tensor(values, dtype=torch.float32) for values in (x[i], x[j], distances[i, j])]
    loader = DataLoader(TensorDataset(*columns), batch_size=512, shuffle=True)
    mse = nn.MSELoss()
    start = time.perf_counter()
    for _ in range(epochs):
        for a, b, d in loader:
            adam.zero_grad()
            za, zb = encoder(a), encoder(b)
            loss = 10 * mse(torch.norm(za - zb, dim=1), d) + mse(decoder(za), a) + mse(decoder(zb), b)
            loss.backward()
            adam.step()
    seconds = (time.perf_counter() - start) / epochs

    def encode(points: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return encoder(torch.tensor(points, dtype=torch.float32)).numpy()

    def decode(latent: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return decoder(torch.tensor(latent, dtype=torch.float32)).numpy()

    return seconds, encode, decode


def ours(x: np.ndarray, distances: np.ndarray, space: ContextSpace, epochs: int) -> tuple[float, float, Latent]:
    """Seconds of the first call (with compilation) and of the second one, and the embedding."""
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        metric = Embedding(space, 0.0, epochs=epochs).embed(x, distances, np.random.default_rng(0))
        seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1], metric


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-epochs", type=int, default=2)
    epochs = parser.parse_args().torch_epochs

    rng = np.random.default_rng(0)
    (x, distances), (held_out, true) = sheet(CONTEXTS, rng), sheet(300, rng)
    space = ContextSpace(x.min(axis=0), x.max(axis=0))
    sides, unit = space.high - space.low, distances.max()

    def scaled(points: np.ndarray) -> np.ndarray:
        return 2 * (points - space.low) / sides - 1

    def errors(z: np.ndarray, decoded: np.ndarray) -> np.ndarray:
        """Mean error of distances relative to their mean, and of reconstructions (rms) relative to the range."""
        pairs = np.triu_indices(len(true), 1)
        distance = np.abs(cdist(z, z) - true / unit)[pairs].mean() / (true / unit)[pairs].mean()
        return np.array([distance, np.sqrt(np.mean((decoded - scaled(held_out)) ** 2)) / 2])

    print(f"{'':40s} {'seconds':>9s} {'dist. %':>9s} {'recon. %':>9s}")
    per_epoch, encode, decode = torch_epochs(scaled(x), distances / unit, epochs, seed=0)
    z = encode(scaled(held_out))
    reached = errors(z, decode(z))
    row(f"PyTorch DataLoader, {epochs} epochs", epochs * per_epoch, reached)
    row(f"PyTorch DataLoader, {EPOCHS} epochs (scaled)", EPOCHS * per_epoch)
    equal = None
    for count in (20, 40, 60, EPOCHS):
        first, second, metric = ours(x, distances, space, count)
        z = metric.encode(held_out)
        found = errors(z / unit, scaled(metric.decode(z)))
        row(f"geodesic, {count} epochs", second, found)
        if equal is None and (found <= reached).all():
            equal = epochs * per_epoch / second
    row(f"geodesic, {EPOCHS} epochs, with compilation", first)
    whole = EPOCHS * per_epoch
    print(f"ratio for {EPOCHS} epochs: {whole / second:.1f} x, {whole / first:.1f} x with compilation")
    print("ratio to equal errors:", "not reached" if equal is None else f"{equal:.1f} x")


def row(name: str, seconds: float, found: np.ndarray | None = None) -> None:
    print(f"{name:40s} {seconds:9.2f}" + ("" if found is None else "".join(f"{100 * value:10.2f}" for value in found)))


if __name__ == "__main__":
    main()
