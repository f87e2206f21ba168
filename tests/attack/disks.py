"""A disk of the test's own, in memory, that can be full, or refuse to be written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import finished

_FILLER = "filler"


@dataclass(frozen=True, slots=True)
class Disk:
    """It is at `path`, a folder as any other one."""

    path: Path

    def mount(self, at_the_end: Callable[[Callable[[], object]], None]) -> None:
        """Make it, empty; `at_the_end` is told to take it away. Skips where that is not allowed."""
        self.path.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(self.path)]
        made = finished(words)
        if made.returncode != 0:
            pytest.skip(f"needs the right to mount ({made.stderr.strip()})")
        at_the_end(lambda: subprocess.run(["umount", "--lazy", str(self.path)], check=True))

    def fill(self, *, left: int = 0) -> None:
        there = os.statvfs(self.path)
        with (self.path / _FILLER).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, there.f_bavail * there.f_bsize - left)

    def empty(self) -> None:
        (self.path / _FILLER).unlink()

    def protect(self) -> None:
        self._remount("ro")

    def release(self) -> None:
        self._remount("rw")

    def _remount(self, how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.path)], check=True)
