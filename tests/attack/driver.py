"""A driver with a query and a listener: takes `drain` and `stop`, prints each event's class."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import StreamingQueryException

from eo_listener import OffsetCommitListener
from tests.attack.offerer import AsText, say
from tests.spark_session import new_session


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(AsText):
    """What a driver is started with; `listener` are arguments of OffsetCommitListener."""

    servers: str
    topic: str
    group: str
    checkpoint: str
    listener: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 1000


def main() -> None:
    job = Job.parse(sys.argv[1])
    spark = new_session({"spark.sql.streaming.minBatchesToRetain": "10000"})
    listener = OffsetCommitListener(
        **{"flush_timeout": 5.0, **job.listener},
        observers=[lambda event: say(type(event).__name__)],
    )
    spark.streams.addListener(listener)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.servers)
        .option("subscribe", job.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", job.batch)
        .option("eo.commit.group", job.group)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", job.checkpoint)
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    say("ready")
    for line in sys.stdin:
        try:
            if line.strip() == "drain":
                query.processAllAvailable()
                say("drained")
            else:
                query.stop()
                spark.stop()
                say("stopped")
                return
        except StreamingQueryException:
            say("failed")


if __name__ == "__main__":
    main()
