"""A ledger's history shows where it began, what was given up, and what does not fit."""

from __future__ import annotations

from eo_listener.audit.history import read_history
from eo_listener.model.ledger import AppliedBatch, Head
from eo_listener.model.offsets import OffsetRange, TopicPartition

TP = TopicPartition("t", 0)


def batch(
    start: int,
    until: int,
    number: int,
    *,
    verdict: str = "next",
    gap: tuple[int, int] | None = None,
    topic_id: str | None = "A",
    query: str = "q",
) -> AppliedBatch:
    return AppliedBatch(
        partition=TP,
        head=Head(
            range=OffsetRange(start, until),
            topic_id=topic_id,
            query_id=query,
            run_id="r",
            batch_id=number,
        ),
        rows=1,
        verdict=verdict,
        gap=None if gap is None else OffsetRange(*gap),
        applied_at="",
    )


def test_batches_that_follow_each_other() -> None:
    """Nothing is found but where it began."""
    found = read_history([batch(5, 9, 0, verdict="first"), batch(9, 12, 1), batch(12, 20, 7)], {})
    assert found.began == {TP: 5}
    assert (found.gaps, found.missing, found.repeated) == ({}, {}, {})


def test_what_was_pruned_counts_as_applied() -> None:
    """After the first batch, or one with a gap, others may have been deleted."""
    batches = [
        batch(0, 9, 0, verdict="first"),
        batch(50, 60, 8, verdict="gap accepted", gap=(45, 50)),
        batch(90, 95, 20),
    ]
    found = read_history(batches, {})
    assert found.gaps == {TP: [OffsetRange(45, 50)]}
    assert not found.missing


def test_what_was_not_pruned_is_missing() -> None:
    """After a batch that would be deleted first, and between two batches of one number and next."""
    found = read_history([batch(0, 9, 0, verdict="first"), batch(12, 20, 1)], {})
    assert found.missing == {TP: [OffsetRange(9, 12)]}
    found = read_history([batch(30, 40, 3), batch(45, 50, 9)], {})
    assert found.missing == {TP: [OffsetRange(40, 45)]}
    assert found.began == {}


def test_offsets_in_two_batches() -> None:
    """Are repeated as far as they are in both."""
    found = read_history([batch(0, 9, 0, verdict="first"), batch(5, 12, 1)], {})
    assert found.repeated == {TP: [OffsetRange(5, 9)]}
    inner = read_history([batch(0, 9, 0, verdict="first"), batch(2, 4, 1), batch(9, 12, 2)], {})
    assert inner.repeated == {TP: [OffsetRange(2, 4)]}
    assert not inner.missing


def test_an_older_topic_of_the_name_does_not_count() -> None:
    """By the id in the head; where ids are not known, all batches count."""
    batches = [
        batch(0, 90, 0, verdict="first", topic_id="OLD"),
        batch(0, 5, 7, verdict="first"),
        batch(5, 9, 8),
    ]
    head = batches[-1].head
    found = read_history(batches, {TP: head})
    assert (found.began, found.repeated) == ({TP: 0}, {})
    assert read_history(batches, {}).repeated


def test_what_an_older_topic_had() -> None:
    """From its first batch to its last; without an end where the last may have been pruned."""
    first = batch(3, 9, 0, verdict="first", topic_id="OLD")
    gap = batch(40, 44, 6, verdict="gap accepted", gap=(30, 40), topic_id="OLD")
    newest = batch(60, 70, 7, topic_id="OLD")
    now = batch(0, 5, 8, verdict="first")
    whole = read_history([now, first, gap, newest], {TP: now.head})
    assert whole.older[TP]["OLD"].range == OffsetRange(3, 70)
    pruned = read_history([now, first, gap], {TP: now.head})
    assert pruned.older[TP]["OLD"].range.start == 3
    assert pruned.older[TP]["OLD"].range.until > 10**18
    assert not whole.gaps
    assert not read_history([now], {TP: now.head}).older


def test_what_was_pruned_after_a_rename_counts_as_applied() -> None:
    """The row of a rename is kept for ever, and the batches after it are not."""
    batches = [
        batch(0, 9, 0, verdict="first"),
        batch(50, 50, 8, verdict="renamed from delays, query old"),
        batch(90, 95, 20),
    ]
    assert not read_history(batches, {}).missing


def test_a_ledger_that_began_in_mid_stream() -> None:
    """What was skipped is a gap, and its beginning that of the ledger."""
    found = read_history([batch(40, 50, 9, verdict="gap accepted", gap=(0, 40))], {})
    assert found.began == {TP: 0}
    assert found.gaps == {TP: [OffsetRange(0, 40)]}


def test_a_history_of_the_newest_batches_begins_anywhere() -> None:
    """A gap in its oldest one is no beginning; only a first batch is."""
    gap = batch(40, 50, 9, verdict="gap accepted", gap=(30, 40))
    found = read_history([gap, batch(50, 60, 10)], {}, newest=True)
    assert (found.began, found.known) == ({}, {TP: 30})
    assert found.gaps == {TP: [OffsetRange(30, 40)]}
    found = read_history([batch(5, 9, 0, verdict="first")], {}, newest=True)
    assert found.began == found.known == {TP: 5}
