"""The ledgers of an Iceberg table from outside: what is said of them, and of a rollback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eo_listener.errors import JvmError, SettingsError, SinkError
from eo_listener.model.ledger import LedgerKey, StoredLedger
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.iceberg import ledger_reader
from eo_listener.sinks.iceberg.ledger_reader import IcebergLedgerReader
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.made_up_entries import QUERY
from tests.cli.commands import run_here
from tests.sinks.chapters.lake import CommandsOnTables, TablesOfQueries
from tests.sinks.iceberg.store import IcebergStore, store
from tests.sinks.iceberg.test_ledger import OTHER_QUERY, Table, behind_commits

__all__ = ["store"]

TP = TopicPartition("flights", 0)
NAME = "lake.db.delays"
KEY = LedgerKey(NAME, QUERY)

Reading = Callable[..., IcebergLedgerReader]


class Session:
    """A session with the settings of a catalog, or without any."""

    def __init__(self, catalog: str | None) -> None:
        self.conf: Any = self
        self.settings = {f"spark.sql.catalog.{catalog}": "org.apache.iceberg.spark.SparkCatalog"}

    def get(self, name: str, default: None) -> str | None:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """A reader of a table in memory; of none, or of an error."""

    def make(table: object, query: str | None = None) -> IcebergLedgerReader:
        def find(*_: object) -> Any:
            if isinstance(table, Exception):
                raise table
            return table

        monkeypatch.setattr(ledger_reader, "find", find)
        monkeypatch.setattr(ledger_reader, "has_files_of", lambda *_: False)
        monkeypatch.setattr(LocalSpark, "session", lambda _: Session(catalog="lake"))
        return IcebergLedgerReader(NAME, LocalSpark({}), query=query)

    return make


def test_all_queries_of_a_table(reading: Reading, table: Table) -> None:
    """With the history that main still has; nothing was taken back."""
    table.write(1)
    table.write(1, OTHER_QUERY)
    table.write(2)
    reader = reading(table)
    found = reader.ledgers()
    assert found.keys() == {KEY, LedgerKey(NAME, OTHER_QUERY)}
    assert found[KEY].heads[TP].range == OffsetRange(1, 2)
    assert found[KEY].rollback is None
    assert found[KEY].moved_at == {TP: "1970-01-01T00:00:03.000+00:00"}
    assert [(one.head.range, one.rows) for one in reader.history(KEY)] == [
        (OffsetRange(0, 1), 5),
        (OffsetRange(1, 2), 5),
    ]


@pytest.mark.parametrize("batches", [0, 1])
def test_a_rollback_is_said_with_the_command(reading: Reading, table: Table, batches: int) -> None:
    """For the branch that has the later batches; no command if others have written since."""
    table.commit()
    for number in range(batches):
        table.write(number + 1)
    before = table.main
    table.write(batches + 1)
    branch = table.write(batches + 2)
    table.main = before
    table.stage(1, OTHER_QUERY)  # was never in main, so it is no ledger at all
    (stored,) = reading(table).ledgers().values()
    assert (stored.key, len(stored.heads)) == (KEY, batches)
    fix = f"CALL `lake`.system.fast_forward('db.delays', 'main', '{branch}')"
    assert stored.rollback is not None
    assert f"number {batches} " in stored.rollback.cause
    assert stored.rollback.fix == fix
    table.commit()
    (stored,) = reading(table).ledgers().values()
    assert stored.rollback is not None
    assert branch in stored.rollback.cause
    assert stored.rollback.fix == ""


def test_main_is_not_read_for_a_query_that_has_a_branch(reading: Reading, table: Table) -> None:
    """It may have thousands of snapshots; where no branch is the query's, each is looked at."""
    table.write(1)
    table.commit(50)
    table.write(2)
    table.reads = 0
    assert KEY in reading(table, QUERY).ledgers()
    assert table.reads == 1
    table.branches.clear()
    assert KEY in reading(table, QUERY).ledgers()
    assert table.reads > 50


def test_a_replaced_table_is_said(reading: Reading, table: Table) -> None:
    """With the branch that has the rows of before; no statement brings them back."""
    table.write(1)
    branch = table.write(2)
    table.replace()
    (stored,) = reading(table).ledgers().values()
    assert stored.rollback is not None
    assert branch in stored.rollback.cause
    assert stored.rollback.fix == ""


def test_nothing_is_made_in_a_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg makes the tables of one that is not there, and alters older ones, as it is told."""
    session = Session(catalog="lake")
    monkeypatch.setattr(LocalSpark, "session", lambda _: session)
    monkeypatch.setattr(ledger_reader, "find", lambda *_: None)
    with pytest.raises(SettingsError, match="does not exist"):
        IcebergLedgerReader("`lake`.db.t", LocalSpark({})).ledgers()
    assert session.settings["spark.sql.catalog.lake.jdbc.init-catalog-tables"] == "false"
    assert session.settings["spark.sql.catalog.lake.jdbc.schema-version"] == "V0"


def test_a_catalog_without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is said as what it is, with what to type; the table is not asked for."""
    monkeypatch.setattr(LocalSpark, "session", lambda _: Session(catalog="other"))
    with pytest.raises(SettingsError, match=r"no catalog 'lake'.*--spark-conf spark.sql.catalog.l"):
        IcebergLedgerReader(NAME, LocalSpark({})).ledgers()


def test_expired_snapshots_are_said_in_the_words_of_the_sink(reading: Reading) -> None:
    """Where another query is asked for, it is that one's alone."""
    table, at = behind_commits()
    table.expire()
    for query in (None, QUERY):
        with pytest.raises(SinkError, match=f"snapshot {at}, and nothing shows"):
            reading(table, query).ledgers()
    unknown = StoredLedger(key=KEY, heads={}, moved_at={})
    assert reading(table, "third").ledgers() == {KEY: unknown}  # it is there all the same
    table.write(1, OTHER_QUERY)
    found = reading(table, OTHER_QUERY).ledgers()
    assert found.keys() == {KEY, LedgerKey(NAME, OTHER_QUERY)}
    assert found[KEY] == unknown


def thrown(name: str) -> ThrownError:
    return ThrownError((f"org.apache.iceberg.{name}",), "password=hidden\nmore")


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (None, "table lake.db.delays does not exist"),
        (Table(), "lake.db.delays has no ledger"),
        (Table(name="lake.db"), r"a snapshot of lake\.db;"),
        (SettingsError("another runtime", fix="Take it away"), "another runtime"),
        (JvmError("Spark did not start"), "Iceberg table lake.db.delays: Spark did not start"),
        (thrown("RESTException"), "the storage has failed"),
        (thrown("ForbiddenException"), "refuses access.*to read the table"),
        (thrown("exceptions.NotFoundException"), "may not read the files"),
        (thrown("Unexpected"), "cannot read .*settings of catalog lake"),
        (
            ThrownError(("UncheckedSQLException",), "x", causes=("No suitable driver found",)),
            "a jar is missing.*--spark-conf spark.jars.packages=",
        ),
    ],
)
def test_what_cannot_be_read_is_one_error(there: object, said: str, reading: Reading) -> None:
    """With what to type, and no secret."""
    with pytest.raises((SettingsError, SinkError), match=said) as raised:
        reading(there).ledgers()
    assert "hidden" not in str(raised.value)


class TestTablesOfQueries(TablesOfQueries):
    """In a catalog."""

    pytestmark = pytest.mark.spark


class TestCommandsOnTables(CommandsOnTables):
    """A table in a catalog."""

    pytestmark = pytest.mark.spark

    def test_a_branch_or_a_snapshot_is_no_table(
        self, store: IcebergStore, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It is refused by the command, whatever Spark makes of its name."""
        store.write({TP: OffsetRange(0, 3)})
        for selector in ("branch_main", f"snapshot_id_{store.version()}"):
            with pytest.raises(SettingsError, match=f"a snapshot of {store.name}"):
                run_here(capsys, "ledger", "show", f"{store.address}.{selector}")
