"""What a repair writes into the ledger's topic: the records of a rename, or of one gap. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from eo_listener.model.ledger import GAP_ACCEPTED, Entry, Head, LedgerKey
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.kafka.batch_records import BatchKey
from eo_listener.sinks.kafka.ledger import (
    PER_RECORD,
    LedgerRecords,
    encode_heads,
    records_of_heads,
)
from eo_listener.sinks.kafka.repair_records import RepairKey, RepairRecord
from eo_listener.sinks.ledger_repair import Rename


class Written(NamedTuple):
    """A record of `owner` for a partition of the ledger's topic; without a value it is deleted."""

    owner: LedgerKey
    partition: int
    key: bytes
    value: bytes | None


class Repair(NamedTuple):
    """An id that no other repair has, and when it is made; `partitions` are those of the topic."""

    id: str
    at: str
    partitions: int


def renamed(records: LedgerRecords, rename: Rename, repair: Repair) -> Iterator[Written]:
    """Yield all records of a ledger under its new name, and the end of those under the old one.

    Rows without transactions carry who has written them, which the name is a part of: so how many
    of the offsets behind the ends of a batch are its rows is not said any more.
    """
    old, new = rename.old, rename.new
    there = records.partition(*new, repair.partitions)
    carried: dict[bytes, tuple[bytes, bytes]] = {}
    for key, stored in records.records.items():
        if key[:2] == old:
            value = encode_heads(stored.heads, stored.targets)
            carried[key.encode()] = key._replace(**new._asdict()).encode(), value
    for run in records.batch_keys(*old):
        value = replace(records.batches[run].batch, rows=None).encode()
        carried[run.encode()] = run._replace(**new._asdict()).encode(), value
    for earlier, kept in records.repairs.items():
        if earlier[:2] == old:
            value = kept.repair.encode()
            carried[earlier.encode()] = earlier._replace(**new._asdict()).encode(), value
    here = records.partition(*old, repair.partitions)
    for before, (after, value) in carried.items():
        yield Written(old, here, before, None)
        yield Written(new, there, after, value)
    parts: defaultdict[tuple[str, int], dict[TopicPartition, Head]] = defaultdict(dict)
    for tp, head in rename.heads.items():
        parts[tp.topic, tp.partition // PER_RECORD][tp] = head
    for number, ((topic, _), heads) in enumerate(sorted(parts.items())):
        record = RepairRecord(
            topic=topic,
            heads=heads,
            run_id=repair.id,
            verdict=rename.verdict,
            gap=None,
            at=repair.at,
        )
        name = RepairKey(*new, f"{repair.id}/{number}")
        yield Written(new, there, name.encode(), record.encode())


def accepted(records: LedgerRecords, sink: str, entry: Entry, repair: Repair) -> Iterator[Written]:
    """Yield what moves the one head of `entry` over its gap."""
    owner = LedgerKey(sink, entry.query)
    here = records.partition(*owner, repair.partitions)
    batch = records.batch(*owner)
    ((tp, move),) = entry.moves.items()
    heads = {tp: entry.head(tp)}
    written = records.written_heads(*owner)
    for record in records_of_heads(*owner, heads, written, records.targets(*owner)):
        yield Written(owner, here, record.key, record.value)
    if batch is not None and tp in batch.moves:  # which counts before the record of heads
        left = {other: one for other, one in batch.moves.items() if other != tp}
        key = BatchKey(*owner, batch.run_id)
        yield Written(owner, here, key.encode(), replace(batch, moves=left).encode())
    kept = RepairRecord(
        topic=tp.topic,
        heads={} if move.found is None else {tp: move.found},
        run_id=entry.run_id,
        verdict=GAP_ACCEPTED,
        gap=move.gap,
        at=repair.at,
    )
    yield Written(owner, here, RepairKey(*owner, repair.id).encode(), kept.encode())
