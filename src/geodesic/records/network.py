"""A policy of fully connected layers, described so that the arrays in a checkpoint are enough to act anywhere.

The description is data in the checkpoint: using it needs neither the task nor the learner, and executes no code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import gymnasium as gym
import numpy as np

from geodesic.contexts import Array, Arrays
from geodesic.errors import InvalidInput, format_error, short_repr
from geodesic.numpy_policy import ACTIVATIONS, FORMAT, Policy
from geodesic.records.checkpoint import Json

LARGEST = 10**7  # values of an observation or an action
DTYPES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Network:
    """Which arrays of a checkpoint are the layers of a policy, and how their output becomes an action.

    Args:
        kernels: The names of the layers' weights.
        biases: The names of their biases.
        activation: The function between layers.
        squash: Whether tanh maps outputs into the bounds of the actions; otherwise they are clipped.
        observation: The shape of an observation.
        action: The number of discrete actions and the first of them, or the bounds of continuous ones.
        transposed: Whether weights are (outputs, inputs), as in PyTorch.
        moments: The names of the mean and the variance of observations, if they are normalised.
        epsilon: Added to the variance.
        clip: The largest normalised value.
    """

    kernels: list[str]
    biases: list[str]
    activation: str
    squash: bool
    observation: list[int]
    action: Json
    transposed: bool = False
    moments: list[str] | None = None
    epsilon: float = 0.0
    clip: float = 0.0

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise InvalidInput(f"expected layers with {', '.join(ACTIVATIONS)}, got {short_repr(self.activation)}")

    def to_json(self) -> Json:
        """The description as JSON has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """What `to_json` gave, from any source."""
        try:
            made = cls(**values)
            names = [*made.kernels, *made.biases, *(made.moments or ())]
            known = all(isinstance(name, str) for name in names) and len(made.moments or (0, 0)) == 2
            flags = isinstance(made.squash, bool) and isinstance(made.transposed, bool)
            numbers = all(type(value) in (int, float) for value in (made.epsilon, made.clip))
            if not (known and flags and numbers) or len(made.kernels) != len(made.biases):
                raise ValueError("values of other types")
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"expected the description of a policy, got {format_error(error, 80)}") from error
        return made

    @property
    def names(self) -> list[str]:
        """The names of all arrays that it uses."""
        return [*self.kernels, *self.biases, *(self.moments or ())]

    def policy(self, found: Arrays, about: str = "{}") -> Policy:
        """The policy of these arrays, which may be untrusted; `policy.arrays` is what a file holds.

        Raises:
            ValueError: If they do not fit the description.
        """
        try:
            return Policy(self._arrays(found, about))
        except (KeyError, TypeError, IndexError, AttributeError, OverflowError, InvalidInput) as error:
            raise ValueError(f"expected the arrays of a policy: {format_error(error, 80)}") from error

    def _arrays(self, found: Arrays, about: str) -> Arrays:
        action = _action_arrays(self.action)
        outputs = self.action["n"] if "n" in self.action else action["low"].size
        kernels = [found[name].T if self.transposed else found[name] for name in self.kernels]
        biases = [found[name] for name in self.biases]
        kernels[-1], biases[-1] = kernels[-1][:, :outputs], biases[-1][:outputs]  # others are a deviation
        arrays = {
            "format": np.array(FORMAT),
            "about": np.array(about),
            "activation": np.array(self.activation),
            "observation_shape": np.array(_as_shape(self.observation), np.int64),
            **{f"kernel_{k}": _as_weights(kernel) for k, kernel in enumerate(kernels)},
            **{f"bias_{k}": _as_weights(bias) for k, bias in enumerate(biases)},
            **action,
        }
        if self.moments is not None:
            mean, variance = (found[name].reshape(-1) for name in self.moments)
            if not (variance >= 0).all():
                raise ValueError("a negative variance")
            scale = np.sqrt(variance + variance.dtype.type(self.epsilon))
            arrays |= {"mean": mean, "scale": scale, "clip": np.array(self.clip, mean.dtype)}
        return arrays if "n" in self.action else {**arrays, "squash": np.array(self.squash)}


def describe_action(space: gym.Space[Any]) -> Json:
    """Discrete or continuous actions as JSON; others are refused."""
    if isinstance(space, gym.spaces.Discrete):
        return {"n": int(space.n), "start": int(space.start)}
    if isinstance(space, gym.spaces.Box) and str(space.dtype) in DTYPES:
        bounds = {"low": space.low.ravel().tolist(), "high": space.high.ravel().tolist()}
        return {**bounds, "shape": list(space.shape), "dtype": str(space.dtype)}
    raise InvalidInput(f"actions {short_repr(space)}")


def describe_observation(space: gym.Space[Any]) -> list[int]:
    """The shape of observations that are arrays of numbers; others are refused."""
    if isinstance(space, gym.spaces.Box):
        return list(space.shape)
    raise InvalidInput(f"observations {short_repr(space)}")


def _action_arrays(action: Json) -> Arrays:
    if "n" in action:
        if type(action["n"]) is not int or type(action["start"]) is not int or not 0 < action["n"] <= LARGEST:
            raise ValueError("discrete actions of another type")
        return {"start": np.array(action["start"], np.int64)}
    if action["dtype"] not in DTYPES:
        raise ValueError("actions of another type")
    shape, kind = _as_shape(action["shape"]), action["dtype"]
    low, high = (np.array(action[name], kind).reshape(shape) for name in ("low", "high"))
    return {"low": low, "high": high}


def _as_shape(sides: Sequence[int]) -> tuple[int, ...]:
    if not all(type(side) is int and side > 0 for side in sides) or math.prod(sides) > LARGEST:
        raise ValueError("another shape")
    return tuple(sides)


def _as_weights(array: Array) -> Array:
    if array.dtype.kind != "f":
        raise ValueError(f"weights of {array.dtype}")
    return np.ascontiguousarray(array, np.float32)
