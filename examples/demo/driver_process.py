"""The driver's process: start it, read its messages, kill it, start another, end the last one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, cast

from eo_listener.model.errors import EoListenerError, UnavailableError
from examples.demo.demo_settings import LOG
from examples.demo.demo_target import DemoTarget
from examples.demo.job import CHECKPOINT, Job
from examples.demo.job_messages import News
from examples.demo.processes import kill_tree

_ROOT: Final = Path(__file__).parents[2]
_TIMEOUT: Final = 40.0  # seconds for the query, the commits and Spark to end in order
_KILL_TIMEOUT: Final = 10.0  # seconds for a killed process to end


class Driver:
    """Runs the query from `start` to `stop`, in one process after the other.

    `observe` is called, on another thread, with batches and commits.
    """

    def __init__(self, job: Job, target: DemoTarget, observe: Callable[[News], None]) -> None:
        self.log = Path(job.folder) / LOG
        self.checkpoint = Path(job.folder) / CHECKPOINT
        self._job = job
        self._target = target
        self._observe = observe
        self._life: _Life | None = None
        self._stopping = False

    def start(self) -> None:
        """Start a process, and return at once."""
        self._life = _Life(self._job, self._target, self._observe, self.log)

    def wait_until_running(self, seconds: float) -> bool:
        """Wait for the query to run. Raises what `check` raises."""
        deadline = time.monotonic() + seconds
        while self._life is not None and not self._life.running.wait(0.1):
            self.check()
            if time.monotonic() > deadline:
                return False
        self.check()
        return True

    @property
    def running(self) -> bool:
        """Whether the query of the last process that was started has begun to run."""
        return self._life is not None and self._life.running.is_set()

    def check(self) -> None:
        """Raise the EoListenerError that ended the process; none once `stop` was called."""
        if self._life is not None and not self._stopping:
            self._life.check()

    def batch(self) -> tuple[int | None, float]:
        """The batch that is being written, and for how many seconds by now."""
        return self._life.batch() if self._life is not None else (None, 0.0)

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM and all that they have started."""
        if self._life is not None:
            self._life.kill()

    def stop(self, timeout: float = _TIMEOUT) -> None:
        """Stop the query, commit what it has processed, end the process. Idempotent."""
        self._stopping = True
        if self._life is not None:
            self._life.end(timeout)
            self._life = None


class _Life:
    """One process, from its start to its end."""

    def __init__(
        self, job: Job, target: DemoTarget, observe: Callable[[News], None], log: Path
    ) -> None:
        self.running = threading.Event()
        self._observe = observe
        self._log = log
        self._failure: EoListenerError | None = None
        self._writing: tuple[int, float] | None = None
        # Not in our session: a Ctrl-C of the terminal's is ours, and it ends when its input does.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "examples.demo.job"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=_ROOT,
            start_new_session=True,
        )
        self._orders = cast("IO[str]", self._process.stdin)  # there, since PIPE was asked for
        self._words = cast("IO[str]", self._process.stdout)  # the same
        self._reader = threading.Thread(target=self._read, name="demo-driver", daemon=True)
        self._reader.start()
        with contextlib.suppress(BrokenPipeError):  # it has ended, which `check` will report
            self._orders.write(f"{job.text()}\n{target.text()}\n")
            self._orders.flush()

    def batch(self) -> tuple[int | None, float]:
        writing = self._writing
        return (None, 0.0) if writing is None else (writing[0], time.monotonic() - writing[1])

    def check(self) -> None:
        if self._reader.is_alive():
            return
        raise self._failure or UnavailableError(
            "The driver has ended by itself",
            cause=f"its process is gone, status {self._process.poll()}",
            fix=f"Read Spark's log: {self._log}",
        )

    def kill(self) -> None:
        kill_tree(self._process.pid)
        self._over(_KILL_TIMEOUT)

    def end(self, timeout: float) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._orders.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        self.kill()

    def _over(self, timeout: float) -> None:
        self._process.wait(timeout)
        self._reader.join(timeout)
        for pipe in (self._orders, self._words):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _read(self) -> None:
        for line in self._words:
            if not line.endswith("\n"):
                return  # it was killed in the middle of it
            try:
                self._take(News.parse(line))
            except EoListenerError as error:
                self._failure = error
                return

    def _take(self, news: News) -> None:
        match news.what:
            case "running":
                self.running.set()
            case "writing":
                self._writing = (news.batch, time.monotonic())
            case "written":
                self._writing = None
                self._observe(news)
            case "committed":
                self._observe(news)
            case "failed":
                self._failure = UnavailableError(news.problem, cause=news.cause, fix=news.fix)
