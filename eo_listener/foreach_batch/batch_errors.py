"""All that is wrong with a batch, collected, and raised as the gravest of it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from eo_listener.foreach_batch.batch_error_kinds import BESIDE_KAFKA, STATE, BatchErrorKind
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.ledger_place import LedgerPlace, literal
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition

_SHOWN = 5  # partitions named in an error
_AT_ONCE = "--execute"


class SinkLedger(NamedTuple):
    """The key of a sink in its ledger, and the place at which a command finds it; None if no
    command does.
    """

    key: str
    place: LedgerPlace | None


class BatchErrors:
    """All that is wrong with one batch."""

    def __init__(self) -> None:
        self._found: dict[BatchErrorKind, dict[TopicPartition, tuple[OffsetRange, str]]] = {}
        self._old = LedgerKey("...", "...")  # where another name has what is missing
        self._consent = "..."  # to a new checkpoint

    def add(
        self, kind: BatchErrorKind, tp: TopicPartition, offset_range: OffsetRange, note: str = ""
    ) -> None:
        """Add a partition, with the offsets in question."""
        self._found.setdefault(kind, {})[tp] = (offset_range, note)

    def name_old(
        self, kind: BatchErrorKind, tp: TopicPartition, key: LedgerKey, head: Head, sink: str
    ) -> None:
        """Add a partition of which the ledger of `sink` has a head under another key."""
        where = "" if key.sink == sink else f" of {key.sink}"
        self._old = key
        self.add(kind, tp, head.range, f"batch {head.batch_id} of {key.query!r}{where}")

    def name_checkpoint(self, plan: PlannedBatch, head: Head, consent: str) -> None:
        """Add a checkpoint that follows another one, of which the sink has `head`."""
        self._consent = consent
        note = f"of query id {plan.query_id}; the sink has {head.range} of {head.query_id}"
        self.add(BatchErrorKind.OTHER_CHECKPOINT, BATCHES, plan.count, note)

    def raise_gravest(
        self, plan: PlannedBatch, *, name: str, sink: str, ledger: SinkLedger | None = None
    ) -> None:
        """Raise the gravest error, for all partitions that have it; nothing where all is well."""
        kind = next((kind for kind in BatchErrorKind if kind in self._found), None)
        if kind is None:
            return
        place = None if ledger is None else ledger.place
        error = kind.value.error
        words = kind.value.words(apart=place is not None and place.is_apart)
        same = (other for other in BatchErrorKind if other.value.error is error)
        found = {tp: one for other in same for tp, one in self._found.get(other, {}).items()}
        loses = STATE if plan.stateful and "checkpointLocation" in words.fix else ""
        if plan.counted is not None and "startingOffsets" in words.fix:
            loses = BESIDE_KAFKA + loses
        tp, (first, _) = min(self._found[kind].items())
        rename = move = accept = ""
        if ledger is not None and place is not None:
            ours = LedgerKey(ledger.key, name)
            rename = f": {place.rename(self._old, ours, _AT_ONCE)}"
            moved = ours._replace(query=self._old.query)
            move = f": {place.rename(self._old, moved, _AT_ONCE)}"
            accept = f"each: {place.accept(ours, tp, first, _AT_ONCE)}; or "
        raise error(
            f"batch {plan.batch_id} of query {name!r} was not written to {sink}: {words.what}: "
            f"{_few(found)}",
            ranges={tp: offset_range for tp, (offset_range, _) in found.items()},
            cause=words.cause,
            fix=words.fix.format(
                name=literal(name),
                consent=literal(self._consent),
                old=literal(self._old.query),
                rename=rename,
                move=move,
                accept=accept,
            )
            + loses,
        )


def _few(found: dict[TopicPartition, tuple[OffsetRange, str]]) -> str:
    """Name the first few, and how many there are."""
    named = [
        f"{tp} {offset_range}" + (f" ({note})" if note else "")
        for tp, (offset_range, note) in sorted(found.items())[:_SHOWN]
    ]
    more = f" and {len(found) - _SHOWN} more partitions" if len(found) > _SHOWN else ""
    return ", ".join(named) + more
