"""The query of the demo, in a process of its own, which may be killed at any moment.

    python -m examples.demo.job JOB

JOB describes the job, as JSON. When the process's input ends, the query ends in order. It writes
its reports as lines of JSON; Spark's own output goes to stderr.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener import OffsetCommitListener, configure, exactly_once
from eo_listener.events import BatchApplied, Committed, Event
from eo_listener.foreach_batch.exactly_once import Batch
from examples.demo.driver import Job
from examples.demo.flights import SCHEMA
from examples.demo.store import GROUP, QUERY, TOPIC, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # best for a JVM of one minute
Say = Callable[..., None]


def flights(frame: DataFrame) -> DataFrame:
    """Return a row for each record: the flight, and where in Kafka it came from."""
    flight = F.from_json(F.col("value").cast("string"), SCHEMA)
    return frame.select("topic", "partition", "offset", flight.alias("flight")).select(
        "topic", "partition", "offset", "flight.*"
    )


def copies(frame: DataFrame, _: Batch) -> DataFrame:
    """Return a record for each record, with its origin in the headers."""
    headers = [
        F.struct(F.lit(name).alias("key"), F.col(name).cast("string").cast("binary").alias("value"))
        for name in ("partition", "offset")
    ]
    return frame.select("key", "value", F.array(*headers).alias("headers"))


def written(job: Job, say: Say) -> Callable[[DataFrame, int], None]:
    """Return what foreachBatch calls: it writes a batch, and reports it before and after."""
    rows = 0

    def observe(event: Event) -> None:
        nonlocal rows
        if isinstance(event, BatchApplied):
            rows = event.rows or 0

    if job.store is not None:
        transform: Any = copies if job.store is Store.KAFKA else flights
        apply = exactly_once(job.store.sink(job.where), transform=transform, observers=[observe])

    def batch(frame: DataFrame, number: int) -> None:
        nonlocal rows
        rows = 0
        say(what="writing", batch=number)
        if job.store is None:
            rows = flights(frame).count()
        else:
            apply(frame, number)
        say(what="written", batch=number, rows=rows)

    return batch


def run(job: Job, say: Say) -> None:
    """Run the query until the input ends."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else Spark takes any python3 of the PATH
    builder = (
        SparkSession.builder.appName("demo")
        .master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f'{_QUICK} "-Djava.io.tmpdir={job.folder}"')
    )
    spark = configure(builder).getOrCreate()

    def observe(event: Event) -> None:
        if isinstance(event, Committed):
            say(what="committed")

    listener = OffsetCommitListener(
        observers=[observe], flush_timeout=5.0, metrics_port=job.metrics_port
    )
    spark.streams.addListener(listener)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.servers)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", job.most)
        .option("kafka.consumer.commit.groupid", GROUP)  # what the listener goes by
        .load()
        .writeStream.queryName(QUERY)
        .option("checkpointLocation", job.checkpoint)
        .foreachBatch(written(job, say))
        .start()
    )
    say(what="running")
    while not select.select([sys.stdin], [], [], 0.25)[0]:
        if not query.isActive:
            raise query.exception() or RuntimeError("the query has ended by itself")
    query.stop()
    listener.close()
    spark.stop()


def main() -> None:
    """Do it; exit status 1 after reporting what went wrong."""
    fields = json.loads(sys.argv[1])
    job = Job(**{**fields, "store": fields["store"] and Store(fields["store"])})
    with os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1) as out:
        os.dup2(2, 1)

        def say(**message: object) -> None:
            out.write(json.dumps(message) + "\n")

        try:
            run(job, say)
        except Exception as error:  # noqa: BLE001  # the demo says what it was
            traceback.print_exc()
            lines = [line.strip(": ") for line in str(error).splitlines() if line.strip(": ")]
            own = (line for line in lines if not line.startswith("An error occurred while calling"))
            say(what="failed", cause=next(own, type(error).__name__))
            time.sleep(0.1)
            os._exit(1)  # the JVM may hang: whoever has started this kills it


if __name__ == "__main__":
    main()
