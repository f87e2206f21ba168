"""Reads an origin: the offsets of a sink's ledger or of another query's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eo_listener.errors import SettingsError
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.model.ledger import Head
from eo_listener.model.planned_batch import BATCHES
from eo_listener.model.protocols import Sink
from eo_listener.offsets import TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.errors import CheckpointError, FileFinding, FileFindingKind
from eo_listener.spark.checkpoint.location import has_scheme, shown
from eo_listener.spark.checkpoint.log_files import BatchOffsets


def ledger_origin(ledger: Sink | Sequence[Sink], query: str | None) -> Origin:
    """Return the offsets up to which a query's records were applied, from the heads of its sinks.

    The function ignores sources other than Kafka. Raises SinkError if a store cannot be read.
    Raises SettingsError if a store has no heads of the query, or no Kafka offsets, or if the
    offsets of several sinks differ, because no start would fit all sinks.
    """
    sinks = list(ledger) if isinstance(ledger, Sequence) else [ledger]
    if not query or not sinks:
        raise SettingsError(
            "a ledger is kept for each sink and query name: one of them is missing",
            fix="Give ledger=sink and query='the name passed to exactly_once, or the queryName'",
        )
    origin = _sink_origin(sinks[0], query)
    for sink in sinks[1:]:
        later = _sink_origin(sink, query)
        _refuse_disagreement(sinks[0], origin, sink, later)
        _refuse_two_topics(sinks[0], origin, sink, later)
        origin = replace(later, topic_ids={**origin.topic_ids, **later.topic_ids})
    labels = " and ".join(sink.label for sink in sinks)
    return replace(origin, label=f"the ledger of {labels} (query {query!r})")


def _sink_origin(sink: Sink, query: str) -> Origin:
    heads = sink.applied(query)
    if not heads:
        raise SettingsError(
            f"the ledger of {sink.label} has no entry for query {query!r}",
            cause="the name is wrong, or no batch was written yet",
            fix="Give the name that the ledger has; for a first start, leave startingOffsets out",
        )
    return heads_origin(sink.label, query, heads)


def heads_origin(label: str, query: str, heads: Mapping[TopicPartition, Head]) -> Origin:
    """Return the offsets up to which a query's records were applied, from its heads in one ledger.

    `label` names the sink or the store. Raises SettingsError if none of the heads belongs to a
    Kafka source.
    """
    kafka = {tp: head for tp, head in heads.items() if tp != BATCHES}
    if not kafka:
        raise SettingsError(
            f"the ledger of {label} has no Kafka offsets for query {query!r}",
            cause="the query reads other sources only, for which the ledger counts batches",
            fix="Use the source's own options to choose its start",
        )
    return Origin(
        label=f"the ledger of {label} (query {query!r})",
        offsets={tp: head.range.until for tp, head in kafka.items()},
        topic_ids={tp: head.topic_id for tp, head in kafka.items() if head.topic_id is not None},
    )


def checkpoint_origin(location: str) -> Origin:
    """Return the end offsets of the newest committed batch of a checkpoint.

    Raises StorageError, JvmError, and SettingsError if no batch is committed. Raises
    CheckpointError if the newest committed batch is unreadable: with the offsets of an older batch,
    the new query would read that batch's records again.
    """
    # Without a scheme the location is resolved as Spark does, or is local if there is no session.
    from eo_listener.spark.jvm.calls import qualified  # noqa: PLC0415  # py4j is not in every client of Spark Connect

    found_at = location if has_scheme(location) else qualified(location) or location
    checkpoint = Checkpoint(found_at)
    return batch_origin(shown(location), newest_batch(checkpoint, shown(location)))


def newest_batch(checkpoint: Checkpoint, where: str) -> BatchOffsets:
    """Return the newest committed batch; raises the errors of `checkpoint_origin`.

    `where` names the checkpoint in error texts.
    """
    # Listed before `committed()` reads: a batch that a live query commits in between is not
    # missing.
    newest = max(checkpoint.batches().committed, default=-1)
    durable = checkpoint.committed() if checkpoint.exists() else None
    if durable is None or durable.offsets is None:
        findings = "; ".join(map(str, durable.findings)) if durable is not None else ""
        raise SettingsError(
            f"the checkpoint {where} has no committed batch",
            cause=findings or "the query has not completed a batch yet, or the path is wrong",
            fix="Check the path; it is the query's checkpointLocation",
        )
    if durable.findings or durable.offsets.batch < newest:
        lost = FileFinding(file=f"offsets/{newest}", kind=FileFindingKind.MISSING)
        raise CheckpointError(where, durable.findings[0] if durable.findings else lost)
    return durable.offsets


def batch_origin(where: str, batch: BatchOffsets) -> Origin:
    """Return the end offsets of a checkpoint's batch, as an origin."""
    offsets: dict[TopicPartition, int] = {}
    for ends in batch.kafka().values():
        for tp, offset in ends.items():  # if two sources read a topic, the offset both have reached
            offsets[tp] = min(offset, offsets.get(tp, offset))
    return Origin(label=f"batch {batch.batch} of {where}", offsets=offsets)


def _refuse_disagreement(first: Sink, before: Origin, sink: Sink, origin: Origin) -> None:
    expected, actual = before.offsets, origin.offsets
    wrong = sorted(
        tp for tp in expected.keys() | actual.keys() if expected.get(tp) != actual.get(tp)
    )
    if wrong:
        tp = wrong[0]
        raise SettingsError(
            f"the ledgers of {first.label} and {sink.label} differ: {tp} is at {expected.get(tp)} "
            f"and at {actual.get(tp)}",
            cause="the last batch reached only one of them before the query ended",
            fix="(1) Start again from the old checkpoint: it writes that batch to the other "
            "sink. (2) Or give each sink a query of its own",
        )


def _refuse_two_topics(first: Sink, before: Origin, sink: Sink, origin: Origin) -> None:
    expected, actual = before.topic_ids, origin.topic_ids
    wrong = sorted(tp for tp in expected.keys() & actual.keys() if expected[tp] != actual[tp])
    if wrong:
        raise SettingsError(
            f"the ledgers of {first.label} and {sink.label} differ: {wrong[0]} belongs to a "
            "recreated topic in one, and to the earlier topic in the other",
            cause="the first batch of the new topic reached only one of them before the query "
            "ended",
            fix="(1) Start again from the checkpoint of that batch: it writes the batch to the "
            "other sink. (2) Or give each sink a query of its own",
        )
