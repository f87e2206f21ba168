"""Tables of a lake: judged and counted by commands, taken back by others, and gone on with."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from eo_listener import exactly_once, starting_offsets
from eo_listener.errors import ExitCode
from eo_listener.model.check_finding import CheckFinding, Severity
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing import MemorySink
from eo_listener.testing.made_up_entries import QUERY, entry_of
from tests.broker import Broker
from tests.cli.checkpoint_files import QUERY_ID, CheckpointFiles
from tests.cli.commands import ended_apart, run_apart, run_here, under_permissions
from tests.foreach_batch.conftest import LEFT_SOCKETS, Jobs
from tests.sinks.chapters.store import TP, Store
from tests.topics import Topics

_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


def interpret(session: SparkSession) -> None:
    """Have plans of a few rows run as they are: to compile them takes longer than to run them."""
    for key, value in _INTERPRETED.items():
        session.conf.set(key, value)


@contextmanager
def interpreted(session: SparkSession) -> Iterator[None]:
    interpret(session)
    yield
    for key in _INTERPRETED:
        session.conf.unset(key)


class LakeStore(Store):
    """A table of files, with a ledger of its own, which a session of Spark reads and writes."""

    spark: SparkSession
    table: str
    """As a statement of Spark names it."""
    address: str
    """As a command line names its ledger."""
    words: tuple[str, ...]
    """What a command needs for a session of its own."""
    undoes: str
    """How the statement begins that undoes what `take_back` did."""

    @abstractmethod
    def version(self) -> Any:
        """Say where the table is, for `take_back`."""

    @abstractmethod
    def take_back(self, version: Any) -> None:
        """Put the table back to where it was."""

    def session(self) -> SparkSession:
        return self.spark

    def run(self, statement: str) -> None:
        self.session().sql(statement)

    @abstractmethod
    def metadata(self) -> Path:
        """Find the folder that tells what the table has."""

    @abstractmethod
    def findings(
        self, name: str | None = None, query: str = QUERY, **given: Any
    ) -> list[CheckFinding]:
        """Check a sink of the table, or of another one, with these arguments."""

    def said(self, level: Severity, name: str | None = None, **given: Any) -> str:
        return "; ".join(
            f"{one.what} -> {one.advice}"
            for one in self.findings(name, **given)
            if one.level is level
        )

    def write_with(self, checkpoint: CheckpointFiles, number: int) -> None:
        """Write batch `number`, of three rows, as a query does it."""
        sink, ranges = self.sink(), {TP: OffsetRange(3 * number, 3 * number + 3)}
        entry = entry_of(sink.applied(QUERY) if number else {}, ranges, batch_id=number)
        checkpoint.plan(number, {TP: 3 * number + 3})
        self.put(sink, replace(entry, query_id=QUERY_ID))
        checkpoint.commit(number)


@pytest.mark.slow
class CommandsOnTables:
    """What commands say of a table, in this process and in one of their own."""

    @pytest.fixture
    def checkpoint(self, tmp_path: Path) -> CheckpointFiles:
        return CheckpointFiles(tmp_path / "c", {TP: 0})

    @pytest.fixture
    def taken_back(self, store: LakeStore, checkpoint: CheckpointFiles) -> LakeStore:
        """The table after two batches, of which the second was taken back."""
        store.write_with(checkpoint, 0)
        version = store.version()
        store.write_with(checkpoint, 1)
        store.take_back(version)
        return store

    def test_a_table_that_was_taken_back_is_named_and_repaired(
        self, taken_back: LakeStore, checkpoint: CheckpointFiles, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What it lost is counted, and back after the printed statement; a look writes nothing."""
        audit = ("audit", "-c", checkpoint.folder, "--ledger", taken_back.address)
        state = taken_back.state()
        code, document = run_here(capsys, *audit)
        (finding,) = (one for one in document["findings"] if one["severity"] == "problem")
        assert (code, document["lost"], finding["kind"]) == (1, 3, "ledger behind")
        assert finding["cause"]
        assert taken_back.state() == state
        taken_back.run(finding["fix"].partition("; or")[0])
        state = taken_back.state()
        assert run_here(capsys, *audit)[0] == 0
        code, shown = run_here(capsys, "ledger", "show", taken_back.address, "--history", 9)
        (ledger,) = shown["ledgers"]
        assert (code, ledger["taken_back"], ledger["heads"][0]["next_offset"]) == (0, None, 6)
        assert [(one["next_offset"], one["rows"]) for one in ledger["history"]] == [(3, 3), (6, 3)]
        assert taken_back.state() == state

    def test_by_itself(
        self, taken_back: LakeStore, checkpoint: CheckpointFiles, tmp_path: Path
    ) -> None:
        """With the settings of the query's session; the statement it prints is run."""
        there = {one.name for one in tmp_path.iterdir()}
        audit = ("audit", "-c", checkpoint.folder, "--ledger", taken_back.address)
        code, document = run_apart(tmp_path, *audit, *taken_back.words)
        (finding,) = (one for one in document["findings"] if one["severity"] == "problem")
        assert (code, finding["kind"]) == (1, "ledger behind")
        taken_back.run(finding["fix"].partition("; or")[0])
        code, document = run_apart(tmp_path, *audit, *taken_back.words)
        assert (code, document["lost"], document["doubled"]) == (0, 0, 0)
        left = {one.name for one in tmp_path.iterdir()}
        assert left - {"artifacts"} == there  # Spark 4.0 leaves that, empty

    def test_a_table_that_may_not_be_read(
        self, store: LakeStore, checkpoint: CheckpointFiles, tmp_path: Path
    ) -> None:
        """It could not be reached: 3, and that a right may be missing, not a setting of Spark's."""
        store.write_with(checkpoint, 0)
        folder = store.metadata()
        folder.chmod(0)
        command = ("ledger", "show", store.address, *store.words)
        ended = ended_apart(tmp_path, *command, before=under_permissions())
        folder.chmod(0o755)
        assert ended.returncode == ExitCode.UNREACHABLE, ended.stderr
        assert "Allow the user" in ended.stderr.splitlines()[-1]


class TablesBeforeTheStart:
    """What a sink's check finds of a table."""

    def test_before_the_first_batch_and_after_it(self, store: LakeStore) -> None:
        """No table is there and nothing makes it; then its form, rights and ledger are said."""
        assert "first batch creates it" in store.said(Severity.FINE)
        assert store.state() == ()
        assert "create=False" in store.said(Severity.PROBLEM, create=False)
        store.write({TP: OffsetRange(0, 3)})
        state = store.state()
        assert {one.level for one in store.findings()} <= {Severity.FINE, Severity.NOTE}
        fine = store.said(Severity.FINE)
        assert "it exists, " in fine
        assert "may write to " in fine
        assert f"the ledger of {QUERY!r} has flights-0 at 3" in fine
        assert f"no ledger of 'p', but of {QUERY!r}" in store.said(Severity.NOTE, query="p")
        assert store.state() == state

    def test_a_table_that_was_taken_back(self, store: LakeStore) -> None:
        """A problem, with the command that undoes it."""
        store.write({TP: OffsetRange(0, 3)})
        version = store.version()
        store.write({TP: OffsetRange(3, 5)}, 1)
        store.take_back(version)
        (found,) = (one for one in store.findings() if one.level is Severity.PROBLEM)
        assert store.undoes in found.advice


@pytest.mark.kafka
@pytest.mark.slow
@LEFT_SOCKETS
class TablesOfQueries:
    """Tables that a query writes out of Kafka."""

    def test_a_new_checkpoint_goes_on_at_the_ledger(
        self, store: LakeStore, broker: Broker, tmp_path: Path
    ) -> None:
        """Also one that is made by another sink object, and after the table was taken back."""
        topics = Topics(broker.bootstrap_servers)
        topic, jobs = topics.create(), Jobs(store.spark, topics, tmp_path)

        def run(checkpoint: str, start: str = "earliest") -> None:
            topics.fill(topic, 30)
            function = exactly_once(store.sink())
            jobs.drain(jobs.read(topic, startingOffsets=start), function, checkpoint=checkpoint)
            function.close()

        def ledger() -> str:
            return starting_offsets(
                ledger=store.sink(), query="q", bootstrap_servers=topics.servers
            )

        run("one")
        version = store.version()
        run("two", ledger())
        store.take_back(version)
        run("three", ledger())
        query = f"SELECT partition, offset, value FROM {store.table}"
        found = store.session().sql(query).collect()
        assert len({(row[0], row[1]) for row in found}) == len(found) == 90
        assert Counter(int(row[2]) for row in found) == dict.fromkeys(range(30), 3)

    def test_a_transform_reads_the_table_of_an_earlier_sink(
        self, store: LakeStore, broker: Broker, tmp_path: Path
    ) -> None:
        """Every row is new to all sinks, by one DataFrame or by two: a later sink lacks none."""
        topics = Topics(broker.bootstrap_servers)
        topic, jobs = topics.create(), Jobs(store.spark, topics, tmp_path)
        sinks = [store.sink(), MemorySink()]
        topics.fill(topic, 10)
        jobs.drain(jobs.read(topic), exactly_once(*sinks))

        def new_rows(frame: DataFrame, _: object) -> DataFrame:
            table = frame.sparkSession.table(store.table)
            return frame.join(table, ["partition", "offset"], "left_anti").select(*frame.columns)

        def twice(frame: DataFrame, plan: object) -> list[DataFrame]:
            return [new_rows(frame, plan), new_rows(frame, plan)]

        for transform in (new_rows, twice):
            topics.fill(topic, 10)
            jobs.drain(jobs.read(topic), exactly_once(*sinks, transform=transform))
        assert store.session().table(store.table).count() == 30
        assert len(sinks[1].rows) == 30

    def test_a_lost_and_a_doubled_row_are_named(
        self, store: LakeStore, broker: Broker, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With their offsets, though the query began in mid-stream and has not read all."""
        servers, batches, each = broker.bootstrap_servers, 3, 10
        topic = Topics(servers).create(partitions=2)
        tps = [TopicPartition(topic, number) for number in range(2)]
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        for tp in tps:
            for _ in range(5 + each * batches + 7):
                producer.produce(tp.topic, value=b"x", partition=tp.partition)
        assert producer.flush(30) == 0
        sink = store.sink()
        for number in range(batches):
            ranges = dict.fromkeys(tps, OffsetRange(5 + each * number, 5 + each * (number + 1)))
            heads = sink.applied(QUERY) if number else {}
            store.put(sink, entry_of(heads, ranges, batch_id=number, topic_id=None))

        def count() -> tuple[int, dict[str, Any], dict[str, str]]:
            command = ("audit", "-b", servers, "--ledger", store.address, "--query", QUERY)
            code, document = run_here(capsys, *command, "--rows")
            rows = (one for one in document["findings"] if one["about"].startswith("rows of"))
            return code, document, {one["kind"]: one["what"] for one in rows}

        code, document, found = count()
        assert (code, document["lost"], document["doubled"]) == (0, 0, 0), document
        (agreed,) = found.values()
        assert agreed.startswith(f"{2 * each * batches} rows: ")
        session = store.session()
        session.sql(f"DELETE FROM {store.table} WHERE partition = 1 AND offset = 17")
        session.sql(
            f"INSERT INTO {store.table} SELECT * FROM {store.table} "
            "WHERE partition = 0 AND offset IN (20, 21)"
        )
        code, document, found = count()
        assert (code, document["lost"], document["doubled"]) == (1, 1, 2)
        assert found.keys() == {"rows missing", "rows doubled"}
        assert f"{tps[1]} 17..18" in found["rows missing"]
        assert f"{tps[0]} 20..22" in found["rows doubled"]
