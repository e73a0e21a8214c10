"""Saving a Stable-Baselines3 or SBX model as named arrays, with its replay buffer and VecNormalize, and restoring it.

Nothing is pickled, so a checkpoint cannot run code. Saved are networks, optimisers and counters; hyperparameters and
everything else are those of the model that is restored, which the caller has made.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from geodesic.checks import as_path, is_number
from geodesic.contexts import Array, Arrays
from geodesic.errors import CheckpointError, format_error
from geodesic.records import read_config
from geodesic.training.best import policy_arrays

PREFIX = "sb3/"
STATE, COUNTERS = PREFIX + "state/", PREFIX + "counters/"
BUFFER, NORMALIZER = PREFIX + "buffer/", PREFIX + "normalizer/"
PUBLIC = ("num_timesteps", "exploration_rate", "reset_idx")  # counters whose names do not begin with "_"
NOT_RESTORED = ("_total_timesteps",)  # belong to this call of `learn`, not to the saved model
NOT_ACTING = re.compile(r"target|opt_state|policy/(critic|vf_state)")  # of the numbers in a policy
KINDS = ("b", "iu", "f")  # groups of array types that may replace each other
FORM_ERRORS = (KeyError, ValueError, RuntimeError, AttributeError, TypeError, IndexError, OverflowError)

Model = Any
Buffer = Any
Tree = Any  # of JAX arrays


def name_of(model: Model) -> str:
    """The full name of its class: 'stable_baselines3.ppo.ppo.PPO'."""
    return f"{type(model).__module__}.{type(model).__qualname__}"


def save_model(model: Model) -> Arrays:
    """Everything that decides what the model does next, except the running episodes."""
    arrays: Arrays = {COUNTERS + name: np.asarray(value) for name, value in _counters(model).items()}
    arrays |= {STATE + name: _as_array(value) for name, value in _state(model).items()}
    buffer = getattr(model, "replay_buffer", None)
    if buffer is not None:
        rows = _rows(buffer)
        arrays |= {BUFFER + name: array[: rows if cut else None].copy() for name, array, cut in _parts(buffer)}
        arrays |= {BUFFER + name: np.asarray(getattr(buffer, name)) for name in ("pos", "full")}
    return arrays | {NORMALIZER + name: np.asarray(getattr(of, field)) for name, of, field in _moments(model)}


def save_policy(model: Model) -> Arrays:
    """Those of the arrays of `save_model` that the model's actions depend on."""
    found = {name: value for name, value in _state(model).items() if name.startswith("policy/")}
    others = "policy/qf_state" if any(name.startswith("policy/actor") for name in found) else " "
    networks = {name: value for name, value in found.items() if not (NOT_ACTING.search(name) or others in name)}
    moments = {name: np.asarray(getattr(of, field)) for name, of, field in _moments(model)}
    return {
        **{STATE + name: _as_array(value) for name, value in networks.items()},
        **{NORMALIZER + name: value for name, value in moments.items() if not name.startswith("reward/")},
    }


def restore(model: Model, folder: str | Path, which: str = "best") -> Model:
    """Put the trained policy of a run into a model, for example to save it with `model.save`.

    Args:
        model: A model as the script of the run makes it, with its VecNormalize if it has one.
        folder: The run folder of a `CurriculumCallback`.
        which: "best": the policy with the best smoothed evaluation on the target; "last": that of the last checkpoint.

    Returns:
        The same model; its networks and the moments of VecNormalize are those of the policy.

    Raises:
        CheckpointError: If the run is of another algorithm, or of other sizes.
        InvalidInput: If the folder is not that of a run, or nothing was evaluated.

    Example:
        Save the best policy of a script as a file of Stable-Baselines3::

            model = PPO("MlpPolicy", make_vec_env(task.make))
            gd.sb3.restore(model, "runs/mine").save("policy.zip")
    """
    path = as_path(folder)
    read_config(path)  # refuses a folder that is not that of a run
    own = save_policy(model)
    restore_model(model, {**save_model(model), **policy_arrays(path, own, which)[0]})
    return model


def restore_model(model: Model, arrays: Arrays) -> None:
    """Restore a model, with its environment, to the state of `save_model`; its running episodes start over."""
    try:
        for name, value in _counters(model).items():
            setattr(model, name, _count(value, arrays[COUNTERS + name]))
        state = {name.removeprefix(STATE): array for name, array in arrays.items() if name.startswith(STATE)}
        _restore_tensors(model, state)
        _restore_trees(model, state)
        if getattr(model, "replay_buffer", None) is not None:
            _restore_buffer(model.replay_buffer, arrays)
        for name, of, field in _moments(model):
            setattr(
                of, field, _like(getattr(of, field), arrays[NORMALIZER + name], least=None if field == "mean" else 0)
            )
    except FORM_ERRORS as error:
        raise CheckpointError(
            f"expected a checkpoint of {name_of(model)} with these spaces and sizes, got "
            f"{format_error(error, 120)}; try another out="
        ) from error


def _counters(model: Model) -> dict[str, float]:
    """Numbers that count what the model has done; its hyperparameters have names without an underscore."""
    return {
        name: value
        for name, value in vars(model).items()
        if is_number(value) and (name.startswith("_") or name in PUBLIC) and name not in NOT_RESTORED
    }


def _count(old: float, new: Array) -> Any:
    if new.dtype.kind not in ("iuf" if isinstance(old, float) else "iu") or not -1e15 < new < 1e15:
        raise ValueError(f"a counter of {new.dtype}")
    return float(new) if isinstance(old, float) else int(_like(old, new, least=0))


def _state(model: Model) -> dict[str, Any]:
    """The numbers of its networks and optimisers by name."""
    return {**_tensors(model), **_leaves(_trees(model))}


def _as_array(value: Any) -> Array:
    """A copy on the host."""
    return np.array(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


def _tensors(model: Model) -> dict[str, Any]:
    """PyTorch's tensors by name: of networks, of optimisers, and others."""
    parts, others = model._get_torch_save_params()
    found = {name: attrgetter(name)(model) for name in others}
    for part in parts:
        found |= {f"{part}/{name}": tensor for name, tensor in _flat(attrgetter(part)(model).state_dict()).items()}
    return found


def _flat(state: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of a network's state or, by the numbers of its parameters, of an optimiser's."""
    if "param_groups" not in state:
        return dict(state)
    return {
        f"{place}/{name}": value
        for place, own in state["state"].items()
        for name, value in own.items()
        if value is not None
    }


def _restore_tensors(model: Model, state: Arrays) -> None:
    import torch

    parts, others = model._get_torch_save_params()
    for name in others:
        tensor = attrgetter(name)(model)
        tensor.data.copy_(torch.from_numpy(_like(tensor.detach().cpu().numpy(), state[name])))
    for name in parts:
        part, saved = attrgetter(name)(model), _below(f"{name}/", state)
        whole = part.state_dict()
        optimiser = "param_groups" in whole
        expected = _flat(_after_a_step(part) if optimiser else whole)
        if saved.keys() != expected.keys() and not (optimiser and not saved):  # it has not made a step yet
            raise ValueError(f"other parts of {name}")
        tensors = {}
        for key, array in saved.items():
            least = 0 if optimiser and not array.ndim else None  # the number of steps
            tensors[key] = torch.from_numpy(_like(expected[key].detach().cpu().numpy(), array, least))
        part.load_state_dict(_optimiser_state(tensors, whole) if optimiser else tensors)


def _optimiser_state(tensors: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    state: dict[int, dict[str, Any]] = {}
    for key, tensor in tensors.items():
        place, _, name = key.partition("/")
        state.setdefault(int(place), {})[name] = tensor
    return {"state": state, "param_groups": whole["param_groups"]}


def _after_a_step(optimiser: Any) -> dict[str, Any]:
    """The state that an optimiser of these parameters has, once it has made a step."""
    trial = copy.deepcopy(optimiser)
    for group in trial.param_groups:
        for parameter in group["params"]:
            parameter.grad = parameter.detach().clone().zero_()
    trial.step()
    state: dict[str, Any] = trial.state_dict()
    return state


def _trees(model: Model) -> dict[tuple[str, str], Tree]:
    """SBX's networks, optimisers and keys: trees of JAX arrays in attributes of the model and its policy."""
    if model._get_torch_save_params()[0]:
        return {}
    import jax

    found = {}
    for owner, place in (("model", model), ("policy", model.policy)):
        for name, value in vars(place).items():
            leaves = jax.tree.leaves(value)
            if any(isinstance(leaf, jax.Array) for leaf in leaves) and all(map(_is_plain, leaves)):
                found[owner, name] = value
    return found


def _is_plain(leaf: object) -> bool:
    return is_number(leaf) or isinstance(leaf, bool) or hasattr(leaf, "__array__")


def _leaves(trees: Mapping[tuple[str, str], Tree]) -> dict[str, Any]:
    if not trees:
        return {}
    import jax

    return {
        f"{owner}/{name}{jax.tree_util.keystr(place)}": leaf
        for (owner, name), tree in trees.items()
        for place, leaf in jax.tree.leaves_with_path(tree)
    }


def _restore_trees(model: Model, state: Arrays) -> None:
    for (owner, name), tree in _trees(model).items():
        import jax

        def restored(place: Any, leaf: Any, prefix: str = f"{owner}/{name}") -> Any:
            array = _like(np.asarray(leaf), state[prefix + jax.tree_util.keystr(place)])
            return jax.numpy.asarray(array) if isinstance(leaf, jax.Array) else array.item()

        setattr(model if owner == "model" else model.policy, name, jax.tree_util.tree_map_with_path(restored, tree))


def _below(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _rows(buffer: Buffer) -> int:
    """The number of filled rows of a replay buffer."""
    if buffer.full:
        return int(buffer.buffer_size)
    return int(buffer.pos) + bool(getattr(buffer, "optimize_memory_usage", False))


def _parts(buffer: Buffer) -> Iterator[tuple[str, Array, bool]]:
    """The arrays of a replay buffer, by name, and whether each has a row for every transition."""
    for name, value in vars(buffer).items():
        members = value.items() if isinstance(value, dict) else [("", value)]
        for key, array in members:
            if isinstance(array, np.ndarray) and array.ndim:
                yield f"{name}/{key}".removesuffix("/"), array, len(array) == buffer.buffer_size


def _restore_buffer(buffer: Buffer, arrays: Arrays) -> None:
    buffer.pos = _like(0, arrays[BUFFER + "pos"], least=0)
    buffer.full = _like(False, arrays[BUFFER + "full"])
    if buffer.pos >= buffer.buffer_size:
        raise ValueError(f"position {buffer.pos} of {buffer.buffer_size}")
    rows = _rows(buffer)
    for name, array, cut in _parts(buffer):
        array[: rows if cut else None] = _like(array[: rows if cut else None], arrays[BUFFER + name])
    if hasattr(buffer, "truncate_last_trajectory"):  # of hindsight: the running episode is over
        buffer.truncate_last_trajectory()


def _moments(model: Model) -> Iterator[tuple[str, Any, str]]:
    """The moments of VecNormalize: names, and the objects and fields that hold the values."""
    normalizer = model.get_vec_normalize_env()
    if normalizer is None:
        return
    observations = getattr(normalizer, "obs_rms", None)
    each = observations if isinstance(observations, dict) else {"observation": observations}
    for name, moments in {**each, "reward": normalizer.ret_rms}.items():
        if moments is not None:
            yield from ((f"{name}/{field}", moments, field) for field in ("mean", "var", "count"))


def _like(old: Any, new: Array, least: float | None = None) -> Any:
    """A value from a file in the form of the one that it replaces, which it must fit; infinite numbers never do."""
    own = np.asarray(old)
    kinds = [next((kind for kind in KINDS if array.dtype.kind in kind), "") for array in (own, new)]
    if own.shape != new.shape or kinds[0] != kinds[1] or not kinds[0]:
        raise ValueError(f"{new.dtype}{new.shape} for {own.dtype}{own.shape}")
    if not np.isfinite(new).all() or (least is not None and (new < least).any()):
        raise ValueError("numbers that are not possible")
    return new.astype(own.dtype) if isinstance(old, np.ndarray) else new.item()
