"""Which processes have a database open: only they can hold its lock."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import psutil

_BESIDE = ("", "-wal", "-shm", "-journal")
_SHOWN = 120


class Holder(NamedTuple):
    """A process that has the database open."""

    pid: int
    stopped: bool
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command}{', stopped' if self.stopped else ''})"


def holders(path: Path) -> list[Holder]:
    """Return the other processes of this machine that have the file open, the stopped ones first.

    Those of other users may be missing: their files cannot be seen. A command line is shown up to
    its first argument, since others may hold secrets.
    """
    names = {f"{path.resolve()}{ending}" for ending in _BESIDE}
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if names.isdisjoint(file.path for file in process.open_files()):
                continue
            stopped = process.status() == psutil.STATUS_STOPPED
            command = " ".join(process.cmdline()[:2]) or process.name()
        except psutil.Error:  # it has ended, or belongs to somebody else
            continue
        found.append(Holder(process.pid, stopped, command[:_SHOWN]))
    return sorted(found, key=lambda one: (not one.stopped, one.pid))
