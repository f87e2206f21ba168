"""A PySpark job as somebody else wrote it: it knows nothing of eo_listener.

    spark-submit ... job.py COMMANDS

It does what the lines of the named pipe COMMANDS say, and prints a line for each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery


def start(spark: SparkSession, wanted: dict[str, Any]) -> StreamingQuery:
    """Start a query over Kafka that throws its rows away."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", wanted["servers"])
        .option("subscribe", wanted["topic"])
        .option("startingOffsets", wanted.get("starting", "earliest"))
        .option("maxOffsetsPerTrigger", wanted.get("batch", 1000))
        .option("kafka.consumer.commit.groupid", wanted["group"])
        .load()
        .writeStream.format("noop")
        .queryName(wanted["group"])
        .option("checkpointLocation", wanted["checkpoint"])
        .trigger(processingTime="100 milliseconds")
        .start()
    )


def listen_in_java(spark: SparkSession) -> None:
    """What a Scala or Java job does that adds the shim's listener itself."""
    jvm: Any = spark.sparkContext._jvm  # pyspark has no other way to a Java class
    streams = spark.streams._jsqm
    streams.addListener(jvm.io.github.eolistener.OffsetCommitListener())


def listen(spark: SparkSession) -> None:
    """What a job does that has a listener of its own beside the platform's."""
    from eo_listener import OffsetCommitListener  # noqa: PLC0415  # only this command knows it

    spark.streams.addListener(OffsetCommitListener())


def main(commands: Path) -> None:
    """Serve until asked to end."""
    spark = SparkSession.builder.getOrCreate()
    sessions, queries = {"first": spark}, {}
    print("READY", flush=True)  # noqa: T201  # what the test waits for
    with commands.open() as lines:
        for line in lines:
            message = json.loads(line)
            name = message.get("session", "first")
            session = sessions[name] = sessions.get(name) or spark.newSession()
            match message["do"]:
                case "start":
                    queries[message["group"]] = start(session, message)
                case "drain":
                    queries[message["group"]].processAllAvailable()
                case "stop":
                    queries[message["group"]].stop()
                case "listen":
                    listen(session)
                case "listen in Java":
                    listen_in_java(session)
                case "end":
                    spark.stop()
                case "again":
                    spark = SparkSession.builder.getOrCreate()
                    sessions, queries = {"first": spark}, {}
            print("DONE", message["do"], flush=True)  # noqa: T201  # and this


if __name__ == "__main__":
    main(Path(sys.argv[1]))
