"""How the policy of a Stable-Baselines3 or SBX model acts, as data; see `records.network`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from geodesic.envs.gymnasium import is_image
from geodesic.errors import InvalidInput, format_error
from geodesic.integrations.sb3.models import NORMALIZER, STATE
from geodesic.records.checkpoint import Json
from geodesic.records.network import Network, describe_action, describe_observation

Model = Any
Module = Any


def describe(model: Model) -> Json | str:
    """A `Network` as JSON, or why the policy is none: convolutions, observations with parts, ..."""
    try:
        return _network(model).to_json()
    except InvalidInput as error:
        return format_error(error)


def _network(model: Model) -> Network:
    observation = describe_observation(model.observation_space)
    if is_image(model.observation_space):
        raise InvalidInput(f"images of shape {tuple(observation)}")
    normalizer = model.get_vec_normalize_env()
    normalized = normalizer is not None and normalizer.norm_obs
    action = describe_action(model.action_space)
    torch = bool(model._get_torch_save_params()[0])
    layers, activation, squash = (_torch_layers if torch else _flax_layers)(model.policy)
    return Network(
        kernels=[f"{STATE}policy/{name}" for name, _ in layers],
        biases=[f"{STATE}policy/{name}" for _, name in layers],
        activation=activation,
        squash=squash,
        observation=observation,
        action={**action, "start": 0} if "start" in action else action,  # as these libraries count
        transposed=torch,
        moments=[f"{NORMALIZER}observation/{field}" for field in ("mean", "var")] if normalized else None,
        epsilon=normalizer.epsilon if normalized else 0.0,
        clip=normalizer.clip_obs if normalized else 0.0,
    )


def _torch_layers(policy: Any) -> tuple[list[tuple[str, str]], str, bool]:
    """The names of the layers of a policy in PyTorch, their activation, and whether tanh follows them."""
    from torch import nn

    activations = {nn.Tanh: "tanh", nn.ReLU: "relu", nn.ELU: "elu"}
    modules = list(_flat(_torch_modules(policy)))
    if type(modules[-1]) is nn.Tanh and policy.squash_output:  # of TD3, which has no distribution
        modules.pop()
    names = {id(module): name for name, module in policy.named_modules()}
    between = [module for module in modules if not isinstance(module, nn.Linear)]
    alternate = all(isinstance(module, nn.Linear) == (k % 2 == 0) for k, module in enumerate(modules))
    kinds = {activations.get(type(module), type(module).__name__) for module in between}
    if not alternate or not len(modules) % 2 or not kinds <= {*activations.values()} or len(kinds) > 1:
        raise InvalidInput(f"layers {', '.join(type(module).__name__ for module in modules)}")
    linear = [names[id(module)] for module in modules if isinstance(module, nn.Linear)]
    layers = [(f"{name}.weight", f"{name}.bias") for name in linear]
    return layers, next(iter(kinds), "tanh"), bool(policy.squash_output)


def _torch_modules(policy: Any) -> list[Module]:
    """The modules from observation to output, of the policies that Stable-Baselines3 has."""
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.dqn.policies import DQNPolicy
    from stable_baselines3.sac.policies import SACPolicy
    from stable_baselines3.td3.policies import TD3Policy

    if type(policy) is ActorCriticPolicy:
        return [_extractor(policy.pi_features_extractor), policy.mlp_extractor.policy_net, policy.action_net]
    if type(policy) is SACPolicy:
        return [_extractor(policy.actor.features_extractor), policy.actor.latent_pi, policy.actor.mu]
    if type(policy) is TD3Policy:
        return [_extractor(policy.actor.features_extractor), policy.actor.mu]
    if type(policy) is DQNPolicy:
        return [_extractor(policy.q_net.features_extractor), policy.q_net.q_net]
    raise InvalidInput(f"a policy {type(policy).__name__}")


def _extractor(extractor: Module) -> Module:
    from stable_baselines3.common.torch_layers import FlattenExtractor

    from geodesic.integrations.sb3.legacy import Trunk

    if type(extractor) is Trunk:
        return extractor.layers
    if type(extractor) is FlattenExtractor:
        return extractor.flatten
    raise InvalidInput(f"a features extractor {type(extractor).__name__}")


def _flat(modules: Iterable[Module]) -> Iterable[Module]:
    """The layers inside of sequences, without those that only flatten."""
    from torch import nn

    for module in modules:
        if isinstance(module, nn.Sequential):
            yield from _flat(module)
        elif not isinstance(module, (nn.Flatten, nn.Identity)):
            yield module


def _flax_layers(policy: Any) -> tuple[list[tuple[str, str]], str, bool]:
    """The same of SBX's PPO and SAC."""
    kind = f"{type(policy).__module__}.{type(policy).__name__}"
    actor: Any = getattr(policy, "actor", None)
    plain = type(actor).__name__ in ("Actor", "SquashedGaussianActor")
    images = getattr(actor, "features_extractor", None) is not None
    if kind not in ("sbx.ppo.policies.PPOPolicy", "sbx.sac.policies.SACPolicy") or images or not plain:
        raise InvalidInput(f"a policy {type(policy).__name__} of SBX")
    place = "actor_state.params['params']['Dense_{}']['{}']"
    layers = [(place.format(k, "kernel"), place.format(k, "bias")) for k in range(len(actor.net_arch) + 1)]
    return layers, actor.activation_fn.__name__, bool(policy.squash_output)
