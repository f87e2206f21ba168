"""Run the demo as a process of its own, and see what it leaves behind."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator

import psutil

from tests.conftest import kafka_version
from tests.spark_session import submit_environment
from tests.waiting import until

PATIENCE = 200.0
DEMO = (sys.executable, "-m", "examples.demo")
_MARK = "EO_TEST_DEMO"


class Demo:
    """A demo that runs; `out` and `err` are the lines that it has printed so far."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [*DEMO, "--kafka-version", kafka_version(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**submit_environment(), _MARK: self._mark, **environment},
            start_new_session=True,  # a process group of its own, as a shell gives it
        )
        self.out: list[str] = []
        self.err: list[str] = []
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=kept.extend, args=(pipe,))
            for kept, pipe in ((self.out, self.process.stdout), (self.err, self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def wait_for(self, text: str) -> None:
        """Wait until a line on stdout or stderr holds `text`."""

        def shown() -> bool:
            found = any(text in line for line in [*self.out, *self.err])
            assert found or self.process.poll() is None, (self.out, self.err)
            return found

        until(shown, PATIENCE, lambda: (self.out, self.err))

    def kill(self, word: str) -> None:
        """Kill the one process that it has started whose command line has this word."""
        (found,) = (process for process in self.left() if word in process.cmdline())
        found.kill()

    def end(self, seconds: float = PATIENCE) -> int:
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(10)
        return code

    def left(self) -> list[psutil.Process]:
        """Return the processes that run with the variable of the environment that it gave them."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                running = process.status() != psutil.STATUS_ZOMBIE
                if running and process.environ().get(_MARK) == self._mark:
                    found.append(process)
        return found

    def close(self) -> None:
        """End whatever a failed test has left."""
        self.process.kill()
        for process in self.left():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.end()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def demo(*arguments: str, **environment: str) -> Iterator[Demo]:
    """Run a demo with these arguments; it has ended when the context has."""
    running = Demo(*arguments, **environment)
    try:
        yield running
    finally:
        running.close()
