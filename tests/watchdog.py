"""Ends the processes that this Python has started when it is gone, however it ended.

Linux's parent-death signal would be sent when the *thread* that started a process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import subprocess
import sys
from functools import cache

import psutil


def watch(pid: int) -> None:
    """Have a child killed when this Python ends."""
    stdin = _guard().stdin
    # A guard that somebody killed takes the protection away, and nothing else.
    with contextlib.suppress(BrokenPipeError):
        if stdin is not None:
            stdin.write(f"{pid}\n")
            stdin.flush()


@cache
def _guard() -> subprocess.Popen[str]:
    guard = subprocess.Popen(
        [sys.executable, "-I", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for this Python
        text=True,
    )
    atexit.register(guard.communicate)
    return guard


def _main() -> None:
    watched = []
    for line in sys.stdin:
        with contextlib.suppress(psutil.NoSuchProcess):
            watched.append(psutil.Process(int(line)))
    for process in watched:
        with contextlib.suppress(psutil.Error):
            process.kill()  # psutil knows it from a later one with its id


if __name__ == "__main__":
    _main()
