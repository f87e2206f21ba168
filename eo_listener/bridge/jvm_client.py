"""The bridge's client of the JVM: sends lines and questions, and receives the answers."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as Late  # not the builtin one before Python 3.11
from typing import BinaryIO, Final

from eo_listener.bridge.messages import Answer, ask
from eo_listener.errors import JvmError
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.offsets import Offsets
from eo_listener.spark import shim


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
