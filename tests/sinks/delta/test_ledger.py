"""Which heads of a Delta table count, at each version of its log: without Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from unittest.mock import ANY

import pytest

from eo_listener.errors import FormatError
from eo_listener.model.ledger import Head
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.delta.commits import (
    BatchRecord,
    Commit,
    Doubt,
    QueryState,
    application_id,
    query_of,
)
from eo_listener.sinks.delta.errors import in_doubt, taken_back
from eo_listener.sinks.delta.ledger import Rollback, TableLedger
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.testing.made_up_entries import HOSTILE

TP = TopicPartition("flights", 0)
TABLE = "c697e832"


def head(until: int) -> Head:
    return Head(
        range=OffsetRange(0, until), topic_id=None, query_id="q", run_id="r", batch_id=until
    )


def lines(operation: str, *more: Mapping[str, Any], **info: object) -> list[str]:
    """The actions of a commit, as Spark writes them, with a file at the end."""
    actions = [{"commitInfo": {"operation": operation, **info}}, *more, {"add": {"path": "x"}}]
    return [json.dumps(action, separators=(",", ":")) for action in actions]


class Log:
    """A Delta log in memory, written as a sink writes it; counts what is read."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.files: dict[int, list[str]] = {}
        self.numbers: dict[str, int] = {}
        self.read = 0
        self.asked = 0

    @property
    def newest(self) -> int:
        return max(self.files, default=self.first - 1)

    def commit(self, version: int) -> Commit | None:
        self.read += 1
        found = self.files.get(version)
        return None if found is None else Commit.parse(version, found)

    def known(self) -> Mapping[str, int]:
        """What Delta keeps in its state."""
        self.asked += 1
        return self.numbers

    def ledger(self) -> TableLedger:
        return TableLedger(TABLE, self.commit, self.known)

    def add(self, operation: str = "OPTIMIZE", **parameters: object) -> int:
        self.files[self.newest + 1] = lines(operation, operationParameters=parameters)
        return self.newest

    def restore(self, version: int | None) -> int:
        """RESTORE to a version, or to a timestamp if it is None."""
        when = None if version is not None else "2026-11-23 08:04:05.57"
        return self.add("RESTORE", version=version, timestamp=when)

    def batch(self, query: str = "q", *, judged_at: int | None = None, table: str = TABLE) -> int:
        base = self.newest if judged_at is None else judged_at
        number = self.numbers.get(query, 0) + 1
        record = BatchRecord(
            ledger=LedgerText(query, number, {TP: head(number)}),
            table=table,
            base=base,
            attempt=f"{query}-{number}",
            states=self.ledger().states(base),
        )
        self.numbers[query] = number
        transaction = {"txn": {"appId": application_id(query), "version": number}}
        self.files[self.newest + 1] = lines("WRITE", transaction, userMetadata=record.text())
        return self.newest

    def taken_back(self, query: str = "q") -> Rollback | None:
        return self.ledger().rollback_of(self.newest, query)

    def state(self, query: str = "q") -> QueryState | None:
        return self.ledger().states(self.newest).get(query)

    def delete(self, *versions: int) -> None:
        for version in versions:
            del self.files[version]


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_record_comes_back_as_it_was() -> None:
    """Whatever the names are; and no setting of Spark's is put into it."""
    for word in (*HOSTILE, "${spark.app.name}"):
        record = BatchRecord(
            ledger=LedgerText(word, 3, {TopicPartition(word, 1): head(4)}),
            table=TABLE,
            base=7,
            attempt="a",
            states={word: QueryState(2, None, Doubt.TIMESTAMP, 5), "other": QueryState(9, 4)},
        )
        assert "${" not in record.text()
        assert BatchRecord.parse(record.text()) == record
        assert query_of(application_id(word)) == word


def test_what_others_write_is_no_record() -> None:
    """Any text but ours is left alone; ours of a later format, or damaged, is refused."""
    assert BatchRecord.parse("deployed by hand") is None
    assert query_of("another-app") is None
    for text in ('{"eo-listener":2}', '{"eo-listener":1}', '{"eo-listener":'):
        with pytest.raises(FormatError):
            BatchRecord.parse(text)


def test_the_newest_commit_of_a_query_has_its_heads(log: Log) -> None:
    """Commits of others, before, between and after, change nothing."""
    assert log.state() is None
    log.add()
    log.batch()
    log.add()
    second = log.batch()
    log.add()
    log.batch("other")
    assert log.state() == QueryState(2, second)


def test_a_compaction_that_repeats_the_metadata_is_no_batch(log: Log) -> None:
    """It has no txnVersion."""
    written = log.batch()
    info = json.loads(log.files[written][0])["commitInfo"]
    log.files[log.newest + 1] = lines("OPTIMIZE", userMetadata=info["userMetadata"])
    assert log.state() == QueryState(1, written)


def test_restore_takes_the_heads_back_and_no_number(log: Log) -> None:
    """Those of the version that was restored count; the next number is still a greater one."""
    first, second, _ = log.batch(), log.batch(), log.batch()
    log.restore(second)
    assert log.state() == QueryState(3, second)
    log.restore(first)
    assert log.state() == QueryState(3, first)
    log.restore(log.newest - 1)  # a RESTORE of what the RESTORE before it has made
    assert log.state() == QueryState(3, second)
    after = log.batch()
    assert log.state() == QueryState(4, after)


def test_what_has_taken_heads_back_is_found(log: Log) -> None:
    """The RESTORE after which they counted, and no other one; nothing after a new batch."""
    first, second = log.batch(), log.batch()
    log.add()
    assert log.taken_back() is None
    restore = log.restore(first)
    log.add()
    log.restore(restore)  # leaves the heads as they are
    found = log.taken_back()
    assert found is not None
    said = taken_back("delays", found, log.newest)
    assert re.findall(r"version (\d+)", said.cause) == [str(restore), str(first)]
    assert f"delays TO VERSION AS OF {restore - 1}, which also removes" in said.fix
    log.restore(restore - 1)
    assert log.taken_back() is None
    assert log.state() == QueryState(2, second)
    log.restore(first)
    log.batch()
    assert log.taken_back() is None


@pytest.mark.parametrize(
    ("operation", "fix"),
    [
        ("RESTORE", "RESTORE TABLE delays TO VERSION AS OF 1"),
        ("CLONE", ""),
        ("CREATE OR REPLACE TABLE AS SELECT", ""),
    ],
)
def test_heads_that_were_all_taken_back(log: Log, operation: str, fix: str) -> None:
    """By a RESTORE to before the first batch, or by what has replaced the table: a number stays."""
    log.add("CREATE TABLE")
    log.batch()
    at = log.add(operation, version=0)
    assert log.state() == QueryState(1, None)
    found = log.taken_back()
    assert found == Rollback(1, log.commit(at))
    assert taken_back("delays", found, log.newest).fix == fix


@pytest.mark.parametrize("later", [1, 1_100])
def test_heads_that_were_taken_back_long_ago(log: Log, later: int) -> None:
    """By a commit that was cleaned, or is not looked for any more: it is said all the same."""
    first, _ = log.batch(), log.batch()
    restore = log.restore(first)
    assert log.taken_back() == Rollback(2, log.commit(restore))
    reader = log.ledger()
    assert reader.states(log.newest)["q"] == QueryState(2, first)
    for _ in range(later):
        log.add()
    found = reader.rollback_of(log.newest, "q")
    if later == 1:
        log.delete(restore)
        found = reader.rollback_of(log.newest, "q")
    assert found == Rollback(2, None)
    said = taken_back("delays", found, log.newest)
    assert "number 2 " in said.cause
    assert said.fix == ""


@pytest.mark.parametrize("cut", [False, True])
def test_restores_one_after_the_other_are_each_read_once(log: Log, cut: bool) -> None:
    """Each to what the one before has made, also where the log before them was cleaned."""
    first, _, doubted = log.batch(), log.batch(), log.batch(judged_at=0)
    log.restore(first)
    for _ in range(14):
        log.restore(log.newest)
    log.delete(*range(doubted if cut else 0))
    log.read = 0
    left = QueryState(3, None, Doubt.GONE, ANY) if cut else QueryState(3, first)
    assert log.state() == left
    assert log.read < 500


def test_restore_to_a_timestamp_is_in_doubt_until_a_version_is_named(log: Log) -> None:
    """Its commit does not say which version that was; the next RESTORE does."""
    first = log.batch()
    log.batch()
    unclear = log.restore(None)
    assert log.state() == QueryState(2, ANY, Doubt.TIMESTAMP, unclear)
    log.restore(first)
    assert log.state() == QueryState(2, first)


def test_a_batch_that_was_judged_before_a_restore_is_in_doubt(log: Log) -> None:
    """Its heads have rows that the RESTORE took away; one to the version before it heals that."""
    first, second = log.batch(), log.batch()
    log.restore(first)
    late = log.batch(judged_at=second)
    for _ in range(2):
        assert log.state() == QueryState(3, ANY, Doubt.MEANWHILE, late)
        log.batch("other")  # carries the doubt on
    log.restore(late - 1)
    assert log.state() == QueryState(3, first)


def test_a_batch_for_an_older_table_of_the_same_place_is_in_doubt(log: Log) -> None:
    """The table was dropped and made again between the judgement and the commit."""
    log.add("CREATE TABLE")
    late = log.batch(table="another")
    assert log.state() == QueryState(1, None, Doubt.MEANWHILE, late)


def test_a_commit_of_another_query_shows_where_the_others_are(log: Log) -> None:
    """A query that was stopped long ago is found without reading what came since."""
    old = log.batch("old")
    for _ in range(200):
        log.batch()
    log.read = 0
    assert log.state("old") == QueryState(1, old)
    assert log.read < 5


def test_commits_between_judgement_and_commit_are_not_passed_over(log: Log) -> None:
    """Two queries that write at the same time do not hide each other."""
    log.batch("one")
    base = log.newest
    two = log.batch("two")
    one = log.batch("one", judged_at=base)
    assert log.state("two") == QueryState(1, two)
    assert log.state("one") == QueryState(2, one)


def test_a_log_that_was_cut_off(log: Log) -> None:
    """The newest commit of a query is all that is needed; without its heads nothing is guessed."""
    for _ in range(5):
        log.batch()
    log.delete(*range(4))
    assert log.state() == QueryState(5, 4)
    log.add()
    log.delete(4)
    assert log.state() == QueryState(5, ANY, Doubt.GONE, ANY)


def test_commits_that_were_cleaned_are_no_restore(log: Log) -> None:
    """Only the RESTORE itself makes it certain; if it may be missing, none is advised."""
    log.batch()
    judged_at = log.newest
    log.add()
    restored = log.restore(judged_at)
    late = log.batch(judged_at=judged_at)
    log.delete(*range(restored))
    assert log.state() == QueryState(2, None, Doubt.MEANWHILE, late)
    log.delete(restored)
    state = QueryState(2, None, Doubt.GONE, late)
    assert log.state() == state
    said = str(in_doubt("Delta table t", "t", "q", state))
    assert "RESTORE" not in said
    assert 'on_first="accept"' in said
    made = str(in_doubt("Delta table t", "t", "q", QueryState(1, None, Doubt.MEANWHILE, 0)))
    assert "AS OF" not in made, "it is the first version of that table"


def test_rows_are_counted_by_delta() -> None:
    """Those written, or those inserted, updated and deleted; None where it has not counted."""
    counts = {"Inserted": "2", "Updated": "3", "Deleted": "1", "Copied": "100"}
    merged = {f"numTargetRows{name}": count for name, count in counts.items()}
    assert Commit.parse(0, lines("WRITE", operationMetrics={"numOutputRows": "5"})).rows == 5
    assert Commit.parse(0, lines("MERGE", operationMetrics=merged)).rows == 6
    assert Commit.parse(0, lines("WRITE")).rows is None


def test_a_commit_of_another_program_may_be_in_another_order() -> None:
    """Its information is searched for behind its files."""
    found = Commit.parse(0, reversed(lines("RESTORE", operationParameters={"version": "4"})))
    assert (found.restores, found.restored) == (True, 4)
