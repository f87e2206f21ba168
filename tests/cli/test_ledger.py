"""`eo-listener ledger`: what is printed and planned, and what a SQLite file holds afterwards."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner, Result

from eo_listener.cli import app
from eo_listener.cli import ledger as ledger_show
from eo_listener.cli import ledger_repair as ledger_command
from eo_listener.cli.ledger_repair import client_properties
from eo_listener.foreach_batch.batch_guard import judge_batch
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.errors import EoListenerError, GapError, InUseError, SettingsError
from eo_listener.model.ledger import (
    AppliedBatch,
    BatchVerdict,
    Entry,
    Head,
    LedgerKey,
    StoredLedger,
    TakenBack,
)
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_address import FORMS, LedgerAddress
from eo_listener.sinks.ledger_repair import choose_key, plan_acceptance
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of, heads_of, plan_of
from tests.cli.sqlite_ledger import KEY, LEDGER, Store

T0, T1 = TopicPartition("flights", 0), TopicPartition("flights", 1)
_LEDGERS = ("ledgers", "ledger", "address")
QUICK = ["--watch", "0", "--execute"]


def run(*arguments: object) -> Result:
    answer = CliRunner().invoke(app, ["ledger", *map(str, arguments)])
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Both partitions at 10, by two batches."""
    made = Store(tmp_path / "delays.db")
    first = entry_of({}, {T0: OffsetRange(0, 5), T1: OffsetRange(0, 5)})
    made.write(first)
    made.write(
        entry_of(heads_of(first), {T0: OffsetRange(5, 10), T1: OffsetRange(5, 10)}, batch_id=1)
    )
    return made


def test_show_prints_heads_and_history(store: Store) -> None:
    """By sink and query; the newest ranges of each partition, and its gaps."""
    answer = run("show", store.address, "--history", "1")
    for part in ("sink delays, query 'flights'", "5..10", "history"):
        assert part in answer.stdout
    found = json.loads(run("show", store.address, "--history", "1", "--json").stdout)
    (ledger,) = found["ledgers"]
    assert (ledger["sink"], ledger["query"]) == KEY
    assert [head["next_offset"] for head in ledger["heads"]] == [10, 10]
    assert [one["start_offset"] for one in ledger["history"]] == [5, 5]
    assert run("show", store.address, "--query", "nosuch").exit_code == 1


def test_show_fits_a_terminal_of_80_columns(store: Store) -> None:
    """No number, range or id is broken into two lines."""
    (ledger,) = store.ledgers().values()
    with closing(SqliteLedgerReader(store.path)) as reader:
        history = list(reader.history(KEY))
    out = Console(width=80, file=io.StringIO())
    out.print(ledger_show._table_of_heads(ledger))
    out.print(ledger_show._table_of_history(history))
    text = out.file.getvalue()  # type: ignore[attr-defined]  # of StringIO
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    words = ["flights-0", "5..10", "query-1", "run-1", "2026-11-21", "12:01:00Z", "partition"]
    assert all(any(word in line for line in lines) for word in words), text


def test_show_says_that_a_table_was_taken_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command, on a line of its own; rows that a table does not say are a dash."""
    back = TakenBack("version 7 restored the table", "RESTORE TABLE t TO VERSION AS OF 6")
    read, history = SqliteLedgerReader.ledgers, SqliteLedgerReader.history

    def ledgers(reader: SqliteLedgerReader) -> dict[LedgerKey, StoredLedger]:
        return {key: replace(one, taken_back=back) for key, one in read(reader).items()}

    def unknown(reader: SqliteLedgerReader, key: LedgerKey) -> Iterator[AppliedBatch]:
        return (replace(one, rows=None) for one in history(reader, key))

    monkeypatch.setattr(SqliteLedgerReader, "ledgers", ledgers)
    monkeypatch.setattr(SqliteLedgerReader, "history", unknown)
    shown = run("show", store.address, "--history", 1).stdout
    assert f"{back.cause}. Fix: {back.fix}\n" in shown
    assert "┃ rows ┃" in shown
    found = json.loads(run("show", store.address, "--history", 1, "--json").stdout)["ledgers"][0]
    assert found["taken_back"] == {"cause": back.cause, "fix": back.fix}
    assert [one["rows"] for one in found["history"]] == [None, None]


def test_one_gap_is_accepted(store: Store) -> None:
    """The batch behind it may then be written, no other one; the history keeps the gap."""
    batch = entry_of({}, {T0: OffsetRange(15, 20), T1: OffsetRange(10, 12)}, batch_id=2)

    def judged(entry: Entry) -> BatchVerdict:
        return judge_batch(plan_of(entry), store.heads(), name=QUERY, sink="delays").verdict

    with pytest.raises(GapError, match=r"flights-0 10\.\.15"):
        judged(batch)
    command = ["accept", store.address, "--partition", "flights-0", "--gap", "10..15"]
    dry = run(*command).stdout
    assert "dry run, nothing was changed" in dry
    assert "given up: 5 offsets, so up to 5 records" in dry
    assert "not compared with the source's log: add -b HOST:PORT" in dry
    document = json.loads(run(*command, "--json").stdout)
    assert (document["in_log"], document["not_compared"]) == (None, "add -b HOST:PORT")
    assert store.heads()[T0].range == OffsetRange(5, 10)
    before = store.heads()[T0]
    done = run(*command, *QUICK).stdout
    assert "not compared with the source's log: add -b HOST:PORT" in done
    assert "accepted: the gap 10..15 of flights-0" in done
    head = store.heads()[T0]
    assert head.range == OffsetRange(15, 15)
    assert (head.batch_id, head.query_id) == (before.batch_id, before.query_id)
    assert store.history()[2] == (T0, "gap accepted", OffsetRange(10, 15))
    assert judged(batch) is BatchVerdict.NEXT
    with pytest.raises(GapError, match=r"flights-0 15\.\.16"):
        judged(entry_of({}, {T0: OffsetRange(16, 20), T1: OffsetRange(10, 12)}, batch_id=2))
    with pytest.raises(SettingsError, match="its next offset is 15"):
        run(*command, *QUICK)


def test_a_renamed_query_takes_its_ledger_along(store: Store) -> None:
    """Heads and history go by the new name, which the history says; other queries stay."""
    store.write(entry_of({}, {T0: OffsetRange(0, 3)}, query="other"))
    command = ["rename", store.address, "--query", QUERY, "--to-query", HOSTILE[0]]
    assert "dry run, nothing was changed" in run(*command).stdout
    assert set(store.ledgers()) == {KEY, LedgerKey("delays", "other")}
    before = store.heads()
    assert "renamed: 2 heads and their history" in run(*command, *QUICK).stdout
    new = LedgerKey("delays", HOSTILE[0])
    assert set(store.ledgers()) == {new, LedgerKey("delays", "other")}
    assert store.heads(new) == before
    last = {T0: OffsetRange(5, 10), T1: OffsetRange(5, 10)}
    again = plan_of(entry_of({}, last, batch_id=1, query=new.query))
    judgement = judge_batch(again, store.heads(new), name=new.query, sink="delays")
    assert judgement.verdict is BatchVerdict.REPLAY
    assert [one[1] for one in store.history(new)] == 2 * [
        *("first", "next", f"renamed from delays, query {QUERY}")
    ]
    with pytest.raises(SettingsError, match="no ledgers of that name"):
        run(*command, *QUICK)


def test_a_renamed_table_takes_its_ledger_along(store: Store) -> None:
    """Only once the table is renamed: rows that are still there keep their ledger."""
    command = ["rename", store.address, "--to-sink", "Late"]
    with pytest.raises(SettingsError, match="the table delays is still there"):
        run(*command, *QUICK)
    store.execute("ALTER TABLE delays RENAME TO Late")
    run(*command, *QUICK)
    assert set(store.ledgers()) == {LedgerKey("late", QUERY)}, "as the sink folds its name"


def test_two_ledgers_never_become_one(store: Store) -> None:
    """A name that has a ledger is not taken."""
    store.write(entry_of({}, {T0: OffsetRange(0, 3)}, query="other"))
    with pytest.raises(SettingsError, match="a ledger of query 'other' of delays already"):
        run("rename", store.address, "--query", QUERY, "--to-query", "other", *QUICK)


@pytest.mark.parametrize(
    "repair",
    [
        ["rename", "--to-query", "new"],
        ["accept", "--partition", "flights-0", "--gap", "10..15"],
    ],
)
def test_a_ledger_that_moves_is_left_alone(
    repair: list[str], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that writes a batch within the seconds of --watch shows that it runs."""
    command, *rest = repair
    waited = []

    def query(seconds: float) -> None:
        waited.append(seconds)
        store.write(entry_of(store.heads(), {T0: OffsetRange(10, 11)}, batch_id=2))

    monkeypatch.setattr(ledger_command, "time", SimpleNamespace(sleep=query))
    with pytest.raises(InUseError, match="has moved meanwhile: flights-0"):
        run(command, store.address, *rest, "--watch", "2", "--execute")
    assert waited == [2.0]
    assert store.heads()[T0].range == OffsetRange(10, 11)
    assert set(store.ledgers()) == {KEY}


def test_history_keeps_that_a_ledger_was_renamed(store: Store) -> None:
    """Pruning drops old ranges, and leaves this."""
    run("rename", store.address, "--to-query", "new", *QUICK)
    key = LedgerKey("delays", "new")
    entry = entry_of(store.heads(key), {T0: OffsetRange(10, 11)}, batch_id=100, query="new")
    pruning = LEDGER.prune("delays", entry, kept=0)
    assert pruning is not None
    with store.connected() as made:
        made.execute(*pruning)
    assert {one[1].split()[0] for one in store.history(key)} == {"first", "renamed"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "delays.db"], 2, "none of the forms"),
        (["show", "sqlite:/no/such.db"], 2, "there is no file"),
        (["show", "{empty}"], 2, "has no ledger"),
        (["show", "kafka:t"], 2, "no cluster is named"),
        (["show", "iceberg:delays"], 2, "does not say the catalog"),
        (["show", "delta:x-y"], 2, "neither the name of a table nor a path"),
        (["show", "delta:/d", "--spark-conf", "lake.uri=x"], 2, "not of the form spark.key=value"),
        (["rename", "{store}", "--to-query", QUERY], 2, "has that name already"),
        (["rename", "{store}"], 2, "has that name already"),
        (["rename", "{store}", "--to-query", " "], 2, "the new name is empty"),
        (["rename", "{store}", "--sink", "x", "--to-query", "y"], 2, "--sink delays --query fl"),
        (["rename", "kafka:t", "--to-query", "y"], 2, "no cluster is named"),
        (["rename", "{store}", "--to-query", "y", "--watch", "-1"], 2, "--watch must be"),
        (["accept", "{store}", "--partition", "x", "--gap", "10..15"], 2, "--partition must be"),
        (["accept", "{store}", "--partition", "u-0", "--gap", "10..15"], 2, "has no head of u-0"),
        (["accept", "{store}", "--partition", "flights-0", "--gap", "9..15"], 2, "is not a gap"),
        (["accept", "{store}", "--partition", "flights-0", "--gap", "10..10"], 2, "is not a gap"),
        (["accept", "{store}", "--partition", "flights-0", "--gap", "15"], 2, "--gap must be two"),
    ],
)
def test_bad_input(
    arguments: list[str], code: int, words: str, store: Store, tmp_path: Path
) -> None:
    """One error; the ledger is as it was."""
    with closing(sqlite3.connect(tmp_path / "empty.db")) as made:
        made.execute("CREATE TABLE t (x)")
    places = {"store": store.address, "empty": f"sqlite:{tmp_path / 'empty.db'}"}
    with pytest.raises(EoListenerError, match=words) as raised:
        run(*(one.format(**places) for one in arguments))
    assert raised.value.exit_code == code
    assert store.heads()[T0].range == OffsetRange(5, 10)


def test_what_is_not_kafka_has_no_gap_to_name() -> None:
    """Its batches are counted, so it is accepted in the query."""
    heads = heads_of(entry_of({}, {BATCHES: OffsetRange(0, 1)}))
    with pytest.raises(SettingsError, match="counted by batches"):
        plan_acceptance(heads, KEY, BATCHES, OffsetRange(1, 2), run_id="r")


def test_the_ledger_that_is_meant() -> None:
    """The only one, or the one that is named; those there are named where it is none."""
    keys: dict[LedgerKey, dict[TopicPartition, Head]] = {
        LedgerKey("a", "q"): {},
        LedgerKey("a", "r"): {},
        LedgerKey("b", "q"): {},
    }
    assert choose_key(keys, "x", "b", None) == LedgerKey("b", "q")
    with pytest.raises(SettingsError, match=r"2 ledgers.*--sink a --query q, --sink a --query r"):
        choose_key(keys, "x", "a", None)
    with pytest.raises(SettingsError, match="nothing was written"):
        choose_key({}, "x", None, None)
    blank: dict[LedgerKey, dict[TopicPartition, Head]] = {LedgerKey("a b", "$q"): {}}
    with pytest.raises(SettingsError, match=r"--sink 'a b' --query '\$q'"):
        choose_key(blank, "x", "other", None)


def test_properties_reach_the_cluster_that_a_ledger_names(store: Store) -> None:
    """They are neither dropped nor taken for those of a file; -b comes first."""
    topic = LedgerAddress.parse("kafka://h:9092/l")
    given = ["security.protocol=SSL"]
    assert client_properties(topic, None, given) == {
        "bootstrap.servers": "h:9092",
        "security.protocol": "SSL",
    }
    assert client_properties(topic, "k:9092", given)["bootstrap.servers"] == "k:9092"  # type: ignore[index]  # there is one
    assert client_properties(topic, None, None) == {"bootstrap.servers": "h:9092"}
    with pytest.raises(SettingsError, match="properties need a cluster"):
        run("show", store.address, "-X", *given)


@pytest.mark.slow
def test_a_ledger_of_ten_thousand_heads(tmp_path: Path) -> None:
    """Is carried over whole."""
    made = Store(tmp_path / "wide.db")
    ranges = {TopicPartition("t", number): OffsetRange(0, 1) for number in range(10_000)}
    made.write(entry_of({}, ranges))
    run("rename", made.address, "--to-query", "new", *QUICK)
    assert len(made.heads(LedgerKey("delays", "new"))) == 10_000


def test_names_are_shown_as_text(store: Store) -> None:
    """What a terminal would obey is an escape; brackets stay as they are."""
    store.write(entry_of({}, {T0: OffsetRange(0, 3)}, query="\x1b[31mred[/b]"))
    answer = run("show", store.address, "--query", "\x1b[31mred[/b]")
    assert "\x1b" not in answer.stdout
    assert r"\x1b[31mred[/b]" in answer.stdout


@pytest.mark.parametrize(
    "words",
    [
        "audit",
        "group seed",
        "group rewind",
        "ledger show",
        "ledger rename",
        "ledger accept",
        "serve",
    ],
)
def test_the_help_names_the_forms_of_a_ledger(words: str) -> None:
    """All of those that the commands take."""
    command: Any = get_command(app)
    for word in words.split():
        command = command.commands[word]
    options = {one.name: str(getattr(one, "help", "")) for one in command.params}
    assert FORMS in next(options[name] for name in _LEDGERS if name in options)
