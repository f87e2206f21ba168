"""What commands say of a Delta table: of its ledgers, of a RESTORE, and before a start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from unittest.mock import Mock

import pytest

from eo_listener.errors import RetriableSinkError, SettingsError, SinkError
from eo_listener.model.check_finding import Severity
from eo_listener.model.ledger import LedgerKey, StoredLedger
from eo_listener.offsets import OffsetRange
from eo_listener.sinks.delta.commits import Commit, QueryState
from eo_listener.sinks.delta.connection import Connection
from eo_listener.sinks.delta.ledger import Rollback
from eo_listener.sinks.delta.ledger_reader import DeltaLedgerReader
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.chapters.lake import CommandsOnTables, TablesBeforeTheStart, TablesOfQueries
from tests.sinks.chapters.store import TP
from tests.sinks.delta.store import DeltaStore
from tests.sinks.delta.test_ledger import Log

PLACE = "/lake/delays"
KEY = LedgerKey(PLACE, "q")

Reading = Callable[..., DeltaLedgerReader]


class OpenLog:
    def __init__(self, log: Log) -> None:
        self._log, self._ledger = log, log.ledger()
        self.newest = log.newest

    def commit(self, version: int) -> Commit | None:
        return self._log.commit(version)

    def states(self) -> Mapping[str, QueryState]:
        return self._ledger.states(self.newest)

    def rollback_of(self, query: str) -> Rollback | None:
        return self._ledger.rollback_of(self.newest, query)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """A reader of a log in memory, or of none."""

    def make(log: Log | None, query: str | None = None, place: str = PLACE) -> DeltaLedgerReader:
        monkeypatch.setattr(Connection, "log", lambda *_: None if log is None else OpenLog(log))
        monkeypatch.setattr(LocalSpark, "session", lambda _: object())
        return DeltaLedgerReader(place, LocalSpark({}, delta=True).session, query=query)

    return make


def test_all_queries_of_a_table(reading: Reading) -> None:
    """With the history that the log still has, also over a RESTORE."""
    log = Log()
    log.add("CREATE TABLE")
    first = log.batch()
    log.batch("other")
    log.batch()
    log.restore(first)
    log.batch()
    reader = reading(log)
    found = reader.ledgers()
    assert found.keys() == {KEY, LedgerKey(PLACE, "other")}
    assert found[KEY].heads[TP].range.until == 3
    assert found[KEY].rollback is None
    assert found[KEY].moved_at.keys() == {TP}
    assert [one.head.range.until for one in reader.history(KEY)] == [1, 3]
    assert [one.verdict for one in reader.history(KEY)] == ["first", "next"]
    del log.files[first]
    assert list(reading(log).history(KEY)) == []


def test_a_restore_is_said_with_the_command(reading: Reading) -> None:
    """Also one to before the first batch."""
    log = Log()
    empty = log.add("CREATE TABLE")
    log.batch()
    last = log.batch()
    log.restore(empty)
    stored = reading(log).ledgers()[KEY]
    assert stored.heads == {}
    assert stored.rollback is not None
    assert stored.rollback.fix == f"RESTORE TABLE delta.`{PLACE}` TO VERSION AS OF {last}"


def test_a_ledger_in_doubt_is_said_in_the_words_of_the_sink(reading: Reading) -> None:
    """Where another query is asked for, it is that one's alone."""
    log = Log(first=7)
    log.numbers = {"q": 5}
    log.add()
    for query in (None, "q"):
        with pytest.raises(SinkError, match=r"was cleaned"):
            reading(log, query).ledgers()
    unknown = StoredLedger(key=KEY, heads={}, moved_at={})
    assert reading(log, "third").ledgers() == {KEY: unknown}  # it is there all the same
    log.batch("other")
    found = reading(log, "other").ledgers()
    assert found.keys() == {KEY, LedgerKey(PLACE, "other")}
    assert found[KEY] == unknown


@pytest.mark.parametrize(
    ("log", "place", "said"),
    [
        (None, PLACE, "at /lake/delays does not exist"),
        (None, "lake.delays", "lake.delays does not exist.*delta:/PATH"),
        (Log(), PLACE, "Delta table at /lake/delays has no ledger"),
    ],
)
def test_a_table_without_a_ledger(log: Log | None, place: str, said: str, reading: Reading) -> None:
    """Or none at all: each with what to type."""
    if log is not None:
        log.add("CREATE TABLE")
    with pytest.raises(SettingsError, match=said):
        reading(log, place=place).ledgers()


def test_a_storage_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says what may be missing here that the query has, such as the jar of a file system."""
    away = RetriableSinkError("Delta table at s3a://b/d cannot be read", cause="ClassNotFound")
    monkeypatch.setattr(Connection, "log", Mock(side_effect=away))
    monkeypatch.setattr(LocalSpark, "session", lambda _: object())
    with pytest.raises(RetriableSinkError, match=r"ClassNotFound.*a jar.*--spark-conf KEY=VALUE"):
        DeltaLedgerReader("s3a://b/d", LocalSpark({}).session).ledgers()


class TestTablesOfQueries(TablesOfQueries):
    """By its path."""

    pytestmark = pytest.mark.spark


class TestCommandsOnTables(CommandsOnTables):
    """A table by its path."""

    pytestmark = pytest.mark.spark


class TestTablesBeforeTheStart(TablesBeforeTheStart):
    """A table by its path."""

    pytestmark = pytest.mark.spark


@pytest.mark.spark
def test_what_others_have_set(store: DeltaStore) -> None:
    """A log that is cleaned soon, and what the sink refuses; what is printed takes each away."""
    assert "in memory" in store.said(Severity.WARNING, "lake.delays")
    store.write({TP: OffsetRange(0, 1)})
    assert "with protocol 1,2" in store.said(Severity.FINE)
    store.set(
        "'delta.logRetentionDuration' = 'interval 1 hour', 'delta.appendOnly' = 'true', "
        "'delta.deletedFileRetentionDuration' = 'interval 1 hour'"
    )
    assert "delta.appendOnly" in store.said(Severity.NOTE)
    (warned,) = (one for one in store.findings() if one.level is Severity.WARNING)
    assert "loses its ledger" in warned.what
    store.run(warned.advice.partition(";")[0])
    assert store.said(Severity.WARNING) == ""
    forgets = "delta.setTransactionRetentionDuration"
    store.set(f"'{forgets}' = 'interval 1 day'")
    (refused,) = (one for one in store.findings() if one.level is Severity.PROBLEM)
    assert f"has {forgets}=interval 1 day" in refused.what
    store.run(refused.advice)
    assert store.said(Severity.PROBLEM) == ""
    assert "s3" in store.said(Severity.PROBLEM, "s3a://bucket/delays").lower()


@pytest.mark.spark
def test_columns_that_are_mapped(store: DeltaStore) -> None:
    """The sink writes such a table by its names, after a column was renamed too."""
    store.write({TP: OffsetRange(0, 1)})
    store.set(
        "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', "
        "'delta.minWriterVersion' = '5'"
    )
    store.run(f"ALTER TABLE {store.table} ADD COLUMNS (other string)")
    store.run(f"ALTER TABLE {store.table} RENAME COLUMN other TO more")
    store.write({TP: OffsetRange(1, 2)}, 1)
    rows = store.spark.sql(f"SELECT offset, word, more FROM {store.table}").collect()
    assert sorted(map(tuple, rows)) == [(0, "run-1", None), (1, "run-1", None)]
    assert {one.level for one in store.findings()} == {Severity.FINE}
    fine = store.said(Severity.FINE)
    assert "delta.columnMapping.mode=name" in fine
    assert f"the ledger of {QUERY!r} has flights-0 at 2" in fine
