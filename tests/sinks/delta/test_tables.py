"""DeltaSink on real tables: what Delta does without a word, and what is made of it."""

from __future__ import annotations

import json
import shutil
import threading
import traceback
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

from eo_listener.errors import ForeignWriterError, PoisonRowError, SettingsError, SinkError
from eo_listener.model.ledger import Applied, Entry
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.delta import DeltaSink
from eo_listener.spark.jvm import delta_log
from eo_listener.testing.made_up_entries import QUERY, Heads, entry_of, heads_of, plan_of
from tests.sinks.chapters.store import once
from tests.sinks.chapters.target_table import SparkTarget, union

pytestmark = [pytest.mark.spark]

TP = TopicPartition("flights", 0)
HIDDEN = "hid7q"


class Table:
    """A table of a test's own, and batches into it."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.path = str(path)
        self.name = f"delta.`{self.path}`"

    def sink(self, **arguments: Any) -> DeltaSink:
        return DeltaSink(path=self.path, **arguments)

    def rows(self, *values: str) -> Any:
        return self.spark.sql(union(values))

    def batch(self, sink: DeltaSink, heads: Heads, frame: Any = None, run: str = "run-1") -> Entry:
        """Write the next offset after `heads`."""
        start = max((head.range.until for head in heads.values()), default=0)
        entry = entry_of(heads, {TP: OffsetRange(start, start + 1)}, batch_id=start, run_id=run)
        row = f"'flights' topic, 0 partition, {start}L offset, 'a' word"
        sink.apply(self.rows(row) if frame is None else frame, entry, plan_of(entry))
        return entry

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        found = self.spark.read.format("delta").load(self.path).selectExpr(*columns).collect()
        return sorted(tuple(row) for row in found)

    def sql(self, text: str) -> None:
        self.spark.sql(text.format(table=self.name))


@pytest.fixture
def table(delta: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(delta_log, "session_here", lambda: delta)
    return Table(delta, tmp_path / "delays")


class DeltaTarget(SparkTarget):
    provider = "delta"

    @pytest.fixture
    def _store(self, table: Table) -> None:
        self.table, self.spark = table, table.spark
        self._path, self._numbers = table.path, count()

    def begin(self) -> None:
        self.table.path = f"{self._path}-{next(self._numbers)}"
        self.table.name = f"delta.`{self.table.path}`"

    def new_sink(self, **arguments: Any) -> DeltaSink:
        return self.table.sink(**arguments)

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        there = Path(self.table.path, "_delta_log").exists()
        return self.table.read(*columns) if there else []

    def run(self, statement: str) -> None:
        self.table.sql(statement)


def test_a_commit_that_delta_skips_is_not_taken_for_written(table: Table) -> None:
    """An equal number makes Delta skip the write without a word: the other driver is named."""
    mine, other = table.sink(), table.sink()
    overtaken = once("sink.commit-sent", lambda: table.batch(other, {}, run="run-2"))
    with overtaken, pytest.raises(ForeignWriterError, match="run-2"):
        table.batch(mine, {}, run="run-1")
    assert len(table.read("word")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_the_session_that_was_used_last_does_not_matter(table: Table, mode: str) -> None:
    """Delta asks for the thread's own, which `createDataFrame` of another one has changed."""
    other = table.spark.newSession()

    def use() -> None:
        other.conf.set("spark.databricks.delta.commitInfo.userMetadata", "of another session")
        other.createDataFrame([(1,)], "n int")

    keys = {"keys": ("partition", "offset")} if mode == "upsert" else {}
    sink = table.sink(mode=mode, **keys)
    use()
    first = table.batch(sink, {})
    use()
    assert dict(sink.applied(QUERY)) == heads_of(first)
    with once("sink.begun", use):
        second = table.batch(sink, heads_of(first))
    use()
    assert dict(table.sink().applied(QUERY)) == heads_of(second)
    assert table.read("offset") == [(0,), (1,)]


@pytest.mark.slow
def test_a_restore_between_judgement_and_commit_is_found(table: Table) -> None:
    """Delta commits the batch; the sink refuses it, now and later, until the printed command."""
    sink = table.sink()
    first = table.batch(sink, {})
    second = table.batch(sink, heads_of(first))
    restored = once(
        "sink.commit-sent", lambda: table.sql("RESTORE TABLE {table} TO VERSION AS OF 1")
    )
    with restored, pytest.raises(SinkError, match=r"version 4\b") as refused:
        table.batch(sink, heads_of(second))
    with pytest.raises(SinkError, match=r"version 4\b"):
        table.sink().applied(QUERY)
    command, _, _ = str(refused.value.fix).partition(",")
    table.spark.sql(command)
    assert dict(table.sink().applied(QUERY)) == heads_of(first)
    assert table.read("offset") == [(0,)]


@pytest.mark.slow
def test_a_restore_between_the_ledger_and_the_batch_is_named(table: Table) -> None:
    """And not another driver, which there is none of; the printed command undoes it."""
    sink = table.sink()
    first = table.batch(sink, {})
    second = table.batch(sink, heads_of(first))
    assert dict(sink.applied(QUERY)) == heads_of(second)
    table.sql("RESTORE TABLE {table} TO VERSION AS OF 1")
    with pytest.raises(SinkError, match=r"version 3 .*to version 1") as refused:
        table.batch(sink, heads_of(second))
    assert table.read("offset") == [(0,)]
    command, _, _ = str(refused.value.fix).partition("undo it: ")[2].partition(". To continue")
    table.spark.sql(command)
    third = table.batch(sink, heads_of(second))
    assert dict(table.sink().applied(QUERY)) == heads_of(third)
    assert table.read("offset") == [(0,), (1,), (2,)]


@pytest.mark.slow
def test_a_dropped_table_takes_its_ledger_along(table: Table) -> None:
    """A sink that lives on does not take the new table for the old one."""
    sink = table.sink()
    first = table.batch(sink, {})
    table.batch(sink, heads_of(first))
    table.sql("DELETE FROM {table}")
    files = Path(table.path)
    files.rename(files.with_name("old"))
    with pytest.raises(SettingsError, match=r"another table.*no longer exists"):
        sink.applied(QUERY)
    again = table.batch(sink, {})
    assert dict(sink.applied(QUERY)) == heads_of(again)


@pytest.mark.slow
def test_the_log_of_a_long_pause_is_not_guessed(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If retention has deleted the commit with the heads, only who reads each commit has them."""
    monkeypatch.setattr("eo_listener.sinks.delta.connection._KEPT", 1)
    sink = table.sink()
    first = table.batch(sink, {})
    for _ in range(2):
        table.sql("INSERT INTO {table} VALUES ('x', 0, 0, 'by hand')")
        sink.applied(QUERY)
    jvm: Any = table.spark._jvm
    logs = jvm.org.apache.spark.sql.delta.DeltaLog
    logs.forTable(table.spark._jsparkSession, table.path).checkpoint()
    for version in (0, 1):
        Path(table.path, "_delta_log", f"{version:020d}.json").unlink()
    with pytest.raises(SinkError, match="log was cleaned"):
        table.sink().applied(QUERY)
    assert dict(sink.applied(QUERY)) == heads_of(first)


def test_a_batch_reads_its_own_commit_only(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file of the log and never Delta's state; a known ledger takes few round trips."""
    read: list[int] = []
    sent: list[str] = []
    lines, send = delta_log.DeltaLogFiles.lines, ClientServerConnection.send_command

    def counted(files: delta_log.DeltaLogFiles, version: int) -> Any:
        found = lines(files, version)
        read.extend([version] if found is not None else [])
        return found

    def noted(connection: ClientServerConnection, command: str) -> Any:
        if threading.current_thread() is threading.main_thread():  # another one frees objects
            sent.append(command)
        return send(connection, command)

    sink = table.sink()
    entry = table.batch(sink, {})
    monkeypatch.setattr(delta_log.DeltaLogFiles, "lines", counted)
    monkeypatch.setattr(delta_log, "transactions", lambda *_: pytest.fail("the state was built"))
    sink.applied(QUERY)
    table.batch(sink, heads_of(entry))
    assert read == [2]
    sink.applied(QUERY)
    monkeypatch.setattr(ClientServerConnection, "send_command", noted)
    sink.applied(QUERY)
    assert len(sent) <= 20, sent  # by the path of each class, package by package, 30


def test_rows_that_do_not_fit_are_refused(table: Table) -> None:
    """By type, without a secret of the session in the error; by name, unless columns are wanted."""
    sink, row = table.sink(), f"1 id, 0 k, named_struct('n', 1L) {HIDDEN}"
    first = table.batch(sink, {}, table.rows(row))
    for arguments in ({}, {"mode": "upsert", "keys": "k"}):
        with pytest.raises(SettingsError, match="'id' is double in the rows and int in the table"):
            table.batch(table.sink(**arguments), heads_of(first), table.rows("1.7D id, 0 k"))
    table.spark.conf.set("spark.sql.catalog.lake.jdbc.password", HIDDEN)
    try:
        with pytest.raises(SettingsError) as refused:
            table.batch(sink, heads_of(first), table.rows(row.replace("1L", "1")))
    finally:
        table.spark.conf.unset("spark.sql.catalog.lake.jdbc.password")
    whole = "".join(traceback.format_exception(refused.value))
    assert "'***'" in whole
    assert HIDDEN not in whole
    wider = table.rows("2 id, 7 delay")
    with pytest.raises(SettingsError, match=r"'delay'[\s\S]*new_columns=True"):
        table.batch(sink, heads_of(first), wider)
    second = table.batch(table.sink(new_columns=True), heads_of(first), wider)
    assert table.read("id", "delay") == [(1, None), (2, 7)]
    assert dict(sink.applied(QUERY)) == heads_of(second)


@pytest.mark.slow
def test_a_constraint_that_a_row_violates_is_named(table: Table) -> None:
    """For an append and a MERGE, without the row's values; nothing of the batch is written."""
    table.sql("CREATE TABLE {table} (id int, word string NOT NULL) USING delta")
    table.sql("ALTER TABLE {table} ADD CONSTRAINT positive CHECK (id > 0)")
    for arguments in ({}, {"mode": "upsert", "keys": "id"}):
        sink = table.sink(**arguments)
        with pytest.raises(PoisonRowError, match=r"CHECK constraint positive") as refused:
            table.batch(sink, {}, table.rows("-73 id, 'a' word"))
        assert "-73" not in str(refused.value)
        with pytest.raises(PoisonRowError, match="NOT NULL constraint"):
            table.batch(sink, {}, table.rows("1 id, CAST(NULL AS string) word"))
    assert table.read("id") == []


def test_a_driver_that_was_killed_while_it_created_the_table(table: Table) -> None:
    """A log without a commit is its trace; a folder with other files is refused by name."""
    log = Path(table.path, "_delta_log")
    log.mkdir(parents=True)
    foreign = log.with_name("part-0.parquet")
    foreign.touch()
    with pytest.raises(SettingsError, match=r"part-0\.parquet"):
        table.batch(table.sink(), {})
    foreign.unlink()
    empty = table.rows("1 id").where("false").coalesce(1)
    empty.write.parquet(str(log / "empty"))
    for file in (log / "empty").glob("part-*.parquet"):
        file.rename(log.with_name(file.name))
    shutil.rmtree(log / "empty")
    (log / f".{0:020d}.json.1f0b.tmp").write_text("{")
    table.batch(table.sink(), {})
    assert len(table.read("word")) == 1
    warehouse = str(table.spark.conf.get("spark.sql.warehouse.dir"))
    folder = Path(warehouse.removeprefix("file:"), "unknown")
    shutil.copytree(table.path, folder)  # the catalog has no table of this name
    with pytest.raises(SettingsError, match="unknown cannot be created"):
        table.batch(DeltaSink("unknown"), {})
    shutil.rmtree(folder)


def test_a_table_feature_that_is_not_there_is_named(table: Table) -> None:
    """One that a new column needs, and those of a newer Delta Lake, to write and to read."""
    first = table.batch(table.sink(), {})
    ntz = table.rows("timestamp_ntz'2024-01-01 00:00:00' at")
    with pytest.raises(SettingsError, match=r"feature.*timestampNtz"):
        table.batch(table.sink(new_columns=True), heads_of(first), ntz)

    def require(**features: Any) -> None:
        log = Path(table.path, "_delta_log")
        protocol = {"minWriterVersion": 7, "writerFeatures": ["ofTheFuture"], **features}
        actions = [{"commitInfo": {"timestamp": 1}}, {"protocol": protocol}]
        text = "".join(f"{json.dumps(one)}\n" for one in actions)
        (log / f"{len(list(log.glob('*.json'))):020d}.json").write_text(text)

    require(minReaderVersion=1)
    assert dict(table.sink().applied(QUERY)) == heads_of(first)
    with pytest.raises(SettingsError, match=r"feature.*ofTheFuture"):
        table.batch(table.sink(), heads_of(first))
    require(minReaderVersion=3, readerFeatures=["ofTheFuture"])
    with pytest.raises(SettingsError, match=r"feature.*ofTheFuture"):
        table.sink().applied(QUERY)


@pytest.mark.slow
def test_a_session_that_numbers_its_commits(table: Table) -> None:
    """It could leave out the commit that makes the table, or a column; not that of a batch."""
    keys = [f"spark.databricks.delta.write.{one}" for one in ("txnVersion", "txnAppId")]
    frame = table.rows("'b' word, 7 delay")

    def check_refused(sink: DeltaSink, heads: Heads) -> None:
        for key in keys:
            table.spark.conf.set(key, "3")
            with pytest.raises(SettingsError, match=key):
                table.batch(sink, heads, frame)
            table.spark.conf.unset(key)

    check_refused(table.sink(), {})
    first = table.batch(table.sink(), {})
    check_refused(table.sink(new_columns=True), heads_of(first))
    try:
        for key in keys:
            table.spark.conf.set(key, "3")
        second = table.batch(table.sink(), heads_of(first))
    finally:
        for key in keys:
            table.spark.conf.unset(key)
    table.batch(table.sink(new_columns=True), heads_of(second), frame)
    assert table.read("delay IS NULL", "word") == [(False, "b"), (True, "a"), (True, "a")]


def test_a_marked_row_stops_the_batch(table: Table) -> None:
    """There are no dead letters, so the first one is named, with where it came from."""
    origin = "'flights' topic, 0 partition, 5L offset"
    marked = table.rows(f"{origin}, 'a' word, 'no carrier' eo_poison")
    with pytest.raises(PoisonRowError, match=r"offset 5 of flights-0.*no carrier") as refused:
        table.batch(table.sink(), {}, marked)
    assert refused.value.partition == TP
    fine = table.rows(f"{origin}, 'a' word, CAST(NULL AS string) eo_poison")
    table.batch(table.sink(), {}, fine)
    assert table.read("word") == [("a",)]


@pytest.mark.slow
def test_a_table_by_its_name(table: Table) -> None:
    """It is made in the catalog, partitioned as asked for, or refused with create=False."""
    name = f"delays_{Path(table.path).parent.name.replace('-', '_')}"
    with pytest.raises(SettingsError, match=f"{name}.* does not exist"):
        table.batch(DeltaSink(name, create=False), {})
    sink = DeltaSink(name, partition_by="word")
    try:
        entry = table.batch(sink, {})
        assert dict(DeltaSink(name).applied(QUERY)) == heads_of(entry)
        detail = table.spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]
        assert detail["partitionColumns"] == ["word"]
    finally:
        table.spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_table_that_forgets_numbers_is_refused(table: Table) -> None:
    """Without them nothing keeps an older driver out; the error has the command that heals it."""
    setting = "delta.setTransactionRetentionDuration"
    table.sql(
        f"CREATE TABLE {{table}} (word string) USING delta TBLPROPERTIES ('{setting}'='7 days')"
    )
    with pytest.raises(SettingsError, match="forgets the number") as refused:
        table.batch(table.sink(), {})
    table.spark.sql(str(refused.value.fix))
    table.batch(table.sink(), {})


@pytest.mark.parametrize(
    "arguments", [{}, pytest.param({"mode": "upsert", "keys": "word"}, marks=pytest.mark.slow)]
)
def test_rows_that_delta_has_not_counted(
    table: Table, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    """They are written, and so is the ledger: the batch has succeeded, with a number unknown."""
    sink = table.sink(**arguments)
    setting = "spark.databricks.delta.history.metricsEnabled"
    table.spark.conf.set(setting, "false")
    try:
        entry = entry_of({}, {TP: OffsetRange(0, 1)})
        row = table.rows("'flights' topic, 0 partition, 0L offset, 'a' word")
        assert sink.apply(row, entry, plan_of(entry)) == Applied(rows=None)
    finally:
        table.spark.conf.unset(setting)
    assert dict(table.sink().applied(QUERY)) == heads_of(entry)
    assert table.read("word") == [("a",)]


def test_a_session_without_delta_lake(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release that fits is named, where there is none and where there is another."""
    for there in (None, "1.0.0"):
        monkeypatch.setattr(delta_log, "library_version", lambda _, found=there: found)
        with pytest.raises(SettingsError, match=r"needs io\.delta:delta-spark_.*delta=True"):
            table.sink().applied(QUERY)
