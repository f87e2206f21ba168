"""What errors and refusals mean, and sessions whose writes go elsewhere. Without a JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from eo_listener.errors import OutcomeUnknownError, RetriableSinkError, SettingsError, SinkError
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.iceberg import IcebergSink, connection, sink
from eo_listener.sinks.iceberg.errors import (
    in_short,
    is_refusal,
    is_temporary,
    translated,
    unanswered,
)
from eo_listener.sinks.iceberg.ledger import PublishedLedgers
from eo_listener.sinks.iceberg.publication import Publication
from eo_listener.sinks.iceberg.snapshots import PROPERTY
from eo_listener.sinks.iceberg.user_sql import Branch, Turns, _Turn
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.testing.made_up_entries import entry_of
from tests.sinks.iceberg.test_ledger import Table

ENTRY = entry_of({}, {TopicPartition("flights", 0): OffsetRange(0, 1)})
REFUSED = ThrownError(("org.apache.iceberg.exceptions.CommitFailedException",), "no row updated")


class Catalog(Table):
    """A table whose catalog makes a commit, and then says that it was refused."""

    ends_with_it = False
    readable = True
    version = ""

    def refresh(self) -> None:
        self.version = f"{self.main} {len(self.texts)} {sorted(self.branches)}"
        if self.ends_with_it and self.main is not None:
            raise ThrownError(("org.apache.iceberg.jdbc.UncheckedSQLException",), "gone")

    def uncache(self) -> None:
        """It has no cache."""

    def create_branch(
        self, name: str, *, at: int | None, summary: dict[str, str] | None = None
    ) -> int:
        assert at == self.main
        self.branches[name] = self.add(at, None, **(summary or {}))
        return self.branches[name]

    def is_readable(self, snapshot_id: int) -> bool:
        return self.readable

    def added_since(self, snapshot_id: int) -> list[int]:
        return [at for at in self.texts if at > snapshot_id]

    def drop_branch(self, name: str) -> None:
        del self.branches[name]

    def publish(  # type: ignore[override]  # that of IcebergTable
        self, branch: str, *, summary: dict[str, str] | None, **_: Any
    ) -> None:
        self.move_main(branch, summary)
        raise REFUSED

    def move_main(self, branch: str, summary: dict[str, str] | None) -> None:
        if summary is not None:
            self.write_ledger(branch, summary[PROPERTY])
        Table.publish(self, branch)

    def write_ledger(self, branch: str, text: str) -> None:
        at = self.branches.get(branch, self.main)
        self.branches[branch] = self.add(at, LedgerText.decode(text))


def write(table: Catalog, *, appends: bool) -> int | None:
    def rows(branch: str, summary: Mapping[str, str]) -> int | None:
        if appends:
            table.write_ledger(branch, summary[PROPERTY])
        return None

    publication = Publication(
        label="the table",
        table=table,  # type: ignore[arg-type]
        ledgers=PublishedLedgers("the table", bool),
        rows=SimpleNamespace(appends=appends, write=rows),
        entry=ENTRY,
        accept_expired=False,
    )
    return publication.write().rows


def test_a_refusal_that_nothing_can_be_seen_after_is_no_refusal() -> None:
    """The branch may be the ledger's anchor by then, so it stays."""
    table = Catalog()
    table.ends_with_it = True
    with pytest.raises(OutcomeUnknownError, match="UncheckedSQLException: gone"):
        write(table, appends=True)
    assert table.main in table.branches.values()


@pytest.mark.parametrize("appends", [True, False], ids=["append", "sql"])
def test_a_branch_that_cannot_be_read_is_not_published(appends: bool) -> None:
    """Main would be lost; the batch is written once more, on another one."""
    table = Catalog()
    table.readable = False
    with pytest.raises(RetriableSinkError, match="manifest list") as refused:
        write(table, appends=appends)
    assert "Iceberg 1.11" in str(refused.value.fix)
    assert (table.main, dict(table.branches)) == (None, {})


VALIDATION = "org.apache.iceberg.exceptions.ValidationException"
CLOCK = "Invalid update timestamp 5: before last snapshot log entry at 90000"


class Refusing(Catalog):
    """A table that refuses a commit of one kind for some time; a foreign commit may come before."""

    def __init__(
        self, at: str, error: ThrownError, times: int = 100, *, moves: bool = False
    ) -> None:
        super().__init__()
        self.at, self.error, self.times, self.moves = at, error, times, moves
        self.tried = 0

    def _refuse(self, at: str) -> None:
        if at == self.at:
            self.tried += 1
            if self.tried <= self.times:
                if self.moves:
                    self.commit()
                raise self.error

    def create_branch(self, name: str, **given: Any) -> int:
        self._refuse("create")
        return super().create_branch(name, **given)

    def publish(  # type: ignore[override]  # that of IcebergTable
        self, branch: str, *, summary: dict[str, str] | None, **_: Any
    ) -> None:
        self._refuse("publish")
        self.move_main(branch, summary)

    def publish_again(self, staged: str, branch: str, *, summary: dict[str, str], **_: Any) -> None:
        self._refuse("publish")
        del self.branches[staged]
        self.move_main(branch, summary)


@pytest.mark.parametrize("appends", [True, False], ids=["append", "sql"])
@pytest.mark.parametrize("at", ["create", "publish"])
def test_a_refusal_that_is_nobodys_fault_is_not_tried_again(at: str, appends: bool) -> None:
    """Nobody else has changed the table: it would be refused again, and is no conflict."""
    table = Refusing(at, ThrownError((VALIDATION,), "Cannot do that"))
    with pytest.raises(SinkError, match=r"refuses the commit.*Cannot do that") as refused:
        write(table, appends=appends)
    assert not isinstance(refused.value, RetriableSinkError)
    assert table.tried == 1
    assert table.branches == {}


@pytest.mark.parametrize("at", ["create", "publish"])
def test_a_refusal_after_another_commit_is_tried_again(at: str) -> None:
    """What was validated against the table as it was may be true of it as it is."""
    table = Refusing(at, ThrownError((VALIDATION,), "Cannot do that"), times=3, moves=True)
    assert write(table, appends=True) == 5
    assert table.tried == 4


@pytest.mark.parametrize("at", ["create", "publish"])
@pytest.mark.parametrize("moves", [True, False])
def test_a_clock_that_is_behind_is_no_conflict(at: str, moves: bool) -> None:
    """It is named at once, whatever others do; the batch is repeated when some time has passed."""
    table = Refusing(at, ThrownError(("java.lang.IllegalArgumentException",), CLOCK), moves=moves)
    with pytest.raises(RetriableSinkError, match="older") as refused:
        write(table, appends=True)
    assert "clock" in str(refused.value.cause)
    assert table.tried == 1


@pytest.mark.parametrize("apply", [None, "DELETE FROM {table}"])
@pytest.mark.parametrize("name", ["spark.wap.id", "spark.wap.branch"])
def test_writes_that_would_go_elsewhere_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, apply: str | None
) -> None:
    """Before anything runs, unless the table takes no part: rows would be on no branch at all."""
    spark: Any = SimpleNamespace(conf={name: "audit"})
    table: Any = SimpleNamespace(has_property="write.wap.enabled".__eq__)
    monkeypatch.setattr(sink, "find", lambda *_: table)
    plan: Any = None
    with pytest.raises(SettingsError, match=name) as refused:
        IcebergSink("t.t.t", apply=apply).apply(SimpleNamespace(sparkSession=spark), ENTRY, plan)
    assert name in str(refused.value.fix)
    connection.check_wap(spark, SimpleNamespace(has_property=lambda _: False), "t")  # type: ignore[arg-type]  # a stub
    connection.check_wap(SimpleNamespace(conf={}), table, "t")


def test_files_are_not_looked_for_in_a_cached_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session's cache can have main as it was before a rollback."""
    fresh: list[object] = []

    class Entries:
        def where(self, _: str) -> Entries:
            assert fresh == [spark]
            return self

        def isEmpty(self) -> bool:  # noqa: N802  # Spark's name
            return False

    def find(session: object, _: object) -> object:
        fresh.append(session)
        return SimpleNamespace(has_property=lambda _: True)

    spark = SimpleNamespace(table=lambda _: Entries(), conf={})
    monkeypatch.setattr(sink, "session", lambda *_: spark)
    monkeypatch.setattr(connection, "find", find)
    assert IcebergSink("lake.db.t")._has_files_of(5)
    spark.conf["spark.wap.branch"] = "audit"
    with pytest.raises(SettingsError, match=r"spark\.wap\.branch"):
        IcebergSink("lake.db.t")._has_files_of(5)


ICEBERG = "org.apache.iceberg.exceptions."
BAD, COMMIT_FAILED, UNKNOWN = (
    f"{ICEBERG}{name}Exception" for name in ("BadRequest", "CommitFailed", "CommitStateUnknown")
)


def test_a_commit_is_refused_only_where_nothing_of_it_can_have_been_made() -> None:
    """By the class of an exception or of a cause; one whose state is unknown is no refusal."""
    assert is_refusal(ThrownError((COMMIT_FAILED,), ""))
    assert is_refusal(ThrownError(("java.lang.RuntimeException", COMMIT_FAILED), ""))
    assert not is_refusal(ThrownError((UNKNOWN, COMMIT_FAILED), ""))
    assert not is_refusal(ThrownError(("java.io.IOException",), ""))


LAST = "last sequence number 7"
OLDER = f"Cannot add snapshot with sequence number 7 older than {LAST}"
BEHIND = "Cannot add a snapshot, first-row-id is behind table next-row-id: 5 < 9"


@pytest.mark.parametrize("said", [OLDER, BEHIND])
@pytest.mark.parametrize("kind", [BAD, f"{ICEBERG}ValidationException"])
def test_what_an_older_rest_server_refuses_is_a_conflict(kind: str, said: str) -> None:
    """Up to 1.10 it calls the request malformed; Spark may put an exception around that."""
    error = ThrownError((kind,), f"Malformed request: {said}")
    wrapped = ThrownError(
        ("org.apache.spark.SparkException", kind), "Writing job aborted", causes=(said,)
    )
    for one in (error, wrapped):
        assert is_refusal(one)
        assert is_temporary(one)
        assert isinstance(translated(one, "the table"), RetriableSinkError)


def test_nothing_else_that_is_malformed_is_a_conflict() -> None:
    """By class and text: neither alone."""
    for one in (
        ThrownError((BAD,), "Malformed request: Cannot parse to a table: no name"),
        ThrownError(("java.lang.IllegalStateException",), OLDER),
    ):
        assert not is_refusal(one)
        assert not is_temporary(one)
        assert not isinstance(translated(one, "the table"), RetriableSinkError)
    assert not is_refusal(ThrownError((UNKNOWN, BAD), "lost", causes=(OLDER,)))


@pytest.mark.parametrize(
    "said",
    [
        "Invalid update timestamp 5: before last snapshot log entry at 90000",
        "Invalid update timestamp 5: before the latest metadata log entry timestamp 90000",
    ],
)
def test_a_refusal_because_of_the_clock_is_named(said: str) -> None:
    """It is neither a conflict nor a setting of the rows, and ends when the clock is there."""
    error = ThrownError(("java.lang.IllegalArgumentException",), said)
    meant = translated(error, "the table")
    assert isinstance(meant, RetriableSinkError)
    assert "clock" in str(meant.cause)
    other = ThrownError(("java.lang.IllegalArgumentException",), "Cannot find field x")
    assert isinstance(translated(other, "the table"), SettingsError)


@pytest.mark.parametrize("meant", [translated, unanswered])
def test_what_the_storage_or_the_catalog_said_is_shown(
    meant: Callable[[ThrownError, str], Exception],
) -> None:
    """Once, however much Spark and Iceberg have said about it before."""
    full = "No space left on device"
    classes = (f"{ICEBERG}RuntimeIOException", "java.io.IOException")
    error = meant(ThrownError(classes, "Failed to write json to file: t", causes=(full,)), "t")
    assert "RuntimeIOException: Failed to write json to file: t; IOException: No space" in str(
        error
    )
    said = f"Lost task 1.0 (TID 7): java.io.IOException: {full}"
    again = meant(ThrownError(classes, said, causes=(full,)), "t")
    assert str(again).count(full) == 1


def session(number: int) -> Any:
    return SimpleNamespace(_jsparkSession=SimpleNamespace(hashCode=lambda: number))


def test_a_batch_that_does_not_end_is_named_by_who_waits_for_it() -> None:
    """In one session only one is written at a time; one of another session does not wait."""
    turns = Turns(longest=0.01)
    first, second = (entry_of({}, {}, query=query) for query in ("slow", "flights"))

    def wait(session: Any) -> None:
        with turns.take(session, second):
            pass

    with ThreadPoolExecutor(1) as threads:
        with turns.take(session(1), first):
            held_up = threads.submit(wait, session(1)).exception()
            assert threads.submit(wait, session(2)).exception() is None
        assert threads.submit(wait, session(1)).exception() is None
    assert isinstance(held_up, RetriableSinkError)
    for fact in ("batch 0 of 'flights'", "0.01 s", "batch 0 of 'slow'"):
        assert fact in held_up.problem


def test_a_queue_that_moves_is_waited_for() -> None:
    """Each batch that comes before has all the time: the wait begins anew when one ends."""
    turns = Turns(longest=60.0)
    before = [_Turn(thread=-1, batch=f"batch {number}") for number in range(3)]

    class Moving(threading.Condition):
        """Each wait ends, in time, with the next batch in the session, the last with none."""

        def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
            assert timeout == 60.0
            del turns._turns[1]
            if before:
                turns._turns[1] = before.pop()
            return predicate()

    turns._changed = Moving()
    turns._turns[1] = before.pop()
    with turns.take(session(1), entry_of({}, {}, query="flights")):
        assert before == []


def test_a_statement_that_failed_shows_no_secret() -> None:
    """Of what Java says one line is shown, as where the batch itself is written."""

    class Session:
        def sql(self, text: str) -> NoReturn:
            raise ThrownError(("java.lang.RuntimeException",), f"{text}: password=abc x\nmore")

    batch = Branch(Session(), "lake.db.t", lambda: None)
    with pytest.raises(SinkError) as failed:
        batch.sql("DELETE FROM {table}")
    assert "DELETE FROM lake.db.t: password=*** x" in str(failed.value)
    assert "more" not in str(failed.value)


@pytest.mark.parametrize(
    "said",
    [
        "Failed to connect: jdbc:mysql://me:hid@7q@host:3306/lake",
        "Failed to connect: jdbc:postgresql://host/lake?user=me&password=hid@7q",
        "s3.secret-access-key=hid@7q",
        "credential: me:hid@7q",
        "Failed to connect: jdbc:oracle:thin:me/hid@7q@//host:1521/lake",
        '{"uri": "x", "password": "hid 7q"}',
    ],
)
def test_no_secret_is_shown(said: str) -> None:
    """Of what a catalog's driver says, in the forms in which settings have them."""
    shown = in_short(ThrownError(("org.apache.iceberg.jdbc.UncheckedSQLException",), said))
    assert "***" in shown
    assert "7q" not in shown
    assert "hid" not in shown
