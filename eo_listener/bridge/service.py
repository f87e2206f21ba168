"""Handles the lines that the JVM sends to the bridge."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from eo_listener.bridge import messages
from eo_listener.bridge.jvm_client import BridgeQueries, BridgeShimClient, JvmClient
from eo_listener.bridge.messages import Hello
from eo_listener.commit.groups.group_offsets import GroupKeys, Waiting
from eo_listener.commit.tracking.event_buffer import Ended, Idle, Started
from eo_listener.errors import EoListenerError, JvmError
from eo_listener.events import Event, RunGroupsChanged
from eo_listener.listener.commit_service import CommitService
from eo_listener.listener.settings import Settings
from eo_listener.model.fault_points import fault_point
from eo_listener.version import __version__

SHORTEST: Final = 0.2  # seconds between two checks of the waiting offsets
LONGEST: Final = 5.0


class SettledRunReporter:
    """Reports each ended run as soon as all its offsets are committed or refused.

    A refusal by Kafka or eo_listener may last forever. If a bridge dies before a run is settled,
    the JVM still has everything that the next bridge needs to commit the run. As an observer, this
    class learns the groups of each run.

    The class asks only the committer, not Kafka, since the committer decides how often to try.
    """

    def __init__(self, settled: Callable[[str], None]) -> None:
        self._settled = settled
        self._groups: dict[str, frozenset[tuple[str, str]]] = {}
        self._unsettled: dict[str, frozenset[Waiting]] = {}
        self._added: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        """Record the groups of a run from its event RunGroupsChanged, and return at once."""
        if isinstance(event, RunGroupsChanged) and not event.ended:
            with self._changed:
                self._groups[event.run_id] = event.groups

    def add(self, run_id: str) -> None:
        """Add an ended run, and return at once.

        Call this only after the committer has received all offsets of the run.
        """
        with self._changed:
            self._added.append(run_id)
            self._changed.notify()

    def start(self, waiting: Callable[[GroupKeys], frozenset[Waiting]]) -> None:
        """Start the thread that reports settled runs.

        `waiting` returns the waiting offsets of groups.
        """
        threading.Thread(
            target=self._work, args=(waiting,), name="eo-listener-settled-runs", daemon=True
        ).start()

    def _work(self, waiting: Callable[[GroupKeys], frozenset[Waiting]]) -> None:
        pause = SHORTEST
        while True:
            with self._changed:
                if not self._added:
                    self._changed.wait(pause if self._unsettled else None)
                pause = SHORTEST if self._added else min(LONGEST, pause * 2)
            self.report_settled(waiting)

    def report_settled(self, waiting: Callable[[GroupKeys], frozenset[Waiting]]) -> None:
        """Report the runs that have nothing left to commit. Only one thread may call this."""
        with self._changed:
            added, self._added = self._added, []
            # A run that was added twice still waits for the same offsets.
            added = [run_id for run_id in added if run_id not in self._unsettled]
            new = {run_id: self._groups.pop(run_id, frozenset()) for run_id in added}
        for run_id, groups in new.items():
            self._unsettled[run_id] = waiting(groups)
        still_waiting = waiting(
            {offset[:2] for offsets in self._unsettled.values() for offset in offsets}
        )
        # If a greater offset has replaced a run's offset, the run with the greater offset is
        # unsettled too.
        self._unsettled = {
            run_id: offsets & still_waiting for run_id, offsets in self._unsettled.items()
        }
        for run_id in [run_id for run_id, offsets in self._unsettled.items() if not offsets]:
            del self._unsettled[run_id]
            self._settled(run_id)


_RESERVE: Final = 0.5  # seconds of `End` that are reserved for ending

logger = logging.getLogger("eo_listener")


class BridgeService:
    """Handles one driver's events, from its greeting to its end.

    Raises SettingsError for settings that cannot be used.
    """

    def __init__(self, hello: Hello, lines: Iterable[bytes], jvm: JvmClient) -> None:
        self._lines = lines
        self._jvm = jvm
        self._settings = Settings.from_conf(hello.conf)
        self._outcome: queue.SimpleQueue[float | EoListenerError] = queue.SimpleQueue()
        self._settled_runs = SettledRunReporter(lambda run_id: self._send(messages.forget(run_id)))
        queries = BridgeQueries(jvm, self._settled_runs.add)
        self._service = CommitService(
            self._settings, queries, (self._settled_runs,), shim_client=BridgeShimClient(jvm)
        )
        self._settled_runs.start(self._service.waiting)
        flush, timeout = self._settings.flush_timeout, self._settings.bridge_timeout
        jvm.send(messages.greeting(package=__version__, flush=flush, timeout=timeout))

    def listen(self) -> float:
        """Handle lines until the driver ends or is gone; return the seconds that remain to commit.

        Raises FormatError for a line that cannot be read.
        """
        threading.Thread(target=self._read, name="eo-listener-lines", daemon=True).start()
        over = self._outcome.get()
        if isinstance(over, EoListenerError):
            raise over
        return over

    def close(self, seconds: float) -> None:
        """Commit the remaining offsets within `seconds`, and report the offsets that are lost."""
        self._service.close(time.monotonic() + seconds)

    def _read(self) -> None:
        """Handle lines until the pipe ends, even after `End`, since answers may follow."""
        try:
            for line in self._lines:
                self._take(line)
            self._jvm.close()
            self._outcome.put(self._settings.flush_timeout)
        except EoListenerError as error:
            self._outcome.put(error)
        except Exception:
            # A bug of eo_listener: end, so that the shim starts another bridge.
            logger.exception("the bridge could not handle a line of the driver")
            self._outcome.put(EoListenerError("The bridge ends so that another can take over"))

    def _take(self, line: bytes) -> None:
        fault_point("bridge.line")
        match messages.parse(line):
            case messages.Progressed(text):
                self._service.progressed(text)
            case Started(query_id, run_id, name):
                self._service.started(query_id, run_id, name)
            case Idle(run_id):
                self._service.idle(run_id)
            case Ended(run_id):
                self._service.ended(run_id)
            case messages.Answer() as answer:
                self._jvm.answered(answer)
            case messages.Ping(number):
                self._send(messages.pong(number))
            case messages.End(seconds):
                self._outcome.put(max(0.0, seconds - _RESERVE))
            case None:
                logger.debug("the shim sent a message that this version does not support")

    def _send(self, line: bytes) -> None:
        """Send a line. If the driver has ended, only log that, since `_read` sees the end too."""
        try:
            self._jvm.send(line)
        except JvmError as error:
            logger.debug("the driver has stopped reading: %s", error)
