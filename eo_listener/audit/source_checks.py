"""Checks whether positions lie within the source's logs. Reads and writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from eo_listener.audit.advice import Advice
from eo_listener.audit.intervals import size
from eo_listener.audit.next_batch import starts
from eo_listener.audit.position_finding import (
    Findings,
    Harm,
    PositionFindingKind,
    Ranges,
    listed,
    single,
)
from eo_listener.audit.positions import Ends, LedgerPositions, Positions, SourcePositions, lowest
from eo_listener.errors import few
from eo_listener.model.check_finding import Severity
from eo_listener.model.ledger import Head
from eo_listener.model.planned_batch import BATCHES
from eo_listener.offsets import OffsetRange, TopicPartition

_FEW = 3  # commands in one line
HANGING = 900.0
"""Seconds until a coordinator ends a transaction: Kafka's default transaction.max.timeout.ms."""


def held_positions(positions: Positions) -> dict[TopicPartition, int]:
    """Return the greatest offset of each Kafka partition in the checkpoint and the ledgers.

    If neither has the partition, the function takes the greatest offset of the groups. The groups
    come last, because a group that a tool has moved shows nothing about the query. Their offsets
    must be those from before the log was read: later offsets may lie beyond the end that was read.
    """
    checkpoint = positions.checkpoint
    done = () if checkpoint is None else (checkpoint.done,)
    ledgers = (_heads(positions, ledger) for ledger in positions.ledgers)
    ends = ({tp: at.range.until for tp, at in heads.items()} for heads in ledgers)
    groups = ({tp: at.offset for tp, at in group.before.items()} for group in positions.groups)
    return {**_greatest(groups), **_greatest((*done, *ends))}


def _greatest(every: Iterable[Ends]) -> dict[TopicPartition, int]:
    greatest: dict[TopicPartition, int] = {}
    for offsets in every:
        for tp, offset in offsets.items():
            if tp != BATCHES:
                greatest[tp] = max(offset, greatest.get(tp, offset))
    return greatest


def _heads(positions: Positions, ledger: LedgerPositions) -> Mapping[TopicPartition, Head]:
    """Return the ledger's heads of those partitions that the checkpoint also has."""
    checkpoint = positions.checkpoint
    if checkpoint is None or not checkpoint.done or checkpoint.damaged:
        return ledger.heads
    read = checkpoint.done.keys() | checkpoint.ahead.keys()
    return {tp: head for tp, head in ledger.heads.items() if tp in read}


def recreated_partitions(positions: Positions) -> dict[TopicPartition, tuple[str, str]]:
    """Return the partitions whose topic has a new id, each with its ledger's id and the new id."""
    if positions.source is None:
        return {}
    logs = positions.source.logs
    return {
        tp: (head.topic_id, logs[tp].topic_id or "")
        for ledger in positions.ledgers
        for tp, head in _heads(positions, ledger).items()
        if head.topic_id is not None
        and tp in logs
        and logs[tp].topic_id not in (None, head.topic_id)
    }


def applied_by_all(positions: Positions) -> dict[TopicPartition, int]:
    """Return the lowest offset of all ledgers, for each partition that is in every ledger."""
    ends = [ledger.ends for ledger in positions.ledgers]
    return {
        tp: offset
        for tp, offset in lowest(ends).items()
        if all(tp in ledger_ends for ledger_ends in ends)
    }


def misplaced(positions: Positions) -> frozenset[TopicPartition]:
    """Return the partitions whose log is gone, recreated or cut back.

    Offsets of these partitions cannot be compared with the log.
    """
    if positions.source is None:
        return frozenset()
    offsets, logs = held_positions(positions), positions.source.logs
    outside = {tp for tp, offset in offsets.items() if tp not in logs or offset > logs[tp].end}
    return frozenset(outside | recreated_partitions(positions).keys())


def commit_checkpoint(
    positions: Positions,
    advice: Advice,
    group: str,
    *,
    rewind: bool,
    topics: Collection[str] | None,
) -> str:
    """Return the advice to move a group to the checkpoint's position.

    If the checkpoint is damaged or missing, return the advice to repair it first.
    """
    checkpoint = positions.checkpoint
    if checkpoint is not None and (checkpoint.damaged or not checkpoint.exists):
        return "repair the checkpoint first: the group takes its position from it"
    return advice.commit_checkpoint(group, rewind=rewind, topics=topics)


def check_source(positions: Positions, advice: Advice) -> Findings:
    """Yield the findings about the logs that concern the query."""
    source = positions.source
    if source is None:
        return
    offsets = held_positions(positions)
    findings = [
        *_gone(offsets, source, advice),
        *_recreated(positions, advice),
        *_beyond(positions, offsets, source, advice),
        *_deleted(positions, source, advice),
        *_transactions(source, advice),
    ]
    yield from findings
    if offsets:
        yield from _new(positions, offsets, source)
    if not any(finding.matters for finding in findings):
        yield PositionFindingKind.AGREED.finding(
            f"cluster {source.servers}",
            f"{len(offsets)} partitions, every position lies within its log",
        )


def _new(positions: Positions, offsets: Ends, source: SourcePositions) -> Findings:
    """Yield findings about partitions for which no place holds an offset.

    A query that subscribes to a topic reads each new partition from offset 0.
    """
    checkpoint = positions.checkpoint
    planned = {} if checkpoint is None else checkpoint.ahead
    in_ledgers = {tp for ledger in positions.ledgers for tp in ledger.heads}
    new = sorted(source.logs.keys() - offsets.keys() - planned.keys() - in_ledgers)
    read = {} if checkpoint is None else {**checkpoint.began, **checkpoint.done}
    # A partition with a lower number than one that the query has read was not added later.
    last = {tp.topic: tp.partition for tp in sorted(read)}
    deleted = {
        tp: OffsetRange(0, source.logs[tp].start)
        for tp in new
        if tp.partition > last.get(tp.topic, tp.partition) and source.logs[tp].start > 0
    }
    unread = [tp for tp in new if tp not in deleted]
    if unread:
        yield PositionFindingKind.NEW_PARTITIONS.finding(
            f"cluster {source.servers}",
            f"no checkpoint, group or ledger holds an offset of {few(map(str, unread))} yet",
        )
    if deleted:
        yield PositionFindingKind.NEW_PARTITIONS.finding(
            f"cluster {source.servers}",
            "no checkpoint, group or ledger holds an offset of these partitions yet, and Kafka has "
            f"already deleted their first records: {listed(deleted)}",
            cause="the partitions were added to the topic, and retention or a tool deleted records "
            "before the query read them; or the query does not read them (option assign)",
            fix="if the query reads the whole topic, restore these records, or accept the loss: "
            'exactly_once(..., on_gap="accept") records it, and the source needs '
            "failOnDataLoss=false",
            ranges=single(deleted),
            severity=Severity.WARNING,
            harm=Harm.UNPROVED,
        )


def _gone(offsets: Ends, source: SourcePositions, advice: Advice) -> Findings:
    topics = {tp.topic for tp in source.logs}
    gone = sorted(tp for tp in offsets if tp not in source.logs)
    for topic in sorted({tp.topic for tp in gone}):
        of_topic = [tp for tp in gone if tp.topic == topic]
        whole = topic not in topics
        text = "it does not exist" if whole else f"it lacks partition {few(map(str, of_topic))}"
        preflight = advice.cluster.typed(["preflight"], ["-t", topic])
        yield PositionFindingKind.TOPIC_GONE.finding(
            f"topic {topic}",
            f"{text}, but a checkpoint, group or ledger holds positions in it",
            cause="it was deleted, the client lacks the right to Describe it, or this is another "
            "cluster"
            if whole
            else "it was deleted and recreated with fewer partitions; or this is another cluster",
            fix=f"check -b and the client's permissions: {preflight}",
            ranges=single({tp: OffsetRange(offsets[tp], offsets[tp]) for tp in of_topic}),
        )


def _recreated(positions: Positions, advice: Advice) -> Findings:
    recreated = recreated_partitions(positions)
    for topic in sorted({tp.topic for tp in recreated}):
        ids = {pair for tp, pair in recreated.items() if tp.topic == topic}
        was, now = min(ids)
        ledger = next(
            ledger
            for ledger in positions.ledgers
            if any(tp in recreated and tp.topic == topic for tp in ledger.heads)
        )
        yield PositionFindingKind.TOPIC_RECREATED.finding(
            f"topic {topic}",
            f"it is not the topic that was read: its id was {was} and is now {now}",
            cause="it was deleted and recreated, so every offset now names another record",
            fix=advice.begin_from(ledger)
            if ledger.replaced
            else advice.begin_from_ledger(ledger, recreated=True),
            ranges=single(
                {
                    tp: OffsetRange(0, ledger.heads[tp].range.until)
                    for tp in recreated
                    if tp.topic == topic and tp in ledger.heads
                }
            ),
        )


def _beyond(
    positions: Positions, offsets: Ends, source: SourcePositions, advice: Advice
) -> Findings:
    recreated = recreated_partitions(positions)
    beyond = {
        tp: OffsetRange(source.logs[tp].end, offset)
        for tp, offset in offsets.items()
        if tp in source.logs and tp not in recreated and offset > source.logs[tp].end
    }
    if not beyond:
        return
    same = any(
        ledger.heads[tp].topic_id is not None
        for ledger in positions.ledgers
        for tp in beyond
        if tp in ledger.heads
    )
    fix = "check -b; "
    if positions.ledgers:
        fix += advice.begin_beside_ledger(positions.ledgers[0], cut_back=same)
    else:
        fix += "start the query with a new checkpointLocation and startingOffsets: the end of a "
        fix += "log that was cut back, earliest for a topic that was recreated"
    yield PositionFindingKind.BEYOND_END.finding(
        f"cluster {source.servers}",
        f"positions lie beyond the end of the log: {listed(beyond)}",
        cause="an unclean leader election cut the log back: the topic's id has not changed"
        if same
        else "the topic was deleted and recreated, an unclean leader election cut its log "
        "back, or this is another cluster",
        fix=fix,
        ranges=single(beyond),
    )


def _deleted(positions: Positions, source: SourcePositions, advice: Advice) -> Findings:
    """Yield findings for records deleted before the query, or a group's consumer, read them."""
    next_read = _next_read(positions)
    lost = {
        tp: loss
        for tp, loss in _below(next_read, source).items()
        if not _is_accepted(positions, tp, loss)
    }
    if lost and positions.checkpoint is not None and positions.checkpoint.damaged:
        yield PositionFindingKind.RETENTION.finding(
            f"cluster {source.servers}",
            f"Kafka has deleted up to {size(lost.values()):,} records after the newest readable "
            f"batch of the checkpoint: {listed(lost)}; the audit cannot tell if the query had read "
            "them",
            cause="newer batches cannot be read",
            fix="repair the checkpoint first, then run the audit again",
            ranges=single(lost),
            harm=Harm.UNPROVED,
        )
    elif lost:
        yield PositionFindingKind.RETENTION.finding(
            f"cluster {source.servers}",
            f"Kafka has deleted up to {size(lost.values()):,} records before the query read them: "
            f"{listed(lost)}",
            cause="retention or a tool deleted them while the query was stopped or too slow",
            fix="restore them to the topic; or accept the loss: "
            f"{_accepted(positions, lost, advice)}; and raise retention.ms",
            ranges=single(lost),
        )
    for group in positions.groups:
        remaining = {tp: at.offset for tp, at in group.after.items() if tp not in lost}
        behind = _below(remaining, source)
        if behind and next_read:
            yield PositionFindingKind.RETENTION.finding(
                severity=Severity.WARNING,
                about=f"group {group.name}",
                what=f"it is below the start of the log: {listed(behind)}; the query is not",
                cause="no offset has been committed to it for longer than the topic's retention",
                fix=commit_checkpoint(
                    positions,
                    advice,
                    group.name,
                    rewind=False,
                    topics=positions.committed_to(group),
                ),
                ranges=single(behind),
                harm=Harm.NONE,
            )


def _is_accepted(positions: Positions, tp: TopicPartition, loss: OffsetRange) -> bool:
    """Return True if every ledger of the partition records the loss as accepted."""
    ledgers = [ledger for ledger in positions.ledgers if tp in ledger.heads]
    return bool(ledgers) and all(ledger.accepts(tp, loss) for ledger in ledgers)


def _accepted(positions: Positions, lost: Ranges, advice: Advice) -> str:
    """Return the advice to record the loss in each ledger.

    A command can record the loss if the lost offsets begin at the ledger's head. After that
    command, a batch of the old checkpoint would begin before the head, and the sink would refuse
    the batch.
    """
    consent = (
        'exactly_once(..., on_gap="accept") records it, and the source needs '
        "failOnDataLoss=false; keep both until a batch is committed"
    )
    commands = [
        advice.accept_gap(store.address, ledger.key, tp, loss)
        for store in positions.stores
        for ledger in store.ledgers
        for tp, loss in sorted(lost.items())
        if tp in ledger.heads and ledger.heads[tp].range.until == loss.start
    ]
    ledger = positions.ledgers[0] if len(positions.ledgers) == 1 else None
    if ledger is not None and not ledger.replaced and len(lost) == len(commands) <= _FEW:
        restart = advice.begin_from_ledger(ledger)
        return f"{' and '.join(commands)}; then {restart}; or, if the query has state, {consent}"
    return consent


def _next_read(positions: Positions) -> Ends:
    """Return the position at which the query continues.

    The function takes the position from the checkpoint, or else from the ledgers, or else from the
    groups. If every ledger has offsets of the batch in doubt, the query does not read them again.
    """
    checkpoint = positions.checkpoint
    batch = None if checkpoint is None else checkpoint.next_batch
    if checkpoint is not None and (checkpoint.done or batch is not None):
        applied = applied_by_all(positions)
        begins = checkpoint.done if batch is None else starts(batch)
        return {tp: max(at, applied.get(tp, at)) for tp, at in begins.items()}
    groups = ({tp: at.offset for tp, at in group.after.items()} for group in positions.groups)
    return lowest(ledger.ends for ledger in positions.ledgers) or lowest(groups)


def _below(offsets: Ends, source: SourcePositions) -> dict[TopicPartition, OffsetRange]:
    return {
        tp: OffsetRange(offset, source.logs[tp].start)
        for tp, offset in offsets.items()
        if tp in source.logs and offset < source.logs[tp].start
    }


def _transactions(source: SourcePositions, advice: Advice) -> Findings:
    still_open = {
        tp: OffsetRange(log.stable, log.end)
        for tp, log in source.logs.items()
        if log.stable < log.end
    }
    old = {
        tp: offsets
        for tp, offsets in still_open.items()
        if source.open_since.get(tp, 0.0) > HANGING
    }
    for tp, offsets in sorted(old.items()):
        yield PositionFindingKind.HANGING_TRANSACTION.finding(
            str(tp),
            f"a transaction has been open since offset {offsets.start}, whose record has a "
            f"timestamp of {source.open_since[tp] / 60:,.0f} minutes ago: read_committed consumers "
            "wait there",
            cause="its coordinator has lost it, its transaction.timeout.ms is that long, or "
            "its producer gives records other timestamps than the current time",
            fix=advice.show_transactions([tp.topic]),
            ranges={tp: (offsets,)},
        )
    young = {tp: offsets for tp, offsets in still_open.items() if tp not in old}
    if young:
        yield PositionFindingKind.OPEN_TRANSACTION.finding(
            f"cluster {source.servers}",
            f"transactions are open: {listed(young)}; records behind them do not count as lag of "
            "a query that reads committed records only",
            fix=advice.show_transactions(tp.topic for tp in young),
            ranges=single(young),
        )
