"""The last batches of a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eo_listener.audit.positions import LedgerPositions
from eo_listener.cli.serve.last_batches import last_batches
from eo_listener.model.ledger import UNKNOWN_TIME, AppliedBatch, Head, LedgerKey
from eo_listener.model.offsets import OffsetRange, TopicPartition

HEAD = Head(range=OffsetRange(0, 10), topic_id=None, query_id="q", run_id="r", batch_id=0)
TPS = [TopicPartition("flights", number) for number in range(2)]


def history(batches: int, *, run: str = "r", hour: int = 12) -> Iterator[AppliedBatch]:
    """Each partition's in the order of offsets, 10 a batch."""
    for tp in TPS:
        for batch in range(batches):
            gap = OffsetRange(batch * 10, batch * 10 + 3) if batch == 2 else None
            applied = OffsetRange(batch * 10, batch * 10 + 10)
            head = replace(HEAD, range=applied, batch_id=batch, run_id=run)
            at = f"2026-11-23 {hour:02}:00:{batch:02}"
            yield AppliedBatch(
                partition=tp, head=head, rows=17, verdict="next", gap=gap, applied_at=at
            )


def positions(**others: object) -> LedgerPositions:
    heads = {tp: replace(HEAD, batch_id=number + 4) for number, tp in enumerate(TPS)}
    return LedgerPositions(
        store="SQLite file",
        key=LedgerKey("delays", "flights"),
        heads=heads,
        **others,  # type: ignore[arg-type]  # its own fields
    )


def test_a_batch_is_added_up_over_its_partitions() -> None:
    """The newest first; `rows` are those of the whole batch, and count once."""
    found = last_batches(positions(), history(4), count=3)
    assert [one.batch_id for one in found.batches] == [3, 2, 1]
    newest, with_gap, _ = found.batches
    assert (newest.partitions, newest.offsets, newest.rows, newest.gaps) == (2, 20, 17, 0)
    assert with_gap.gaps == 6
    assert newest.applied_at == "2026-11-23 12:00:03"


def test_a_new_checkpoint_counts_from_zero() -> None:
    """Its batches are newer, by their time, than higher numbers of the one before."""
    both = [*history(9), *history(2, run="s", hour=13)]
    found = last_batches(positions(), both, count=3)
    assert [(one.batch_id, one.run_id) for one in found.batches] == [(1, "s"), (0, "s"), (8, "r")]


def test_a_ledger_without_a_history_has_its_heads() -> None:
    """As Kafka's: the last batch of each partition."""
    found = last_batches(positions(begun=6), [])
    assert [(one.batch_id, one.rows) for one in found.batches] == [(5, None), (4, None)]
    assert found.document()["begun"] == 6


def test_repairs_of_a_topic_are_no_batches() -> None:
    """Its ledger remembers what they have found, and not the batches in between."""
    found = [replace(one, rows=None, applied_at=UNKNOWN_TIME) for one in history(2)]
    assert [one.batch_id for one in last_batches(positions(), found).batches] == [5, 4]
