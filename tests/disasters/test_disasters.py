"""Disasters that were really made: `audit` names each, and what it prints repairs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.disasters.documented import audit_says, documented
from tests.disasters.pipeline import Pipeline
from tests.disasters.said import NOTHING, Verdict
from tests.disasters.stores import KafkaStore, Rows, SqliteStore, SqlStore
from tests.foreach_batch.conftest import LEFT_SOCKETS

pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]

SQL = ("sqlite", "postgres")
ALL = (*SQL, "kafka")

Strike = Callable[[Pipeline], "Rows | None"]


def topic_recreated(one: Pipeline) -> Rows:
    """With more records than the old one had, all of which are in the store."""
    before = one.records()
    one.topics.delete(one.topic)
    one.topics.create_as(one.topic, 2)
    one.fill(60)
    return before


def retention_past_the_query(one: Pipeline) -> Rows:
    """Three records of each partition are deleted unread."""
    held, before = one.ends(), one.records()
    one.fill()
    one.topics.forget_before(one.topic, {tp.partition: at + 3 for tp, at in held.items()})
    return before


def retention_past_the_group(one: Pipeline) -> Rows:
    """The query has read them, but it ran without its listener."""
    held = one.ends()
    one.work(listener=False)
    before = one.records()
    one.topics.forget_before(one.topic, {tp.partition: at + 3 for tp, at in held.items()})
    return before - one.records()


def two_drivers(one: Pipeline) -> None:
    """The second works on a copy of the checkpoint."""
    one.copy_checkpoint("second")
    one.fill()
    one.run(checkpoint="second")
    one.fill()


def two_queries_in_one_group(one: Pipeline) -> None:
    """Another query, with a store of its own."""
    one.fill()
    one.run(name="other", store=SqliteStore(one.folder / "other.db"), checkpoint="other")


def checkpoint_restored(one: Pipeline) -> None:
    """From an older copy, so that the ledger is ahead of it."""
    one.copy_checkpoint("old")
    one.work()
    one.put_back_checkpoint("old")
    one.fill()


def checkpoint_deleted(one: Pipeline) -> None:
    """With records to come."""
    one.delete_checkpoint()
    one.fill()


def store_restored(one: Pipeline) -> None:
    """From a copy, so that the ledger is behind the checkpoint."""
    one.store.back_up()
    one.work()
    one.store.restore()


def store_emptied(one: Pipeline) -> None:
    """Neither table nor ledger has anything."""
    assert isinstance(one.store, SqlStore)
    one.store.empty()


def file_lost(one: Pipeline) -> None:
    """And there is no copy."""
    assert isinstance(one.store, SqliteStore)
    one.store.path.unlink()


def ledger_restored_alone(one: Pipeline) -> None:
    """The target or the table has what the ledger no longer says."""
    assert isinstance(one.store, (KafkaStore, SqlStore))
    one.store.back_up()
    one.work()
    one.store.restore_ledger()
    one.fill()


def ledger_deleted(one: Pipeline) -> None:
    """The target has everything."""
    assert isinstance(one.store, KafkaStore)
    one.store.lose_ledger()
    one.fill()


def target_recreated(one: Pipeline) -> None:
    """And is empty, while the ledger says that it has everything."""
    assert isinstance(one.store, KafkaStore)
    one.store.lose_target()


def group_expired(one: Pipeline) -> None:
    """While the query was stopped."""
    one.delete_group()


@dataclass(frozen=True)
class Disaster:
    """What is done and what `audit` reports, each finding in the words of docs/how-to/audit.md."""

    strike: Strike  # returns rows that the store has, and the topic no longer
    rows: tuple[str, ...]  # how those of the page begin that say what is printed
    stores: tuple[str, ...] = ALL
    choice: int = 0  # which way is taken by somebody who has looked at the target
    code: int = 1
    verdict: Verdict = NOTHING  # what a database's history says for good; a topic has none
    part: int | None = None  # which of the page's words, if not all
    named: str = ""  # what else the first finding says

    @property
    def said(self) -> list[str]:
        """A part of what each finding says."""
        said = [words for row in self.rows for words in audit_says(row)]
        return said if self.part is None else [said[self.part]]


_TARGET_DELETED = "Kafka sink: its target was deleted"
_LEDGER_RESTORED = "Kafka sink: the ledger's topic alone"
MADE_BY_OTHER_TESTS = ("the log was cut back", "only the table was", "a transaction hangs")
_LOST, _COUNTED = Verdict(False, ("20 offsets",)), Verdict(True, ("6 records",))
_ACCEPTED = Verdict(True, ("20 records",))
DISASTERS = [
    Disaster(topic_recreated, ("the topic was deleted",), verdict=_LOST),
    Disaster(retention_past_the_query, ("retention deleted records",), verdict=_COUNTED),
    Disaster(retention_past_the_group, ("retention deleted the records at",)),
    Disaster(two_drivers, ("a second driver",)),
    Disaster(two_queries_in_one_group, ("another query",), named="query 'other'"),
    Disaster(checkpoint_restored, ("a second driver",)),
    Disaster(checkpoint_deleted, ("the checkpoint was",)),
    Disaster(store_restored, ("the database was restored",), SQL),
    Disaster(store_restored, (_TARGET_DELETED, _LEDGER_RESTORED), ("kafka",), choice=1),
    Disaster(store_emptied, ("the database was emptied",), SQL, part=0),
    Disaster(file_lost, ("the database was emptied",), ("sqlite",), code=3, part=1),
    Disaster(ledger_restored_alone, (_LEDGER_RESTORED,), ("kafka",)),
    Disaster(ledger_restored_alone, ("only the ledger was",), SQL, verdict=_ACCEPTED),
    Disaster(ledger_deleted, ("Kafka sink: its ledger's topic was deleted",), ("kafka",), code=3),
    Disaster(target_recreated, (_TARGET_DELETED,), ("kafka",)),
    Disaster(group_expired, ("the group has expired",)),
]


@pytest.mark.parametrize(
    ("disaster", "store"),
    [
        pytest.param(
            disaster,
            store,
            id=f"{disaster.strike.__name__}-{store}",
            marks=[pytest.mark.slow] if store == "postgres" else [],
        )
        for disaster in DISASTERS
        for store in disaster.stores
    ],
    indirect=["store"],
)
def test_a_disaster_is_named_and_repaired_by_what_is_printed(
    pipeline: Pipeline, disaster: Disaster
) -> None:
    """Before it all is well; after it the store has each record once, but what it destroyed."""
    in_topics = isinstance(pipeline.store, KafkaStore)
    rows = [] if in_topics else ["--rows"]
    pipeline.work()
    assert pipeline.audit(*rows).verdict == NOTHING
    older = disaster.strike(pipeline) or Counter()
    said = pipeline.audit(*rows)
    assert said.code == disaster.code, said.text
    found = [one for one in said.to_act_on if not one.what.startswith("rows of ")]
    assert len(found) == len(disaster.said), said.text
    assert all(words in one.what for words, one in zip(disaster.said, found, strict=True))
    assert disaster.named in found[0].what
    pipeline.repair(found[-1], disaster.choice)
    pipeline.go_on()
    after = pipeline.audit(*rows)
    # A ledger in a topic has no history but that of commands, which not every repair here is.
    verdicts = (NOTHING, disaster.verdict) if in_topics else (disaster.verdict,)
    assert after.code == 0, after
    assert after.verdict in verdicts, after
    expected = pipeline.records() + older
    assert (pipeline.store.rows() - expected, expected - pipeline.store.rows()) == ({}, {})


def test_the_document_has_each_of_them() -> None:
    """By the words of `audit`; and it has none that no test makes."""
    made = tuple(row for disaster in DISASTERS for row in disaster.rows) + MADE_BY_OTHER_TESTS
    assert all(disaster.said for disaster in DISASTERS)
    assert not [row for row in documented() if not row.startswith(made)]
