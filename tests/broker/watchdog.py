"""A small process that ends a broker's processes when the Python that started them is gone.

`Watchdog` is the side of the parent. The other side is this file run as a script: it reads
`+<pid>` and `-<pid>` lines, and when its input ends without a farewell, because the parent was
killed, it kills what it watches. A pipe is used and not Linux's parent-death signal, since
that one is sent when the *thread* that started the child ends, and needs code between fork and
exec, which can lock up a process with threads.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path


class Watchdog:
    """Watches over child processes from outside for as long as this Python lives."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the parent, which then says what to do
            text=True,
        )

    def watch(self, pid: int) -> None:
        """Have `pid` killed when this Python dies."""
        self._send(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """Let go of `pid`, which has ended."""
        self._send(f"-{pid}\n")

    def close(self) -> None:
        """End the guard; whatever it still watches is killed."""
        with contextlib.suppress(BrokenPipeError):  # it was killed: nothing left to send
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, line: str) -> None:
        stdin = self._process.stdin
        # A guard that somebody killed takes the protection away, and nothing else.
        with contextlib.suppress(BrokenPipeError):
            if stdin is not None:
                stdin.write(line)
                stdin.flush()


def _main() -> None:
    watched: dict[int, int | None] = {}
    for line in sys.stdin:
        pid = int(line[1:])
        if line[0] == "+":
            _watch(watched, pid)
        else:
            watched.pop(pid, None)
    for pid, handle in watched.items():
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "linux" and handle is not None:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            elif handle is None:
                os.kill(pid, signal.SIGKILL)


def _watch(watched: dict[int, int | None], pid: int) -> None:
    """Add `pid` with a handle that no later process of the same number can take over.

    The handle is None where the system has none. A process that is gone is not added: its
    number may be another's by the time of the kill.
    """
    handle = None
    if sys.platform == "linux":
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        except OSError:
            pass  # a kernel before 5.3, or a sandbox that forbids it: the number has to do
    watched[pid] = handle


if __name__ == "__main__":
    _main()
