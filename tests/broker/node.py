"""One process of Kafka."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eo_listener.errors import UnavailableError
from tests import watchdog

_STOP: Final = 20.0  # seconds between the polite and the hard end
_PAUSE: Final = 5.0
_THROWN = re.compile(r"^[\w.$]+(?:Exception|Error)\b")


class BrokerError(UnavailableError):
    """Kafka does not start, or does not do what it is asked."""


class Node:
    """A node of the broker, running or not; its folder stays the same all the while."""

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        self.log = folder / "server.log"
        self._folder = folder
        self._output = folder / "output.log"  # what the JVM itself printed
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._logged = 0  # where the log stood at the last start, so that old errors stay old

    @property
    def pid(self) -> int | None:
        """The process id while it runs; a paused one does."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        if self.pid is not None:
            raise BrokerError("The node is running already")
        self._logged = self.log.stat().st_size if self.log.exists() else 0
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        watchdog.watch(self._process.pid)

    def stop(self) -> None:
        if self._process is not None and self.pid is not None:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)  # a paused one could not hear
            try:
                self._process.wait(_STOP)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Hold the process (SIGSTOP), and wait until all its threads stand."""
        pid = self._signal(signal.SIGSTOP)
        changes = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
        deadline = time.monotonic() + _PAUSE
        while os.waitid(os.P_PID, pid, changes) is None and time.monotonic() < deadline:
            time.sleep(0.001)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def failure(self, what: str) -> BrokerError:
        """Return the error that says `what` this node did, with its last error."""
        return BrokerError(
            f"The broker {what}",
            cause=self._last_error() or "it logged no error",
            fix=f"Read its log: {self.log} (what the JVM printed: {self._output})",
        )

    def port_was_taken(self) -> bool:
        """Whether something else listened on a port of its own."""
        return any("Address already in use" in line for line in _lines(self.log, self._logged))

    def _last_error(self) -> str | None:
        """Return what Kafka logged since the last start, or the JVM printed."""
        logged = _lines(self.log, self._logged)
        errors = [at for at, line in enumerate(logged) if " ERROR " in line or " FATAL " in line]
        if errors:
            thrown = [one for one in logged[errors[-1] + 1 :][:1] if _THROWN.match(one)]
            return " ".join([logged[errors[-1]].strip(), *thrown])
        printed = (line.strip() for line in _lines(self._output) if line.strip())
        return next((one for one in printed if "warning" not in one and "Picked" not in one), None)

    def _signal(self, number: signal.Signals) -> int:
        if self.pid is None:
            raise BrokerError("The node is not running")
        os.kill(self.pid, number)
        return self.pid


def _lines(file: Path, start: int = 0) -> list[str]:
    return file.read_bytes()[start:].decode(errors="replace").splitlines() if file.exists() else []
