"""One process of Kafka: start it, wait until it answers, stop it, kill it, hold it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.broker.errors import BrokerError
from tests.broker.storage import NodeFolder
from tests.broker.watchdog import Watchdog

START_TIMEOUT: Final = 60.0  # seconds; twelve times what a start takes on two cores

_STANDSTILL = 5.0  # seconds
_THROWN = re.compile(r"^[\w.$]+(?:Exception|Error)\b")


class Node:
    """A node of the broker, running or not; its folder stays the same all the while."""

    def __init__(self, folder: NodeFolder, command: Sequence[str], watchdog: Watchdog) -> None:
        self.folder = folder
        self.number = folder.node
        self._command = list(command)
        self._watchdog = watchdog
        self._process: subprocess.Popen[bytes] | None = None
        self._logged = 0  # where the log stood at the last start, so that old errors stay old

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self.running else None

    @property
    def running(self) -> bool:
        """Whether the process is there; a paused one is."""
        return self._process is not None and self._process.poll() is None

    def created(self) -> float:
        """Return when the process was created: a later one may have the same id."""
        if self._process is None:
            raise BrokerError(f"Node {self.number} was not started")
        return psutil.Process(self._process.pid).create_time()

    def start(self) -> None:
        """Start the process and return at once. Raises BrokerError when it is running."""
        if self.running:
            raise BrokerError(f"Node {self.number} is running already", fix="Stop it first")
        log = self.folder.log
        self._logged = log.stat().st_size if log.exists() else 0
        with self.folder.output.open("wb") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder.path,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches only us, who then stop it in order
            )
        self._watchdog.watch(self._process.pid)

    def terminate(self) -> None:
        """Ask the process to stop; a paused one is woken, else it could not hear."""
        if self._process is not None and self.running:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process as a power cut would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self.reap(5)

    def reap(self, seconds: float) -> bool:
        """Wait for the process to end, and say whether it did."""
        if self._process is None:
            return True
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        self._watchdog.forget(self._process.pid)
        return True

    def pause(self) -> None:
        """Hold the process (SIGSTOP): its connections stay open and nothing answers.

        Returns when all its threads stand, which on a busy machine is not at once.
        """
        pid = self._signal(signal.SIGSTOP)
        news = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
        ends = time.monotonic() + _STANDSTILL
        while os.waitid(os.P_PID, pid, news) is None and time.monotonic() < ends:
            time.sleep(0.001)

    def resume(self) -> None:
        """Let a held process go on."""
        self._signal(signal.SIGCONT)

    def release(self) -> None:
        """Let the process live on after this Python; it is not a child to wait for any more."""
        if self._process is not None:
            self._watchdog.forget(self._process.pid)
            self._process.returncode = 0  # else Popen warns of a child that nobody waited for
            self._process = None

    def last_error(self) -> str | None:
        """Return the last error since the last start, as Kafka logged or the JVM printed it."""
        logged = _tail(self.folder.log, self._logged)
        errors = [at for at, line in enumerate(logged) if " ERROR " in line or " FATAL " in line]
        if errors:
            last = errors[-1]
            thrown = [line for line in logged[last + 1 : last + 2] if _THROWN.match(line)]
            return " ".join([logged[last].strip(), *thrown])
        printed = [line.strip() for line in _tail(self.folder.output, 0) if line.strip()]
        problems = (line for line in printed if "warning" not in line and "Picked up" not in line)
        return next(problems, None)  # what follows the first line only repeats that it failed

    def failure(self, what: str) -> BrokerError:
        """Return the error that says `what` this node did, and quotes why."""
        quoted = self.last_error()
        return BrokerError(
            f"Node {self.number} of the broker {what}",
            cause=f"its last error: {quoted}" if quoted else "it logged no error",
            fix=f"Read its log: {self.folder.log} (what the JVM printed: {self.folder.output})",
        )

    def port_was_taken(self) -> bool:
        """Say whether it ended because something else listened on a port of its own."""
        lines = _tail(self.folder.log, self._logged)
        return any("Address already in use" in line for line in lines)

    def _signal(self, number: signal.Signals) -> int:
        if self._process is None or not self.running:
            raise BrokerError(f"Node {self.number} is not running", fix="Start it first")
        os.kill(self._process.pid, number)
        return self._process.pid


def wait_until_ready(
    addresses: Sequence[str], nodes: frozenset[int], check: Callable[[], None]
) -> bool:
    """Return whether every address answered in time with metadata that names all `nodes`.

    That is later than its port is open. `check` is called between the tries and raises when
    waiting has lost its sense.
    """
    deadline = time.monotonic() + START_TIMEOUT
    return all(_answers(address, nodes, check, deadline) for address in addresses)


def _answers(
    address: str, nodes: frozenset[int], check: Callable[[], None], deadline: float
) -> bool:
    host, _, port = address.rpartition(":")
    while not _is_open(host, int(port)):
        check()
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    admin = AdminClient(
        {
            "bootstrap.servers": address,
            "log_level": 0,  # what goes wrong while it starts is of no interest
            "reconnect.backoff.max.ms": 200,
        }
    )
    while True:
        check()
        try:
            if nodes <= admin.list_topics(timeout=2).brokers.keys():
                return True
        except KafkaException:
            pass  # not yet: it is asked again until the deadline
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def _is_open(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def _tail(file: Path, start: int) -> list[str]:
    try:
        with file.open("rb") as opened:
            opened.seek(start)
            return opened.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
