"""What JAX is told before it starts: XLA's flags, and where compiled programs are kept.

Every module of this package that computes with JAX calls `prepare` when it is imported. XLA reads its flags when the
first device is used, so that is early enough wherever the package is called from, unless JAX was at work before.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import warnings
from functools import cache
from pathlib import Path

from geodesic.errors import InvalidInput

XLA_FLAGS = {
    # these networks are too small for threads; runs are what is spread over cores
    "xla_cpu_multi_thread_eigen": "false",
    # with it, programs of several runs were seen to stop for good, every thread idle (JAX 0.10.2; a test shows it)
    "xla_cpu_enable_concurrency_optimized_scheduler": "false",
}


def prepare() -> None:
    """Set XLA's flags for this process and its children; what the user has set stays. Warns once if it is too late."""
    given = os.environ.get("XLA_FLAGS", "")
    ours = [f"--{name}={value}" for name, value in XLA_FLAGS.items() if name not in given]
    if not ours:
        return
    if _running():
        _warn_once(" ".join(ours))
    else:
        os.environ["XLA_FLAGS"] = " ".join([*ours, given]).strip()


# what POT would import only to see whether it is there: torch alone takes longer than all else that a worker imports
UNUSED_BY_POT = ("PYTORCH", "TENSORFLOW", "CUPY")


OBJECTS = 10_000  # new ones between two searches for garbage; Python's 700 cost a tenth of imports, tracing and figures


def ours_alone() -> None:
    """For processes that are ours alone, commands and workers: linear algebra in one thread, XLA's flags, POT lean.

    Garbage is searched for less often, and not once more at the end, when the system takes all of it.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for library in UNUSED_BY_POT:
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{library}", "1")
    gc.set_threshold(OBJECTS)
    atexit.register(gc.freeze)
    prepare()


def keep_programs(folder: Path | None = None) -> None:
    """Keep compiled programs on disk, so that the next run of the same shape starts at once.

    JAX_COMPILATION_CACHE_DIR, where it is set, says where.
    """
    import jax

    if folder is None and os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "geodesic" / "programs"
    settings: dict[str, str | float] = {
        "jax_compilation_cache_dir": str(folder or default),
        "jax_persistent_cache_min_compile_time_secs": 0.2,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]


def check_not_forked() -> None:
    """A process forked off one in which JAX was at work has its locks but not its threads, and would wait for ever."""
    if _FORKED:
        raise InvalidInput(
            "expected JAX in a process of its own, got one forked after JAX had started; try another start method, "
            "such as AsyncVectorEnv(..., context='forkserver')"
        )


def _note_fork() -> None:
    if _running():
        _FORKED.append(os.getpid())


_FORKED: list[int] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def _running() -> bool:
    """Whether JAX has already started a device in this process."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(bridge.backends_are_initialized())


@cache
def _warn_once(flags: str) -> None:
    warnings.warn(
        f"JAX was started before geodesic could set XLA's flags: programs of several runs may stall on a CPU; "
        f"import geodesic's trainer first, or set XLA_FLAGS='{flags}'",
        RuntimeWarning,
        stacklevel=3,
    )
