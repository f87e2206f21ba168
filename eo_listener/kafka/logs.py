"""Reads topics, the offsets of groups, and the ends of logs, through clients that stay open.

Every request raises KafkaError if Kafka does not answer before `deadline` (monotonic clock).
Results leave out topics and partitions that do not exist. A result's `errors` names the topics that
Kafka refuses to describe.

`ClusterReader` takes no deadlines: it gives each reading the same time, and reads groups too.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import TimeoutError as Late
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException, TopicCollection
from confluent_kafka import KafkaError as Answer
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # no __all__

from eo_listener.client_config.admin_commands import (
    AS_ADMINISTRATOR,
    grant_command_for,
    topic_options,
)
from eo_listener.client_config.validation import require_name
from eo_listener.errors import KafkaError, few
from eo_listener.kafka.client import (
    OUTSIDER,
    STABLE,
    TIMED_OUT,
    Client,
    Role,
    answer_of,
    chunks,
    is_local,
    open_admin,
)
from eo_listener.model.kafka_errors import COORDINATOR_MOVES, LEADER_MOVES, NO_TOPIC
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import OffsetRange, Position, TopicPartition

UNREADABLE = "(not readable)"
NO_LEADER = -1
# Partitions, or topics, in one request. librdkafka looks up each partition of an answer by walking
# through the request: 5,000 partitions take 110 ms in one request, and 27 ms in five of 1,000.
_AT_ONCE = 1000
_GONE = NO_TOPIC | {"_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"}
# Answers if the client does not yet know a partition's leader, or does not know the partition.
STALE = _GONE | LEADER_MOVES | {"_NOENT"}
# A broker's errors about a topic in an answer about a group; any other error concerns the group.
_OF_TOPICS = frozenset({"TOPIC_AUTHORIZATION_FAILED", "TOPIC_EXCEPTION"})
_METADATA_TIMEOUT = 3.0  # seconds for librdkafka to refresh its metadata
_PAUSE = 0.1
# Topic.INTERNAL_TOPICS of kafka-clients, which Spark's patterns leave out too.
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # all zeros: the broker knows no topic ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """An existing topic.

    `id` is the id in the form that Kafka's own tools show, or None if the topic has no id.
    """

    id: str | None
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """A group's offsets; `errors` has the error name of each topic that Kafka does not describe."""

    positions: Mapping[TopicPartition, Position]
    errors: Mapping[str, str]

    def whole(self) -> Mapping[TopicPartition, Position]:
        """Return all positions. Raises KafkaError if Kafka has refused to describe a topic."""
        _require_none(self.errors)
        return self.positions


NO_OFFSETS = GroupOffsets(positions=MappingProxyType({}), errors=MappingProxyType({}))


class Logs:
    """Reads the logs of one cluster; connects at first use.

    Two threads must not use this object at once.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._clients: tuple[Client, AdminClient] | None = None
        self._stable: Client | None = None

    def snapshot(
        self, offsets: GroupOffsets, partitions: Collection[TopicPartition], deadline: float
    ) -> GroupSnapshot:
        """Return a group's `offsets`, with the logs' starts and ends, and the topic ids."""
        topics, errors = self._describe({tp.topic for tp in partitions}, deadline)
        errors |= offsets.errors
        existing = [tp for tp in _existing(partitions, topics) if tp.topic not in errors]
        begin = dict.fromkeys(existing, OFFSET_BEGINNING)
        starts, refused_starts = self._edges("start", begin, deadline)
        ends, refused_ends = self._edges("end", dict.fromkeys(existing, OFFSET_END), deadline)
        errors |= refused_starts | refused_ends
        readable = {name: topic for name, topic in topics.items() if name not in errors}
        return GroupSnapshot(
            positions={tp: at for tp, at in offsets.positions.items() if tp.topic not in errors},
            starts={tp: start for tp, start in starts.items() if tp.topic not in errors},
            ends={tp: end for tp, end in ends.items() if tp.topic not in errors},
            topic_ids={name: topic.id for name, topic in readable.items() if topic.id is not None},
            errors=errors,
        )

    def ends(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, int]:
        """Return the end of each log: the offset of the next record."""
        return self._at("end", dict.fromkeys(partitions, OFFSET_END), deadline)

    def stable_ends(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, int]:
        """Return each log's last stable offset: its first open transaction's start, or its end.

        A consumer with read_committed reads up to this offset.
        """
        ends = dict.fromkeys(partitions, OFFSET_END)
        return self._at("have an open transaction", ends, deadline, self._stable_client())

    def ranges(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, OffsetRange]:
        """Return the range from the last stable offset to the end of each log. All logs must exist.

        The method asks only the leaders, since the broker that would describe the topics may be
        unreachable.
        """
        specs = dict.fromkeys(partitions, OFFSET_END)
        ends, refused = self._edges("end", specs, deadline)
        _require_none(refused)
        stable, refused = self._edges(
            "have an open transaction", specs, deadline, self._stable_client()
        )
        _require_none(refused)
        # The last stable offset is read after the end, and may be higher by then.
        return {tp: OffsetRange(stable[tp], max(end, stable[tp])) for tp, end in ends.items()}

    def at(
        self, timestamps: Mapping[TopicPartition, int], deadline: float
    ) -> Mapping[TopicPartition, int]:
        """Return the offset of each partition's first record at or after a time (ms since 1970).

        The result leaves out a partition without such a record.
        """
        offsets = self._at("reach these times", timestamps, deadline)
        return {tp: offset for tp, offset in offsets.items() if offset >= 0}

    def _at(
        self,
        name: str,
        specs: Mapping[TopicPartition, int],
        deadline: float,
        client: Client | None = None,
    ) -> dict[TopicPartition, int]:
        topics, errors = self._describe({tp.topic for tp in specs}, deadline)
        existing = {tp: specs[tp] for tp in _existing(specs, topics)}
        edges, refused = self._edges(name, existing, deadline, client)
        _require_none(errors | refused)
        return edges

    def partitions(
        self, topics: Iterable[str] | None, deadline: float
    ) -> tuple[TopicPartition, ...]:
        """Return the partitions of `topics`, or of all topics except Kafka's own if it is None."""
        return tuple(sorted(self.leaders(topics, deadline)))

    def leaders(
        self, topics: Iterable[str] | None, deadline: float
    ) -> Mapping[TopicPartition, int]:
        """Return the id of the broker that leads each partition, or `NO_LEADER`."""
        client, _ = self._open()
        action = "listing topics"
        try:
            metadata = client.consumer.list_topics(timeout=_seconds_left(action, client, deadline))
        except KafkaException as error:
            raise client.failure(action, answer_of(error)) from error
        selected = None if topics is None else frozenset(topics)
        return {
            TopicPartition(name, number): partition.leader
            for name, topic in metadata.topics.items()
            if (name in selected if selected is not None else name not in _INTERNAL)
            for number, partition in topic.partitions.items()
        }

    def refused(self, topics: Collection[str], deadline: float) -> Mapping[str, str]:
        """Return the errors of those `topics` that Kafka does not show to this client.

        Kafka leaves out such topics when it lists all topics, whether they exist or not.
        """
        return self._describe(topics, deadline)[1]

    def existing(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> tuple[TopicPartition, ...]:
        """Return the partitions that exist, except those of topics that Kafka does not describe."""
        topics, _ = self._describe({tp.topic for tp in partitions}, deadline)
        return _existing(partitions, topics)

    def topics(self, names: Collection[str], deadline: float) -> Mapping[str, Topic]:
        """Return the topics that exist.

        Also raises KafkaError if Kafka refuses to describe a topic.
        """
        topics, errors = self._describe(names, deadline)
        _require_none(errors)
        return topics

    def cleanup_policy(self, topic: str, deadline: float) -> str:
        """Return the cleanup.policy of a topic."""
        client, admin = self._open()
        action = f"reading the settings of topic {topic}"
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        seconds = _seconds_left(action, client, deadline)
        try:
            future = admin.describe_configs([resource], request_timeout=seconds)[resource]
            return str(future.result(timeout=seconds)["cleanup.policy"].value)
        except (KafkaException, Late) as error:
            raise client.failure(action, answer_of(error)) from error

    def _describe(
        self, names: Collection[str], deadline: float
    ) -> tuple[dict[str, Topic], dict[str, str]]:
        """Return the topics that exist, and the errors of topics that Kafka refuses to describe.

        This is the only request that the class sends through the AdminClient. It needs no
        coordinator, and survived restarts of a broker during which requests for groups ended the
        process.
        """
        client, admin = self._open()
        action = "describing topics"
        topics: dict[str, Topic] = {}
        errors: dict[str, str] = {}
        for name in names:
            require_name("topic", name)
        for chunk in chunks(sorted(names), _AT_ONCE):
            seconds = _seconds_left(action, client, deadline)
            answers = admin.describe_topics(TopicCollection(chunk), request_timeout=seconds)
            for name, future in answers.items():
                try:
                    topic = future.result(timeout=_seconds_left(action, client, deadline))
                except (KafkaException, Late) as error:
                    answer = answer_of(error)
                    if answer.name() in _GONE:
                        continue
                    if is_local(answer):
                        raise client.failure(action, answer) from error
                    errors[name] = answer.name()
                else:
                    # librdkafka writes the id in standard base64, Kafka in URL-safe base64
                    text = str(topic.topic_id).translate(str.maketrans("+/", "-_"))
                    topics[name] = Topic(
                        id=None if text == _NO_ID else text,
                        partitions=frozenset(part.id for part in topic.partitions),
                    )
        client.errors.forget()
        return topics, errors

    def _edges(
        self,
        name: str,
        specs: Mapping[TopicPartition, int],
        deadline: float,
        client: Client | None = None,
    ) -> tuple[dict[TopicPartition, int], dict[str, str]]:
        """Return one offset of each log, and the errors of topics that Kafka refuses to describe.

        `specs` say which offset to return: the log's start, its end, or the offset at a time. All
        logs must exist. librdkafka sends the request to the leaders that it remembers. After a
        change of a topic, these may be the wrong brokers for a moment, and librdkafka may report
        the error of one partition for all partitions. Then the method asks again.
        """
        client = client or self._open()[0]
        action = f"reading the offsets at which logs {name}"
        request = client.consumer.offsets_for_times
        retry_until = min(deadline, time.monotonic() + _METADATA_TIMEOUT)
        while True:
            queries = (Wire(tp.topic, tp.partition, spec) for tp, spec in specs.items())
            edges: dict[TopicPartition, int] = {}
            errors: dict[str, str] = {}
            try:
                for part in _ask(action, client, request, queries, deadline):
                    if part.error is None:
                        edges[TopicPartition(part.topic, part.partition)] = part.offset
                    elif is_local(part.error) or part.error.name() in STALE:
                        log = f"{part.topic}-{part.partition}"
                        raise client.failure(f"{action} ({log})", part.error)
                    else:
                        errors[part.topic] = part.error.name()
            except KafkaError as error:
                if error.code not in STALE or time.monotonic() >= retry_until:
                    raise
                time.sleep(_PAUSE)
            else:
                client.errors.forget()
                return edges, errors

    def poll(self) -> None:
        """Run the clients' waiting callbacks."""
        if self._clients is not None:
            self._clients[0].poll()

    def close(self) -> None:
        """Close the connections."""
        if self._clients is not None:
            self._clients[0].close()
            self._clients = None
        if self._stable is not None:
            self._stable.close()
            self._stable = None

    def _stable_client(self) -> Client:
        if self._stable is None:
            self._stable = Client(self._properties, "eo-listener-reader", role=STABLE)
        return self._stable

    def _open(self) -> tuple[Client, AdminClient]:
        if self._clients is None:
            admin = open_admin(self._properties)
            self._clients = (Client(self._properties, "eo-listener-reader"), admin)
        return self._clients


def group_offsets(
    client: Client, group: str, partitions: Iterable[TopicPartition], deadline: float
) -> GroupOffsets:
    """Return the offsets and metadata of `group`, which must be the group of `client`."""
    action = f"reading group {group}"
    queries = (Wire(tp.topic, tp.partition) for tp in partitions)
    errors: dict[str, str] = {}
    positions: dict[TopicPartition, Position] = {}
    for part in _ask(action, client, client.consumer.committed, queries, deadline):
        if part.error is not None and part.error.name() not in _GONE:
            if part.error.name() not in _OF_TOPICS:
                raise client.failure(action, part.error)
            errors[part.topic] = part.error.name()
        positions |= positions_of((part,))
    return GroupOffsets(positions=positions, errors=errors)


def positions_of(parts: Iterable[Wire]) -> dict[TopicPartition, Position]:
    """Return the offsets and metadata in an answer about a group; leave out errors."""
    return {
        TopicPartition(part.topic, part.partition): Position(
            offset=part.offset, metadata=_metadata_of(part)
        )
        for part in parts
        if part.error is None and part.offset >= 0
    }


def _metadata_of(part: Wire) -> str:
    """Return the metadata text of an offset, without the NUL that confluent-kafka adds."""
    try:
        return (part.metadata or "").rstrip("\0")
    except UnicodeDecodeError:
        # Other clients write no NUL, and librdkafka then reads beyond the text's memory.
        return UNREADABLE


def _require_none(errors: Mapping[str, str]) -> None:
    for topic, code in sorted(errors.items()):
        raise KafkaError(f"reading topic {topic} failed: {code}", code=code)


def _existing(
    partitions: Iterable[TopicPartition], topics: Mapping[str, Topic]
) -> tuple[TopicPartition, ...]:
    return tuple(
        tp
        for tp in partitions
        if tp.topic in topics and tp.partition in topics[tp.topic].partitions
    )


def _ask(
    action: str,
    client: Client,
    request: Callable[..., list[Wire]],
    queries: Iterable[Wire],
    deadline: float,
) -> Iterator[Wire]:
    for chunk in chunks(queries, _AT_ONCE):
        try:
            yield from request(chunk, timeout=_seconds_left(action, client, deadline))
        except KafkaException as error:
            raise client.failure(action, answer_of(error)) from error


def _seconds_left(action: str, client: Client, deadline: float) -> float:
    """Return the seconds to the deadline; raise KafkaError if it has passed."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise client.failure(action, Answer(TIMED_OUT))
    return remaining


_COORDINATOR_PAUSE = 0.2


class ClusterReader:
    """Reads group offsets and log ends of one cluster. Every call raises KafkaError on failure.

    `timeout` limits each reading, in seconds, including the wait for a coordinator that is new or
    moves. Two threads must not use the reader at once.
    """

    def __init__(self, properties: Mapping[str, str], *, timeout: float = 10.0) -> None:
        self._properties = dict(properties)
        self._servers = properties.get("bootstrap.servers", "HOST:PORT")
        self._logs = Logs(properties)
        self._timeout = timeout

    def group(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        stable: bool = False,
    ) -> Mapping[TopicPartition, Position]:
        """Return a group's offsets with their metadata; an unknown group has no offsets.

        Without `partitions`, the method reads all partitions of the cluster. If a transaction
        commits offsets, the result has these offsets only after the transaction's end, which is
        shortly after the producer gets the broker's answer. With `stable`, the method waits for the
        end of such transactions (KIP-447).
        """
        require_name("group", group)
        requested = tuple(self.partitions() if partitions is None else partitions)
        if not stable:
            return self._read(group, requested, OUTSIDER)
        try:
            return self._read(group, requested, STABLE)
        except KafkaError as error:
            if error.code != "_TIMED_OUT":
                raise
            self._read(group, requested, OUTSIDER)  # raises if no transaction is the cause
            raise KafkaError(
                f"group {group} cannot be read reliably: a transaction that commits to it has "
                f"been open for {self._timeout:g} s",
                code="UNSTABLE_OFFSET_COMMIT",
                cause="its producer has died or is still working",
                fix="Try again after its transaction.timeout.ms (60 s by default); to see whose "
                f"it is, run eo-listener txn list -b {self._servers} --group {shlex.quote(group)}",
            ) from error

    def partitions(self, topics: Iterable[str] | None = None) -> tuple[TopicPartition, ...]:
        """Return the partitions of `topics`, or by default of all topics except Kafka's own."""
        return self._logs.partitions(topics, self._deadline())

    def require_shown(self, topics: Collection[str]) -> None:
        """Raise KafkaError for topics that Kafka does not show to this client.

        Kafka leaves out such topics in the answers for `partitions` and `group`.
        """
        refused = self._logs.refused(topics, self._deadline())
        for code in sorted(set(refused.values())):
            names = sorted(topic for topic, answer in refused.items() if answer == code)
            raise KafkaError(
                f"this client cannot see topic {few(names)}: {code}",
                code=code,
                cause="it lacks the right to Describe the topic; Kafka then also leaves out the "
                "offsets that the group holds for the topic",
                fix=AS_ADMINISTRATOR
                + grant_command_for(self._properties, ["Describe"], topic_options(names)),
            )

    def leaders(self, topics: Iterable[str]) -> Mapping[TopicPartition, int]:
        """Return the id of each partition's leader, or -1 if a partition has no leader."""
        return self._logs.leaders(topics, self._deadline())

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the end of each log (its next offset); leave out partitions that do not exist."""
        return self._logs.ends(tuple(partitions), self._deadline())

    def stable_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return each log's last stable offset; leave out partitions that do not exist."""
        return self._logs.stable_ends(tuple(partitions), self._deadline())

    def ranges(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetRange]:
        """Return the range from the last stable offset to the end of each log.

        All logs must exist.
        """
        return self._logs.ranges(partitions, self._deadline())

    def close(self) -> None:
        """Close the connections."""
        self._logs.close()

    def _read(
        self, group: str, requested: Iterable[TopicPartition], role: Role
    ) -> Mapping[TopicPartition, Position]:
        requested, deadline = tuple(requested), self._deadline()
        with closing(Client(self._properties, group, role=role)) as client:
            while True:
                try:
                    return group_offsets(client, group, requested, deadline).whole()
                except KafkaError as error:
                    late = time.monotonic() + _COORDINATOR_PAUSE >= deadline
                    if error.code not in COORDINATOR_MOVES or late:
                        raise
                time.sleep(_COORDINATOR_PAUSE)

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout
