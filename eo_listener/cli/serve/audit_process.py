"""Audits in a process of their own, again and again.

Groups are described by requests that may end the whole process while a broker restarts (a fault of
librdkafka, see `eo_listener.kafka`). And a store that does not answer is given up by ending what
waits for it.
"""

from __future__ import annotations

from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from typing import Final

from eo_listener.cli.position_reader import AuditRequest
from eo_listener.cli.serve.audit_reading import AuditReading, read_audit
from eo_listener.kafka.separate_process import SeparateProcess
from eo_listener.model.errors import EoListenerError, UnavailableError

LONGEST: Final = 150.0  # seconds of an audit


class AuditProcess:
    """Reads what is asked for; for one thread, but any may call `close`, which ends a reading."""

    def __init__(self, request: AuditRequest, *, longest: float = LONGEST) -> None:
        self._request, self._longest = request, longest
        self._process = SeparateProcess()

    def read(self) -> AuditReading:
        """Read once. Raises UnavailableError, with the text of what the audit itself raised."""
        try:
            found = self._process.call(_read, self._request, timeout=self._longest)
        except BrokenProcessPool as error:
            raise UnavailableError(
                "the process that reads the audit has ended",
                cause="librdkafka may end it while a broker restarts",
                fix="Nothing: the next audit starts it again",
            ) from error
        except Late:
            raise UnavailableError(
                f"the audit has not ended within {self._longest:g} s",
                cause="a ledger, the checkpoint's storage or Kafka does not answer",
                fix="Run eo-listener audit with the same options, which waits for longer",
            ) from None
        if isinstance(found, str):
            raise UnavailableError(found)
        return found

    def close(self) -> None:
        """End the process, whatever it waits for."""
        self._process.close()


def _read(request: AuditRequest) -> AuditReading | str:
    """The reading, or the text of an error: errors themselves cannot be sent."""
    try:
        return read_audit(request)
    except EoListenerError as error:
        return str(error)
