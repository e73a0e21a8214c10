"""A function in another process, for work that may crash or hang. The helper process ends when this one does.

If it dies, this is reported as a one-line error. Results return through a pipe; a helper whose pipe closes removes its
temporary files and exits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Generic, Self, TypeVar

from geodesic.errors import RunFailed, format_error
from geodesic.runs.stopping import Stopping
from geodesic.runtime import configure_process

START = "import sys; sys.path[:] = {path}; from geodesic.runs.helper import serve; serve({descriptor})"
POLL_SECONDS = 0.5  # between two checks for a signal
EXIT_SECONDS = 5.0  # for a helper to exit by itself when its pipe is closed

T = TypeVar("T")


class Helper(Generic[T]):
    """A function call in another process, which ends with the `with` block.

    Args:
        work: What it does, for error messages.
        function: A function that can be imported.
        arguments: Its arguments.
        quiet: Whether to drop what its libraries print.
    """

    def __init__(self, work: str, function: Callable[..., T], *arguments: object, quiet: bool = False) -> None:
        self.work = work
        self._outcome: tuple[T, str] | None = None
        self.pipe, theirs = Pipe()
        command = [sys.executable, "-c", START.format(path=sys.path, descriptor=theirs.fileno())]
        null = subprocess.DEVNULL
        with theirs:  # its own session: a Ctrl-C in a terminal reaches this process alone
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=null, stderr=null if quiet else None, start_new_session=True
            )
        with contextlib.suppress(OSError):  # it has died, which `result` notices
            self.pipe.send((function, arguments))

    def result(self, seconds: float = float("inf")) -> T:
        """Wait for the result.

        Args:
            seconds: The longest time to wait.

        Raises:
            RunFailed: If the call fails, takes longer or crashes.
            KeyboardInterrupt: After Ctrl-C or SIGTERM.
        """
        if self._outcome is None:
            self._wait(seconds)
            self._outcome = self._receive()
        value, error = self._outcome
        if error:
            raise RunFailed(error)
        return value

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with Stopping() as stop:
            while not self.pipe.poll(POLL_SECONDS) and not stop.asked:
                if time.monotonic() > deadline:
                    raise RunFailed(f"{self.work}: no answer within {seconds:g} seconds")
            if stop.asked:
                raise KeyboardInterrupt

    def _receive(self) -> tuple[T, str]:
        try:
            outcome: tuple[T, str] = self.pipe.recv()
        except (EOFError, OSError):
            ended = self.process.wait()
            how = signal.Signals(-ended).name if ended < 0 else f"exit code {ended}"
            raise RunFailed(f"{self.work}: its process died ({how}); it may need more memory") from None
        return outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(EXIT_SECONDS)
        self.process.kill()
        self.process.wait()


def serve(descriptor: int) -> None:
    """The helper's side: receive a call, and send its result or its error.

    Args:
        descriptor: The helper's end of the pipe.
    """
    configure_process()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    pipe = Connection(descriptor)
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError):
        function, arguments = pipe.recv()
        threading.Thread(target=_exit_with_parent, args=(pipe,), daemon=True).start()
        pipe.send(_outcome(function, arguments))
    os._exit(0)


def _outcome(function: Callable[..., Any], arguments: tuple[object, ...]) -> tuple[Any, str]:
    try:
        return function(*arguments), ""
    except Exception as error:
        return None, format_error(error)


def _exit_with_parent(pipe: Connection) -> None:
    """Exit when the pipe closes: after removing temporary files, or by force if a library does not return soon."""
    with contextlib.suppress(EOFError, OSError):
        pipe.recv()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(EXIT_SECONDS / 2)
    os._exit(1)
