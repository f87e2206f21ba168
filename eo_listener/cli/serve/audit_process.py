"""Runs repeated audits in a separate process.

The requests that describe groups may end the whole process while a broker restarts (a fault of
librdkafka, see `eo_listener.kafka`). Also, if a store does not answer, ending the process ends the
wait.

To read ledgers in tables, the process starts Spark once and keeps it, because the start is
expensive. If a table could not be read, the process ends together with its Spark, because a JVM
that died cannot be replaced within one process.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from typing import Final

from eo_listener.cli.position_reader import AuditRequest
from eo_listener.cli.serve.audit_reading import AuditReading, read_audit
from eo_listener.cli.spark_options import spark_for
from eo_listener.errors import EoListenerError, UnavailableError
from eo_listener.kafka.separate_process import SeparateProcess
from eo_listener.spark.session.local_spark import LocalSpark

_LONGEST: Final = 150.0  # seconds of an audit
_LONGEST_OF_TABLES: Final = 600.0  # with tables: Spark may have to download libraries


class AuditProcess:
    """Runs the audit of `request`, in a separate process.

    Only one thread may use an instance, but any thread may call `close`, which ends a reading that
    is in progress.
    """

    def __init__(self, request: AuditRequest, *, longest: float | None = None) -> None:
        self._request = request
        self.longest = longest or (_LONGEST_OF_TABLES if request.in_tables else _LONGEST)
        self._process = SeparateProcess()
        # The process is killed, so it cannot remove its own files and those of its Spark.
        self._folder = tempfile.TemporaryDirectory(
            prefix="eo-listener-serve-", ignore_cleanup_errors=True
        )

    def read(self) -> AuditReading:
        """Run one audit. Raises UnavailableError, with the text of the audit's own error."""
        try:
            answer = self._process.call(
                _read, self._request, self._folder.name, timeout=self.longest
            )
        except BrokenProcessPool as error:
            raise UnavailableError(
                "the process that runs the audit has ended",
                cause="librdkafka may end it while a broker restarts",
                fix="Nothing to do: the next audit starts the process again",
            ) from error
        except Late:
            raise UnavailableError(
                f"the audit has not ended within {self.longest:g} s",
                cause="a ledger, the checkpoint's storage or Kafka does not answer",
                fix="Run eo-listener audit with the same options, which waits longer",
            ) from None
        if isinstance(answer, str) or not answer.read_tables:
            self._process.close()
        if isinstance(answer, str):
            raise UnavailableError(answer)
        return answer

    def close(self) -> None:
        """End the audit's process at once; a JVM that the process has started also ends."""
        self._process.close()
        self._folder.cleanup()


class _Kept:
    """The state that the audit's process keeps between readings."""

    spark: LocalSpark | None = None


def _read(request: AuditRequest, folder: str) -> AuditReading | str:
    """Run an audit in the process; return its reading, or the text of an error.

    The function returns a text because errors cannot be sent between processes.
    """
    tempfile.tempdir = folder
    if _Kept.spark is None:
        _Kept.spark = spark_for(request.ledgers, request.spark)
    try:
        return read_audit(request, _Kept.spark)
    except EoListenerError as error:
        return str(error)
