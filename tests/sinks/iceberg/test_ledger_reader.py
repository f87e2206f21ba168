"""What commands say of an Iceberg table: of its ledgers, of a rollback, and before a start."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eo_listener.errors import JvmError, SettingsError, SinkError
from eo_listener.model.check_finding import Severity
from eo_listener.model.ledger import LedgerKey, StoredLedger
from eo_listener.offsets import OffsetRange
from eo_listener.sinks.iceberg import ledger_reader
from eo_listener.sinks.iceberg.ledger_reader import IcebergLedgerReader
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.made_up_entries import QUERY
from tests import iceberg_jars
from tests.cli.commands import run_apart, run_here
from tests.sinks.chapters.lake import CommandsOnTables, TablesBeforeTheStart, TablesOfQueries
from tests.sinks.chapters.store import TP
from tests.sinks.iceberg.lake import catalog_conf
from tests.sinks.iceberg.store import IcebergStore, spark_words
from tests.sinks.iceberg.test_ledger import OTHER_QUERY, Table, behind_commits

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
        return IcebergLedgerReader(NAME, LocalSpark({}).session, query=query)

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
        IcebergLedgerReader("`lake`.db.t", LocalSpark({}).session).ledgers()
    assert session.settings["spark.sql.catalog.lake.jdbc.init-catalog-tables"] == "false"
    assert session.settings["spark.sql.catalog.lake.jdbc.schema-version"] == "V0"


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


class TestTablesBeforeTheStart(TablesBeforeTheStart):
    """A table in a catalog."""

    pytestmark = pytest.mark.spark


@pytest.mark.spark
def test_a_catalog_and_what_others_have_set(
    store: IcebergStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An age of the branch that has the ledger; the statement that is printed takes it away."""
    assert "in format 2" in store.said(Severity.FINE)
    assert "CREATE NAMESPACE lake.nosuch" in store.said(Severity.PROBLEM, "lake.nosuch.t")
    unknown = store.said(Severity.PROBLEM, "nosuch.db.t")
    assert "no catalog 'nosuch'" in unknown
    assert "--spark-conf" in unknown
    store.write({TP: OffsetRange(0, 3)})
    fine = store.said(Severity.FINE)
    assert f"Iceberg {iceberg_jars.VERSION} can fast-forward branches" in fine
    assert "in format 2 (jdbc catalog)" in fine
    assert f"may write to {store.lake.folder}/files" in fine
    other = store.lake.table("u")
    assert "ledger" not in store.said(Severity.FINE, other, dead_letters=store.table)
    java = store.lake.java("t")
    java._table.updateProperties().set("history.expire.max-ref-age-ms", "1000").commit()
    assert store.said(Severity.PROBLEM) == ""  # the sink's branches have an age of their own
    (branch,) = store.branches()
    java._table.manageSnapshots().setMaxRefAgeMs(branch, 1000).commit()
    (found,) = (one for one in store.findings() if one.level is Severity.PROBLEM)
    assert branch in found.what
    assert (
        f"BRANCH {branch} AS OF VERSION {java.branches[branch]} RETAIN 36500 DAYS" in found.advice
    )
    store.run(found.advice)
    assert store.said(Severity.PROBLEM) == ""
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert f"may not write to {store.lake.folder}/files" in store.said(Severity.PROBLEM)


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_by_itself(store: IcebergStore, tmp_path: Path) -> None:
    """By one line, with the query's settings: before the catalog is there, and after a batch."""
    store.write({TP: OffsetRange(0, 3)})
    lake = store.lake

    def ask(table: str, folder: Path) -> tuple[int, dict[str, tuple[str, str]]]:
        (tmp_path / "job.py").write_text(
            "from eo_listener import IcebergSink\n"
            f"sink = IcebergSink({table!r}, dead_letters={lake.table('bad')!r})"
        )
        sink = ("--sink", "job:sink", "--query", QUERY)
        command = ("preflight", *sink, *spark_words(catalog_conf(lake.name, folder)))
        code, document = run_apart(tmp_path, *command)
        return code, {one["what"]: (one["level"], one["advice"]) for one in document["findings"]}

    code, found = ask(store.table, lake.folder)
    assert code == 0, found
    assert f"the ledger of {QUERY!r} has flights-0 at 3" in found
    assert ("fine", "") in [found[what] for what in found if "does not exist" in what]
    code, found = ask("lake.db.t", tmp_path / "none")
    assert code == 0
    assert ("note", f"CREATE NAMESPACE {lake.name}.{lake.namespace}") in found.values()
    assert any("configure(builder, iceberg=True)" in advice for _, advice in found.values())
    here = {one.name for one in tmp_path.iterdir()}
    assert here <= {"job.py", "__pycache__", "artifacts"}  # Spark 4.0's own, empty
