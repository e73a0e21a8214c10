"""Settings for every test, made before JAX is imported.

JAX runs programs in the calling thread, and compiled programs are cached between test runs. They are compiled with
fewer of LLVM's optimisations, which takes a third less time; programs of this size run as fast.
"""

import os
import sys
from pathlib import Path

from geodesic.runtime import configure_process

LESS_OPTIMISED = "xla_backend_optimization_level"

sys.path.insert(0, str(Path(__file__).parent))  # for the helpers that several test files share
sys.path.append(str(Path(__file__).parent.parent))  # for the benchmarks that have tests

configure_process()
if LESS_OPTIMISED not in os.environ["XLA_FLAGS"]:
    os.environ["XLA_FLAGS"] += f" --{LESS_OPTIMISED}=1"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "programs"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("XDG_STATE_HOME", str(Path(__file__).parent.parent / ".pytest_cache" / "state"))
