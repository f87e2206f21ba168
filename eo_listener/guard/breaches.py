"""What can be wrong with a batch, and the words for it: what happened, why, what to type. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from eo_listener.errors import (
    GapError,
    GuardError,
    MixedReplayError,
    OverlapError,
    PartitionVanishedError,
    RegressionError,
    TopicRecreatedError,
)
from eo_listener.offsets import Span, TopicPartition

_SHOWN = 5  # partitions named in an error

_FROM_LEDGER = (
    'Start again from the ledger: .option("startingOffsets", starting_offsets(ledger=sink, '
    'query="{name}")) on the source, and a new checkpointLocation'
)
_NEW_NAME = (
    'a new checkpointLocation and a ledger of its own, exactly_once(..., name="{name}-2"); '
    "the rows of the old one stay in the sink"
)


@dataclass(frozen=True, slots=True)
class _Words:
    """The error of a kind, and its text; `{name}` stands for the query's."""

    error: type[GuardError]
    what: str
    cause: str
    fix: str


class Kind(Enum):
    """What can be wrong, the gravest first; those of one error follow each other."""

    RECREATED = _Words(
        TopicRecreatedError,
        "the topic was deleted and made anew since the sink got its last rows",
        "the same offsets name other records now, and Spark does not notice it",
        f"If the new topic is to be read from its beginning, start with {_NEW_NAME}",
    )
    VANISHED = _Words(
        PartitionVanishedError,
        "partitions that the sink has rows of are no longer read",
        "the topic was made anew with fewer partitions, or the source's option assign names fewer",
        f"Read them again; if they are gone for good, start with {_NEW_NAME}",
    )
    BEHIND = _Words(
        RegressionError,
        "it goes back behind what the sink has",
        "the checkpoint is older than the sink (restored, or a new one that starts at the "
        "earliest offset), or another query has this name",
        _FROM_LEDGER,
    )
    BACKWARD = _Words(
        RegressionError,
        "it ends before it starts",
        "the topic was made anew or cut back, and failOnDataLoss=false lets Spark go on",
        "Look what happened to the topic. Records written since below the first of these offsets "
        f"are not in the sink; to read all of them, start with {_NEW_NAME}",
    )
    CUT_BACK = _Words(
        RegressionError,
        "it reaches beyond the end of the log",
        "the log was cut back: records were lost when an unclean leader was elected",
        "Look what happened to the topic, and restart the query when its log is whole. Else: "
        + _FROM_LEDGER,
    )
    OLDER = _Words(
        RegressionError,
        "it has no new offsets, and a lower number than what the sink has",
        "the checkpoint is older than the sink: it was restored from a copy",
        _FROM_LEDGER,
    )
    OVERLAP = _Words(
        OverlapError,
        "the sink has a part of it, but not all",
        "the checkpoint lost its newest offsets/N and Spark planned that batch with another end, "
        "or another query has this name",
        _FROM_LEDGER,
    )
    GAP = _Words(
        GapError,
        "offsets before it are not in the sink",
        "the checkpoint is ahead of the sink: the sink was restored from a copy, or a new "
        "checkpoint starts at the latest offset",
        _FROM_LEDGER
        + '. To go on without these records, and have the hole recorded: on_gap="accept"',
    )
    LOST = _Words(
        GapError,
        "Kafka deleted records of it before they could be read",
        "the topic's retention is shorter than the query's delay, and failOnDataLoss=false hides "
        "the loss",
        "Raise retention.ms of the topic, or make the query faster. To go on without these "
        'records, and have the hole recorded: on_gap="accept"',
    )
    MIXED = _Words(
        MixedReplayError,
        "the sink has these partitions of it, and not the others",
        "the checkpoint lost its newest offsets/N and Spark planned that batch anew, or another "
        "query has this name",
        _FROM_LEDGER,
    )


class Breaches:
    """All that is wrong with one batch."""

    def __init__(self) -> None:
        self._found: dict[Kind, dict[TopicPartition, tuple[Span, str]]] = {}

    def add(self, kind: Kind, tp: TopicPartition, span: Span, note: str = "") -> None:
        """Add a partition, with the offsets in question."""
        self._found.setdefault(kind, {})[tp] = (span, note)

    def raise_gravest(self, *, batch_id: int, name: str, sink: str) -> None:
        """Raise the gravest error, for all partitions that have it; nothing where all is well."""
        kind = next((kind for kind in Kind if kind in self._found), None)
        if kind is None:
            return
        words = kind.value
        same = (other for other in Kind if other.value.error is words.error)
        found = {tp: one for other in same for tp, one in self._found.get(other, {}).items()}
        raise words.error(
            f"batch {batch_id} of query {name!r} was not written to {sink}: {words.what}: "
            f"{_few(found)}",
            ranges={tp: span for tp, (span, _) in found.items()},
            cause=words.cause,
            fix=words.fix.format(name=name),
        )


def _few(found: dict[TopicPartition, tuple[Span, str]]) -> str:
    """Name the first few, and how many there are."""
    named = [
        f"{tp} {span}" + (f" ({note})" if note else "")
        for tp, (span, note) in sorted(found.items())[:_SHOWN]
    ]
    more = f" and {len(found) - _SHOWN} more partitions" if len(found) > _SHOWN else ""
    return ", ".join(named) + more
