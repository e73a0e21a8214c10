"""`import geodesic` is light: what is heavy is imported when it is used."""

import subprocess
import sys

HEAVY = ("torch", "mujoco", "ray", "matplotlib", "ot", "jax", "sklearn", "tensorboard", "stable_baselines3")


def test_import_is_light():
    code = f"import sys, geodesic; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_training_in_jax_needs_no_torch():
    code = "import sys, geodesic.experiments.run; print([n for n in ('torch', 'mujoco', 'ray') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
