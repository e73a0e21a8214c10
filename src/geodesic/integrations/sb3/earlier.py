"""What Stable-Baselines3's PPO was in its first versions, by means of today's: one network, and time limits as ends."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from gymnasium import Space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnvWrapper

LIMIT = "TimeLimit.truncated"


class Trunk(BaseFeaturesExtractor):
    """The hidden layers that policy and value share."""

    def __init__(self, observation_space: Space[Any], net: list[int], activation: type[torch.nn.Module]) -> None:
        super().__init__(observation_space, net[-1])
        sizes = (int(torch.Size(observation_space.shape or ()).numel()), *net)
        layers = [part for m, n in pairwise(sizes) for part in (torch.nn.Linear(m, n), activation())]
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), *layers)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layers(obs)  # type: ignore[no-any-return]


def shared_policy(net: list[int], activation: type[torch.nn.Module]) -> dict[str, Any]:
    """`policy_kwargs` of a policy and a value that are read off one network."""
    own = {"net": net, "activation": activation}
    return {"net_arch": [], "features_extractor_class": Trunk, "features_extractor_kwargs": own}


class LimitsAsEnds(VecEnvWrapper):
    """Environments that do not say whether a time limit or the task itself ended an episode."""

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        obs, rewards, dones, infos = self.venv.step_wait()
        return obs, rewards, dones, [{**info, LIMIT: False} if LIMIT in info else info for info in infos]
