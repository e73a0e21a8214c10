"""`import geodesic` is fast: heavy packages are imported when they are used."""

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "mujoco",
    "ray",
    "matplotlib",
    "ot",
    "jax",
    "sklearn",
    "tensorboard",
    "stable_baselines3",
    "gymnax",
    "brax",
)
GYMNASIUM_TASK = """
import numpy as np
import geodesic as gd

def set_context(env, length):
    env.length = length

task = gd.Task(
    env="CartPole-v1", contexts={"length": (0.1, 1.0, "m")}, source={"length": (0.5, 1.0)}, target={"length": 0.1},
    threshold=100.0, set_context=set_context,
)
"""
LOOP = """
teacher = gd.Teacher(task, "gradient:step=0.5:window=2")
env = task.make()
while not teacher.done:
    contexts = teacher.sample(4)
    for context in contexts:
        env.reset(seed=0, options={"context": context})
    teacher.report(contexts, np.full(4, 200.0), np.full(4, 200))
assert teacher.distribution == task.target_particles
assert teacher.step == 2 * 4 * 200
"""


def loaded(code, names=HEAVY):
    """The modules among these that a new process has loaded after running the code."""
    whole = f"import sys\n{code}\nprint([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "code",
    [
        "import geodesic",
        "import geodesic.cli; geodesic.cli.parser()",
        "import geodesic.records, geodesic.training.trainer",
    ],
)
def test_import_loads_nothing_heavy(code):
    assert loaded(code, (*HEAVY, "scipy")) == "[]"


def test_a_gymnasium_task_needs_nothing_heavy():
    assert loaded(GYMNASIUM_TASK + "task.make(); repr(task); task.metric_names") == "[]"


def test_a_custom_training_loop_needs_no_jax():
    """POT solves transport along straight lines, so it may be loaded."""
    assert loaded(GYMNASIUM_TASK + LOOP, tuple(name for name in HEAVY if name != "ot")) == "[]"


def test_a_teacher_alone_needs_nothing_heavy():
    assert loaded(GYMNASIUM_TASK + 'gd.Teacher(task, "gradient").sample(3)') == "[]"


def test_training_in_jax_needs_no_torch():
    assert loaded("import geodesic.runs.run, geodesic.api", ("torch", "mujoco", "ray", "stable_baselines3")) == "[]"


def test_a_command_that_solves_transport_problems_needs_no_torch(tmp_path):
    """POT imports torch unless it is disabled; a worker would spend most of its start on that."""
    code = f"from geodesic.cli import main; main(['plan', 'maze', '--out', {str(tmp_path)!r}])"
    assert loaded(code, ("torch", "ot")) == "['ot']"


def test_every_public_name_exists():
    code = "import geodesic as gd; print([name for name in gd.__all__ if not hasattr(gd, name)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
