"""What a fault does in the end; imports nothing of ours, since executors load it by itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence


def fell(processes: Sequence[int]) -> None:
    """SIGKILL to each of them, in this order."""
    for process in processes:
        os.kill(process, signal.SIGKILL)


def note(line: str, path: str | None) -> None:
    """Append by one write: it must be there when the process is killed the moment after."""
    if path:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, (line + "\n").encode())
        os.close(file)
