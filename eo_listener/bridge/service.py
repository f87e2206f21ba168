"""Handles the lines that the JVM sends to the bridge, and asks the JVM questions."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as Late  # not the builtin one before Python 3.11
from typing import BinaryIO, Final

from eo_listener.bridge import messages
from eo_listener.bridge.messages import Answer, Hello, ask
from eo_listener.commit.groups.group_offsets import GroupKeys, Waiting
from eo_listener.commit.tracking.event_buffer import Ended, Idle, Started
from eo_listener.errors import EoListenerError, JvmError
from eo_listener.events import Event, RunGroupsChanged
from eo_listener.listener.commit_service import CommitService
from eo_listener.listener.settings import Settings
from eo_listener.model.fault_points import fault_point
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.offsets import Offsets
from eo_listener.spark import shim
from eo_listener.version import __version__


class JvmClient:
    """Writes whole lines, from any thread, and gives each answer to the thread that asked."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._write_lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[int, Future[Answer]] = {}
        self._closed = False

    def send(self, line: bytes) -> None:
        """Write a line. Raises JvmError if the JVM no longer reads lines."""
        try:
            with self._write_lock:
                self._output.write(line)
                self._output.flush()
        except (OSError, ValueError) as error:
            raise _gone() from error

    def ask(
        self, question: str, *, run_id: str = "", call: str = "", argument: str = "", timeout: float
    ) -> str:
        """Ask `question`, and return the answer within `timeout` seconds. Raises JvmError."""
        number = next(self._numbers)
        waiting = self._open[number] = Future[Answer]()
        try:
            if self._closed:
                raise _gone()
            self.send(ask(number, question, run_id=run_id, call=call, argument=argument))
            answer = waiting.result(timeout)
        except CancelledError:
            raise _gone() from None
        except Late:
            raise JvmError(
                f"Spark's JVM did not answer the call {call or question}",
                cause=f"it took longer than {timeout:g} s",
            ) from None
        finally:
            self._open.pop(number, None)
        if answer.text is None:
            raise JvmError(
                f"Spark's JVM could not answer the call {call or question}", cause=answer.failed
            )
        return answer.text

    def answered(self, answer: Answer) -> None:
        """Pass an answer to the thread that asked; drop a late answer."""
        waiting = self._open.get(answer.number)
        if waiting is not None and waiting.set_running_or_notify_cancel():
            waiting.set_result(answer)

    def close(self) -> None:
        """Make all waiting and later calls of `ask` raise JvmError."""
        self._closed = True
        for waiting in tuple(self._open.values()):
            waiting.cancel()


def _gone() -> JvmError:
    return JvmError("Spark's JVM cannot be called", cause="it has ended or closed the pipe")


_QUERY_TIMEOUT: Final = 10.0  # the JVM may read a position from a slow file system
_SHIM_TIMEOUT: Final = 60.0  # the calls have lower time limits of their own


class BridgeQueries:
    """The `QueryReader` of the bridge: asks the shim about the driver's queries.

    The shim holds a query from its start until `forget`, so it answers even after the query has
    ended.
    """

    def __init__(self, jvm: JvmClient, forget: Callable[[str], None]) -> None:
        self._jvm = jvm
        self._forget = forget

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:  # noqa: ARG002  # the protocol's
        """Return the reader options of a run's Kafka sources, by source index. Raises JvmError."""
        text = self._jvm.ask("sources", run_id=run_id, timeout=_QUERY_TIMEOUT)
        return {source.index: source.options for source in shim.sources(text) if source.kafka}

    def mode(self, query_id: str, run_id: str) -> QueryMode:  # noqa: ARG002  # the protocol's
        """Return the execution mode of the query. Raises JvmError."""
        name = self._jvm.ask("mode", run_id=run_id, timeout=_QUERY_TIMEOUT)
        try:
            return QueryMode[name]
        except KeyError:
            raise JvmError(
                f"the shim reports an unknown execution mode: {name}",
                cause="the jar given to Spark is a different version from this package",
                fix="Give Spark the jar that `eo-listener jar` names",
            ) from None

    def position(self, query_id: str, run_id: str) -> LivePosition | None:  # noqa: ARG002  # the protocol's
        """Return the run's durable position, or None while the query restores its checkpoint.

        Raises JvmError.
        """
        return shim.position(self._jvm.ask("position", run_id=run_id, timeout=_QUERY_TIMEOUT))

    def beginnings(self, query_id: str, run_id: str) -> Mapping[int, Offsets]:  # noqa: ARG002  # the protocol's
        """Return the offsets at which a run's query began to read, by source. Raises JvmError."""
        text = self._jvm.ask("beginnings", run_id=run_id, timeout=_QUERY_TIMEOUT)
        return shim.beginnings(text)

    def has_ended(self, query_id: str, run_id: str) -> bool:  # noqa: ARG002  # the protocol's
        """Return True if the run has ended, even if no event has reported it. Raises JvmError."""
        return self._jvm.ask("ended", run_id=run_id, timeout=_QUERY_TIMEOUT) == "true"

    def forget(self, run_id: str) -> None:
        """Have the JVM release a run, because all its offsets are committed or refused."""
        self._forget(run_id)


class BridgeShimClient:
    """The `ShimClient` of the bridge: the shim runs the calls in the driver's JVM."""

    def __init__(self, jvm: JvmClient) -> None:
        self._jvm = jvm

    def call(self, name: str, argument: str) -> str:
        """Call the shim's function `name` with `argument`, and return its answer within a minute.

        `argument` and the answer are JSON texts. Raises JvmError.
        """
        return self._jvm.ask("call", call=name, argument=argument, timeout=_SHIM_TIMEOUT)


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
