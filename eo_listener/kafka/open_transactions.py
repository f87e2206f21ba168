"""Transactions that are open in partitions: whose they are, and whether they end by themselves.

No I/O. What leaders say of a partition's producers is laid beside what coordinators say of
transactional ids (KIP-664).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from eo_listener.client_config.identities import IdOwner
from eo_listener.kafka.java_transactions import DescribedTransaction, OpenProducer
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import OffsetRange, TopicPartition

_GRACE_MS: Final = 60_000  # by which clocks differ, and a coordinator is late

OpenInPartitions = Mapping[TopicPartition, Sequence[OpenProducer]]


class TransactionVerdict(Enum):
    """What is to be expected of an open transaction; the gravest last."""

    OPEN = "open"
    """Its coordinator has it, and ends it at its time-out at the latest."""
    ENDING = "ending"
    """Its coordinator is writing the markers that end it."""
    UNKNOWN = "not known"
    """No coordinator named it, and not all of them could be asked for all transactions."""
    HANGING = "hanging"
    """No coordinator has it: it never ends by itself."""


_ORDER: Final = tuple(TransactionVerdict)
_KNOWN: Final = (TransactionVerdict.OPEN, TransactionVerdict.ENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorAnswers:
    """What coordinators say of producers, asked after the leaders and before these once more.

    `ids` are the transactional ids by producer id, as far as they were named. What describing one
    has failed by is in `errors`. `incomplete` is why a transaction may not have been named; None
    where each was.
    """

    ids: Mapping[int, str] = field(default_factory=dict)
    described: Mapping[str, DescribedTransaction] = field(default_factory=dict)
    errors: Mapping[str, KafkaError] = field(default_factory=dict)
    incomplete: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction of one producer that is open in one partition or several.

    `holds` are those whose last stable offset is its first offset there. `described` is what its
    coordinator says. `why` is what is missing for a verdict, or to see its producer at work.
    `first_written` is the time of its oldest record, read from the log, in milliseconds since 1970.
    `stuck`: it was being ended some seconds ago, and still is.
    """

    producer_id: int
    transactional_id: str | None
    verdict: TransactionVerdict
    producers: Mapping[TopicPartition, OpenProducer]
    holds: frozenset[TopicPartition]
    described: DescribedTransaction | None = None
    why: str | None = None
    first_written: int | None = None
    stuck: bool = False

    @property
    def owner(self) -> IdOwner | None:
        """Which sink or group of ours it is of."""
        return None if self.transactional_id is None else IdOwner.of(self.transactional_id)

    @property
    def since(self) -> int | None:
        """When it began, in milliseconds since 1970: by its coordinator, else by its records."""
        if self.described is not None and self.verdict in _KNOWN:
            return self.described.started
        return self.first_written

    @property
    def ends_by(self) -> int | None:
        """When its coordinator ends it at the latest, in milliseconds since 1970; None: never."""
        if self.verdict is not TransactionVerdict.OPEN or self.described is None:
            return None
        if self.described.two_phase:
            return None
        started = self.described.started
        return None if started is None else started + round(1000 * self.described.timeout)

    @property
    def two_phase(self) -> bool:
        """Whether only its own program may end it (KIP-939)."""
        return (
            self.verdict is TransactionVerdict.OPEN
            and self.described is not None
            and self.described.two_phase
        )

    def is_same(self, later: OpenTransaction) -> bool:
        """Whether another reading is of this one, not of a later one of the same producer."""
        if self.verdict is TransactionVerdict.HANGING or self.described is None:
            return any(
                tp in later.producers and one.is_same(later.producers[tp])
                for tp, one in self.producers.items()
            )
        return later.described is not None and later.described.started == self.described.started

    def is_overdue(self, now_ms: int) -> bool:
        """Whether its coordinator should have ended it a minute ago or more."""
        return self.ends_by is not None and now_ms > self.ends_by + _GRACE_MS


def still_open(before: OpenInPartitions, after: OpenInPartitions) -> OpenInPartitions:
    """The producers of `after` whose transactions were open before: none that has begun since."""
    known = {(tp, one.producer_id, one.start) for tp, found in before.items() for one in found}
    kept = {
        tp: tuple(one for one in found if (tp, one.producer_id, one.start) in known)
        for tp, found in after.items()
    }
    return {tp: found for tp, found in kept.items() if found}


def with_stuck(
    before: Sequence[OpenTransaction], after: Sequence[OpenTransaction]
) -> tuple[OpenTransaction, ...]:
    """Those of `after`; `stuck` where it was being ended `before` too, as the same transaction."""
    ending = {_ending(one) for one in before if one.verdict is TransactionVerdict.ENDING}
    return tuple(
        replace(one, stuck=one.verdict is TransactionVerdict.ENDING and _ending(one) in ending)
        for one in after
    )


def judge_transactions(
    found: OpenInPartitions,
    answers: CoordinatorAnswers,
    held: Mapping[TopicPartition, OffsetRange],
) -> tuple[OpenTransaction, ...]:
    """Join what is of one transaction, the gravest first.

    `found` was open before the coordinators were asked, and after: so what they do not have then
    hangs. `held` has each partition's last stable offset and end.
    """
    joined: dict[tuple[int, TransactionVerdict], dict[TopicPartition, OpenProducer]] = {}
    reasons: dict[int, str] = {}
    for tp, producers in sorted(found.items()):
        for one in producers:
            verdict, why = _verdict(tp, one, answers)
            joined.setdefault((one.producer_id, verdict), {})[tp] = one
            if why is not None:
                reasons[one.producer_id] = why
    transactions = [
        OpenTransaction(
            producer_id=producer_id,
            transactional_id=(name := answers.ids.get(producer_id)),
            verdict=verdict,
            producers=producers,
            holds=frozenset(tp for tp, one in producers.items() if holds(tp, one, held)),
            described=None if name is None else answers.described.get(name),
            why=reasons.get(producer_id) if verdict is TransactionVerdict.UNKNOWN else None,
        )
        for (producer_id, verdict), producers in joined.items()
    ]
    return tuple(
        sorted(transactions, key=lambda one: (-_ORDER.index(one.verdict), min(one.producers)))
    )


def holds(
    tp: TopicPartition, producer: OpenProducer, held: Mapping[TopicPartition, OffsetRange]
) -> bool:
    """Whether the last stable offset of a partition is where this producer's transaction begins."""
    return tp in held and held[tp].start == producer.start


def has_moved(before: OpenTransaction, after: OpenTransaction) -> bool:
    """Whether its producer was at work between two readings."""
    return (before.producers, before.described) != (after.producers, after.described)


def _ending(one: OpenTransaction) -> tuple[int, int | None]:
    return one.producer_id, one.since


def _verdict(
    tp: TopicPartition, producer: OpenProducer, answers: CoordinatorAnswers
) -> tuple[TransactionVerdict, str | None]:
    name = answers.ids.get(producer.producer_id)
    if name is None:
        if answers.incomplete is not None:
            return TransactionVerdict.UNKNOWN, answers.incomplete
        return TransactionVerdict.HANGING, None
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
        return TransactionVerdict.HANGING, None
    return TransactionVerdict.UNKNOWN, (
        f"its state is {described.state}: the brokers are newer than Kafka's Java client here; use "
        "a newer one: --kafka-clients"
    )
