"""A query from a topic into a store by `exactly_once`, its group, and the person on call."""

from __future__ import annotations

import shlex
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from eo_listener import OffsetCommitListener, exactly_once, starting_offsets
from eo_listener.cli import app
from eo_listener.kafka.logs import ClusterReader
from eo_listener.offsets import TopicPartition
from tests.disasters.said import Finding, Said
from tests.disasters.stores import Rows, Store
from tests.sinks.kafka.records import committed
from tests.topics import Topics, unique

QUERY = "delays"


@dataclass
class Pipeline:
    """A query's code: `source` (options of its reader), `checkpoint` and `settings`."""

    spark: SparkSession
    topics: Topics  # may do everything
    store: Store
    folder: Path
    topic: str
    options: Mapping[str, str]  # of the query's reader
    properties: Path | None = None  # of a client
    group: str = field(default_factory=lambda: unique("g"))
    checkpoint: str = "checkpoint"
    source: dict[str, str] = field(default_factory=lambda: {"startingOffsets": "earliest"})
    settings: dict[str, Any] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)  # by all commands
    sink_name: str | None = None
    _starts: int = 0

    @classmethod
    def begin(
        cls,
        spark: SparkSession,
        topics: Topics,
        store: Store,
        folder: Path,
        login: Mapping[str, str] = MappingProxyType({}),
        properties: Path | None = None,
    ) -> Pipeline:
        """A query that has not run yet, from a topic of its own."""
        topic = topics.create("flights", 2)
        options = {"kafka.bootstrap.servers": topics.servers, **login, "subscribe": topic}
        return cls(spark, topics, store, folder, topic, options, properties)

    @property
    def servers(self) -> str:
        return self.options["kafka.bootstrap.servers"]

    def fill(self, records: int = 20) -> None:
        self.topics.fill(self.topic, records)

    def work(self, records: int = 20, *, listener: bool = True) -> None:
        """Append records, and have the query take all there are."""
        self.fill(records)
        self.run(listener=listener)

    def run(
        self,
        *,
        listener: bool = True,
        name: str = QUERY,
        store: Store | None = None,
        checkpoint: str | None = None,
    ) -> None:
        """Run the query to the end of the log, as one driver does, and end it."""
        store, folder = store or self.store, self.folder / (checkpoint or self.checkpoint)
        # The past has several batches, in which a ledger shows; what comes after it needs no more.
        per_batch = 1000 if folder.exists() else 12
        sink = store.sink(self.sink_name)
        function = exactly_once(sink, transform=store.transform, **self.settings)
        commits = OffsetCommitListener() if listener else None
        if commits is not None:
            self.spark.streams.addListener(commits)
        try:
            query = (
                self._read(per_batch, listener=listener)
                .writeStream.queryName(name)
                .foreachBatch(function)
                .option("checkpointLocation", str(folder))
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(120)
            if commits is not None:
                commits.flush(60)
        finally:
            function.close()
            if commits is not None:
                self.spark.streams.removeListener(commits)
                commits.close()

    def _read(self, per_batch: int, *, listener: bool) -> DataFrame:
        group = {"kafka.consumer.commit.groupid": self.group} if listener else {}
        return (
            self.spark.readStream.format("kafka")
            .options(**{**self.options, **group, **self.source})
            .option("maxOffsetsPerTrigger", per_batch)
            .load()
            .selectExpr("topic", "partition", "offset", "string(value) AS value")
        )

    def audit(self, *more: str) -> Said:
        words = ["audit", "-b", self.servers, "-g", self.group, *self.client, *more]
        words += [] if self.sink_name is None else ["--sink", self.sink_name]
        checkpoint = str(self.folder / self.checkpoint)
        return self.type(*words, "-c", checkpoint, "--ledger", self.store.address)

    @property
    def client(self) -> list[str]:
        """The properties of the client, as a command line has them."""
        return [] if self.properties is None else ["-X", f"@{self.properties}"]

    def type(self, *words: str) -> Said:
        """Run a command as it is typed into a shell, and keep what it printed."""
        answer = CliRunner().invoke(app, list(words))
        if answer.exception is not None and not isinstance(answer.exception, SystemExit):
            self.printed.append(str(answer.exception))
            raise answer.exception
        self.printed.append(answer.output)
        return Said(answer.exit_code, answer.stdout)

    def do(self, command: str, *more: str) -> Said:
        """Type a command that was printed; where it was a dry run, once more with --execute."""
        program, *words = shlex.split(command)
        assert program == "eo-listener"
        words += [*self.client, *more]
        said = self.type(*words)
        if "--execute" in said.text:
            # What is in use was left alone: nothing else is, so there is nothing to wait for.
            said = self.type(*words, "--execute", *([] if "--watch" in words else ["--watch", "0"]))
            assert "dry run" not in said.text
        return said

    def repair(self, finding: Finding, choice: int = 0) -> None:
        """Do what a finding says: type its commands, change the code of the query."""
        chosen = finding.choices[choice]
        for command in chosen.commands:
            assert self.do(command).code == 0
        start = chosen.start(
            starting_offsets=starting_offsets,
            sink=self.store.sink(self.sink_name),
            options=self.options,
        )
        if start is not None:
            assert "new checkpointLocation" in chosen.text
            self._starts += 1
            self.checkpoint = f"checkpoint-{self._starts}"
            self.source["startingOffsets"] = start
        self.settings = chosen.settings
        self.sink_name = finding.sink_name or self.sink_name
        if "failOnDataLoss=false" in chosen.text:
            self.source["failOnDataLoss"] = "false"

    def go_on(self) -> None:
        """Start the query as it is now; once it has worked, take out what was for one start."""
        self.run()
        self.settings = {}
        self.source.pop("failOnDataLoss", None)
        self.work()

    def copy_checkpoint(self, name: str) -> None:
        shutil.copytree(self.folder / self.checkpoint, self.folder / name)

    def put_back_checkpoint(self, name: str) -> None:
        self.delete_checkpoint()
        shutil.copytree(self.folder / name, self.folder / self.checkpoint)

    def delete_checkpoint(self) -> None:
        shutil.rmtree(self.folder / self.checkpoint)

    def delete_group(self) -> None:
        """As Kafka does with one that has expired."""
        admin = AdminClient({"bootstrap.servers": self.topics.servers, "log_level": "0"})
        admin.delete_consumer_groups([self.group])[self.group].result(30)

    def ends(self) -> dict[TopicPartition, int]:
        with closing(ClusterReader({"bootstrap.servers": self.topics.servers})) as reader:
            return dict(reader.log_ends(reader.partitions([self.topic])))

    def records(self) -> Rows:
        found = committed(self.topics.servers, self.topic)
        return Counter((one.partition(), one.offset()) for one in found)
