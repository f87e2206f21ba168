"""What happened, why most likely, and what to type: the words for events. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from eo_listener import acls
from eo_listener.events import (
    BatchApplied,
    BatchHalted,
    BatchReplayed,
    Breach,
    CommitFailed,
    CommitRefused,
    CommitterFenced,
    EventsMissed,
    EventsRepeated,
    Finding,
    ForeignCommit,
    GuardViolation,
    OffsetsVanished,
    PartitionsShared,
    Refusal,
    StateLeftBehind,
    TopicRecreated,
)
from eo_listener.identities import transactional_id

_SHOWN = 5  # partitions named in a line

_REFUSALS = {
    Refusal.BELOW_COMMITTED: (
        "two queries share the group, or the query went back",
        "give each query a group of its own; if it is meant to go back, on_rewind='allow'",
    ),
    Refusal.BELOW_GROUP: (
        "the query was restarted from an older or a new checkpoint, or somebody else commits too",
        (
            "if the query is meant to go back, restart it with on_rewind='allow' "
            "(follow: --on-rewind allow); else stop the other"
        ),
    ),
    Refusal.BEYOND_LOG_END: (
        "the topic was deleted and made anew, or lost records when a broker failed",
        "check the topic; commits go on when its log has grown beyond these offsets",
    ),
    Refusal.WITHHELD_BEFORE: (
        "the guard of an earlier run found a batch that does not continue where another ended",
        (
            "look for its GuardViolation in the earlier log; to accept it, restart with "
            "guard='warn' (follow: --guard warn)"
        ),
    ),
}
_BREACHES = {
    Breach.GAP: (
        "the checkpoint was changed by hand, or its newest files were lost",
        "read these offsets again into the sink, if it lacks them",
    ),
    Breach.REPEAT: (
        "the checkpoint was put back to an older state while the query ran",
        "look for duplicates in the sink",
    ),
    Breach.BACKWARD: (
        "the topic was recreated or truncated, and failOnDataLoss=false lets Spark go on",
        "check the topic; what was written anew below these offsets will be read as new",
    ),
    Breach.VANISHED: (
        "the topic was deleted, or lost partitions, and failOnDataLoss=false lets Spark go on",
        "check the topic, or the pattern the source subscribes to",
    ),
    Breach.LOST: (
        "retention was faster than the query, and failOnDataLoss=false lets Spark skip it",
        "raise the topic's retention, or make the query faster; these records are not in the sink",
    ),
}


def right_to_add(event: CommitFailed, principal: str | None) -> str | None:
    """What to type for the right that the broker says is missing; None for any other failure.

    `principal` is how ACLs name the client (`User:alice`), None where that is unknown.
    """
    match event.code:
        case "GROUP_AUTHORIZATION_FAILED":
            operations, what = ["Read"], ["--group", event.group]
        case "TOPIC_AUTHORIZATION_FAILED":
            topics = {tp.topic for tp, code in event.errors.items() if code == event.code}
            operations = ["Read"]
            what = [word for topic in sorted(topics) for word in ("--topic", topic)]
        case "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
            operations = ["Write", "Describe"]
            what = ["--transactional-id", transactional_id(event.group)]
        case _:
            return None
    return (
        f"give {principal or 'the client'} the right to {' and '.join(operations)}, as an "
        f"administrator of the cluster: {acls.command(event.cluster, principal, operations, what)}"
    )


def refused(event: CommitRefused) -> str:
    """Say why offsets are not sent."""
    cause, fix = _REFUSALS[event.refusal]
    writer = f" by {event.writer}" if event.writer else ""
    return (
        f"not sent, since it is {event.refusal.value}: {event.offered}, in the way: {event.held}"
        f"{writer}. Likely {cause}. To do: {fix}"
    )


def foreign(event: ForeignCommit) -> str:
    """Say who else commits."""
    if event.writer is None:
        who = "a program that is not eo_listener"
    elif event.zombie:
        who = f"another run of this query ({event.writer}): a second driver, or a zombie"
    else:
        who = f"another query ({event.writer})"
    return (
        f"somebody else commits to it: {who}. Found {event.found}, ours was {event.ours}. To do: "
        "stop that writer, or give each a group of its own; mode='transactional' "
        "(follow: --mode transactional) keeps a zombie out"
    )


def vanished(event: OffsetsVanished) -> str:
    """Say that a group lost offsets."""
    return (
        f"it lost {len(event.offsets)} offsets that it had confirmed: they expired, or somebody "
        f"deleted them. They are committed again: {event.offsets}. To do: if they expired, a "
        "heartbeat well below offsets.retention.minutes"
    )


def recreated(event: TopicRecreated) -> str:
    """Say that a topic is not the one it was."""
    return (
        f"topic {event.topic} was deleted and made anew (its id was {event.was} and is "
        f"{event.now}). Nothing more is committed for it; not sent: {event.offsets}. To do: "
        "restart the driver, and the query with a new checkpoint: its own is of the old topic"
    )


def shared(event: PartitionsShared) -> str:
    """Say that several sources feed the same partitions."""
    return (
        f"{' and '.join(event.readers)} read the same partitions ({few(event.partitions)}), so the "
        "least of their offsets is committed. To do: give each a group of its own"
    )


def fenced(event: CommitterFenced) -> str:
    """Say that another committer has taken over."""
    return f"this driver commits no more ({event.code}): {event.cause}. To do: {event.fix}"


def missed(event: EventsMissed) -> str:
    """Say that events never came."""
    return (
        f"no progress event came between batch {event.after_batch} and {event.before_batch} (Spark "
        "drops events when its listeners are too slow), so nothing is known of a gap between them. "
        "To do: look for a slow listener"
    )


def repeated(event: EventsRepeated) -> str:
    """Say that events come twice."""
    return (
        f"the progress event of batch {event.batch_id} came more than once. Likely the listener "
        "was added more than once, or its class is named twice in "
        "spark.sql.streaming.streamingQueryListeners. Each event counts once, so nothing is wrong "
        "with the groups. To do: add it once; spark.streams.removeListener(listener) removes one"
    )


def violation(event: GuardViolation) -> str:
    """Say what the guard found, why most likely, and what to do."""
    cause, fix = _BREACHES[event.findings[0].breach]
    if event.withheld:
        fix += (
            "; then restart with guard='warn' (follow: --guard warn) to accept it: until then this "
            "source is not committed"
        )
    return (
        f"batch {event.batch_id} does not continue where the one before it ended: "
        f"{few(map(_finding, event.findings))}. Likely {cause}. To do: {fix}"
    )


def applied(event: BatchApplied) -> str:
    """Say what a sink has now, and what it will never have."""
    rows = "its rows" if event.rows is None else f"{event.rows} rows"
    told = f"{event.sink} has {rows}"
    if event.dead:
        told += f", and {event.dead} dead letters"
    if event.attempts > 1:
        told += f", at attempt {event.attempts}"
    if event.holes:
        lost = sum(until - start for start, until in event.holes.values())
        ranges = few(f"{tp} {span}" for tp, span in event.holes.items())
        told += (
            f". {lost} offsets before or in it are lost, and were accepted as lost: {ranges}. To "
            'do: leave out on_gap="accept" again, lest the next gap pass unseen'
        )
    if event.skipped:
        ranges = few(f"{tp} {span}" for tp, span in event.skipped.items())
        told += (
            f". Its ledger begins here; of what comes before it nothing is known: {ranges}. To "
            'do: leave out on_first="accept" again, lest a ledger that is emptied pass unseen'
        )
    return told


def replayed(event: BatchReplayed) -> str:
    """Say that a sink had a batch before."""
    why = ", and was computed for the query's state alone" if event.discarded else ""
    return f"{event.sink} has it from an earlier run; nothing of it was written again{why}"


def left_behind(event: StateLeftBehind) -> str:
    """Say what a new checkpoint of a stateful query loses."""
    return (
        f"the query has state, and goes on in {event.sink} with a new checkpoint, which has none: "
        "what was open under the old one (windows, counts, joins) is lost, since the ledger is "
        "past its records. To do: with a query whose state matters, keep its checkpoint"
    )


def halted(event: BatchHalted) -> str:
    """Say why a batch was broken off."""
    likely = f". Likely {event.cause}" if event.cause else ""
    to_do = f". To do: {event.fix}" if event.fix else ""
    return f"{event.error}: {event.problem}{likely}{to_do}"


def _finding(one: Finding) -> str:
    where = f"{one.partition}: {one.start}"
    if one.breach is Breach.VANISHED:
        return f"{where} {one.breach.value}"
    if one.breach is Breach.BACKWARD:
        return f"{where} {one.breach.value} to {one.until}"
    return f"{where} to {one.until} {one.breach.value} ({one.until - one.start} offsets)"


def few(things: Iterable[object]) -> str:
    """Name the first few, and how many more there are."""
    names = [str(thing) for thing in things]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
