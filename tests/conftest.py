"""Before any test imports JAX: programs run in the calling thread, and compiled ones are kept between test runs.

They are compiled with fewer of LLVM's optimisations, in two thirds of the time, which in the first test run of a new
clone is minutes; programs of this size run as fast.
"""

import os
import sys
from pathlib import Path

from geodesic.runtime import ours_alone

LESS_OPTIMISED = "xla_backend_optimization_level"

sys.path.insert(0, str(Path(__file__).parent))  # for the helpers that several test files share
sys.path.append(str(Path(__file__).parent.parent))  # for the benchmarks, of which some have a share in the tests

ours_alone()
if LESS_OPTIMISED not in os.environ["XLA_FLAGS"]:
    os.environ["XLA_FLAGS"] += f" --{LESS_OPTIMISED}=1"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "programs"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
