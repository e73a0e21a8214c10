"""The public calls that bring other libraries in; where one is not installed, they are refused with what to add."""

from __future__ import annotations

from benchmarks.fuzz.values import Texts, either, flag, maybe, number, seed, whole

OTHERS: dict[str, dict[str, Texts]] = {
    "envs.from_gymnax": {
        "env": either("'CartPole-v1'", "'MountainCar-v0'"),
        "params": either("None"),
        "contexts": either("{'gravity': (5.0, 20.0)}", "gd.ContextSpace.named({'gravity': (1.0, 2.0)})"),
        "apply": either("None", "lambda params, gravity: params.replace(gravity=gravity)"),
        "observe": flag,
    },
    "envs.from_brax": {
        "env": either("'inverted_pendulum'"),
        "contexts": either("{'gravity': (5.0, 20.0)}", "gd.ContextSpace.named({'gravity': (5.0, 20.0)})"),
        "apply": either("lambda sys, gravity: sys.replace(gravity=-gravity * jnp.array([0.0, 0.0, 1.0]))"),
        "observe": flag,
        "max_steps": maybe(whole),
    },
    "gd.rllib.with_curriculum": {
        "config": either("ppo_config()"),
        "task": either("walk", "pole", "'maze'"),
        "method": either("'gradient'", "'spdl'", "'alp-gmm:fit_rate=5'"),
        "out": either("None", "SCRATCH / 'rllib'"),
        "seed": seed,
        "steps": maybe(whole),
        "metric": either("None", "'l2'"),
        "threshold": maybe(number),
    },
}
