"""The driver of the demo with a sink, in a process of its own, which may be killed at any moment.

    python -m examples.demo.job

Two lines of JSON come in: what to do, and where to write. It ends in order when its input does.
What it has to say goes out as lines of `News`; whatever Spark prints goes into the log.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener.foreach_batch.exactly_once import exactly_once
from eo_listener.foreach_batch.transform import Batch
from eo_listener.listener.offset_commit_listener import OffsetCommitListener
from eo_listener.model.errors import EoListenerError
from eo_listener.model.events import BatchApplied, Committed, Event
from examples.demo.demo_settings import LOG, QUERY, DemoStore
from examples.demo.demo_target import DemoTarget
from examples.demo.flights import Flight
from examples.demo.job_messages import News
from examples.demo.read_records import SourceRecord
from examples.demo.screen import output_to
from examples.demo.spark_session import records, require_active, session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT: Final = "checkpoint"  # in the folder of the demo
_POLL: Final = 0.25  # seconds between two checks of the query
_FLUSH: Final = 5.0  # seconds for the last commits


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to read, where files may lie, the most rows of a batch, where numbers are served."""

    servers: str
    folder: str
    most: int
    metrics_port: int | None = None

    def text(self) -> str:
        """All of it in one line."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Job:
        """Read what `text` wrote."""
        return cls(**json.loads(text))


class RowsWritten:
    """Applies batches, and reports each before and after."""

    def __init__(self, target: DemoTarget, say: Callable[[News], None]) -> None:
        self._say = say
        self._rows = 0
        self._apply = exactly_once(
            target.sink(),
            transform=copies if target.store is DemoStore.KAFKA else flights,
            observers=[self._observe],
        )

    def batch(self, frame: DataFrame, number: int) -> None:
        """What foreachBatch calls."""
        begun, self._rows = time.monotonic(), 0
        self._say(News(what="writing", batch=number))
        self._apply(frame, number)
        took = time.monotonic() - begun
        self._say(News(what="written", batch=number, rows=self._rows, seconds=took))

    def _observe(self, event: Event) -> None:
        if isinstance(event, BatchApplied):
            self._rows = event.rows or 0


def flights(frame: DataFrame) -> DataFrame:
    """A row for each record: the flight, and where in Kafka it came from."""
    flight = F.from_json(F.col("value").cast("string"), Flight.SCHEMA)
    return frame.select("topic", "partition", "offset", flight.alias("flight")).select(
        "topic", "partition", "offset", "flight.*"
    )


def copies(frame: DataFrame, batch: Batch) -> DataFrame:
    """A record for each record, which says in its headers where it is from."""
    said = SourceRecord._make([F.col("partition"), F.col("offset"), F.lit(batch.id)])
    headers = [
        F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in said._asdict().items()
    ]
    return frame.select("key", "value", F.array(*headers).alias("headers"))


def start(spark: SparkSession, job: Job, written: RowsWritten) -> StreamingQuery:
    """Start the query."""
    return (
        records(spark, job.servers, job.most)
        .writeStream.queryName(QUERY)
        .option("checkpointLocation", str(Path(job.folder, CHECKPOINT)))
        .foreachBatch(written.batch)
        .start()
    )


def run(job: Job, target: DemoTarget, say: Callable[[News], None]) -> None:
    """Run the query until the input ends. Raises EoListenerError."""
    folder = Path(job.folder)
    log = folder / LOG

    def observe(event: Event) -> None:
        if isinstance(event, Committed):
            say(News(what="committed"))

    with session(folder, log) as spark:
        listener = OffsetCommitListener(
            observers=[observe], flush_timeout=_FLUSH, metrics_port=job.metrics_port
        )
        spark.streams.addListener(listener)
        try:
            query = start(spark, job, RowsWritten(target, say))
            say(News(what="running"))
            while not select.select([sys.stdin], [], [], _POLL)[0]:
                require_active(query, log)
            query.stop()
        finally:
            listener.close()


def main() -> None:
    """Read the two lines, and do it; exit status 1 after reporting what went wrong."""
    job, target = Job.parse(sys.stdin.readline()), DemoTarget.parse(sys.stdin.readline())
    with (
        os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1) as out,
        output_to(Path(job.folder, LOG)),
    ):

        def say(news: News) -> None:
            out.write(news.line())

        try:
            run(job, target, say)
        except EoListenerError as error:
            say(News(what="failed", problem=error.problem, cause=error.cause, fix=error.fix))
            sys.exit(1)


if __name__ == "__main__":
    main()
