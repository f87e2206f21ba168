"""A whole driver that writes each batch once, and prints events, errors, and how it has ended."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name

import eo_listener
from eo_listener import OffsetCommitListener, exactly_once
from eo_listener.errors import EoListenerError
from tests import delta_lake, iceberg_jars
from tests.attack.blows import fell, note
from tests.attack.exactly_once.versions import SCHEMA
from tests.attack.faults import LOG, driver_processes, fault_point
from tests.attack.offerer import AsText, say
from tests.sinks.iceberg.java_tables import NAMESPACE
from tests.sinks.iceberg.lake import catalog_conf
from tests.spark_session import new_session

if TYPE_CHECKING:
    from eo_listener.model.protocols import Sink

TABLE = "delays"
LETTERS = "rejected"
ODD = 10  # of so many records of a partition the last one is a dead letter, if any are
QUERY = "attacked"
WINDOW = 10  # seconds, which are records of each partition
DELAY = 20  # seconds that the watermark is behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A record; the task that reads it fells the driver, or holds it, and goes on by itself."""

    partition: int
    offset: int
    do: Literal["fell", "stop"] = "fell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(AsText):
    """What a driver is started with; `sink` are further arguments of the sink.

    `shape` is "rows" (each record becomes a row), "windows" (counts by event time; the offset is
    the second at which it happened) or "versions" (of `versions.py`). `where` is a file of SQLite,
    a DSN, a topic, or a folder (Iceberg: of the catalog, which has the table's namespace). Of the
    checkpoint's files `retained` batches are kept at least. `retry` is for how many seconds a batch
    is repeated. With `live` the query waits for new records until it is killed.
    """

    servers: str
    topic: str
    group: str
    checkpoint: str
    where: str
    store: Literal["sqlite", "postgres", "kafka", "delta", "iceberg"] = "sqlite"
    shape: Literal["rows", "windows", "versions"] = "rows"
    batch: int = 300
    retained: int = 10_000
    retry: float = 60.0
    live: bool = False
    master: str = "local[2]"
    sink: Mapping[str, Any] = field(default_factory=dict)
    strike: Strike | None = None

    @property
    def unfenced(self) -> bool:
        """Whether Kafka fences nobody, and shows rows before their batch is whole."""
        return self.sink.get("transactions") is False

    @property
    def marks(self) -> bool:
        """Whether some records are dead letters."""
        return "dead_letters" in self.sink

    @classmethod
    def parse(cls, text: str) -> Job:
        fields = json.loads(text)
        strike = fields.pop("strike")
        return cls(**fields, strike=Strike(**strike) if strike else None)


def ledger_of(topic: str) -> str:
    return f"{topic}-ledger"


def open_sink(job: Job) -> Sink:
    """Open it; of the sinks only this one is imported."""
    match job.store:
        case "kafka":
            options = {"kafka.bootstrap.servers": job.servers}
            ledger = ledger_of(job.where)
            return eo_listener.KafkaSink(options, job.where, ledger_topic=ledger, **job.sink)
        case "delta":
            return eo_listener.DeltaSink(path=job.where, **job.sink)
        case "iceberg":
            return eo_listener.IcebergSink(f"lake.{NAMESPACE}.{TABLE}", **job.sink)
        case "sqlite":
            return eo_listener.SqliteSink(job.where, table=TABLE, **job.sink)
    return eo_listener.PostgresSink(job.where, table=TABLE, **job.sink)


def lake_conf(folder: str) -> dict[str, str]:
    return {
        "spark.jars": ",".join(map(str, iceberg_jars.jars())),
        **catalog_conf("lake", folder),
    }


def stream(spark: SparkSession, job: Job) -> DataFrame:
    """The records of the topic, through the strike, in the shape that is wanted."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.servers)
        .option("subscribe", job.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", job.batch)
        .option("eo.commit.group", job.group)
        .load()
    )
    if job.strike is not None:
        records = records.withColumn("offset", _struck(job.strike)("partition", "offset"))
    rows = _shaped(job, records)
    if job.store != "kafka":
        return rows
    identity = ("topic", "partition", "offset") if job.unfenced else ()
    return rows.selectExpr(*identity, "to_json(struct(*)) as value")


def _shaped(job: Job, records: DataFrame) -> DataFrame:
    if job.shape == "rows":
        mark = [f"if(offset % {ODD} = {ODD - 1}, 'odd', null) as eo_poison"] if job.marks else []
        text = "cast(value as string) as value"
        return records.selectExpr("topic", "partition", "offset", text, *mark)
    if job.shape == "versions":
        event = F.from_json(F.col("value").cast("string"), SCHEMA)
        return records.withColumn("event", event).select("event.*", "topic", "partition", "offset")
    return (
        records.select(F.timestamp_seconds("offset").alias("at"))
        .withWatermark("at", f"{DELAY} seconds")
        .groupBy(F.window("at", f"{WINDOW} seconds"))
        .count()
        .select(F.col("window.start").cast("long").alias("begun"), F.col("count").alias("events"))
    )


def _struck(strike: Strike) -> Any:
    """A function of Spark's that gives the offset back; executors run it, as users' functions."""
    processes, group, log = driver_processes(), os.getpgid(0), os.environ.get(LOG)
    where, do = (strike.partition, strike.offset), strike.do  # pyspark 3.5 cannot send it whole

    def pass_on(partition: int, offset: int) -> int:
        if (partition, offset) == where:
            note(f"task {partition} {offset} {do}", log)
            if do == "fell":
                fell(processes)
            else:
                os.killpg(group, signal.SIGSTOP)
        return offset

    return F.udf(pass_on, "long")


def main() -> None:
    job = Job.parse(sys.argv[1])
    spark = new_session(
        {
            "spark.master": job.master,
            "spark.sql.streaming.minBatchesToRetain": str(job.retained),
            **(delta_lake.conf() if job.store == "delta" else {}),
            **(lake_conf(job.where) if job.store == "iceberg" else {}),
        }
    )
    listener = OffsetCommitListener(flush_timeout=5.0, preflight=False)
    spark.streams.addListener(listener)
    apply = exactly_once(
        open_sink(job),
        observers=[lambda event: say(type(event).__name__)],
        retry_timeout=job.retry,
    )

    def each(frame: DataFrame, number: int) -> None:
        fault_point("spark.called")
        try:
            apply(frame, number)
        except EoListenerError as error:
            say(f"{type(error).__name__} {error}".replace("\n", " "))
            raise

    writer = (
        stream(spark, job)
        .writeStream.queryName(QUERY)
        .foreachBatch(each)
        .option("checkpointLocation", job.checkpoint)
    )
    if job.live:
        writer = writer.trigger(processingTime="200 milliseconds")
    else:
        writer = writer.trigger(availableNow=True)
    query = writer.start()
    say("started")
    try:
        query.awaitTermination()
        end = "drained"
    except StreamingQueryException as error:
        end = "failed " + " | ".join(str(error).splitlines()[:12])
    spark.stop()  # the listener's last commits go out
    listener.close()
    say(end)


if __name__ == "__main__":
    main()
