"""The Spark side: a session, the query, and the listener that commits, in a thread of their own.

Not in the main thread, for two reasons. There pyspark would put a handler of its own on Ctrl-C,
and a KeyboardInterrupt in the middle of a py4j call leaves its connection unusable for the calls
that stop Spark.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener.listener.offset_commit_listener import OffsetCommitListener
from eo_listener.model.errors import EoListenerError
from examples.demo.demo_settings import LOG, MOST, QUERY
from examples.demo.flights import Flight
from examples.demo.processes import break_off_spark, end_spark
from examples.demo.results import Delay, MemoryResults
from examples.demo.spark_session import failed, records, require_active, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from eo_listener.model.observers import Observer

_POLL: Final = 0.25  # seconds between two checks of the query
_TIMEOUT: Final = 40.0  # seconds for the query, the commits and Spark to end in order
_FLUSH: Final = 5.0  # seconds of these for the last commits
_KILL_TIMEOUT: Final = _FLUSH + 10.0  # for the thread to notice that the JVM has gone, and to flush


class FlightsQuery:
    """Runs the query from `start` to `stop`; all that Spark writes lies in `folder`."""

    def __init__(
        self,
        servers: str,
        folder: Path,
        results: MemoryResults,
        observer: Observer,
        *,
        metrics_port: int | None = None,
    ) -> None:
        self.log = folder / LOG
        self._servers = servers
        self._folder = folder
        self._results = results
        self._observer = observer
        self._metrics_port = metrics_port
        self._running = threading.Event()
        self._stopping = threading.Event()
        self._failure: EoListenerError | None = None
        self._thread = threading.Thread(target=self._run, name="demo-spark", daemon=True)

    def start(self) -> None:
        """Begin to start Spark, and return at once."""
        self._thread.start()

    def wait_until_running(self, seconds: float) -> bool:
        """Wait for the query to run. Raises what `check` raises."""
        running = self._running.wait(seconds)
        self.check()
        return running

    def check(self) -> None:
        """Raise the EoListenerError that ended the thread; none once `stop` was called."""
        if self._failure is not None and not self._stopping.is_set():
            raise self._failure

    def stop(self, timeout: float = _TIMEOUT) -> None:
        """Stop the query, commit what it has processed, end Spark and its JVM. Idempotent.

        What is not over after `timeout` seconds is broken off with the JVM.
        """
        self._stopping.set()
        if self._thread.ident is None:
            return
        deadline = time.monotonic() + timeout
        while self._thread.is_alive() and time.monotonic() < deadline:
            if not self._running.is_set():  # in the middle of its start, which nothing else ends
                break_off_spark()
            self._thread.join(_POLL)
        end_spark()
        self._thread.join(_KILL_TIMEOUT)

    def _run(self) -> None:
        try:
            with session(self._folder, self.log) as spark:
                listener = OffsetCommitListener(
                    observers=[self._observer],
                    flush_timeout=_FLUSH,
                    metrics_port=self._metrics_port,
                )
                spark.streams.addListener(listener)
                query = self._query(spark)
                try:
                    self._running.set()
                    self._watch(query)
                    query.stop()
                finally:
                    listener.close()
        except EoListenerError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001  # a thread that ends silently would be waited for
            self._failure = failed("Spark could not be used", error, self.log)
        finally:
            self._running.set()

    def _query(self, spark: SparkSession) -> StreamingQuery:
        flights = (
            records(spark, self._servers, MOST)
            .select(F.from_json(F.col("value").cast("string"), Flight.SCHEMA).alias("flight"))
            .select("flight.*")
        )
        delays = flights.groupBy("origin", "hour").agg(
            F.count("*").alias("flights"),
            F.count_if(F.col("dep_delay").isNull()).alias("cancelled"),
            F.avg("dep_delay").alias("minutes"),
        )
        return (
            delays.writeStream.queryName(QUERY)
            .outputMode("update")
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .foreachBatch(self._write)
            .start()
        )

    def _write(self, changed: DataFrame, number: int) -> None:
        begun = time.monotonic()
        rows = [Delay(**row.asDict()) for row in changed.collect()]
        self._results.write(number, rows, time.monotonic() - begun)

    def _watch(self, query: StreamingQuery) -> None:
        while not self._stopping.wait(_POLL):
            require_active(query, self.log)
