"""The bridge's way to the JVM: lines out, and questions whose answers come back as lines."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as Late  # not the builtin one before Python 3.11
from typing import BinaryIO

from eo_listener.bridge.messages import Answer, Ask, ToJvm
from eo_listener.model.errors import JvmError


class JvmClient:
    """Writes whole lines, from any thread, and knows which questions are open."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._writing = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[int, Future[Answer]] = {}
        self._closed = False

    def say(self, message: ToJvm) -> None:
        """Write a line. Raises JvmError when nobody reads any more."""
        try:
            with self._writing:
                self._output.write(message.line())
                self._output.flush()
        except (OSError, ValueError) as error:
            raise _gone() from error

    def ask(
        self, what: str, *, run_id: str = "", call: str = "", argument: str = "", timeout: float
    ) -> str:
        """Ask, and wait for the answer for `timeout` seconds at most. Raises JvmError."""
        number = next(self._numbers)
        waiting = self._open[number] = Future[Answer]()
        try:
            if self._closed:
                raise _gone()
            self.say(Ask(number=number, what=what, run_id=run_id, call=call, argument=argument))
            answer = waiting.result(timeout)
        except CancelledError:
            raise _gone() from None
        except Late:
            raise JvmError(
                f"Spark's JVM did not answer the question {call or what}",
                cause=f"it took longer than {timeout:g} s",
            ) from None
        finally:
            self._open.pop(number, None)
        if answer.text is None:
            raise JvmError(
                f"Spark's JVM could not answer the question {call or what}", cause=answer.failed
            )
        return answer.text

    def answered(self, answer: Answer) -> None:
        """Hand an answer to who asked; one that comes too late is dropped."""
        waiting = self._open.get(answer.number)
        if waiting is not None and waiting.set_running_or_notify_cancel():
            waiting.set_result(answer)

    def close(self) -> None:
        """Say to all who wait that there will be no answer."""
        self._closed = True
        for waiting in tuple(self._open.values()):
            waiting.cancel()


def _gone() -> JvmError:
    return JvmError("Spark's JVM cannot be asked", cause="it has ended, or closed the pipe")
