"""The last batches that a ledger has, of all partitions together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from eo_listener.audit.positions import LedgerPositions
from eo_listener.model.ledger import UNKNOWN_TIME, AppliedBatch

BATCHES_SHOWN: Final = 5


@dataclass(slots=True, kw_only=True)
class WholeBatch:
    """The moves of one batch, as in the JSON; None is unknown without a history."""

    batch: int
    run: str
    partitions: int = 0
    offsets: int = 0
    rows: int | None = None
    gap_offsets: int | None = None
    applied_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatches:
    """The last batches of one sink and query, as in the JSON, the newest first.

    `begun` is a batch that is not finished.
    """

    store: str
    sink: str
    query: str
    begun: int | None
    batches: tuple[WholeBatch, ...]


def last_batches(
    ledger: LedgerPositions, history: Iterable[AppliedBatch], count: int = BATCHES_SHOWN
) -> LastBatches:
    """Take the batches from the history, or, if it has none, from the heads, which have each
    partition's last batch.

    A history is pruned by its sink, so it has some thousand entries at most. That of a topic has
    what repairs have found, and no time of it.
    """
    entries = list(history)
    if any(entry.applied_at == UNKNOWN_TIME for entry in entries):
        entries = []
    batches = _newest(_applied(entries), count) or _newest(_heads(ledger), count)
    return LastBatches(
        store=ledger.store,
        sink=ledger.key.sink,
        query=ledger.key.query,
        begun=ledger.begun,
        batches=tuple(batches),
    )


def _applied(history: Iterable[AppliedBatch]) -> Iterator[WholeBatch]:
    for entry in history:
        yield WholeBatch(
            batch=entry.head.batch_id,
            run=entry.head.run_id,
            partitions=1,
            offsets=entry.head.range.until - entry.head.range.start,
            rows=entry.rows,
            gap_offsets=0 if entry.gap is None else entry.gap.until - entry.gap.start,
            applied_at=entry.applied_at,
        )


def _heads(ledger: LedgerPositions) -> Iterator[WholeBatch]:
    for head in ledger.heads.values():
        yield WholeBatch(
            batch=head.batch_id,
            run=head.run_id,
            partitions=1,
            offsets=head.range.until - head.range.start,
        )


def _newest(parts: Iterable[WholeBatch], count: int) -> list[WholeBatch]:
    """The parts of a batch added up; by time, as a new checkpoint counts its batches from 0."""
    batches: dict[tuple[int, str], WholeBatch] = {}
    for part in parts:
        key = (part.batch, part.run)
        if key in batches:
            _add(batches[key], part)
        else:
            batches[key] = part
    ordered = sorted(batches.values(), key=lambda batch: (batch.applied_at or "", batch.batch))
    return ordered[-count:][::-1]


def _add(batch: WholeBatch, part: WholeBatch) -> None:
    batch.partitions += 1
    batch.offsets += part.offsets
    if batch.gap_offsets is not None and part.gap_offsets is not None:
        batch.gap_offsets += part.gap_offsets
    if part.applied_at is not None:
        batch.applied_at = max(part.applied_at, batch.applied_at or "")
