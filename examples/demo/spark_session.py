"""A Spark session of the demo, the records it reads, and what it says when it fails."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from eo_listener.model.errors import EoListenerError, UnavailableError
from eo_listener.spark.jvm.calls import asking
from eo_listener.spark.session.configure import configure
from examples.demo.demo_settings import GROUP, TOPIC
from examples.demo.processes import end_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # best for a JVM of one minute


@contextlib.contextmanager
def session(folder: Path, log: Path) -> Iterator[SparkSession]:
    """Start a session, and end it with its JVM; all files it needs for itself lie in `folder`.

    Raises UnavailableError, which names `log`, for whatever Spark throws until then.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else Spark takes any python3 of the PATH
    builder = (
        SparkSession.builder.appName("eo-listener demo")
        .master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f'{_QUICK} "-Djava.io.tmpdir={folder}"')
    )
    configured = configure(builder)
    try:
        spark = configured.getOrCreate()
    except Exception as error:
        raise failed("Spark did not start", error, log) from error
    try:
        yield spark
    except EoListenerError:
        raise
    except Exception as error:  # here, because py4j asks the JVM for the text of an error
        raise failed("Spark has failed", error, log) from error
    finally:
        with contextlib.suppress(Exception):  # its JVM may have gone, which ends it as well
            spark.stop()
        end_spark()


def records(spark: SparkSession, servers: str, most: int) -> DataFrame:
    """Read the topic as a stream, from its beginning, at most so many rows a batch."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most)
        .option("kafka.consumer.commit.groupid", GROUP)  # what the listener goes by
        .load()
    )


def require_active(query: StreamingQuery, log: Path) -> None:
    """Raise UnavailableError, which names `log`, where a query has ended, and JvmError."""
    with asking("read whether the query runs"):
        active = query.isActive
    if not active:
        raise failed("The query has ended by itself", query.exception(), log)


def failed(problem: str, error: Exception | None, log: Path) -> UnavailableError:
    """Make one line of an error of Spark's; all of it goes to stderr, which is the log now."""
    if error is not None:
        traceback.print_exception(error)
    return UnavailableError(problem, cause=_first_words(error), fix=f"Read Spark's log: {log}")


def _first_words(error: Exception | None) -> str:
    """The line that says what it is: py4j's own first line only names the call."""
    if error is None:
        return "it gave no reason"
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # py4j's texts come from the JVM, which may have ended
        text = ""
    lines = [line.strip(": ") for line in text.splitlines() if line.strip(": ")]
    problems = (line for line in lines if not line.startswith("An error occurred while calling"))
    return next(problems, type(error).__name__)
