"""Collects the errors of a batch, and raises the gravest. No I/O."""

from __future__ import annotations

from typing import NamedTuple

from eo_listener.batch_guard.error_kinds import BESIDE_KAFKA, MOVE_BACK, STATE, BatchErrorKind
from eo_listener.errors import few
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.ledger_place import LedgerPlace, literal
from eo_listener.model.planned_batch import BATCHES, PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition

_AT_ONCE = "--execute"


class SinkLedger(NamedTuple):
    """The key of a sink in its ledger, and the ledger's place, or None if no command finds it.

    If `at_once` is False, the commands in the texts are dry runs.
    """

    key: str
    place: LedgerPlace | None
    at_once: bool = True


def not_written(plan: PlannedBatch, *, name: str, sink: str) -> str:
    """Return the beginning of the text of each error."""
    return f"batch {plan.batch_id} of query {name!r} was not written to {sink}: "


class BatchErrors:
    """The errors of one batch, by kind and partition."""

    def __init__(self) -> None:
        self._errors: dict[BatchErrorKind, dict[TopicPartition, tuple[OffsetRange, str]]] = {}
        self._old = LedgerKey("...", "...")  # another name, which has the missing head
        self._consent = "..."  # confirms a new checkpoint

    def add(
        self, kind: BatchErrorKind, tp: TopicPartition, offset_range: OffsetRange, note: str = ""
    ) -> None:
        """Add an error of `kind` for a partition, with the offsets in question."""
        self._errors.setdefault(kind, {})[tp] = (offset_range, note)

    def name_old(
        self, kind: BatchErrorKind, tp: TopicPartition, key: LedgerKey, head: Head, sink: str
    ) -> None:
        """Add an error for a partition whose head is in the ledger of `sink` under another key."""
        where = "" if key.sink == sink else f" of {key.sink}"
        self._old = key
        self.add(kind, tp, head.range, f"batch {head.batch_id} of {key.query!r}{where}")

    def name_checkpoint(self, plan: PlannedBatch, head: Head, consent: str) -> None:
        """Add an error for a new checkpoint; the sink has `head` from an earlier checkpoint."""
        self._consent = consent
        note = f"of query id {plan.query_id}; the sink has {head.range} of {head.query_id}"
        self.add(BatchErrorKind.OTHER_CHECKPOINT, BATCHES, plan.count, note)

    def raise_gravest(
        self, plan: PlannedBatch, *, name: str, sink: str, ledger: SinkLedger | None = None
    ) -> None:
        """Raise the gravest error, with all its partitions, if there is an error."""
        kind = next((kind for kind in BatchErrorKind if kind in self._errors), None)
        if kind is None:
            return
        place = None if ledger is None else ledger.place
        error = kind.value.error
        text = kind.value.text(apart=place is not None and place.is_apart)
        reported: dict[TopicPartition, tuple[OffsetRange, str]] = {}
        for same_error in (kind for kind in BatchErrorKind if kind.value.error is error):
            reported |= self._errors.get(same_error, {})
        loses = STATE if plan.stateful and "checkpointLocation" in text.fix else ""
        if plan.counted is not None and "startingOffsets" in text.fix:
            loses = BESIDE_KAFKA + loses
        tp, (first, _) = min(self._errors[kind].items())
        rename = move = accept = back = ""
        if ledger is not None and place is not None:
            key = LedgerKey(ledger.key, name)
            execute = (_AT_ONCE,) if ledger.at_once else ()
            moved = key._replace(query=self._old.query)
            rename = f": {place.rename(self._old, key, *execute)}"
            move = f": {place.rename(self._old, moved, *execute)}"
            accept = f"each: {place.accept(key, tp, first, *execute)}; or "
            if place.schema is not None and _schema(self._old.sink) != _schema(ledger.key):
                back = MOVE_BACK
        fix = text.fix.format(
            name=literal(name),
            consent=literal(self._consent),
            old=literal(self._old.query),
            rename=rename,
            move=move,
            accept=accept,
            back=back,
        )
        named = [
            f"{tp} {offset_range}" + (f" ({note})" if note else "")
            for tp, (offset_range, note) in sorted(reported.items())
        ]
        raise error(
            f"{not_written(plan, name=name, sink=sink)}{text.problem}: {few(named)}",
            ranges={tp: offset_range for tp, (offset_range, _) in reported.items()},
            cause=text.cause,
            fix=fix + loses,
        )


def _schema(sink: str) -> str:
    """Return the schema in the key of a sink in PostgreSQL."""
    return sink.partition(".")[0]
