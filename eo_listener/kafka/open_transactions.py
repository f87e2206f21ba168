"""Finds open transactions and their owners, and ends transactions that never end on their own.

- Leaders report the producers of a partition, and coordinators report the producers' transactional
  ids (KIP-664). The reader asks the leaders before and after it asks the coordinators, and judges
  only transactions that were open both times. A partition that cannot be read does not prevent
  reading the others.
- The repair ends a transaction by taking over its id (InitProducerId, which `initTransactions`
  sends): this fences the producer, and the coordinator aborts the open transaction. Whatever Kafka
  answers, only the later reports of the leaders and the coordinator count: a missing answer is
  neither success nor failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from uuid import uuid4

from eo_listener.client_config.admin_commands import NO_TOPIC_RIGHT, grant_command_for, with_right
from eo_listener.client_config.identities import IdOwner
from eo_listener.client_config.kafka_options import MAX_TRANSACTION_TIMEOUT_MS
from eo_listener.errors import KafkaError, SettingsError
from eo_listener.kafka.java_transactions import (
    DescribedTransaction,
    DescribedTransactions,
    JavaTransactions,
    OpenProducer,
)
from eo_listener.kafka.logs import NO_LEADER, ClusterReader
from eo_listener.kafka.producers import BatchProducer
from eo_listener.model.kafka_errors import explain
from eo_listener.offsets import OffsetRange, TopicPartition

_GRACE_MS: Final = 60_000  # for differences of clocks, and for a coordinator that is late

OpenInPartitions = Mapping[TopicPartition, Sequence[OpenProducer]]
OFFSETS_TOPIC: Final = "__consumer_offsets"
NOT_FOUND: Final = "TRANSACTIONAL_ID_NOT_FOUND"
_NO_ID_RIGHT: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
COORDINATOR: Final = "its coordinator"
_TIMEOUT: Final = 30.0  # seconds for each: to end a transaction, and to see its end
_REQUEST: Final = 15.0  # seconds for each request of the reader
_QUESTION: Final = 10.0
_PAUSE: Final = 0.2
# Transaction time-outs for the takeover, in seconds, tried in turn. The open transaction's own
# time-out may be longer than the brokers now allow.
_TAKEN_FOR: Final = (10.0, 1.0)
_TOO_LONG: Final = "INVALID_TRANSACTION_TIMEOUT"
_HELD: Final = (
    "ended, but read_committed consumers still wait: its marker is not in all in-sync replicas "
    "yet, or too few replicas are in sync"
)


class TransactionVerdict(Enum):
    """A verdict on how an open transaction will end. The last verdict is the gravest."""

    OPEN = "open"
    """The coordinator has the transaction, and will end it at its time-out at the latest."""
    ENDING = "ending"
    """The coordinator is writing the markers that end the transaction."""
    UNKNOWN = "not known"
    """No coordinator reported the transaction, but a coordinator may have it nevertheless."""
    HANGING = "hanging"
    """No coordinator has the transaction: it never ends on its own."""


_ORDER: Final = tuple(TransactionVerdict)
_KNOWN: Final = (TransactionVerdict.OPEN, TransactionVerdict.ENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorAnswers:
    """The reports of coordinators about producers.

    `ids` has the transactional ids by producer id. `errors` has the reason for each id that no
    coordinator could describe. `incomplete` is the reason why coordinators may have left out ids,
    or None.
    """

    ids: Mapping[int, str] = field(default_factory=dict)
    described: Mapping[str, DescribedTransaction] = field(default_factory=dict)
    errors: Mapping[str, KafkaError] = field(default_factory=dict)
    incomplete: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction of one producer that is open in one or more partitions."""

    producer_id: int
    transactional_id: str | None
    verdict: TransactionVerdict
    producers: Mapping[TopicPartition, OpenProducer]
    blocked: frozenset[TopicPartition]
    """The partitions whose last stable offset is the transaction's first offset there."""
    described: DescribedTransaction | None = None
    """The coordinator's answer about the transactional id, if there is one."""
    reason: str | None = None
    """The reason why no verdict is possible, or why some producers may be missing."""

    @property
    def owner(self) -> IdOwner | None:
        """The sink or group of eo_listener that owns the transaction, or None."""
        return None if self.transactional_id is None else IdOwner.parse(self.transactional_id)

    @property
    def since(self) -> int | None:
        """The time when the transaction began, in ms since 1970, or None if that is unknown."""
        described = self.described if self.verdict in _KNOWN else None
        return None if described is None else described.started

    @property
    def last_written(self) -> int | None:
        """The time of the transaction's newest record, in milliseconds since 1970."""
        return max((producer.last_written for producer in self.producers.values()), default=None)

    @property
    def ends_by(self) -> int | None:
        """The time by which the transaction ends, in ms since 1970.

        None if the time is unknown, or if the transaction never ends.
        """
        described = self.described if self.verdict is TransactionVerdict.OPEN else None
        if described is None or described.two_phase or described.started is None:
            return None
        return described.started + round(1000 * described.timeout)

    @property
    def two_phase(self) -> bool:
        """True if only the program that began the transaction may end it (KIP-939)."""
        return (
            self.verdict is TransactionVerdict.OPEN
            and self.described is not None
            and self.described.two_phase
        )

    def is_overdue(self, now_ms: int) -> bool:
        """Return True if the coordinator should have ended the transaction a minute ago or more."""
        return self.ends_by is not None and now_ms > self.ends_by + _GRACE_MS


def still_open(before: OpenInPartitions, after: OpenInPartitions) -> OpenInPartitions:
    """Return the producers in `after` whose transactions were already open in `before`."""
    remaining = {
        tp: tuple(each for each in producers if any(map(each.is_same, before.get(tp, ()))))
        for tp, producers in after.items()
    }
    return {tp: producers for tp, producers in remaining.items() if producers}


def judge_transactions(
    opened: OpenInPartitions,
    answers: CoordinatorAnswers,
    unstable: Mapping[TopicPartition, OffsetRange],
    now_ms: int,
) -> tuple[OpenTransaction, ...]:
    """Return the open transactions with their verdicts, the gravest first.

    The transactions of the producers in `opened` were open both before and after the reader asked
    the coordinators. `unstable` has each partition's last stable offset and end.
    """
    joined: dict[tuple[int, TransactionVerdict], dict[TopicPartition, OpenProducer]] = {}
    reasons: dict[int, str] = {}
    for tp, producers in sorted(opened.items()):
        for producer in producers:
            verdict, reason = _verdict(tp, producer, answers, now_ms)
            joined.setdefault((producer.producer_id, verdict), {})[tp] = producer
            if reason is not None:
                reasons[producer.producer_id] = reason
    transactions = (
        OpenTransaction(
            producer_id=producer_id,
            transactional_id=(name := answers.ids.get(producer_id)),
            verdict=verdict,
            producers=producers,
            blocked=blocked_partitions(producers, unstable),
            described=None if name is None else answers.described.get(name),
            reason=reasons.get(producer_id) if verdict is TransactionVerdict.UNKNOWN else None,
        )
        for (producer_id, verdict), producers in joined.items()
    )
    return tuple(sorted(transactions, key=lambda t: (-_ORDER.index(t.verdict), min(t.producers))))


def blocked_partitions(
    producers: Mapping[TopicPartition, OpenProducer], unstable: Mapping[TopicPartition, OffsetRange]
) -> frozenset[TopicPartition]:
    """Return the partitions in which `producers` hold back the last stable offset."""
    starts = {tp: offsets.start for tp, offsets in unstable.items()}
    return frozenset(tp for tp, producer in producers.items() if producer.start == starts.get(tp))


def _verdict(
    tp: TopicPartition, producer: OpenProducer, answers: CoordinatorAnswers, now_ms: int
) -> tuple[TransactionVerdict, str | None]:
    name = answers.ids.get(producer.producer_id)
    if name is None:
        return _unnamed(producer, answers.incomplete, now_ms)
    described = answers.described.get(name)
    if described is None or described.producer_id != producer.producer_id:
        error = answers.errors.get(name)
        reason = "its transactional id now has another producer" if error is None else str(error)
        return TransactionVerdict.UNKNOWN, reason
    if tp in described.partitions and described.ongoing:
        return TransactionVerdict.OPEN, None
    if tp in described.partitions and described.ending:
        return TransactionVerdict.ENDING, None
    if described.state_known:
        return _unnamed(producer, None, now_ms)
    return TransactionVerdict.UNKNOWN, (
        f"its state is {described.state}: the brokers are newer than Kafka's Java client here; "
        "use a newer client: --kafka-clients"
    )


def _unnamed(
    producer: OpenProducer, incomplete: str | None, now_ms: int
) -> tuple[TransactionVerdict, str | None]:
    """Judge by age: a transaction that no coordinator reports either hangs or is unknown.

    It is unknown if its newest record is recent, since a coordinator that is moving may have it.
    Returns the verdict, and the reason if it is unknown.
    """
    if incomplete is not None:
        return TransactionVerdict.UNKNOWN, incomplete
    if now_ms - producer.last_written < MAX_TRANSACTION_TIMEOUT_MS:
        return TransactionVerdict.UNKNOWN, (
            "no coordinator reports it, but a coordinator that is moving may have it: its newest "
            "record is less than 15 minutes old. Look again later"
        )
    return TransactionVerdict.HANGING, None


def state_partition(name: str, partitions: int) -> int:
    """Return the partition of an internal topic that stores the state of the group or id `name`.

    The topic is `__consumer_offsets` (groups) or `__transaction_state` (transactional ids), with
    `partitions` partitions. The function computes the same number as GroupCoordinator.partitionFor
    and TransactionStateManager.partitionFor.
    """
    hashed = 0
    text = name.encode("utf-16-be", "surrogatepass")
    for first, second in zip(text[::2], text[1::2], strict=True):
        hashed = (31 * hashed + (first << 8 | second)) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class StableOffsets:
    """Ranges from the last stable offset to the end, or errors, by partition.

    A partition that no longer exists is in neither `ranges` nor `errors`.
    """

    ranges: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    errors: Mapping[TopicPartition, KafkaError] = field(default_factory=dict)

    @property
    def unstable(self) -> Mapping[TopicPartition, OffsetRange]:
        """The partitions whose last stable offset is not the end of the log."""
        return {tp: offsets for tp, offsets in self.ranges.items() if offsets.start < offsets.until}


def stable_offsets(cluster: ClusterReader, partitions: Collection[TopicPartition]) -> StableOffsets:
    """Read the last stable offsets and ends of partitions. Raises KafkaError if no leader answers.

    The result reports a partition without a leader as an error. If a broker does not answer, the
    function asks each broker separately.
    """
    if not partitions:
        return StableOffsets()
    leaders = cluster.leaders({tp.topic for tp in partitions})
    by_broker: dict[int, list[TopicPartition]] = {}
    for tp in partitions:
        if tp in leaders:
            by_broker.setdefault(leaders[tp], []).append(tp)
    errors = {tp: _without_leader(tp) for tp in by_broker.pop(NO_LEADER, ())}
    try:
        ranges = cluster.ranges([tp for part in by_broker.values() for tp in part])
    except KafkaError:
        if len(by_broker) < 2:
            raise
        ranges, unreachable = _one_by_one(cluster, by_broker.values())
        errors |= unreachable
    return StableOffsets(ranges=ranges, errors=errors)


def _one_by_one(
    cluster: ClusterReader, parts: Iterable[Collection[TopicPartition]]
) -> tuple[Mapping[TopicPartition, OffsetRange], Mapping[TopicPartition, KafkaError]]:
    answers: list[Mapping[TopicPartition, OffsetRange]] = []
    errors: dict[TopicPartition, KafkaError] = {}
    for part in parts:
        try:
            answers.append(cluster.ranges(part))
        except KafkaError as error:
            errors |= dict.fromkeys(part, error)
    if not answers:
        raise next(iter(errors.values()))
    return {tp: offsets for answer in answers for tp, offsets in answer.items()}, errors


def _without_leader(tp: TopicPartition) -> KafkaError:
    return KafkaError(
        f"partition {tp} has no leader",
        code="LEADER_NOT_AVAILABLE",
        cause="the brokers with its in-sync replicas are down",
        fix="Start them",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionReading:
    """The transactions that are open in some partitions.

    `unstable` has the range from the last stable offset to the end, for partitions in which they
    differ. `errors` has the partitions whose range or open transactions could not be read.
    """

    unstable: Mapping[TopicPartition, OffsetRange]
    transactions: tuple[OpenTransaction, ...]
    errors: Mapping[TopicPartition, KafkaError]


class TransactionReader:
    """Reads the open transactions of a cluster. Only one thread may use it.

    `properties` have librdkafka's names, and `java` has the same properties under their Java names.
    Every method may raise KafkaError.
    """

    def __init__(self, properties: Mapping[str, str], java: JavaTransactions) -> None:
        self._properties = dict(properties)
        self._java = java
        self._cluster = ClusterReader(properties, timeout=_REQUEST)

    def partitions(self, topics: Collection[str] | None) -> tuple[TopicPartition, ...]:
        """Return the partitions of `topics`, or of all topics except Kafka's own if it is None.

        Raises SettingsError for a topic that does not exist.
        """
        partitions = self._cluster.partitions(topics)
        missing = sorted(set(topics or ()) - {tp.topic for tp in partitions})
        if missing:
            raise SettingsError(
                f"topic {missing[0]} does not exist, or this client lacks the right to Describe it",
                fix="Check the name and the client's permissions",
            )
        return partitions

    def of_group(self, group: str) -> tuple[TopicPartition, ...]:
        """Return the partitions of a group's topics, and the group's own partition.

        The group's own partition is the partition of `__consumer_offsets` that stores its offsets.
        """
        topics = {tp.topic for tp in self._cluster.group(group)}
        stores = self._cluster.partitions([OFFSETS_TOPIC])
        if not stores:
            raise KafkaError(
                f"cannot find the partition that keeps the offsets of group {group}",
                code=NO_TOPIC_RIGHT,
                cause=f"this client lacks the right to Describe {OFFSETS_TOPIC}, or the topic "
                "does not exist yet",
                fix=(
                    "Name the topics instead: --topic; or, as an administrator of the cluster: "
                    f"{grant_command_for(self._properties, ['Read'], ['--topic', OFFSETS_TOPIC])}"
                ),
            )
        own = stores[state_partition(group, len(stores))]
        return (*(self._cluster.partitions(topics) if topics else ()), own)

    def stable(self, partitions: Collection[TopicPartition]) -> StableOffsets:
        """Return the last stable offset and the end of each partition."""
        return stable_offsets(self._cluster, partitions)

    def read(self, partitions: Collection[TopicPartition]) -> TransactionReading:
        """Read the transactions that are open in these partitions."""
        stable = self.stable(partitions)
        before = self._java.open_producers(stable.unstable, _REQUEST)
        producers = {each.producer_id for opened in before.by_partition.values() for each in opened}
        answers = self._coordinators(producers)
        after = self._java.open_producers(before.by_partition, _REQUEST)
        opened = still_open(before.by_partition, after.by_partition)
        now_ms = time.time_ns() // 1_000_000
        refused = {
            tp: with_right(error, self._properties, ["Read"], ("--topic", tp.topic))
            for tp, error in {**before.errors, **after.errors}.items()
        }
        return TransactionReading(
            unstable=stable.unstable,
            transactions=judge_transactions(opened, answers, stable.unstable, now_ms),
            errors={**stable.errors, **refused},
        )

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Ask the coordinator about an id.

        Raises SettingsError if the coordinator does not know the id.
        """
        try:
            return self._java.describe(transactional_id, _REQUEST)
        except KafkaError as error:
            if error.code == NOT_FOUND:
                raise SettingsError(
                    f"no coordinator has the transactional id {transactional_id!r}",
                    cause="it is misspelled, or its transactions have expired",
                    fix="Run eo-listener txn list to see the transactional ids",
                ) from None
            id_ = ("--transactional-id", transactional_id)
            raise with_right(
                error, self._properties, ["Describe"], id_, refused=_NO_ID_RIGHT
            ) from error

    def open_under(self, transactional_id: str, described: DescribedTransaction) -> OpenTransaction:
        """Return the open transaction of an id, as the leaders of its partitions report it.

        The result leaves out partitions whose leader does not answer. The result's `reason` has the
        error, or says that no leader shows the producer.
        """
        answer = self._java.open_producers(described.partitions, _REQUEST)
        producers = {
            tp: producer
            for tp, opened in answer.by_partition.items()
            for producer in opened
            if producer.producer_id == described.producer_id
        }
        reasons = [
            str(with_right(error, self._properties, ["Read"], ("--topic", tp.topic)))
            for tp, error in sorted(answer.errors.items())
        ]
        # Kafka leaves out topics that a client may not describe, without an error.
        if not producers:
            reasons.append(
                "no partition leader shows its producer: it has written nothing yet, or this "
                "client lacks the right to Describe its topics"
            )
        return OpenTransaction(
            producer_id=described.producer_id,
            transactional_id=transactional_id,
            verdict=TransactionVerdict.OPEN,
            producers=producers,
            blocked=blocked_partitions(producers, self.stable(producers).unstable),
            described=described,
            reason=reasons[0] if reasons else None,
        )

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _coordinators(self, producers: Collection[int]) -> CoordinatorAnswers:
        try:
            ids = self._java.transactional_ids(producers, _REQUEST)
        except KafkaError as error:
            return CoordinatorAnswers(incomplete=str(error))
        # From here on the ids are known, even if the next requests fail.
        try:
            incomplete = None if set(producers) <= ids.keys() else self._hidden()
        except KafkaError as error:
            incomplete = str(error)
        try:
            answer = self._java.describe_all(ids.values(), _REQUEST)
        except KafkaError as error:
            answer = DescribedTransactions(errors=dict.fromkeys(ids.values(), error))
        return CoordinatorAnswers(
            ids=ids, described=answer.by_id, errors=answer.errors, incomplete=incomplete
        )

    def _hidden(self) -> str | None:
        """Return the reason why coordinators may leave out ids, or None.

        To find out, the method asks the coordinators for an unknown id.
        """
        answer = self._java.describe_all([uuid4().hex], _REQUEST)
        for error in answer.errors.values():
            if error.code == _NO_ID_RIGHT:
                all_ids = ("--transactional-id", "*")
                return str(
                    with_right(error, self._properties, ["Describe"], all_ids, refused=_NO_ID_RIGHT)
                )
            if error.code != NOT_FOUND:
                return str(error)
        return None


ReadStable = Callable[[Collection[TopicPartition]], StableOffsets]


class TransactionRepair:
    """Ends one transaction at a time. Only one thread may use it.

    `properties` have librdkafka's names, and `java` has the same properties under their Java names.
    `stable` reads the last stable offsets of partitions.
    """

    def __init__(
        self, properties: Mapping[str, str], java: JavaTransactions, stable: ReadStable
    ) -> None:
        self._properties = dict(properties)
        self._java = java
        self._stable = stable

    def fence(self, transactional_id: str, transaction: OpenTransaction) -> Mapping[str, str]:
        """Take over the id; return the places where the transaction is still open, with reasons.

        A place is a partition or COORDINATOR. Raises KafkaError if a right is missing; then nothing
        has changed.
        """
        failed = self._take_over(transactional_id)
        if failed is not None and failed.code == _NO_ID_RIGHT:
            id_ = ("--transactional-id", transactional_id)
            raise with_right(failed, self._properties, ["Write"], id_, refused=_NO_ID_RIGHT)
        reason = "its marker is not written yet" if failed is None else _reason(failed)
        deadline = time.monotonic() + _TIMEOUT
        while True:
            remaining = dict(self._remaining(transactional_id, transaction, reason))
            if not remaining or time.monotonic() >= deadline:
                return remaining
            time.sleep(_PAUSE)

    def _take_over(self, transactional_id: str) -> KafkaError | None:
        """Take over the id; return the error, if any.

        Even if the method returns an error, the takeover may have happened.
        """
        failed = None
        for seconds in _TAKEN_FOR:
            producer = BatchProducer(
                self._properties, transactional_id, transaction_timeout=seconds
            )
            try:
                producer.take_over(_TIMEOUT)
            except KafkaError as error:
                failed = error
                if error.code != _TOO_LONG:
                    break
            else:
                return None
            finally:
                producer.leave()
        return failed

    def _remaining(self, name: str, was: OpenTransaction, reason: str) -> Iterator[tuple[str, str]]:
        """Yield the places where the transaction is open or blocks readers, each with the reason.

        The method asks the leaders for open transactions before it calls `stable`.
        """
        if was.described is not None:
            yield from self._at_coordinator(name, was.described)
        try:
            answer = self._java.open_producers(was.producers, _QUESTION)
            stable = self._stable(was.producers)
        except KafkaError as error:
            yield from ((str(tp), f"not known: {error}") for tp in sorted(was.producers))
            return
        for tp, producer in sorted(was.producers.items()):
            refused = answer.errors.get(tp) or stable.errors.get(tp)
            opened = answer.by_partition.get(tp, ())
            if refused is not None:
                yield str(tp), f"not known: {refused}"
            elif any(map(producer.is_same, opened)):
                yield str(tp), f"still open: {reason}"
            elif tp not in stable.ranges:
                yield str(tp), "not known: the partition no longer exists"
            elif stable.ranges[tp].start <= producer.start and not any(
                earlier.start <= producer.start for earlier in opened
            ):
                yield str(tp), f"{_HELD} (offset {stable.ranges[tp].start})"

    def _at_coordinator(self, name: str, before: DescribedTransaction) -> Iterator[tuple[str, str]]:
        try:
            now = self._java.describe(name, _QUESTION)
        except KafkaError as error:
            if error.code != NOT_FOUND:
                yield COORDINATOR, f"not known: {error}"
        else:
            if now.started == before.started and (now.ongoing or now.ending):
                yield COORDINATOR, f"still open: its state is {now.state}"


def _reason(error: KafkaError) -> str:
    lost = explain(error.code).outcome_unknown
    return (
        f"{error}; the request may have arrived nevertheless and may still take effect"
        if lost
        else str(error)
    )
