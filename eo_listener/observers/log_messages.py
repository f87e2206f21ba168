"""The log lines for events: what happened with its values, the likely cause, the fix. Pure."""

from __future__ import annotations

from eo_listener.errors import few
from eo_listener.events import (
    BatchApplied,
    BatchFailed,
    BatchReplayed,
    CommitRefused,
    CommitterFenced,
    ForeignCommit,
    GroupOffsetsMissing,
    GuardViolation,
    PartitionsShared,
    ProgressEventsDuplicated,
    ProgressEventsMissed,
    QueryStateLost,
    Refusal,
    TopicRecreated,
    Violation,
    ViolationKind,
)

_REFUSALS = {
    Refusal.BELOW_COMMITTED: (
        "two queries share the group, or the query was restarted from an older checkpoint",
        "give each query a group of its own; if the query is to go back, set on_rewind='allow'",
    ),
    Refusal.BELOW_GROUP: (
        "the query was restarted from an older or a new checkpoint, or another program commits too",
        (
            "if the query is to go back, restart it with on_rewind='allow' (follow: --on-rewind "
            "allow); otherwise stop the other writer"
        ),
    ),
    Refusal.BEYOND_LOG_END: (
        "the topic was deleted and recreated, or lost records when a broker failed",
        "check the topic; commits continue once its log has grown beyond these offsets",
    ),
    Refusal.WITHHELD_BEFORE: (
        "the guard of an earlier run found a batch that does not continue the batch before it",
        (
            "find its GuardViolation in the earlier log; to accept it, restart with "
            "guard='warn' (follow: --guard warn)"
        ),
    ),
}
_VIOLATIONS = {
    ViolationKind.GAP: (
        "the checkpoint was changed by hand, or its newest files were lost",
        "read these offsets into the sink again, if they are missing there",
    ),
    ViolationKind.REPEAT: (
        "the checkpoint was restored to an older state while the query was running",
        "look for duplicates in the sink",
    ),
    ViolationKind.BACKWARD: (
        "the topic was recreated or truncated, and failOnDataLoss=false lets Spark continue",
        "check the topic; records written below these offsets are read as new records",
    ),
    ViolationKind.VANISHED: (
        "the topic was deleted or lost partitions, and failOnDataLoss=false lets Spark continue",
        "check the topic, or the pattern that the source subscribes to",
    ),
    ViolationKind.LOST: (
        "retention deleted records before the query read them; failOnDataLoss=false allows that",
        "raise the topic's retention or make the query faster; these records are not in the sink",
    ),
}


def refused(event: CommitRefused) -> str:
    """Say why offsets are not sent."""
    cause, fix = _REFUSALS[event.refusal]
    writer = f", {event.writer}" if event.writer else ""
    return (
        f"refused to commit {event.offsets}: {event.refusal.value} ({event.obstacles}{writer}). "
        f"Cause: {cause}. Fix: {fix}"
    )


def foreign(event: ForeignCommit) -> str:
    """Say who else commits."""
    if event.writer is None:
        who = "a program other than eo_listener"
    elif event.zombie:
        who = f"another run of this query ({event.writer}): a second driver, or a zombie"
    else:
        who = f"another query ({event.writer})"
    return (
        f"the group holds {event.group_offsets}, this driver committed {event.own_offsets}. "
        f"Cause: another writer commits to it: {who}. Fix: stop that writer, or give each a group "
        "of its own; mode='transactional' (follow: --mode transactional) fences a zombie"
    )


def vanished(event: GroupOffsetsMissing) -> str:
    """Say that a group lost offsets."""
    return (
        f"the group no longer holds {len(event.offsets)} committed offsets; they are committed "
        f"again: {event.offsets}. Cause: they expired, or somebody deleted them. Fix: if they "
        "expired, set recommit_interval well below offsets.retention.minutes"
    )


def recreated(event: TopicRecreated) -> str:
    """Say that a topic is not the one it was."""
    return (
        f"topic {event.topic} was deleted and recreated (its id was {event.was} and is now "
        f"{event.now}). Nothing more is committed for it; not committed: {event.offsets}. Fix: "
        "restart the driver, and start the query with a new checkpoint: the present one is for "
        "the old topic"
    )


def shared(event: PartitionsShared) -> str:
    """Say that several sources feed the same partitions."""
    return (
        f"{' and '.join(event.readers)} read the same partitions ({few(event.partitions)}), so "
        "the lowest of their offsets is committed. Fix: give each a group of its own"
    )


def fenced(event: CommitterFenced) -> str:
    """Say that another committer has taken over."""
    return f"this driver stops committing ({event.code}). Cause: {event.cause}. Fix: {event.fix}"


def missed(event: ProgressEventsMissed) -> str:
    """Say that events never came."""
    return (
        f"no progress event arrived between batches {event.after_batch} and "
        f"{event.before_batch}, so these batches were not checked for gaps. Cause: Spark drops "
        "events if its listeners are too slow. Fix: look for a slow listener"
    )


def repeated(event: ProgressEventsDuplicated) -> str:
    """Say that events come twice."""
    return (
        f"the progress event of batch {event.batch_id} arrived more than once; the groups are not "
        "affected, since each event counts once. Cause: the listener was added more than once, or "
        "spark.sql.streaming.streamingQueryListeners names its class twice. Fix: add it once; "
        "spark.streams.removeListener(listener) removes one"
    )


def violation(event: GuardViolation) -> str:
    """Say what the guard found, the likely cause and the fix."""
    cause, fix = _VIOLATIONS[event.violations[0].kind]
    if event.withheld:
        fix += (
            "; then restart with guard='warn' (follow: --guard warn) to accept it; until then this "
            "source is not committed"
        )
    return (
        f"batch {event.batch_id} does not continue where the batch before it ended: "
        f"{few(map(_violation, event.violations))}. Cause: {cause}. Fix: {fix}"
    )


def applied(event: BatchApplied) -> str:
    """Say what a sink has applied, and which offsets it will never have."""
    rows = "its rows" if event.rows is None else f"{event.rows} rows"
    text = f"{event.sink} applied {rows}"
    if event.dead_letters:
        text += f" and {event.dead_letters} dead letters"
    if event.attempts > 1:
        text += f", in attempt {event.attempts}"
    if event.gaps:
        lost = sum(until - start for start, until in event.gaps.values())
        ranges = few(f"{tp} {one}" for tp, one in event.gaps.items())
        text += (
            f'. {lost} offsets before or in it are lost, and on_gap="accept" accepted that: '
            f'{ranges}. Fix: remove on_gap="accept", or the next gap is accepted as well'
        )
    if event.skipped:
        ranges = few(f"{tp} {one}" for tp, one in event.skipped.items())
        text += (
            ". Its ledger begins with this batch; nothing is known of earlier offsets: "
            f'{ranges}. Fix: remove on_first="accept", or an emptied ledger is accepted as well'
        )
    return text


def replayed(event: BatchReplayed) -> str:
    """Say that a sink had a batch before."""
    why = "; the batch was computed for the query's state only" if event.discarded else ""
    return f"{event.sink} already has this batch from an earlier run; nothing was written{why}"


def state_lost(event: QueryStateLost) -> str:
    """Say what a new checkpoint of a stateful query loses."""
    return (
        f"the query continues in {event.sink} with a new checkpoint, which has no state: open "
        "windows, counts and joins of the old checkpoint are lost, since the ledger has passed "
        "their records. Fix: keep the checkpoint of a query whose state matters"
    )


def batch_failed(event: BatchFailed) -> str:
    """Say why a batch failed."""
    cause = f". Cause: {event.cause}" if event.cause else ""
    fix = f". Fix: {event.fix}" if event.fix else ""
    return f"{event.error}: {event.problem}{cause}{fix}"


def _violation(one: Violation) -> str:
    where = f"{one.partition}: {one.start}"
    if one.kind is ViolationKind.VANISHED:
        return f"{where} {one.kind.value}"
    if one.kind is ViolationKind.BACKWARD:
        return f"{where} {one.kind.value} to {one.until}"
    return f"{where} to {one.until} {one.kind.value} ({one.until - one.start} offsets)"
