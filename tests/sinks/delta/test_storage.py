"""A DeltaSink on a storage, or on a name, that does not stay as it was."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD
from pyspark.sql import SparkSession

from eo_listener.errors import JvmError, OutcomeUnknownError, SettingsError
from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter, Written
from eo_listener.model.ledger import Entry
from eo_listener.offsets import OffsetRange
from eo_listener.sinks.delta import DeltaSink
from eo_listener.spark.jvm import delta_log
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of, plan_of
from tests.sinks.chapters.store import once
from tests.sinks.delta.test_tables import TP, Table, table

__all__ = ["table"]

pytestmark = [pytest.mark.spark]

ROW = "1 id, 'a' word, 'flights' topic, 0 partition, 0L offset"


def write(table: Table, sink: DeltaSink, entry: Entry) -> Written:
    """Write a batch as `exactly_once` does."""
    limits = RetryLimits(timeout=5, first=0.01)
    writer = SinkWriter(limits, time.sleep, time.monotonic)
    return writer.write(sink, table.rows(ROW), entry, plan_of(entry))


def test_a_storage_that_does_not_answer_after_the_commit(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is there, and found when the storage answers again; nobody else is accused."""
    away: list[int] = []
    asked = delta_log.DeltaLogFiles.lines

    def lines(files: delta_log.DeltaLogFiles, version: int) -> Any:
        if away:
            away.pop()
            raise JvmError("the storage is away")
        return asked(files, version)

    monkeypatch.setattr(delta_log.DeltaLogFiles, "lines", lines)
    sink, entry = table.sink(), entry_of({}, {TP: OffsetRange(0, 1)})
    with once("sink.committed", lambda: away.extend(range(3))):
        written = write(table, sink, entry)
    assert (written.attempts, written.applied, away) == (1, None, [])
    assert dict(sink.applied(QUERY)) == heads_of(entry)
    assert table.read("word") == [("a",)]
    second = entry_of(heads_of(entry), {TP: OffsetRange(1, 2)}, batch_id=1)
    with (
        once("sink.committed", lambda: away.append(1)),
        pytest.raises(OutcomeUnknownError, match="cannot tell"),
    ):
        sink.apply(table.rows(ROW), second, plan_of(second))


def test_a_commit_that_its_log_store_has_not_finished(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with S3DynamoDBLogStore: the file is there when the log was listed by Delta."""
    file, begun = Path(table.path, "_delta_log", f"{1:020d}.json"), Path(table.path, "begun")
    listed = delta_log.DeltaLogFiles.settle

    def settle(files: delta_log.DeltaLogFiles, version: int) -> None:
        listed(files, version)
        begun.rename(file)

    monkeypatch.setattr(delta_log.DeltaLogFiles, "settle", settle)
    sink = table.sink()
    with once("sink.committed", lambda: file.rename(begun)):
        entry = table.batch(sink, {})
    assert dict(sink.applied(QUERY)) == heads_of(entry)


def test_a_task_that_fails_has_written_nothing(table: Table, tmp_path: Path) -> None:
    """Its error stays as it is, although the storage has raised it: no task commits."""
    gone = str(tmp_path / "gone")
    table.rows(ROW).write.parquet(gone)
    frame = table.spark.read.parquet(gone)
    for file in Path(gone).glob("*.parquet"):
        file.unlink()
    with pytest.raises(Exception, match="does not exist") as failed:
        table.batch(table.sink(), {}, frame)
    assert not isinstance(failed.value, OutcomeUnknownError)


@pytest.fixture
def name(table: Table) -> Iterator[str]:
    """A name of the catalog for the table, with a second folder beside its own."""
    found = f"delays_{Path(table.path).parent.name.replace('-', '_')}"
    for path in (f"{table.path}2", table.path):
        table.spark.sql(f"DROP TABLE IF EXISTS {found}")
        columns = "id int, word string, topic string, partition int, offset bigint"
        table.spark.sql(f"CREATE TABLE {found} ({columns}) USING delta LOCATION '{path}'")
    yield found
    table.spark.sql(f"DROP TABLE IF EXISTS {found}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [{}, {"mode": "upsert", "keys": "id"}], ids=["append", "upsert"]
)
def test_a_name_that_comes_to_mean_another_table(
    table: Table, name: str, arguments: dict[str, Any]
) -> None:
    """A batch goes where it was judged; then the query stops until it is restarted on the new."""
    sink = DeltaSink(name, **arguments)
    first = table.batch(sink, {}, table.rows(ROW))
    moved = f"ALTER TABLE {name} SET LOCATION '{table.path}2'"

    with once("sink.commit-sent", lambda: table.spark.sql(moved)):
        second = table.batch(sink, heads_of(first), table.rows(ROW.replace("1 id", "2 id")))
    with pytest.raises(SettingsError, match="another table") as refused:
        sink.applied(QUERY)
    assert f"{table.path} " in str(refused.value).replace(",", " ")
    assert f"{table.path}2" in str(refused.value)
    assert dict(sink.applied(QUERY)) == {}
    assert table.read("id") == [(1,), (2,)]
    assert table.spark.table(name).count() == 0
    assert dict(table.sink().applied(QUERY)) == heads_of(second)


def test_another_database_is_no_other_table(
    table: Table, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """USE beside the query changes nothing; a batch asks the catalog once, for its ledger."""
    asked: list[str] = []
    location_of = delta_log.location_of

    def counted(session: SparkSession, asked_for: str) -> str | None:
        asked.append(asked_for)
        return location_of(session, asked_for)

    monkeypatch.setattr(delta_log, "location_of", counted)
    sink = DeltaSink(name)
    first = table.batch(sink, {}, table.rows(ROW))
    other = f"{name}_db"
    table.spark.sql(f"CREATE DATABASE {other} LOCATION '{table.path}3'")
    try:
        table.spark.sql(f"USE {other}")
        asked.clear()
        assert dict(sink.applied(QUERY)) == heads_of(first)
        table.batch(sink, heads_of(first), table.rows(ROW))
        assert asked == [f"`default`.{name}"]
    finally:
        table.spark.sql("USE default")
        table.spark.sql(f"DROP DATABASE {other}")
    assert table.read("id") == [(1,), (1,)]


@pytest.mark.slow
def test_a_merge_leaves_no_trace_in_the_process(table: Table) -> None:
    """What the user makes later has no number of ours, which Delta would skip without a word."""
    before = RDD.toDF  # each session of pyspark that is made replaces it
    table.batch(table.sink(mode="upsert", keys="id"), {}, table.rows(ROW))
    assert RDD.toDF is before
    assert table.spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None


def test_a_table_on_s3(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before anything is asked of it, until a LogStore is named."""
    monkeypatch.setattr(delta_log, "qualified_location", lambda *_: "s3a://bucket/delays")
    with pytest.raises(SettingsError, match=r"spark\.delta\.logStore\.s3a\.impl"):
        table.sink().applied(QUERY)
    chosen = {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore"}
    monkeypatch.setattr(delta_log, "log_stores", lambda _: chosen)
    monkeypatch.setattr(delta_log, "table_at", lambda *_: None)
    assert dict(table.sink().applied(QUERY)) == {}
