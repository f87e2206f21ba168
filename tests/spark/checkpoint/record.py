"""Record what Spark itself writes: run by hand, once for each version of Spark under test.

    python -m tests.spark.checkpoint.record SERVERS FOLDER

runs small queries of every kind on the Kafka at SERVERS, and writes their checkpoints to
`FOLDER/<version of pyspark>.json`, in the form of `tests.spark.checkpoint.recorded`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

from tests.spark.checkpoint.recorded import write
from tests.spark_session import new_session
from tests.topics import Topics

KEPT = ("metadata", "offsets", "commits", "sources")
NONE: Mapping[str, str] = MappingProxyType({})


class Recorder:
    """Runs one query after the other, each on topics of its own names."""

    def __init__(self, spark: SparkSession, topics: Topics, folder: Path) -> None:
        self._spark = spark
        self._topics = topics
        self._folder = folder
        self._version = pyspark.__version__

    def source(self, topic: str, called: str | None = None) -> DataFrame:
        name = f"{topic}-{self._version}"
        if name not in self._made:
            self._made.add(name)
            # Continuous processing holds a core for each partition, for as long as it runs.
            self._topics.create_as(name, 1 if topic == "continuous" else 3)
        reader = self._spark.readStream.format("kafka").option("subscribe", name)
        reader = reader.option("kafka.bootstrap.servers", self._topics.servers)
        if called is not None:
            reader = reader.name(called)  # type: ignore[attr-defined]  # from Spark 4.2 on
        return reader.option("startingOffsets", "earliest").load().select("key", "value")

    _made: set[str] = set()  # noqa: RUF012  # one recorder a process

    def run(
        self,
        name: str,
        data: DataFrame,
        step: Callable[[int], None],
        steps: int,
        *,
        trigger: Mapping[str, str] = NONE,
        options: Mapping[str, str] = NONE,
    ) -> None:
        writer = data.writeStream.format("noop").options(**options)
        writer = writer.option("checkpointLocation", str(self._folder / name))
        if trigger:
            writer = writer.trigger(**trigger)
        query = writer.start()
        for number in range(steps):
            step(number)
            if "continuous" in trigger or options:
                time.sleep(1.5)
            else:
                query.processAllAvailable()
        query.stop()

    def fill(self, topic: str, records: int = 20) -> None:
        self._topics.fill(f"{topic}-{self._version}", records)

    def run_one(self, name: str, steps: int, **how: Any) -> None:
        self.run(name, self.source(name), lambda _: self.fill(name), steps, **how)

    def all(self) -> None:
        spark = self._spark
        self.run_one("plain", 3)
        spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
        self.run_one("purged", 6)
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
        self.joined()
        twice = self.source("twice")
        self.run("twice", twice.union(twice), lambda _: self.fill("twice"), 2)
        self.mixed()
        asynchronous = {
            "asyncProgressTrackingEnabled": "true",
            "asyncProgressTrackingCheckpointIntervalMs": "3000",
        }
        self.run_one("async", 6, options=asynchronous)
        self.run_one("continuous", 3, trigger={"continuous": "500 milliseconds"})
        rows = spark.readStream.format("rate").load()
        self.run("rate", rows, lambda _: time.sleep(1.5), 1)
        if self._version >= "4.2":
            spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
            self.run_one("v2", 2)
            self.joined("v2-join")
            spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
            named = self.source("v2-named", called="flights")
            self.run("v2-named", named, lambda _: self.fill("v2-named"), 2)

    def joined(self, name: str = "join") -> None:
        left, right = f"{name}-left", f"{name}-right"

        def step(_: int) -> None:
            self.fill(left)
            self.fill(right, 30)

        self.run(name, self.source(left).join(self.source(right), "key"), step, 2)

    def mixed(self) -> None:
        folder = self._folder / "files"
        folder.mkdir()
        files = self._spark.readStream.format("text").load(str(folder))

        def step(number: int) -> None:
            self.fill("mixed")
            if number:
                (folder / f"{number}.txt").write_text("a line\n")

        self.run("mixed", files.union(self.source("mixed").selectExpr("string(value)")), step, 3)


def main(servers: str, folder: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        spark = new_session({"spark.sql.streaming.continuous.enabled": "true"})
        Recorder(spark, Topics(servers), Path(made)).all()
        spark.stop()
        found = {}
        for checkpoint in sorted(Path(made).iterdir()):
            files = {
                str(path.relative_to(checkpoint)): path.read_bytes()
                for path in sorted(checkpoint.rglob("*"))
                if path.is_file()
                and path.relative_to(checkpoint).parts[0].strip(".").startswith(KEPT)
            }
            if "metadata" in files:
                found[checkpoint.name] = {
                    name: held for name, held in files.items() if made.encode() not in held
                }
        write(Path(folder) / f"{pyspark.__version__}.json", found)


if __name__ == "__main__":
    main(*sys.argv[1:])
