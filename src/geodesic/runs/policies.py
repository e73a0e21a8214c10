"""Policies of run folders in plain NumPy: from data alone, without the task and the learner."""

from __future__ import annotations

import json
from pathlib import Path

from geodesic.errors import CheckpointError, InvalidInput
from geodesic.numpy_policy import Policy
from geodesic.records import check_recorded_config, checkpoint, read_config
from geodesic.records.checkpoint import Json
from geodesic.records.network import Network
from geodesic.training.best import policy_arrays


def description_of(folder: Path) -> Json | str:
    """How the policy of a run acts, as a `Network` in JSON, or why it cannot be described."""
    found = checkpoint.load_newest(folder, only=()).meta.get("policy")
    return found if isinstance(found, dict) else str(found or "a run of another training loop, which keeps its agent")


def portable_policy(folder: Path, which: str) -> Policy:
    """The best or the last policy of a run; one that is not of fully connected layers is refused."""
    config, description = read_config(folder), description_of(folder)
    check_recorded_config(folder, config)
    if not isinstance(description, dict):
        raise InvalidInput(
            "expected a policy of fully connected layers, such as that of PPO or SAC, got "
            f"{description:.120} in {folder}"
        )
    network = Network.from_json(description)
    arrays, found = policy_arrays(folder, network.names, which)
    step = found.count("best", "step") if which == "best" else found.count("step")
    about = {"task": config.name, "method": config.label, "seed": config.seed, "policy": which, "step": step}
    try:
        return network.policy(arrays, json.dumps(about))
    except ValueError as error:
        raise CheckpointError(f"damaged checkpoint {found.path}: {error}") from error
