"""`eo-listener ledger`: what is printed and planned, and what a SQLite file holds afterwards."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eo_listener.cli import ledger as ledger_command
from eo_listener.cli.ledger import client_properties
from eo_listener.errors import InUseError, SettingsError
from eo_listener.model.ledger import AppliedBatch, LedgerKey, StoredLedger
from eo_listener.model.planned_batch import BATCHES
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.sinks.ledger_repair import choose_key, plan_acceptance
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of, heads_of
from tests.cli.commands import document_of, error_of, invoke
from tests.cli.sqlite_ledger import BACK, KEY, LEDGER, Store

T0, T1 = TopicPartition("flights", 0), TopicPartition("flights", 1)
SHOW, RENAME, ACCEPT = ("ledger", "show"), ("ledger", "rename"), ("ledger", "accept")
GAP = ("--partition", "flights-0", "--gap", "10..15")
QUICK = ("--watch", "0", "--execute")
OTHER = LedgerKey("delays", "other")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Both partitions at 10, by two batches."""
    made = Store(tmp_path / "delays.db")
    first = entry_of({}, {T0: OffsetRange(0, 5), T1: OffsetRange(0, 5)})
    made.write(first)
    second = {T0: OffsetRange(5, 10), T1: OffsetRange(5, 10)}
    made.write(entry_of(heads_of(first), second, batch_id=1))
    return made


@pytest.fixture
def two(store: Store) -> Store:
    """The same, with the ledger of another query."""
    store.write(entry_of({}, {T0: OffsetRange(0, 3)}, query="other"))
    return store


def test_show_prints_heads_and_history(store: Store) -> None:
    """By sink and query; the newest ranges of each partition, and its gaps."""
    words = (*SHOW, store.address, "--history", "1")
    answer = invoke(*words)
    for part in ("sink delays, query 'flights'", "5..10", "history"):
        assert part in answer.stdout
    (ledger,) = document_of(*words)["ledgers"]
    assert (ledger["sink"], ledger["query"]) == KEY
    assert [head["next_offset"] for head in ledger["heads"]] == [10, 10]
    assert [one["start_offset"] for one in ledger["history"]] == [5, 5]
    assert invoke(*SHOW, store.address, "--query", "nosuch").exit_code == 1


def test_show_says_that_a_table_was_taken_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command, on a line of its own; rows that a table does not say are a dash."""
    read, history = SqliteLedgerReader.ledgers, SqliteLedgerReader.history

    def ledgers(reader: SqliteLedgerReader) -> dict[LedgerKey, StoredLedger]:
        return {key: replace(one, rollback=BACK) for key, one in read(reader).items()}

    def unknown(reader: SqliteLedgerReader, key: LedgerKey) -> Iterator[AppliedBatch]:
        return (replace(one, rows=None) for one in history(reader, key))

    monkeypatch.setattr(SqliteLedgerReader, "ledgers", ledgers)
    monkeypatch.setattr(SqliteLedgerReader, "history", unknown)
    shown = invoke(*SHOW, store.address, "--history", 1).stdout
    assert f"{BACK.cause}. Fix: {BACK.fix}\n" in shown
    assert "┃ rows ┃" in shown
    (found,) = document_of(*SHOW, store.address, "--history", 1)["ledgers"]
    assert found["taken_back"] == {"cause": BACK.cause, "fix": BACK.fix}
    assert [one["rows"] for one in found["history"]] == [None, None]


def test_one_gap_is_accepted(store: Store) -> None:
    """A dry run changes nothing; it is executed once, and the history keeps the gap."""
    command = (*ACCEPT, store.address, *GAP)
    before, document = store.heads(), document_of(*command)
    assert (document["executed"], store.heads()) == (False, before)
    assert (document["offsets"], document["in_log"]) == (5, None)
    for said in (invoke(*command).stdout, invoke(*command, *QUICK).stdout):
        assert "5 offsets" in said
        assert document["not_compared"] == "add -b HOST:PORT"
        assert document["not_compared"] in said
    assert store.heads()[T0].range == OffsetRange(15, 15)
    assert store.history()[2] == (T0, "gap accepted", OffsetRange(10, 15))
    assert "offset is 15" in str(error_of(*command, *QUICK))


def test_a_renamed_query_takes_its_ledger_along(two: Store) -> None:
    """Heads and history go by the new name, which the history says; other queries stay."""
    command = (*RENAME, two.address, "--query", QUERY, "--to-query", HOSTILE[0])
    assert document_of(*command)["executed"] is False
    assert set(two.ledgers()) == {KEY, OTHER}
    before = two.heads()
    assert document_of(*command, *QUICK)["heads"] == 2
    new = LedgerKey("delays", HOSTILE[0])
    assert set(two.ledgers()) == {new, OTHER}
    assert two.heads(new) == before
    of_each = ["first", "next", f"renamed from delays, query {QUERY}"]
    assert [one[1] for one in two.history(new)] == 2 * of_each
    assert error_of(*command, *QUICK).exit_code == 2


def test_a_renamed_table_takes_its_ledger_along(store: Store) -> None:
    """Only once the table is renamed: rows that are still there keep their ledger."""
    command = (*RENAME, store.address, "--to-sink", "Late", *QUICK)
    assert "table delays" in str(error_of(*command))
    store.execute("ALTER TABLE delays RENAME TO Late")
    invoke(*command)
    assert set(store.ledgers()) == {LedgerKey("late", QUERY)}, "as the sink folds its name"


@pytest.mark.parametrize("repair", [(*RENAME, "--to-query", "new"), (*ACCEPT, *GAP)])
def test_a_ledger_that_moves_is_left_alone(
    repair: tuple[str, ...], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that writes a batch within the seconds of --watch shows that it runs."""
    waited = []

    def query(seconds: float) -> None:
        waited.append(seconds)
        store.write(entry_of(store.heads(), {T0: OffsetRange(10, 11)}, batch_id=2))

    monkeypatch.setattr(ledger_command, "time", SimpleNamespace(sleep=query))
    error = error_of(*repair[:2], store.address, *repair[2:], "--watch", "2", "--execute")
    assert isinstance(error, InUseError)
    assert "flights-0" in str(error)
    assert waited == [2.0]
    assert store.heads()[T0].range == OffsetRange(10, 11)
    assert set(store.ledgers()) == {KEY}


def test_history_keeps_that_a_ledger_was_renamed(store: Store) -> None:
    """Pruning drops old ranges, and leaves this."""
    invoke(*RENAME, store.address, "--to-query", "new", *QUICK)
    key = LedgerKey("delays", "new")
    entry = entry_of(store.heads(key), {T0: OffsetRange(10, 11)}, batch_id=100, query="new")
    pruning = LEDGER.prune("delays", entry, batches=0)
    assert pruning is not None
    store.execute(*pruning)
    assert {one[1].split()[0] for one in store.history(key)} == {"first", "renamed"}


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("show delays.db", "unrecognised"),
        ("show sqlite:/no/such.db", "/no/such.db"),
        ("show {empty}", "has no ledger"),
        ("show kafka:t", "-b"),
        ("show iceberg:delays", "the catalog"),
        ("show delta:x-y", "x-y"),
        ("show delta:/d --spark-conf lake.uri=x", "spark.key=value"),
        ("show {store} -X security.protocol=SSL", "-b"),
        ("rename {store} --query flights --to-query flights", "already has that name"),
        ("rename {store} --query flights", "already has that name"),
        ("rename {store} --query flights --to-query ' '", "is empty"),
        # A name that has a ledger is not taken: two never become one.
        ("rename {store} --query flights --to-query other", "'other'"),
        ("rename {store} --sink x --to-query y", "--sink delays --query fl"),
        ("rename kafka:t --to-query y", "-b"),
        ("rename {store} --to-query y --watch -1", "--watch"),
        ("accept {store} --query flights --partition x --gap 10..15", "--partition"),
        ("accept {store} --query flights --partition u-0 --gap 10..15", "u-0"),
        ("accept {store} --query flights --partition flights-0 --gap 9..15", "not the gap"),
        ("accept {store} --query flights --partition flights-0 --gap 10..10", "not the gap"),
        ("accept {store} --query flights --partition flights-0 --gap 15", "--gap"),
    ],
)
def test_bad_input(line: str, part: str, two: Store, tmp_path: Path) -> None:
    """One error; the ledger is as it was."""
    with closing(sqlite3.connect(tmp_path / "empty.db")) as made:
        made.execute("CREATE TABLE t (x)")
    places = {"store": two.address, "empty": f"sqlite:{tmp_path / 'empty.db'}"}
    error = error_of("ledger", *shlex.split(line.format(**places)))
    assert (error.exit_code, part in str(error)) == (2, True), error
    assert two.heads()[T0].range == OffsetRange(5, 10)


def test_what_is_not_kafka_has_no_gap_to_name() -> None:
    """Its batches are counted, so it is accepted in the query."""
    heads = heads_of(entry_of({}, {BATCHES: OffsetRange(0, 1)}))
    with pytest.raises(SettingsError, match="counted in batches"):
        plan_acceptance(heads, KEY, BATCHES, OffsetRange(1, 2), run_id="r")


def test_the_ledger_that_is_meant() -> None:
    """The only one, or the one that is named; those there are named where it is none."""
    keys: Any = {LedgerKey(*one): {} for one in ("aq", "ar", "bq")}
    assert choose_key(keys, "x", "b", None) == LedgerKey("b", "q")
    with pytest.raises(SettingsError, match=r"2 ledgers.*--sink a --query q, --sink a --query r"):
        choose_key(keys, "x", "a", None)
    with pytest.raises(SettingsError):
        choose_key({}, "x", None, None)
    blank: Any = {LedgerKey("a b", "$q"): {}}
    with pytest.raises(SettingsError, match=r"--sink 'a b' --query '\$q'"):
        choose_key(blank, "x", "other", None)


@pytest.mark.parametrize(
    ("address", "servers", "cluster"),
    [
        ("kafka:l", "k:9092", "k:9092"),
        ("kafka://h:9092/l", None, "h:9092"),
        ("kafka://h:9092/l", "k:9092", "h:9092"),
        ("sqlite:a.db", "k:9092", "k:9092"),
    ],
)
def test_a_login_is_used_however_the_cluster_is_named(
    address: str, servers: str | None, cluster: str
) -> None:
    """By -b, or by the address of the ledger, which counts where both are given."""
    named = LedgerAddress.parse(address)
    properties = client_properties(named, servers, ["sasl.username=al"])
    if named.servers is not None:
        properties = named.client_properties(properties)
    assert properties == {"bootstrap.servers": cluster, "sasl.username": "al"}


def test_names_are_shown_as_text(store: Store) -> None:
    """What a terminal would obey is an escape; brackets stay as they are."""
    store.write(entry_of({}, {T0: OffsetRange(0, 3)}, query="\x1b[31mred[/b]"))
    answer = invoke(*SHOW, store.address, "--query", "\x1b[31mred[/b]")
    assert "\x1b" not in answer.stdout
    assert r"\x1b[31mred[/b]" in answer.stdout
