"""A Spark of a command's own, in this process and without a cluster, by which tables are read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from eo_listener.model.errors import JvmError
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
    "spark.databricks.delta.snapshotPartitions": "2",  # else 50 tasks, whatever the table
    # What the defaults of a cluster have every application start or write, a listener of ours too.
    "spark.eventLog.enabled": "false",
    "spark.extraListeners": "",
    "spark.plugins": "",
    "spark.sql.queryExecutionListeners": "",
    "spark.sql.streaming.streamingQueryListeners": "",
}
_WAREHOUSE: Final = "spark.sql.warehouse.dir"  # else Spark makes a folder where the command is run


class LocalSpark:
    """Makes one session at first use, with `delta` Delta Lake in it; it starts no query.

    `settings` come before those of this class, and these before spark-defaults.conf.
    """

    def __init__(self, settings: Mapping[str, str], *, delta: bool) -> None:
        self._settings = dict(settings)
        self._delta = delta
        self._session: SparkSession | None = None
        self._folder: TemporaryDirectory[str] | None = None

    def session(self) -> SparkSession:
        """Return it. Raises SettingsError, JavaError, and JvmError where Spark does not start."""
        if self._session is None:
            self._session = self._started()
        return self._session

    def close(self) -> None:
        """End what was started."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # its JVM may have gone, which ends it as well
                session.stop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _started(self) -> SparkSession:
        from pyspark.sql import SparkSession  # noqa: PLC0415  # no other ledger needs it

        from eo_listener.spark.jvm.calls import FAILURES  # noqa: PLC0415  # which imports py4j

        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="eo-listener-")
        builder = SparkSession.builder
        for name, value in {**_OWN, _WAREHOUSE: self._folder.name, **self._settings}.items():
            builder = builder.config(name, value)
        configured = configure(builder, connector=False, shim=False, delta=self._delta)
        try:
            return configured.getOrCreate()
        except FAILURES as error:
            raise JvmError(
                "Spark, by which the ledger of a table is read, did not start",
                cause=f"Spark has printed it above ({type(error).__name__})",
                fix="Correct --spark-conf, spark-defaults.conf or PYSPARK_SUBMIT_ARGS",
            ) from error
