"""What JAX is told before it starts, each time in a process of its own."""

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


def said(*lines, flags=None):
    """What a fresh process prints, and its warnings."""
    env = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "OMP_NUM_THREADS")}
    if flags is not None:
        env["XLA_FLAGS"] = flags
    code = "\n".join(lines)
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), [line for line in done.stderr.splitlines() if "RuntimeWarning" in line]


def test_both_flags_are_ours():
    assert OURS == [
        "--xla_cpu_enable_concurrency_optimized_scheduler=false",
        "--xla_cpu_multi_thread_eigen=false",
    ]


@pytest.mark.parametrize("module", ["geodesic.envs.cmdp", "geodesic.learners.base", "geodesic.training.compiled"])
def test_flags_are_set_before_any_device_starts(module):
    shown, warned = said(f"import {module}", FLAGS, STARTED, "import jax; print(jax.numpy.ones(2).sum())", STARTED)
    assert shown == [str(OURS), "False", "2.0", "True"]
    assert warned == []


@pytest.mark.parametrize("name", ["ContextualMDP", "train"])
def test_the_public_names_set_them_too(name):
    shown, warned = said("import geodesic as gd", FLAGS, f"gd.{name}", FLAGS, STARTED)
    assert shown == ["[]", str(OURS), "False"]
    assert warned == []


@pytest.mark.parametrize("own", ["--xla_cpu_multi_thread_eigen=true", "--xla_force_host_platform_device_count=2"])
def test_a_users_own_setting_stays(own):
    shown, warned = said("import geodesic.envs.cmdp", FLAGS, "import jax; print(len(jax.devices()))", flags=own)
    named = own[2:].split("=")[0]
    assert shown[0] == str(sorted([own, *(flag for flag in OURS if named not in flag)]))
    assert shown[1] == ("2" if "count" in own else "1")
    assert warned == []


def test_if_jax_runs_already_one_warning_says_what_to_do():
    shown, warned = said(
        "import jax; jax.devices()",
        "import geodesic.envs.cmdp, geodesic.learners.base, geodesic.training.compiled, geodesic.runs.run",
        "from geodesic.runtime import prepare; prepare(); prepare()",
        FLAGS,
    )
    assert shown == ["[]"]  # a setting that nobody reads any more is not made
    (line,) = warned
    assert "JAX was started before geodesic could set XLA's flags" in line
    assert "import geodesic's trainer first, or set XLA_FLAGS='" in line
    assert all(flag in line for flag in OURS)


def test_the_advice_in_the_warning_helps():
    flags = " ".join(OURS)
    shown, warned = said("import jax; jax.devices()", "import geodesic.envs.cmdp", FLAGS, flags=flags)
    assert (shown, warned) == ([str(OURS)], [])


def test_jax_that_was_only_imported_can_still_be_told():
    shown, warned = said("import jax", "import geodesic.envs.cmdp", FLAGS)
    assert (shown, warned) == ([str(OURS)], [])


def test_a_command_works_in_one_thread():
    shown, _ = said(
        "import os, geodesic.cli", "geodesic.cli.main(['list'])", "print('|' + os.environ['OMP_NUM_THREADS'])", FLAGS
    )
    assert shown[-2:] == ["|1", str(OURS)]


def test_a_command_leaves_without_a_last_search_for_garbage():
    """Through all that is in memory then; it took half a second after a comparison."""
    command = "import atexit, geodesic.cli", "geodesic.cli.main(['list'])", "atexit.register(print, 'left')"
    ring = "class Ring:", "    def __del__(self): print('found')", "ring = Ring()", "ring.own = ring", "del ring"
    assert said(*command, *ring)[0][-1] == "left"


def test_the_flags_are_written_in_one_place():
    """The command line, for one, has no flags of its own."""
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    assert len(texts) > 60
    holders = [path.name for path in texts if "xla_cpu" in path.read_text() or "XLA_FLAGS" in path.read_text()]
    assert holders == ["runtime.py"]


def test_compiled_programs_are_kept_where_they_are_told(tmp_path):
    code = (
        "from pathlib import Path",
        "from geodesic.runtime import keep_programs",
        f"keep_programs(Path({str(tmp_path)!r}))",
        "import jax; print(jax.config.jax_compilation_cache_dir)",
    )
    assert said(*code)[0] == [str(tmp_path)]
