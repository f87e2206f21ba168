"""Starts a local Spark session with which a command reads tables, without a cluster."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from subprocess import Popen
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from eo_listener.errors import JvmError
from eo_listener.spark.session.configure import configure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN: Final = {
    "spark.app.name": "eo-listener",
    "spark.master": "local[2]",
    "spark.submit.deployMode": "client",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.databricks.delta.snapshotPartitions": "2",  # else 50 tasks for any table
    # Defaults of a cluster that make every application start or write something, such as a listener
    # of eo_listener.
    "spark.eventLog.enabled": "false",
    "spark.extraListeners": "",
    "spark.plugins": "",
    "spark.sql.queryExecutionListeners": "",
    "spark.sql.streaming.streamingQueryListeners": "",
}
_FOREIGN_VARIABLES: Final = (
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
    "SPARK_REMOTE",
    "SPARK_API_MODE",
    "SPARK_CONNECT_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
)
"""Settings that point to the JVM of another driver, or to a Spark Connect server."""
_WAREHOUSE: Final = "spark.sql.warehouse.dir"  # else Spark makes a folder where the command runs


class LocalSpark:
    """Starts one Spark session, at the first use, for tables of Delta Lake, of Iceberg, or both.

    The class adds missing jars and settings as `configure` does, and starts no query. `settings`
    override the settings of this class, which override spark-defaults.conf. The object calls
    `announce` before it starts Spark, because the start takes a long time.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        delta: bool = False,
        iceberg: bool = False,
        announce: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = dict(settings)
        self._delta = delta
        self._iceberg = iceberg
        self._announce = announce
        self._session: SparkSession | None = None
        self._failure: JvmError | None = None
        self._folder: TemporaryDirectory[str] | None = None

    def session(self) -> SparkSession:
        """Return the session.

        Raises SettingsError, JavaError, and JvmError if Spark does not start. Later calls raise the
        same JvmError, and do not try again.
        """
        if self._failure is not None:
            raise self._failure
        if self._session is None:
            self._session = self._start()
        return self._session

    def close(self) -> None:
        """Stop the session, and remove its temporary folder."""
        logging.getLogger().removeFilter(_is_no_interruption)
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # its JVM may have ended, and the session with it
                session.stop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self) -> SparkSession:
        from pyspark.sql import SparkSession  # noqa: PLC0415  # no other ledger needs it

        from eo_listener.spark.jvm.calls import FAILURES  # noqa: PLC0415  # which imports py4j

        for name in _FOREIGN_VARIABLES:  # else pyspark would use the named JVM or server
            os.environ.pop(name, None)
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="eo-listener-")
        builder = SparkSession.builder
        for name, value in {**_OWN, _WAREHOUSE: self._folder.name, **self._settings}.items():
            builder = builder.config(name, value)
        configured = configure(
            builder, connector=False, shim=False, delta=self._delta, iceberg=self._iceberg
        )
        self._announce()
        logging.getLogger().addFilter(_is_no_interruption)
        try:
            with _own_output(), _own_ctrl_c():
                return configured.getOrCreate()
        except FAILURES as error:
            self._failure = JvmError(
                "Spark, which reads the ledger of a table, did not start",
                cause=f"Spark printed the reason above ({type(error).__name__})",
                fix="Correct --spark-conf, spark-defaults.conf or PYSPARK_SUBMIT_ARGS; if a jar "
                "could not be downloaded, name a file: --spark-conf spark.jars=/PATH/NAME.jar",
            )
            raise self._failure from error


def _is_no_interruption(record: logging.LogRecord) -> bool:
    """Return False for py4j's log record about a call that Ctrl-C interrupted.

    A log line for that record would show a traceback. If a call fails for any other reason, py4j
    also raises an error, so the record is not needed.
    """
    text = str(record.msg)
    return not text.startswith(("KeyboardInterrupt while sending", "Exception while sending"))


@contextmanager
def _own_output() -> Iterator[None]:
    """Send both output streams of a JVM that starts in this block to standard error.

    The output of the JVM's loggers is not part of the command's output. Also, a program that reads
    the command's output to its end would otherwise wait for the JVM.
    """
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(output, 1)
        os.close(output)


@contextmanager
def _own_ctrl_c() -> Iterator[None]:
    """Keep this program's handler of Ctrl-C in the block, not pyspark's.

    Raises KeyboardInterrupt for any error after a Ctrl-C. pyspark's own handler calls Spark, which
    fails if Spark is answering a call or is closed. The start of the JVM may download jars for
    minutes. If the start fails, or a Ctrl-C interrupts it, this function kills the JVM.
    """
    handler = signal.getsignal(signal.SIGINT)
    with _signals() as arrived:
        try:
            yield
        except BaseException as error:
            for frame, _ in traceback.walk_tb(error.__traceback__):
                process = frame.f_locals.get("proc")  # a local variable of launch_gateway
                if isinstance(process, Popen):
                    process.kill()
                    process.wait()
            if signal.SIGINT in arrived():
                raise KeyboardInterrupt from error
            raise
        finally:
            if handler is not None and _in_main_thread():
                signal.signal(signal.SIGINT, handler)


@contextmanager
def _signals() -> Iterator[Callable[[], bytes]]:
    """Yield a function that returns all arrived signals, even those that a handler ignored."""
    read, written = socket.socketpair()
    with read, written:
        for end in (read, written):
            end.setblocking(False)
        before = signal.set_wakeup_fd(written.fileno()) if _in_main_thread() else -1
        try:
            yield lambda: read.recv(64) if select.select([read], [], [], 0)[0] else b""
        finally:
            if _in_main_thread():
                signal.set_wakeup_fd(before)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
