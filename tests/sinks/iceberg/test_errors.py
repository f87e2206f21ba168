"""What the errors of Iceberg mean for a batch: without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from eo_listener.errors import RetriableSinkError, SettingsError, SinkError
from eo_listener.sinks.iceberg.errors import (
    in_short,
    is_refusal,
    is_temporary,
    translated,
    unanswered,
)
from eo_listener.sinks.iceberg.user_sql import Branch, Turns, _Turn
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.testing.made_up_entries import entry_of

ICEBERG = "org.apache.iceberg.exceptions."
BAD, REFUSED, UNKNOWN = (
    f"{ICEBERG}{name}Exception" for name in ("BadRequest", "CommitFailed", "CommitStateUnknown")
)


def test_a_commit_is_refused_only_where_nothing_of_it_can_have_been_made() -> None:
    """By the class of an exception or of a cause; one whose state is unknown is no refusal."""
    assert is_refusal(ThrownError((REFUSED,), ""))
    assert is_refusal(ThrownError(("java.lang.RuntimeException", REFUSED), ""))
    assert not is_refusal(ThrownError((UNKNOWN, REFUSED), ""))
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
