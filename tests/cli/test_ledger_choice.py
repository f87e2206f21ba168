"""Which ledgers of a store are taken for those of the query that is audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from eo_listener.audit.positions import CheckpointPositions
from eo_listener.cli.ledger_choice import LedgerChoice, claims
from eo_listener.model.ledger import AppliedBatch, Head, LedgerKey, StoredLedger, TakenBack
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import entry_of, heads_of

TP = TopicPartition("flights", 0)
BACK = TakenBack("version 7 restored the table", "RESTORE TABLE t TO VERSION AS OF 6")
HEADS = heads_of(entry_of({}, {TP: OffsetRange(0, 10)}))
CHECKPOINT = CheckpointPositions(
    label="c",
    query_id="that-has-moved-none",
    committed=0,
    planned=0,
    done={TP: 10},
    ahead={TP: 10},
    began={TP: 0},
)


def ledger(
    query: str, heads: Mapping[TopicPartition, Head] | None = None, back: TakenBack | None = None
) -> StoredLedger:
    return StoredLedger(
        key=LedgerKey("t", query), heads=heads or {}, moved_at={}, begun=0, taken_back=back
    )


@pytest.mark.parametrize(
    ("ledgers", "chosen"),
    [
        ([ledger("a", HEADS), ledger("begun")], {"a"}),
        ([ledger("begun")], set()),
        ([ledger("a", HEADS), ledger("b", back=BACK)], {"a"}),
        ([ledger("b", back=BACK), ledger("begun")], {"b"}),
        ([ledger("b", back=BACK), ledger("c", back=BACK)], set()),
    ],
)
def test_a_ledger_without_heads(ledgers: list[StoredLedger], chosen: set[str]) -> None:
    """May be the query's where its table was taken back, and no other one may be.

    One whose first batch was begun and not finished is not: it would count as lost what is there.
    """
    choice = LedgerChoice(None, None, CHECKPOINT)
    found = choice.chosen({one.key: one for one in ledgers})
    assert {key.query for key in found} == chosen


class Histories:
    """A reader of a table that several queries write to."""

    label = "table t"

    def __init__(self, **histories: Sequence[AppliedBatch]) -> None:
        self._histories = histories

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        found = {}
        for query, history in self._histories.items():
            found[LedgerKey("t", query)] = ledger(query, {TP: history[-1].head})
        return found

    def history(self, key: LedgerKey) -> Iterator[AppliedBatch]:
        return iter(self._histories[key.query])

    def row_origins(self, sink: str, columns: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        return iter(())

    def close(self) -> None: ...


class NewestOnly(Histories):
    """A reader of a table, which has the newest batches of its history alone."""

    def __init__(self, *history: AppliedBatch) -> None:
        super().__init__(a=history)

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        head = heads_of(entry_of({}, {TP: OffsetRange(60, 70)}))
        return {LedgerKey("t", "a"): replace(ledger("a", head), newest_only=True)}


def applied(
    start: int,
    until: int,
    verdict: str,
    gap: OffsetRange | None = None,
    topic_id: str | None = None,
) -> AppliedBatch:
    (head,) = heads_of(entry_of({}, {TP: OffsetRange(start, until)})).values()
    head = replace(head, topic_id=topic_id)
    return AppliedBatch(
        partition=TP, head=head, rows=1, verdict=verdict, gap=gap, applied_at="2026-11-23"
    )


@pytest.mark.parametrize(
    ("history", "start", "known_from"),
    [
        ([applied(5, 60, "first"), applied(60, 70, "next")], 5, 5),
        ([applied(50, 60, "next"), applied(60, 70, "next")], 0, 50),
        ([applied(60, 70, "gap accepted", OffsetRange(40, 60))], 0, 40),
        ([], 0, 60),  # the last batch itself has its range in the ledger
    ],
)
def test_what_a_table_must_have(history: list[AppliedBatch], start: int, known_from: int) -> None:
    """Since when that is known for certain is where the oldest batch of the history begins."""
    (claim,) = claims(NewestOnly(*history), "t").values()
    assert (claim.range, claim.known_from) == (OffsetRange(start, 70), known_from)


def test_two_queries_that_write_into_one_table() -> None:
    """Each has its own range; what one has given up was given up where the other has not it."""
    one = [applied(0, 10, "first"), applied(20, 30, "gap accepted", OffsetRange(10, 20))]
    other = [applied(15, 18, "first")]
    (claim,) = claims(Histories(a=one, b=other), "t").values()
    assert set(claim.ranges) == {OffsetRange(0, 30), OffsetRange(15, 18)}
    assert claim.gaps == (OffsetRange(10, 15), OffsetRange(18, 20))


@pytest.mark.parametrize("older", ["a", "b"])
def test_two_queries_of_which_one_has_an_older_topic(older: str) -> None:
    """The other one's history says which is the older one."""
    of_old = [applied(0, 50, "first", topic_id="A")]
    of_new = [applied(0, 9, "next", topic_id="A"), applied(0, 7, "first", topic_id="B")]
    newer = "b" if older == "a" else "a"
    (claim,) = claims(Histories(**{older: of_old, newer: of_new}), "t").values()
    assert (claim.topic_id, claim.ranges) == ("B", (OffsetRange(0, 7),))
    assert claim.older == {"A": OffsetRange(0, 50)}


@pytest.mark.parametrize("newer", ["a", "b"])
def test_two_queries_of_two_topics_whose_histories_do_not_say_which_is_older(newer: str) -> None:
    """Kafka says it: the rows of the topic that is there are looked for, and not the other's."""
    old, new = applied(0, 50, "first", topic_id="A"), applied(0, 7, "first", topic_id="B")
    histories = Histories(**{newer: [new], "ab".replace(newer, ""): [old]})
    (claim,) = claims(histories, "t", {TP.topic: "B"}).values()
    assert (claim.topic_id, claim.ranges) == ("B", (OffsetRange(0, 7),))
    assert claim.older == {"A": OffsetRange(0, 50)}


@pytest.mark.parametrize(
    ("batches", "committed", "chosen"),
    [
        ({"delays": 4, "copy": 9}, 4, "delays"),
        ({"delays": 5, "copy": 9}, 4, "delays"),  # in doubt
        ({"delays": 4, "copy": 9}, 9, "copy"),
        ({"old": 4, "renamed": 9}, 8, "renamed"),
        ({"delays": 4, "copy": 5}, 4, "copy"),  # nothing shows which; the newest, and it is said
        ({"delays": 2, "copy": 9}, 4, "copy"),
    ],
)
def test_a_query_on_a_copy_of_the_checkpoint(
    batches: Mapping[str, int], committed: int, chosen: str
) -> None:
    """Both have one query id; the ledger that stands where the checkpoint does is its own."""
    every = {}
    for query, batch in batches.items():
        heads = heads_of(entry_of({}, {TP: OffsetRange(0, 10)}, batch_id=batch))
        every[LedgerKey("t", query)] = ledger(query, heads)
    checkpoint = replace(CHECKPOINT, query_id="query-1", committed=committed)
    (found,) = LedgerChoice(None, None, checkpoint).chosen(every)
    assert found.query == chosen
