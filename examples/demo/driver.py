"""The driver's process: start it, read its messages, kill it, start another, end the last one."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from eo_listener.errors import UnavailableError
from examples.demo.store import Store

_ROOT: Final = Path(__file__).parents[2]
_TIMEOUT: Final = 40.0  # seconds for the query, the commits and Spark to end in order
_KILL_TIMEOUT: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The source, the folder for files, the most rows of a batch, and the sink."""

    servers: str
    folder: str
    most: int
    store: Store | None = None
    where: str = ""
    metrics_port: int | None = None

    @property
    def checkpoint(self) -> str:
        """The query's checkpoint."""
        return str(Path(self.folder, "checkpoint"))


class Driver:
    """Runs the query, in one process after the other.

    `observe` is called, on another thread, with its reports about batches and commits. `batch` is
    the batch that it is writing: the number, and the start.
    """

    def __init__(self, job: Job, log: Path, observe: Callable[[dict[str, Any]], None]) -> None:
        self.job = job
        self.running = threading.Event()
        self.batch: tuple[int, float] | None = None
        self._arguments = [sys.executable, "-m", "examples.demo.job", json.dumps(asdict(job))]
        self._log = log
        self._observe = observe
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._failure = ""

    def start(self) -> None:
        """Start a process, and return at once."""
        self.running.clear()
        self.batch = None
        with self._log.open("ab") as log:
            # Not in our session: a Ctrl-C of the terminal's is ours, and it ends when its input
            # does.
            self._process = subprocess.Popen(
                self._arguments,
                cwd=_ROOT,
                env={**os.environ, "TMPDIR": self.job.folder},  # pyspark, killed, leaves files
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def check(self) -> None:
        """Raise UnavailableError when the process has ended by itself."""
        if self._process is not None and self._reader is not None and not self._reader.is_alive():
            raise UnavailableError(
                "The driver has ended by itself",
                cause=self._failure or "its process is gone",
                fix=f"Read its log: {self._log}",
            )

    def kill(self) -> None:
        """Kill the driver, its JVM and all that they have started, at one moment."""
        if self._process is None:
            return
        suspended: dict[int, psutil.Process] = {}
        # A child of a parent that is killed first would be nobody's, and not found.
        while new := [process for process in self._family() if process.pid not in suspended]:
            for process in new:
                suspended[process.pid] = process
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
        for process in suspended.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(_KILL_TIMEOUT)
        psutil.wait_procs(suspended.values(), timeout=_KILL_TIMEOUT)
        self._close()

    def stop(self, timeout: float = _TIMEOUT) -> None:
        """Stop the query, commit what it has processed, end the process. Idempotent."""
        if self._process is None:
            return
        family = self._family()
        if self._process.stdin is not None:
            self._process.stdin.close()
        psutil.wait_procs(family, timeout=timeout)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.kill()

    def _family(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self._process.pid if self._process else -1)
            return [root, *root.children(recursive=True)]
        except (psutil.NoSuchProcess, ValueError):
            return []

    def _close(self) -> None:
        process, self._process = self._process, None
        if self._reader is not None:
            self._reader.join(_KILL_TIMEOUT)
        for pipe in (process.stdin, process.stdout) if process is not None else ():
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()

    def _read(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            if not line.endswith("\n"):
                return  # it was killed in the middle of it
            message = json.loads(line)
            match message["what"]:
                case "running":
                    self.running.set()
                case "writing":
                    self.batch = message["batch"], time.monotonic()
                case "failed":
                    self._failure = message["cause"]
                case "written":
                    self.batch = None
                    self._observe(message)
                case _:
                    self._observe(message)
