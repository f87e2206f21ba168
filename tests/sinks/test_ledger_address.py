"""A ledger is named on a command line, and nothing of a dsn is ever said."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal, NoReturn

import pytest

from eo_listener.model.errors import FormatError, MissingExtraError, SettingsError, SinkError
from eo_listener.model.ledger import LedgerKey
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks import ledger_address
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.sinks.ledger_sql import LedgerSql
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of

TP = TopicPartition("flights", 0)
NONE = LocalSpark({})  # it is never started
NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
LEDGER = LedgerSql(placeholder="?", moment="text", schema="main", index_in_schema=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A ledger of two batches, the second of them after an accepted gap."""
    path = tmp_path / "with blank.db"
    first = entry_of({}, {TP: OffsetRange(0, 5)})
    second = entry_of(heads_of(first), {TP: OffsetRange(8, 9)}, batch_id=1, gap=OffsetRange(5, 8))
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        for statement in LEDGER.create():
            made.execute(statement)
        for number, entry in enumerate((first, second)):
            now = NOW.replace(minute=number)
            for many in (LEDGER.insert("delays", entry, now), LEDGER.move("delays", entry, now)):
                made.executemany(*many)
            made.executemany(*LEDGER.history("delays", entry, rows=5, now=now))
    return path


@pytest.mark.parametrize(
    ("text", "kind", "place", "servers"),
    [
        ("sqlite:delays.db", "sqlite", "delays.db", None),
        ("postgresql://u:p@h/d", "postgres", "postgresql://u:p@h/d", None),
        ("postgres://h/d", "postgres", "postgres://h/d", None),
        ("postgresql:host=h dbname=d", "postgres", "host=h dbname=d", None),
        ("kafka:eo-ledger", "kafka", "eo-ledger", None),
        ("kafka://h:9092,i:9092/eo-ledger", "kafka", "eo-ledger", "h:9092,i:9092"),
        ("iceberg:lake.db.`a.b`", "iceberg", "lake.db.`a.b`", None),
        ("delta:lake.delays", "delta", "lake.delays", None),
        ("delta:s3a://bucket/delays", "delta", "s3a://bucket/delays", None),
    ],
)
def test_each_form(text: str, kind: str, place: str, servers: str | None) -> None:
    """A file, a dsn in both of libpq's forms, a topic here or on another cluster, a table."""
    found = LedgerAddress.parse(text)
    assert (found.store.value, found.place, found.servers) == (kind, place, servers)
    assert "u:p@h" not in repr(found)
    assert found.shown == (text.replace(":p@", "@") if "host=" not in text else "postgresql://...")


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (
            "postgresql://u:hidden@h,i:5433/d?sslmode=require",
            "postgresql://u@h,i:5433/d?sslmode=require",
        ),
        ("postgresql:///d?user=u&password=hidden", "postgresql:///d?user=u"),
        (
            "postgresql://h/d?sslpassword=hidden&options=-csearch_path%3Ds",
            "postgresql://h/d?options=-csearch_path%3Ds",
        ),
        ("postgresql://u:hid@den@h/d", "postgresql://u@h/d"),
        ("postgresql:host=h password=hidden", "postgresql://..."),
        ("postgresql://u:hid#den@h/d", "postgresql://..."),
    ],
)
def test_a_dsn_is_shown_as_it_can_be_typed_again_without_its_password(
    typed: str, shown: str
) -> None:
    """Only parameters that are known to hold no secret; in libpq's other form nothing."""
    assert LedgerAddress.parse(typed).shown == shown


def test_the_login_in_a_path_is_not_shown() -> None:
    """Hadoop refuses it; until then it is a secret."""
    assert LedgerAddress.parse("delta:s3a://key:hidden@b/d").shown == "delta:s3a://***@b/d"
    reader = LedgerAddress.parse("delta:s3a://key:hidden@b/d").open(None, schema=None, spark=NONE)
    assert reader.label == "Delta table at s3a://***@b/d"


@pytest.mark.parametrize(
    "text", ["", "delays.db", "mysql://u:hidden@h/d", "sqlite:", "kafka:", "iceberg:", "delta:"]
)
def test_any_other_form_is_refused_and_not_shown(text: str) -> None:
    """It may hold a password."""
    with pytest.raises(SettingsError, match="sqlite:FILE") as raised:
        LedgerAddress.parse(text)
    assert "hidden" not in str(raised.value)


def test_a_topic_needs_a_cluster() -> None:
    """Without one there is nothing to ask."""
    with pytest.raises(SettingsError, match="Add -b HOST:PORT"):
        LedgerAddress.parse("kafka:eo-ledger").open(None, schema=None, spark=NONE)


@pytest.mark.parametrize("address", ["iceberg:lake.db.delays", "delta:/lake/delays"])
def test_without_pyspark_a_table_is_one_error(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the extra that brings it."""

    def missing(name: str) -> NoReturn:
        raise ImportError(name, name="pyspark.sql")

    monkeypatch.setattr(ledger_address, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"needs pyspark.*eo-listener\[spark\]"):
        LedgerAddress.parse(address).open(None, schema=None, spark=NONE)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("iceberg:delays", "delays.*catalog"),
        ("delta:x-y", "x-y.*nor a path"),
    ],
)
def test_a_table_that_cannot_be_is_refused_before_spark_starts(address: str, said: str) -> None:
    """By its name alone."""
    with pytest.raises(SettingsError, match=said):
        LedgerAddress.parse(address).open(None, schema=None, spark=NONE)


def test_a_file_is_read_whole(file: Path) -> None:
    """Heads with their times, and the history in its order with the gap."""
    with closing(SqliteLedgerReader(file)) as reader:
        (key,) = reader.ledgers()
        assert key == LedgerKey("delays", QUERY)
        found = reader.ledgers()[key]
        assert found.heads[TP].range == OffsetRange(8, 9)
        assert datetime.fromisoformat(found.moved_at[TP]) == NOW.replace(minute=1)
        history = list(reader.history(key))
    assert [(one.head.range, one.verdict, one.gap) for one in history] == [
        (OffsetRange(0, 5), "first", None),
        (OffsetRange(8, 9), "gap accepted", OffsetRange(5, 8)),
    ]


def test_a_file_is_never_written(file: Path, tmp_path: Path) -> None:
    """Neither one that is there, nor one that is not."""
    before = file.read_bytes()
    with closing(SqliteLedgerReader(file)) as reader:
        reader.ledgers()
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.connection().execute("DELETE FROM eo_ledger")
    assert file.read_bytes() == before
    with pytest.raises(SettingsError, match="there is no file"):
        SqliteLedgerReader(tmp_path / "none.db").ledgers()
    assert not (tmp_path / "none.db").exists()


def test_a_file_without_a_ledger(tmp_path: Path) -> None:
    """Nothing was written there, or it is another file."""
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE t (a)")
    with closing(SqliteLedgerReader(path)) as reader, pytest.raises(SettingsError, match="no led"):
        reader.ledgers()
    path.write_text("not a database " * 100)
    with closing(SqliteLedgerReader(path)) as reader, pytest.raises(SinkError, match="not a data"):
        reader.ledgers()


def test_a_ledger_of_a_newer_release(file: Path) -> None:
    """Is not read as if it were known."""
    with closing(sqlite3.connect(file)) as made:
        made.execute("UPDATE eo_ledger SET format = 2")
        made.execute("UPDATE eo_ledger_history SET format = 2")
        made.commit()
    with closing(SqliteLedgerReader(file)) as reader:
        with pytest.raises(FormatError, match="format 2"):
            reader.ledgers()
        with pytest.raises(FormatError, match="format 2"):
            list(reader.history(LedgerKey("delays", QUERY)))


@pytest.mark.parametrize("of", ["reader", "repair"])
@pytest.mark.parametrize("text", ["sqlite:f", "postgresql:", "kafka:t", "iceberg:l.d.t", "delta:t"])
def test_reader_and_repair_of_each_store_are_where_they_are_loaded_from(
    text: str, of: Literal["reader", "repair"]
) -> None:
    """They are loaded by name, which no type checker sees."""
    assert isinstance(LedgerAddress.parse(text)._loaded(of), type)
