"""PPO as in the first versions of Stable-Baselines3: one network, and time limits treated as terminations."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import Space
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, create_mlp
from stable_baselines3.common.vec_env import VecEnvWrapper

LIMIT = "TimeLimit.truncated"


class Trunk(BaseFeaturesExtractor):
    """The hidden layers that policy and value share."""

    def __init__(self, observation_space: Space[Any], net: list[int], activation: type[torch.nn.Module]) -> None:
        super().__init__(observation_space, net[-1])
        layers = create_mlp(get_flattened_obs_dim(observation_space), -1, net, activation)
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), *layers)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """The features (n, net[-1]) of observations."""
        return self.layers(obs)  # type: ignore[no-any-return]


def shared_policy(net: list[int], activation: type[torch.nn.Module]) -> dict[str, Any]:
    """`policy_kwargs` for a policy and a value function that share one network."""
    own = {"net": net, "activation": activation}
    return {"net_arch": [], "features_extractor_class": Trunk, "features_extractor_kwargs": own}


class LimitsAsEnds(VecEnvWrapper):
    """Environments that do not say whether a time limit or the task itself ended an episode."""

    def reset(self) -> Any:
        """Reset the environments."""
        return self.venv.reset()

    def step_wait(self) -> Any:
        """Wait for the step, and report time limits as terminations."""
        obs, rewards, dones, infos = self.venv.step_wait()
        return obs, rewards, dones, [{**info, LIMIT: False} if LIMIT in info else info for info in infos]
