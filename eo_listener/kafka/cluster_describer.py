"""Reads facts that Kafka reports about a cluster and its groups; changes nothing.

Only the AdminClient has the requests that describe groups. While a broker restarts, these requests
can end the whole process (see `eo_listener.kafka`). So only commands describe groups. A driver
starts a child process that does so (`preflight/child_process.py`).
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]  # no __all__

from eo_listener.client_config.validation import require_name
from eo_listener.errors import KafkaError
from eo_listener.kafka.client import answer_of, open_admin, seconds_until
from eo_listener.kafka.logs import NO_OFFSETS, Logs, positions_of
from eo_listener.kafka.producers import BatchProducer
from eo_listener.model.check_finding import Findings, described, problem
from eo_listener.model.kafka_errors import COORDINATOR_MOVES
from eo_listener.offsets import TopicPartition
from eo_listener.preflight.child_process import Answer
from eo_listener.preflight.facts import (
    LONGEST_MS,
    ClusterFacts,
    GroupFacts,
    Member,
    Request,
    TopicFacts,
)
from eo_listener.preflight.kafka_checks import judge_cluster, judge_group, judge_topic

_REACH = 6.0  # a little more than a connection may take to open
_REQUEST = 5.0
_PAUSE = 0.2
_NO_TIMEOUT = "INVALID_TRANSACTION_TIMEOUT"
_NO_GROUP = "GROUP_ID_NOT_FOUND"
_NO_COORDINATOR = COORDINATOR_MOVES | {"_TIMED_OUT"}
_UNSTABLE = "UNSTABLE_OFFSET_COMMIT"
_CONSUMERS = frozenset({"", "consumer"})
_STATES = {
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
}
_KINDS = {ConsumerGroupType.CLASSIC: "Classic", ConsumerGroupType.CONSUMER: "Consumer"}

_T = TypeVar("_T")


class ClusterDescriber:
    """Describes one cluster. Each call takes at most `timeout` seconds. Only one thread may use it.

    Raises SettingsError for properties that librdkafka does not accept.
    """

    def __init__(self, properties: Mapping[str, str], *, timeout: float = 10.0) -> None:
        self._properties = dict(properties)
        self._servers = properties.get("bootstrap.servers", "")
        self._timeout = timeout
        self._logs = Logs(properties)
        self._admin: AdminClient = open_admin(properties)

    def cluster(self) -> ClusterFacts:
        """Return facts about the cluster, and the settings of one broker. Raises KafkaError."""
        self._logs.partitions((), time.monotonic() + _REACH)  # if it fails, its error shows why
        try:
            brokers = sorted(self._admin.list_topics(timeout=self._timeout).brokers)
        except KafkaException as error:
            answer = answer_of(error)
            raise KafkaError(
                f"reading the brokers of {self._servers} failed", code=answer.name()
            ) from error
        try:
            settings = self._settings(ConfigResource.Type.BROKER, str(brokers[0]))
        except KafkaError as error:
            return ClusterFacts(servers=self._servers, brokers=len(brokers), refused=error.code)
        return ClusterFacts(servers=self._servers, brokers=len(brokers), settings=settings)

    def group(self, name: str) -> GroupFacts:
        """Return facts about a group: its state, its offsets, and the errors of refused requests.

        Raises SettingsError for an invalid name (see `require_name`).
        """
        require_name("group", name)
        ask = partial(
            self._admin.describe_consumer_groups, [name], include_authorized_operations=True
        )
        try:
            # Members first, then offsets: librdkafka ends the process if it requests offsets from a
            # broker that is not the group's coordinator (or not yet, on a new cluster). A request
            # for members does not have this effect.
            described: Any = self._answer(lambda: ask(request_timeout=_REQUEST)[name])
        except KafkaError as error:
            gone, away = error.code == _NO_GROUP, error.code in _NO_COORDINATOR
            facts = GroupFacts(
                name=name,
                error=None if gone else error.code,
                state="Dead" if gone else None,
                protocol=self._foreign_protocol(name),
            )
            return replace(facts, held_error=error.code) if away else self._with_offsets(facts)
        facts = GroupFacts(
            name=name,
            state=_STATES.get(described.state),
            kind=_KINDS.get(described.type),
            simple=described.is_simple_consumer_group,
            members=tuple(
                Member(
                    client=member.client_id,
                    host=member.host.lstrip("/"),
                    instance=member.group_instance_id,
                )
                for member in described.members
            ),
            operations=_names(described.authorized_operations),
        )
        return self._with_offsets(facts)

    def require_group(self, name: str) -> GroupFacts:
        """Return facts about a group, like `group`.

        Raises KafkaError if Kafka cannot be reached, or refuses to describe the group.
        """
        self._logs.partitions((), time.monotonic() + _REACH)  # if it fails, its error shows why
        facts = self.group(name)
        if facts.error is not None:
            raise KafkaError(
                f"describing group {name} failed: {facts.error}",
                code=facts.error,
                fix=f"Allow this client to Describe and Read the group {name}",
            )
        return facts

    def topics(self, names: Collection[str]) -> Mapping[str, TopicFacts]:
        """Return facts about topics, with the ends of their logs if the client may read them."""
        return {name: self._topic(name) for name in sorted(names)}

    def settings(self, topic: str) -> Mapping[str, str] | None:
        """Return the settings of a topic, or None if they cannot be read."""
        try:
            return self._settings(ConfigResource.Type.TOPIC, topic)
        except KafkaError:
            return None

    def try_creating(self, topic: str) -> str | None:
        """Ask the brokers whether the client may create this topic, without creating it.

        Returns Kafka's error, or None if the client may.
        """
        new = [NewTopic(topic, 1)]
        create = partial(self._admin.create_topics, new, validate_only=True)
        try:
            self._answer(lambda: create(request_timeout=_REQUEST)[topic])
        except KafkaError as error:
            return error.code
        return None

    def try_transactional_id(self, transactional_id: str) -> str | None:
        """Test whether the client may write with this transactional id, without fencing a producer.

        Returns Kafka's error, or None if the client may. The request has a longer time-out than any
        broker allows, so the broker refuses the request before it fences a producer: it checks the
        right first, then the time-out, and then the id (KafkaApis,
        TransactionCoordinator.handleInitProducerId). If `transaction.max.timeout.ms` is the
        greatest possible number, the request fences the producer after all.
        """
        producer = BatchProducer(
            self._properties, transactional_id, transaction_timeout=LONGEST_MS / 1000
        )
        try:
            producer.take_over(self._timeout)
        except KafkaError as error:
            return None if error.code == _NO_TIMEOUT else error.code
        finally:
            producer.leave()
        return None

    def close(self) -> None:
        """Close the connections."""
        self._logs.close()

    def _settings(self, kind: Any, name: str) -> dict[str, str]:
        resource = ConfigResource(kind, name)
        entries = self._answer(
            lambda: self._admin.describe_configs([resource], request_timeout=_REQUEST)[resource]
        )
        return {key: entry.value for key, entry in entries.items() if entry.value is not None}

    def _with_offsets(self, facts: GroupFacts) -> GroupFacts:
        """Add the group's offsets to `facts`, or the error that prevented reading them."""
        group = facts.name
        try:
            parts: list[Any] = self._offsets(ConsumerGroupTopicPartitions(group), stable=False)
        except KafkaError as error:
            if error.code == _NO_GROUP:
                return replace(facts, held={})
            return replace(facts, held_error=error.code)
        positions = positions_of(parts)
        unstable = bool(positions) and self._is_unstable(group, positions)
        return replace(facts, held=positions, unstable=unstable)

    def _is_unstable(self, group: str, partitions: Collection[TopicPartition]) -> bool:
        request = [Wire(tp.topic, tp.partition) for tp in partitions]
        try:
            parts = self._offsets(ConsumerGroupTopicPartitions(group, request), stable=True)
        except KafkaError as error:
            return error.code == _UNSTABLE
        return any(part.error is not None and part.error.name() == _UNSTABLE for part in parts)

    def _offsets(self, request: ConsumerGroupTopicPartitions, *, stable: bool) -> list[Any]:
        ask = partial(self._admin.list_consumer_group_offsets, [request], require_stable=stable)
        answer: Any = self._answer(lambda: ask(request_timeout=_REQUEST)[request.group_id])
        return list(answer.topic_partitions)

    def _foreign_protocol(self, name: str) -> str | None:
        """Return the protocolType of a group that is not a consumer group, or None."""
        try:
            with warnings.catch_warnings():
                # Deprecated in favour of requests that leave out groups of other types.
                warnings.simplefilter("ignore", DeprecationWarning)
                groups: list[Any] = self._admin.list_groups(name, timeout=self._timeout)
        except KafkaException:  # then only the error that led here is known
            return None
        types = [group.protocol_type for group in groups if group.id == name]
        return next((protocol for protocol in types if protocol not in _CONSUMERS), None)

    def _topic(self, name: str) -> TopicFacts:
        require_name("topic", name)
        topics = TopicCollection([name])
        ask = partial(self._admin.describe_topics, topics, include_authorized_operations=True)
        try:
            described: Any = self._answer(lambda: ask(request_timeout=_REQUEST)[name])
            partitions = {TopicPartition(name, partition.id) for partition in described.partitions}
            deadline = time.monotonic() + self._timeout
            snapshot = self._logs.snapshot(NO_OFFSETS, partitions, deadline).whole()
        except KafkaError as error:
            return TopicFacts(name=name, error=error.code)
        return TopicFacts(
            name=name,
            has_id=name in snapshot.topic_ids,
            operations=_names(described.authorized_operations),
            replicas=min(
                (len(partition.replicas) for partition in described.partitions), default=0
            ),
            starts={tp.partition: start for tp, start in snapshot.starts.items()},
            ends={tp.partition: end for tp, end in snapshot.ends.items()},
        )

    def _answer(self, ask: Callable[[], Future[_T]]) -> _T:
        """Return the answer of `ask`; while the coordinator moves, call `ask` again.

        Raises KafkaError.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return ask().result(timeout=seconds_until(deadline))
            except (KafkaException, Late) as error:
                code = answer_of(error).name()
            if code not in COORDINATOR_MOVES or time.monotonic() + _PAUSE >= deadline:
                raise KafkaError(f"a request to {self._servers} failed", code=code)
            time.sleep(_PAUSE)


def answer(request: Request) -> Answer:
    """Check a cluster in this process. Raises SettingsError for invalid properties."""
    with closing(ClusterDescriber(request.properties)) as cluster:
        try:
            return Answer(findings=tuple(_findings(request, cluster)), reached=True)
        except KafkaError as error:
            fix = error.fix or "Check the permissions of this client"
            about, advice = f"cluster {request.servers}", f"{fix} (-b/--bootstrap-server, -X)"
            unreachable = problem(about, described(error), advice)
            return Answer(findings=(unreachable,), reached=False)


def _findings(request: Request, cluster: ClusterDescriber) -> Findings:
    yield from judge_cluster(cluster.cluster(), request)
    named = cluster.topics(request.topics)
    for topic in named.values():
        yield from judge_topic(topic, request)
    for name in request.groups:
        group = cluster.group(name)
        group_topics = frozenset(tp.topic for tp in group.held or ())
        topics = {**named, **cluster.topics(group_topics.difference(named))}
        yield from judge_group(group, topics, request)


def main() -> None:
    """Read a request from standard input, and write the answer; runs in a child process."""
    sys.stdout.write(answer(Request.parse(sys.stdin.read())).text())


def _names(operations: Collection[Any] | None) -> frozenset[str] | None:
    """Return the names of `operations`, or None if the broker lists no operations or is too old."""
    return frozenset(operation.name for operation in operations) if operations else None
