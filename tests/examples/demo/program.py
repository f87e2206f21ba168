"""Run the demo as a process of its own, and see what it leaves behind."""

from __future__ import annotations

import contextlib
import sys
import uuid

import psutil

from tests.conftest import kafka_version
from tests.processes import Program
from tests.spark_session import submit_environment

PATIENCE = 200.0
DEMO = (sys.executable, "-m", "examples.demo")
_MARK = "EO_TEST_DEMO"


class Demo(Program):
    """A demo that runs."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._mark = uuid.uuid4().hex
        own = {**submit_environment(), _MARK: self._mark, **environment}
        super().__init__([*DEMO, "--kafka-version", kafka_version(), *arguments], env=own)

    def kill_one(self, word: str) -> None:
        """Kill the one process that it has started whose command line has this word."""
        (found,) = (process for process in self.left() if word in process.cmdline())
        found.kill()

    def left(self) -> list[psutil.Process]:
        """Return the processes that run with the variable of the environment that it gave them."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                running = process.status() != psutil.STATUS_ZOMBIE
                if running and process.environ().get(_MARK) == self._mark:
                    found.append(process)
        return found

    def kill(self) -> None:
        """End whatever a failed test has left."""
        for process in self.left():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        super().kill()
