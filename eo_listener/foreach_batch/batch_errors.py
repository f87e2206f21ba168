"""What can be wrong with a batch, and the words for it: what happened, why, what to type. Pure."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from enum import Enum

from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.errors import (
    GapError,
    GuardError,
    NewCheckpointError,
    NotInLedgerError,
    OverlapError,
    PartialReplayError,
    PartitionVanishedError,
    RegressionError,
    TopicRecreatedError,
)
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.planned_batch import PlannedBatch

_SHOWN = 5  # partitions named in an error

_FROM_LEDGER = (
    'Start again from the ledger: .option("startingOffsets", starting_offsets(ledger=sink, '
    'query={name}, bootstrap_servers="...")) on the source, and a new checkpointLocation'
)
_STATE = (
    ". Warning: the query has state (windows, counts, joins), and a new checkpoint starts without "
    "it, so what is still open there is lost. If you have the newest checkpoint, start from that "
    "instead"
)
_WITH_NEW_CHECKPOINT = (
    "from the ledger with a new checkpointLocation (all other topics continue from their heads): "
    '.option("startingOffsets", starting_offsets(ledger=sink, query={name}, '
    'bootstrap_servers="...", recreated="earliest")) on the source, and '
    'exactly_once(sink, on_recreated="restart")'
)
_WITH_ITS_CHECKPOINT = (
    "Start with the newest checkpoint of the query. If that is lost, nothing shows what of the "
    "sources that are not Kafka is in the sink already: take a new checkpointLocation, let these "
    "sources begin after that (or empty the table), and confirm it as the next error says: "
    'exactly_once(sink, new_checkpoint="...")'
)
_BESIDE_KAFKA = (
    ". The query has sources that are not Kafka, too: a new checkpoint reads these from their own "
    "beginning, and must be confirmed as the next error says"
)
_REPAIRABLE = (
    "(LEDGER is sqlite:FILE, postgresql://user@host/database, kafka:TOPIC, iceberg:TABLE or "
    "delta:TABLE)"
)
_ALONE = "read that topic in a separate query, with a name and a table of its own"


@dataclass(frozen=True, slots=True)
class _Words:
    """The error of a kind, and its text; `{name}` is the query's name, `{old}` a former one.

    `{consent}` confirms its checkpoint; `{table}` and `{old_table}` are the keys of the sink and of
    a former one, `{query_text}` and `{old_text}` the names, as a shell takes them. `{partition}`
    and `{gap}` are the first of those that have the error.
    """

    error: type[GuardError]
    what: str
    cause: str
    fix: str


class BatchErrorKind(Enum):
    """What can be wrong, the gravest first; those of one error follow each other."""

    RECREATED = _Words(
        TopicRecreatedError,
        "the topic was deleted and recreated since the sink got its last rows",
        "the same offsets now belong to other records, and Spark does not notice it",
        f"To read the new topic from its beginning, start {_WITH_NEW_CHECKPOINT}",
    )
    OTHER_CHECKPOINT = _Words(
        NewCheckpointError,
        "the sink has batches of another checkpoint",
        "the checkpoint was deleted or replaced, or another query has this name. Of sources that "
        "are not Kafka only the batches of one checkpoint are known, so nothing shows which of "
        "these records the sink has already",
        "Start with the old checkpoint. If that is lost, let the sources that are not Kafka begin "
        "after what is in the sink (or empty the table), and confirm that this checkpoint follows "
        "its last batch: exactly_once(sink, new_checkpoint={consent}). If it is another query, "
        'give it a name of its own: exactly_once(..., name="...")',
    )
    VANISHED = _Words(
        PartitionVanishedError,
        "partitions that the sink has rows of are no longer read",
        "the topic was recreated with fewer partitions, or the source's option assign names fewer",
        "Read them again (option assign). To read a recreated topic from its beginning, start "
        + _WITH_NEW_CHECKPOINT,
    )
    NOTHING_LEFT = _Words(
        PartitionVanishedError,
        "it reads no partition any more, so rows from the query's state could not be "
        "recorded as applied",
        "all topics of the query were deleted, and failOnDataLoss=false lets Spark go on",
        "Create the topics again, or stop the query: what is open in its state was not written",
    )
    GONE = _Words(
        PartitionVanishedError,
        "Kafka no longer has partitions that it reads",
        "the topic was deleted after Spark planned the batch, and failOnDataLoss=false hides that "
        "its records cannot be read",
        "Find out what happened to the topic, and restart the query when it is there. To read a "
        f"recreated topic from its beginning, start {_WITH_NEW_CHECKPOINT}",
    )
    BEHIND = _Words(
        RegressionError,
        "it goes back to offsets that the sink already has",
        "the checkpoint is older than the sink (restored, or a new one that starts at the "
        "earliest offset), or another query has this name",
        _FROM_LEDGER,
    )
    BACKWARD = _Words(
        RegressionError,
        "it ends before it starts",
        "the topic was recreated or truncated, and failOnDataLoss=false lets Spark go on",
        "Find out what happened to the topic. Records written since then below the first of these "
        f"offsets are not in the sink; to get them, {_ALONE}",
    )
    CUT_BACK = _Words(
        RegressionError,
        "it reaches beyond the end of the log",
        "the log was truncated: records were lost in an unclean leader election",
        "Find out what happened to the topic, and restart the query when its log is complete "
        "again. Otherwise: " + _FROM_LEDGER,
    )
    OLDER = _Words(
        RegressionError,
        "it has no new offsets, and a lower batch number than the sink has",
        "the checkpoint is older than the sink: it was restored from a copy",
        _FROM_LEDGER,
    )
    BATCH_BEHIND = _Words(
        RegressionError,
        "it goes back to batches that the sink already has",
        "the checkpoint is older than the sink: it was restored from a copy",
        _WITH_ITS_CHECKPOINT,
    )
    APPLIED = _Words(
        OverlapError,
        "another query, or an older checkpoint of this one, has applied it under this name",
        "two queries share one name, or the checkpoint was deleted and the query started from an "
        "old position",
        'Two queries: give each a name of its own, exactly_once(..., name="..."). One query: '
        + _FROM_LEDGER,
    )
    OVERLAP = _Words(
        OverlapError,
        "the sink already has a part of it, but not all",
        "the checkpoint lost its newest offsets/N and Spark planned that batch again with another "
        "end, or another query has this name",
        _FROM_LEDGER,
    )
    REPLANNED = _Words(
        OverlapError,
        "the sink has a batch of this number that was planned at another time",
        "the checkpoint lost its newest offsets/N, or a copy of it was started beside it, and "
        "Spark planned the batch again, perhaps with other records",
        _WITH_ITS_CHECKPOINT,
    )
    UNDER_OLD_NAME = _Words(
        NotInLedgerError,
        "the sink has it already, under another name in the ledger",
        "the query was renamed when its last batch was in the sink, and not yet in the commits of "
        "the checkpoint; under the new name its rows would be written a second time",
        "Carry the ledger over to the new name: eo-listener ledger rename LEDGER --sink {table} "
        "--query {old_text} --to-query {query_text} --execute " + _REPAIRABLE + ". "
        "Or start it under the old name, exactly_once(..., name={old}); when it has written its "
        'next batch, the name can be changed: exactly_once(..., on_first="accept"). If the old '
        "name belongs to another exactly_once(...) of the same function, call that one first",
    )
    IN_OLD_TABLE = _Words(
        NotInLedgerError,
        "another table of the store has it already, by this query",
        "the sink's table= or schema= was changed when the query's last batch was in the old "
        "table, and not yet in the commits of the checkpoint; if the table itself was renamed, its "
        "rows would be written a second time",
        "If the table itself was renamed (ALTER TABLE), carry its ledger over: eo-listener ledger "
        "rename LEDGER --sink {old_table} --query {old_text} --to-sink {table} --execute "
        + _REPAIRABLE
        + "; and keep the name, exactly_once(..., name={old}). If it is "
        "another table, start the query once with the old one, or with both. When that batch is "
        'committed, the table can be changed: exactly_once(..., on_first="accept"). If the old '
        "table belongs to another exactly_once(...) of the same function, call that one first",
    )
    RENAMED = _Words(
        NotInLedgerError,
        "the ledger has the query under another name",
        "queryName or name= was changed, or the sink's table= or schema=",
        "To go on as before, give the old name and the old table again, exactly_once(..., "
        "name={old}), or carry the ledger over: eo-listener ledger rename LEDGER --sink "
        "{old_table} --query {old_text} --to-sink {table} --to-query {query_text} --execute "
        + _REPAIRABLE
        + ". To begin at this batch under the new name, and have "
        "recorded that the offsets before it are not under it: "
        'exactly_once(..., on_first="accept")',
    )
    UNKNOWN = _Words(
        NotInLedgerError,
        "earlier batches of the query have read these partitions, and the ledger does not have "
        "them",
        "the store was emptied or restored from a copy, or the query's rows in eo_ledger were "
        "deleted; or the sink is new to a query that has run without it; or the function did not "
        "call exactly_once(...) for batches of which a filter left no rows",
        "If the store has lost rows, restore it, or fill it again. " + _FROM_LEDGER + ". If the "
        "sink is new to the query, or those batches had no rows: "
        'exactly_once(..., on_first="accept") begins at this batch, and records that the offsets '
        "before it are not in the ledger",
    )
    UNCOUNTED = _Words(
        NotInLedgerError,
        "earlier batches of the query have read sources that are not Kafka, and the ledger does "
        "not have them",
        "the store was emptied or restored from a copy, or the query's rows in eo_ledger were "
        "deleted; or the sink is new to a query that has run without it; or the function did not "
        "call exactly_once(...) for batches without rows",
        "If the store has lost rows, restore it, or fill it again: with a new checkpointLocation "
        "and an empty table all is read once more. If the sink is new to the query, or those "
        'batches had no rows: exactly_once(..., on_first="accept") begins at this batch, and '
        "records that those before it are not in the ledger",
    )
    GAP = _Words(
        GapError,
        "offsets before it are not in the sink",
        "the checkpoint is ahead of the sink: the sink was restored from a copy, or a new "
        "checkpoint starts at the latest offset",
        _FROM_LEDGER + ". To go on without these records, and have the gap recorded, accept each: "
        "eo-listener ledger accept LEDGER --query {query_text} --partition {partition} --gap {gap} "
        "--execute " + _REPAIRABLE + "; or every gap to come: "
        'exactly_once(..., on_gap="accept")',
    )
    LOST = _Words(
        GapError,
        "Kafka deleted records of it before they could be read",
        "the topic's retention is shorter than the query's delay, and failOnDataLoss=false hides "
        "the loss",
        "Raise retention.ms of the topic, or make the query faster. To go on without these "
        'records, and have the gap recorded: exactly_once(..., on_gap="accept")',
    )
    BATCH_GAP = _Words(
        GapError,
        "batches before it are not in the sink",
        "the checkpoint is ahead of the sink: the sink was restored from a copy; or the function "
        "did not call exactly_once(...) for each batch",
        "Restore the sink, or start with a copy of the checkpoint that is as old as the sink. To "
        "go on without these batches, and have the gap recorded: "
        'exactly_once(..., on_gap="accept")',
    )
    MIXED = _Words(
        PartialReplayError,
        "the sink already has these partitions of it, but not the others",
        "the checkpoint lost its newest offsets/N and Spark planned that batch again, or another "
        "query has this name",
        _FROM_LEDGER,
    )


class BatchErrors:
    """All that is wrong with one batch."""

    def __init__(self) -> None:
        self._found: dict[BatchErrorKind, dict[TopicPartition, tuple[OffsetRange, str]]] = {}
        self._ours = ""  # the sink's key
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
        self._ours, self._old = sink, key
        self.add(kind, tp, head.range, f"batch {head.batch_id} of {key.query!r}{where}")

    def name_checkpoint(self, plan: PlannedBatch, head: Head, consent: str) -> None:
        """Add a checkpoint that follows another one, of which the sink has `head`."""
        self._consent = consent
        note = f"of query id {plan.query_id}, the sink has {head.range} of {head.query_id}"
        self.add(BatchErrorKind.OTHER_CHECKPOINT, BATCHES, plan.count, note)

    def raise_gravest(self, plan: PlannedBatch, *, name: str, sink: str) -> None:
        """Raise the gravest error, for all partitions that have it; nothing where all is well."""
        kind = next((kind for kind in BatchErrorKind if kind in self._found), None)
        if kind is None:
            return
        words = kind.value
        same = (other for other in BatchErrorKind if other.value.error is words.error)
        found = {tp: one for other in same for tp, one in self._found.get(other, {}).items()}
        loses = _STATE if plan.stateful and "checkpointLocation" in words.fix else ""
        if plan.counted is not None and "startingOffsets" in words.fix:
            loses = _BESIDE_KAFKA + loses
        tp, (first, _) = min(self._found[kind].items())
        raise words.error(
            f"batch {plan.batch_id} of query {name!r} was not written to {sink}: {words.what}: "
            f"{_few(found)}",
            ranges={tp: offset_range for tp, (offset_range, _) in found.items()},
            cause=words.cause,
            fix=words.fix.format(
                name=_literal(name),
                consent=_literal(self._consent),
                old=_literal(self._old.query),
                query_text=shlex.quote(name),
                old_text=shlex.quote(self._old.query),
                partition=tp,
                gap=first,
                table=shlex.quote(self._ours),
                old_table=shlex.quote(self._old.sink),
            )
            + loses,
        )


def _literal(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _few(found: dict[TopicPartition, tuple[OffsetRange, str]]) -> str:
    """Name the first few, and how many there are."""
    named = [
        f"{tp} {offset_range}" + (f" ({note})" if note else "")
        for tp, (offset_range, note) in sorted(found.items())[:_SHOWN]
    ]
    more = f" and {len(found) - _SHOWN} more partitions" if len(found) > _SHOWN else ""
    return ", ".join(named) + more
