"""Transactions that are open in partitions: whose they are, and whether they end by themselves.

No I/O. The producers that leaders report for a partition are joined with the transactional ids
that coordinators report (KIP-664).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from eo_listener.client_config.identities import IdOwner
from eo_listener.kafka.java_transactions import DescribedTransaction, OpenProducer
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import OffsetRange, TopicPartition

LONGEST_MS: Final = 15 * 60_000
"""What brokers allow as a time-out, `transaction.max.timeout.ms`, unless they are set otherwise."""
_GRACE_MS: Final = 60_000  # by which clocks differ, and a coordinator is late

OpenInPartitions = Mapping[TopicPartition, Sequence[OpenProducer]]


class TransactionVerdict(Enum):
    """What is to be expected of an open transaction; the gravest last."""

    OPEN = "open"
    """Its coordinator has it, and ends it at its time-out at the latest."""
    ENDING = "ending"
    """Its coordinator is writing the markers that end it."""
    UNKNOWN = "not known"
    """No coordinator named it, and one may have it all the same."""
    HANGING = "hanging"
    """No coordinator has it: it never ends by itself."""


_ORDER: Final = tuple(TransactionVerdict)
_KNOWN: Final = (TransactionVerdict.OPEN, TransactionVerdict.ENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorAnswers:
    """What coordinators report of producers.

    `ids` are the transactional ids by producer id, `errors` why one could not be described;
    `incomplete` is why coordinators may have left ids out.
    """

    ids: Mapping[int, str] = field(default_factory=dict)
    described: Mapping[str, DescribedTransaction] = field(default_factory=dict)
    errors: Mapping[str, KafkaError] = field(default_factory=dict)
    incomplete: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction of one producer that is open in one partition or several.

    `holds` are those whose last stable offset is its first offset there. `described` is the answer
    of its coordinator. `why` is what is missing for a verdict.
    """

    producer_id: int
    transactional_id: str | None
    verdict: TransactionVerdict
    producers: Mapping[TopicPartition, OpenProducer]
    holds: frozenset[TopicPartition]
    described: DescribedTransaction | None = None
    why: str | None = None

    @property
    def owner(self) -> IdOwner | None:
        """The sink or group of ours that it belongs to; None: not ours."""
        return None if self.transactional_id is None else IdOwner.of(self.transactional_id)

    @property
    def since(self) -> int | None:
        """When it began, in milliseconds since 1970; None if no coordinator has it."""
        known = self.described is not None and self.verdict in _KNOWN
        return self.described.started if known and self.described is not None else None

    @property
    def last_written(self) -> int | None:
        """The time of its newest record, in milliseconds since 1970."""
        return max((one.last_written for one in self.producers.values()), default=None)

    @property
    def ends_by(self) -> int | None:
        """When its coordinator ends it at the latest, in milliseconds since 1970; None: never."""
        if self.verdict is not TransactionVerdict.OPEN or self.two_phase or self.since is None:
            return None
        assert self.described is not None  # noqa: S101  # `since` is its; for mypy
        return self.since + round(1000 * self.described.timeout)

    @property
    def two_phase(self) -> bool:
        """True if only its own program may end it (KIP-939)."""
        return (
            self.verdict is TransactionVerdict.OPEN
            and self.described is not None
            and self.described.two_phase
        )

    def is_overdue(self, now_ms: int) -> bool:
        """Return True if its coordinator should have ended it a minute ago or more."""
        return self.ends_by is not None and now_ms > self.ends_by + _GRACE_MS


def still_open(before: OpenInPartitions, after: OpenInPartitions) -> OpenInPartitions:
    """Return the producers of `after` whose transactions were open before."""
    known = {(tp, one.producer_id, one.start) for tp, found in before.items() for one in found}
    kept = {
        tp: tuple(one for one in found if (tp, one.producer_id, one.start) in known)
        for tp, found in after.items()
    }
    return {tp: found for tp, found in kept.items() if found}


def judge_transactions(
    opened: OpenInPartitions,
    answers: CoordinatorAnswers,
    held: Mapping[TopicPartition, OffsetRange],
    now_ms: int,
) -> tuple[OpenTransaction, ...]:
    """Join the partitions of each transaction, the gravest first.

    The producers of `opened` had their transactions open before the coordinators were asked, and
    after. `held` has each partition's last stable offset and end.
    """
    joined: dict[tuple[int, TransactionVerdict], dict[TopicPartition, OpenProducer]] = {}
    reasons: dict[int, str] = {}
    for tp, producers in sorted(opened.items()):
        for producer in producers:
            verdict, why = _verdict(tp, producer, answers, now_ms)
            joined.setdefault((producer.producer_id, verdict), {})[tp] = producer
            if why is not None:
                reasons[producer.producer_id] = why
    transactions = [
        OpenTransaction(
            producer_id=producer_id,
            transactional_id=(name := answers.ids.get(producer_id)),
            verdict=verdict,
            producers=producers,
            holds=holding(producers, held),
            described=None if name is None else answers.described.get(name),
            why=reasons.get(producer_id) if verdict is TransactionVerdict.UNKNOWN else None,
        )
        for (producer_id, verdict), producers in joined.items()
    ]
    return tuple(
        sorted(transactions, key=lambda one: (-_ORDER.index(one.verdict), min(one.producers)))
    )


def holding(
    producers: Mapping[TopicPartition, OpenProducer], held: Mapping[TopicPartition, OffsetRange]
) -> frozenset[TopicPartition]:
    """Return the partitions whose last stable offset is where the producer's transaction begins."""
    return frozenset(
        tp for tp, one in producers.items() if tp in held and held[tp].start == one.start
    )


def _verdict(
    tp: TopicPartition, producer: OpenProducer, answers: CoordinatorAnswers, now_ms: int
) -> tuple[TransactionVerdict, str | None]:
    name = answers.ids.get(producer.producer_id)
    if name is None:
        return _unnamed(producer, answers.incomplete, now_ms)
    described = answers.described.get(name)
    if described is None or described.producer_id != producer.producer_id:
        error = answers.errors.get(name)
        reason = "its transactional id has another producer now" if error is None else str(error)
        return TransactionVerdict.UNKNOWN, reason
    if tp in described.partitions and described.ongoing:
        return TransactionVerdict.OPEN, None
    if tp in described.partitions and described.ending:
        return TransactionVerdict.ENDING, None
    if described.state_known:
        return _unnamed(producer, None, now_ms)
    return TransactionVerdict.UNKNOWN, (
        f"its state is {described.state}: the brokers are newer than Kafka's Java client here; use "
        "a newer one: --kafka-clients"
    )


def _unnamed(
    producer: OpenProducer, incomplete: str | None, now_ms: int
) -> tuple[TransactionVerdict, str | None]:
    """Judge a transaction that no coordinator reports, by its age: a coordinator may be moving."""
    if incomplete is not None:
        return TransactionVerdict.UNKNOWN, incomplete
    if now_ms - producer.last_written < LONGEST_MS:
        return TransactionVerdict.UNKNOWN, (
            "no coordinator reports it, but one that is moving may have it: its newest record is "
            "less than 15 minutes old. Look again later"
        )
    return TransactionVerdict.HANGING, None
