"""XLA's flags and the settings of a process, each tested in a fresh process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from geodesic.runtime import XLA_FLAGS

ROOT = Path(__file__).parent.parent
STARTED = "from jax._src import xla_bridge; print(xla_bridge.backends_are_initialized())"
FLAGS = "import os; print(sorted(os.environ.get('XLA_FLAGS', '').split()))"
OURS = sorted(f"--{name}={value}" for name, value in XLA_FLAGS.items())


def run_python(*lines, flags=None):
    """Run lines in a fresh process; return what it prints, and its warnings."""
    env = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "OMP_NUM_THREADS")}
    if flags is not None:
        env["XLA_FLAGS"] = flags
    code = "\n".join(lines)
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), [line for line in done.stderr.splitlines() if "RuntimeWarning" in line]


def test_two_flags_are_set():
    assert OURS == [
        "--xla_cpu_enable_concurrency_optimized_scheduler=false",
        "--xla_cpu_multi_thread_eigen=false",
    ]


@pytest.mark.parametrize("module", ["geodesic.envs.cmdp", "geodesic.learners.base", "geodesic.training.compiled"])
def test_flags_are_set_before_any_device_starts(module):
    printed, warned = run_python(
        f"import {module}", FLAGS, STARTED, "import jax; print(jax.numpy.ones(2).sum())", STARTED
    )
    assert printed == [str(OURS), "False", "2.0", "True"]
    assert warned == []


@pytest.mark.parametrize("name", ["ContextualMDP", "train"])
def test_public_names_set_them_too(name):
    printed, warned = run_python("import geodesic as gd", FLAGS, f"gd.{name}", FLAGS, STARTED)
    assert printed == ["[]", str(OURS), "False"]
    assert warned == []


@pytest.mark.parametrize("own", ["--xla_cpu_multi_thread_eigen=true", "--xla_force_host_platform_device_count=2"])
def test_the_users_own_flags_are_kept(own):
    printed, warned = run_python("import geodesic.envs.cmdp", FLAGS, "import jax; print(len(jax.devices()))", flags=own)
    named = own[2:].split("=")[0]
    assert printed[0] == str(sorted([own, *(flag for flag in OURS if named not in flag)]))
    assert printed[1] == ("2" if "count" in own else "1")
    assert warned == []


def test_one_warning_with_advice_if_jax_has_already_started():
    printed, warned = run_python(
        "import jax; jax.devices()",
        "import geodesic.envs.cmdp, geodesic.learners.base, geodesic.training.compiled, geodesic.runs.run",
        "from geodesic.runtime import set_xla_flags; set_xla_flags(); set_xla_flags()",
        FLAGS,
    )
    assert printed == ["[]"]  # no flag is set when it would have no effect
    (line,) = warned
    assert "JAX was started before geodesic could set XLA's flags" in line
    assert "import geodesic's trainer first, or set XLA_FLAGS='" in line
    assert all(flag in line for flag in OURS)


def test_following_the_advice_removes_the_warning():
    flags = " ".join(OURS)
    printed, warned = run_python("import jax; jax.devices()", "import geodesic.envs.cmdp", FLAGS, flags=flags)
    assert (printed, warned) == ([str(OURS)], [])


def test_flags_are_set_in_time_if_jax_was_only_imported():
    printed, warned = run_python("import jax", "import geodesic.envs.cmdp", FLAGS)
    assert (printed, warned) == ([str(OURS)], [])


def test_a_command_uses_one_thread():
    printed, _ = run_python(
        "import os, geodesic.cli", "geodesic.cli.main(['list'])", "print('|' + os.environ['OMP_NUM_THREADS'])", FLAGS
    )
    assert printed[-2:] == ["|1", str(OURS)]


def test_a_command_exits_without_a_final_garbage_collection():
    """It would take half a second after a comparison."""
    command = "import atexit, geodesic.cli", "geodesic.cli.main(['list'])", "atexit.register(print, 'exited')"
    ring = "class Ring:", "    def __del__(self): print('collected')", "ring = Ring()", "ring.own = ring", "del ring"
    assert run_python(*command, *ring)[0][-1] == "exited"


def test_flags_are_defined_in_one_file():
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    assert len(texts) > 60
    holders = [path.name for path in texts if "xla_cpu" in path.read_text() or "XLA_FLAGS" in path.read_text()]
    assert holders == ["runtime.py"]


def test_the_compilation_cache_uses_the_given_folder(tmp_path):
    code = (
        "from pathlib import Path",
        "from geodesic.runtime import enable_compilation_cache",
        f"enable_compilation_cache(Path({str(tmp_path)!r}))",
        "import jax; print(jax.config.jax_compilation_cache_dir)",
    )
    assert run_python(*code)[0] == [str(tmp_path)]


def test_warnings_about_runs_take_one_line():
    code = (
        "import warnings; from geodesic.errors import RunWarning; from geodesic.runtime import configure_process\n"
        "configure_process()\nwarnings.warn('stage 3 rests', RunWarning)\nwarnings.warn('other', UserWarning)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines() == ["geodesic: stage 3 rests", "<string>:4: UserWarning: other"]
