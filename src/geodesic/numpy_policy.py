"""A trained policy in plain NumPy.

This file imports nothing else: copy it to where the policy is used.

    from numpy_policy import load_policy

    policy = load_policy("policy.npz")
    action = policy(observation)
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np

FORMAT = "geodesic-policy-1"
ACTIVATIONS: dict[str, Any] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
}


class Policy:
    """Deterministic actions of fully connected layers: observation -> action.

    Observations have the shape that the policy was trained on, or one more axis in front for several at once.

    Args:
        arrays: The arrays of an exported file, by name. `kernel_0`, `bias_0`, `kernel_1`, ...: the layers. `mean`,
            `scale` and `clip`, if observations are normalised. `start`: the number of the first action, if actions are
            discrete; otherwise the bounds `low` and `high`, and `squash`: whether tanh limits actions to them.

    Raises:
        ValueError: If the arrays are not a valid policy.
    """

    def __init__(self, arrays: dict[str, Any]) -> None:
        if str(arrays.get("format")) != FORMAT:
            raise ValueError(f"expected a policy of format {FORMAT}, got {str(arrays.get('format'))[:40]!r}")
        try:
            self.about: dict[str, Any] = json.loads(str(arrays["about"]))
            self.activation = ACTIVATIONS[str(arrays["activation"])]
            self.shape = tuple(int(side) for side in arrays["observation_shape"])
            count = sum(name.startswith("kernel_") for name in arrays)
            self.layers = [(arrays[f"kernel_{k}"], arrays[f"bias_{k}"]) for k in range(count)]
            self.arrays = arrays
            self._check()
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"expected the arrays of a policy, got others: {error}") from error

    def __call__(self, observation: Any) -> Any:
        """Choose an action for an observation, or actions (n, ...) for observations (n, ...)."""
        arrays, x = self.arrays, np.asarray(observation)
        single = x.ndim <= len(self.shape)
        if x.shape[(0 if single else 1) :] != self.shape:
            raise ValueError(f"expected an observation of shape {self.shape}, got shape {x.shape}")
        x = x.reshape(1 if single else len(x), -1)
        if "mean" in arrays:
            x = np.clip((x - arrays["mean"]) / arrays["scale"], -arrays["clip"], arrays["clip"])
        x = x.astype(np.float32)
        for place, (kernel, bias) in enumerate(self.layers, start=1):
            x = x @ kernel + bias
            x = x if place == len(self.layers) else self.activation(x)
        if "start" in arrays:
            actions = arrays["start"] + x.argmax(axis=-1)
            return actions[0] if single else actions
        low, high = arrays["low"], arrays["high"]
        x = x.reshape(len(x), *low.shape)
        if arrays["squash"]:
            x = low + 0.5 * (np.tanh(x) + 1.0) * (high - low)
        actions = np.clip(x, low, high).astype(low.dtype)
        return actions[0] if single else actions

    def _check(self) -> None:
        """Refuse arrays that do not fit together, or weights that are not finite."""
        sizes = [int(np.prod(self.shape)), *(kernel.shape[1] for kernel, _ in self.layers)]
        pairs = zip(self.layers, pairwise(sizes))
        fits = [kernel.shape == size and bias.shape == size[1:] for (kernel, bias), size in pairs]
        moments = [self.arrays[name] for name in ("mean", "scale", "clip") if "mean" in self.arrays]
        fits += [moment.shape in ((), (sizes[0],)) for moment in moments]
        if "start" in self.arrays:
            fits.append(self.arrays["start"].shape == () and self.arrays["start"].dtype.kind == "i" and sizes[-1] > 0)
        else:
            low, high = self.arrays["low"], self.arrays["high"]
            fits += [low.shape == high.shape, low.size == sizes[-1], self.arrays["squash"].shape == ()]
            fits.append(low.dtype == high.dtype and low.dtype.kind in "fiu")
        weights = [array for layer in self.layers for array in layer]
        finite = all(array.dtype.kind == "f" and np.isfinite(array).all() for array in [*weights, *moments])
        if not (self.layers and all(fits) and finite):
            raise ValueError("expected finite layers that fit together, got others")


def load_policy(path: Any) -> Policy:
    """Load a policy from a file (.npz); nothing in it is executed.

    Args:
        path: The file.

    Returns:
        The policy; `policy.about` says where it comes from.

    Raises:
        ValueError: If the file does not hold a valid policy.
    """
    with np.load(path, allow_pickle=False) as file:
        return Policy({name: file[name] for name in file.files})
