"""Process-wide settings of JAX and its neighbours: XLA's flags, threads, and the cache of compiled programs.

Every module of this package that computes with JAX calls `set_xla_flags` on import. XLA reads its flags when the first
device starts, so this is early enough, unless the user's program has run JAX before.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import warnings
from functools import cache
from pathlib import Path

from geodesic.errors import InvalidInput, RunWarning

XLA_FLAGS = {
    # these networks are too small for threads; runs are spread over cores instead
    "xla_cpu_multi_thread_eigen": "false",
    # with this scheduler, programs of several runs can deadlock with every thread idle (JAX 0.10.2; a test shows it)
    "xla_cpu_enable_concurrency_optimized_scheduler": "false",
}
UNUSED_BY_POT = ("PYTORCH", "TENSORFLOW", "CUPY")  # POT imports them only to see if they exist; torch takes seconds
GC_THRESHOLD = 10_000  # new objects between two collections; Python's 700 costs a tenth of imports, tracing and figures


def set_xla_flags() -> None:
    """Set XLA's flags for this process and its children, keeping the user's own.

    Warns once if JAX has already started and the flags come too late.
    """
    given = os.environ.get("XLA_FLAGS", "")
    ours = [f"--{name}={value}" for name, value in XLA_FLAGS.items() if name not in given]
    if not ours:
        return
    if _jax_has_started():
        _warn_once(" ".join(ours))
    else:
        os.environ["XLA_FLAGS"] = " ".join([*ours, given]).strip()


def configure_process() -> None:
    """Configure a process that runs only this package's code: a command or a worker.

    Linear algebra uses one thread, XLA's flags are set, POT skips backends that are not needed, and garbage collection
    is rarer and skipped at exit, where the system frees all memory anyway. Warnings about runs take one line. A cache
    of compiled programs that cannot be read or written, as on a full disk, is no news: the programs are compiled.
    """
    warnings.formatwarning = _format_warning
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for library in UNUSED_BY_POT:
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{library}", "1")
    gc.set_threshold(GC_THRESHOLD)
    atexit.register(gc.freeze)
    set_xla_flags()


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning about a run in one line, without the place in the code that noticed it."""
    if issubclass(category, RunWarning):
        return f"geodesic: {' '.join(str(message).split())}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"


def enable_compilation_cache(folder: Path | None = None) -> None:
    """Keep compiled programs on disk, so that the next run of the same shape starts at once.

    Args:
        folder: Where to keep them (default: the environment variable JAX_COMPILATION_CACHE_DIR, or the user's cache).
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
    """Refuse to use JAX in a process that was forked after JAX had started.

    Such a process has a copy of JAX's locks but not of its threads, so it would wait forever.

    Raises:
        InvalidInput: If this process is one.
    """
    if _FORKED:
        raise InvalidInput(
            "expected a process that was not forked after JAX had started; try another start method, "
            "such as AsyncVectorEnv(..., context='forkserver')"
        )


def _note_fork() -> None:
    if _jax_has_started():
        _FORKED.append(os.getpid())


_FORKED: list[int] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def _jax_has_started() -> bool:
    """Whether JAX has already started a device in this process."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(bridge.backends_are_initialized())


@cache
def _warn_once(flags: str) -> None:
    warnings.warn(
        f"JAX was started before geodesic could set XLA's flags, so several runs at once may stall on a CPU; "
        f"import geodesic's trainer first, or set XLA_FLAGS='{flags}'",
        RuntimeWarning,
        stacklevel=3,
    )
