"""The Spark side: a session, the query, and the listener that commits, in a thread of their own.

Not in the main thread, for two reasons. There pyspark would put a handler of its own on Ctrl-C,
and a KeyboardInterrupt in the middle of a py4j call leaves its connection unusable for the calls
that stop Spark.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener.demo.flights import Flight
from eo_listener.demo.processes import break_off_spark, end_spark
from eo_listener.demo.settings import GROUP, LOG, QUERY, TOPIC
from eo_listener.demo.tally import Delay, Tally
from eo_listener.errors import EoListenerError, UnavailableError
from eo_listener.jvm.calls import asking
from eo_listener.listener import OffsetCommitListener
from eo_listener.session import configure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from eo_listener.events import Observer

_MOST: Final = 30_000  # rows in a batch, so that there is something to see on a slow machine too
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # best for a JVM of one minute
_LOOK: Final = 0.25  # seconds between two looks at the query
_PATIENCE: Final = 40.0  # seconds for the query, the commits and Spark to end in order
_FLUSH: Final = 5.0  # seconds of these for the last commits
_LAST_PATIENCE: Final = 5.0  # seconds for the thread to notice that the JVM has gone


class FlightsQuery:
    """Runs the query from `start` to `stop`; all that Spark writes lies in `folder`."""

    def __init__(self, servers: str, folder: Path, tally: Tally, observer: Observer) -> None:
        self.log = folder / LOG
        self._servers = servers
        self._folder = folder
        self._tally = tally
        self._observer = observer
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

    def stop(self, patience: float = _PATIENCE) -> None:
        """Stop the query, commit what it has processed, end Spark and its JVM. Idempotent.

        What is not over after `patience` seconds is broken off with the JVM.
        """
        self._stopping.set()
        if self._thread.ident is None:
            return
        deadline = time.monotonic() + patience
        while self._thread.is_alive() and time.monotonic() < deadline:
            if not self._running.is_set():  # in the middle of its start, which nothing else ends
                break_off_spark()
            self._thread.join(_LOOK)
        end_spark()
        self._thread.join(_LAST_PATIENCE)

    def _run(self) -> None:
        try:
            with self._session() as spark:
                listener = OffsetCommitListener(observers=[self._observer], flush_timeout=_FLUSH)
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
            self._failure = self._failed("Spark could not be used", error)
        finally:
            self._running.set()

    @contextlib.contextmanager
    def _session(self) -> Iterator[SparkSession]:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # else Spark takes any python3 of the PATH
        builder = (
            SparkSession.builder.appName("eo-listener demo")
            .master("local[2]")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.extraJavaOptions", f'{_QUICK} "-Djava.io.tmpdir={self._folder}"')
        )
        configured = configure(builder)
        try:
            spark = configured.getOrCreate()
        except Exception as error:
            raise self._failed("Spark did not start", error) from error
        try:
            yield spark
        except EoListenerError:
            raise
        except Exception as error:  # here, because py4j asks the JVM for the text of an error
            raise self._failed("Spark has failed", error) from error
        finally:
            with contextlib.suppress(Exception):  # its JVM may have gone, which ends it as well
                spark.stop()
            end_spark()

    def _failed(self, problem: str, error: Exception | None) -> UnavailableError:
        """Make one line of an error of Spark's; all of it goes to stderr, which is the log now."""
        if error is not None:
            traceback.print_exception(error)
        return UnavailableError(
            problem, cause=_first_words(error), fix=f"Read Spark's log: {self.log}"
        )

    def _query(self, spark: SparkSession) -> StreamingQuery:
        flights = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._servers)
            .option("subscribe", TOPIC)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", _MOST)
            .option("kafka.consumer.commit.groupid", GROUP)  # what the listener goes by
            .load()
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
        self._tally.write(number, rows, time.monotonic() - begun)

    def _watch(self, query: StreamingQuery) -> None:
        while not self._stopping.wait(_LOOK):
            with asking("whether the query runs"):
                active = query.isActive
            if not active:
                raise self._failed("The query has ended by itself", query.exception())


def _first_words(error: Exception | None) -> str:
    """The line that says what it is: py4j's own first line only names the call."""
    if error is None:
        return "it gave no reason"
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # py4j's texts come from the JVM, which may have ended
        text = ""
    lines = [line.strip(": ") for line in text.splitlines() if line.strip(": ")]
    telling = (line for line in lines if not line.startswith("An error occurred while calling"))
    return next(telling, type(error).__name__)
