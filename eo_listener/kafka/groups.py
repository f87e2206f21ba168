"""Commit to consumer groups as an outsider: no member, no subscription (KIP-396 semantics)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping

from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Wire

from eo_listener.kafka.clients import Client, answer_of
from eo_listener.offsets import Position, TopicPartition

_OPEN = 128  # clients kept open on one cluster; each has two connections and four threads
_TIMED_OUT = -185  # librdkafka's RD_KAFKA_RESP_ERR__TIMED_OUT
_STEP = 0.05  # seconds between two looks at the clock while waiting for an answer


class ConfluentGroups:
    """The consumer groups of one cluster: the `GroupStore` of the simple commit mode.

    Keeps one client for each group, opened at its first commit and reused. Kafka refuses such
    commits (UNKNOWN_MEMBER_ID) while the group has members.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._clients: OrderedDict[str, _GroupClient] = OrderedDict()

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit, and say of each partition None or Kafka's error name. Raises KafkaError."""
        client = self._clients.get(group)
        if client is None:
            client = self._clients[group] = _GroupClient(self._properties, group)
            while len(self._clients) > _OPEN:
                self._clients.popitem(last=False)[1].close()
        self._clients.move_to_end(group)
        return client.commit(positions, timeout)

    def tend(self) -> None:
        """Serve the clients' callbacks, which pile up otherwise."""
        for client in self._clients.values():
            client.poll()

    def close(self) -> None:
        """Close all connections; waits some seconds for a commit that is still out."""
        while self._clients:
            self._clients.popitem()[1].close()


class _GroupClient:
    """Commits to one group, one request after the other."""

    def __init__(self, properties: Mapping[str, str], group: str) -> None:
        self._client = Client(properties, group, self._answered)
        self._what = f"committing to group {group}"
        self._waiting = False
        self._error: Answer | None = None
        self._partitions: list[Wire] = []

    def commit(
        self, positions: Mapping[TopicPartition, Position], timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        deadline = time.monotonic() + timeout
        # A request that was given up may still be sent by librdkafka. A newer one must not go
        # out beside it: the older could land last, and take the group back.
        self._await(deadline)
        self._waiting = True
        try:
            self._client.consumer.commit(
                offsets=[
                    Wire(tp.topic, tp.partition, position.offset, position.metadata)
                    for tp, position in positions.items()
                ],
                asynchronous=True,
            )
        except KafkaException as error:
            self._waiting = False
            raise self._client.failure(self._what, answer_of(error)) from error
        self._await(deadline)
        if self._error is not None and not any(part.error for part in self._partitions):
            raise self._client.failure(self._what, self._error)
        return {
            TopicPartition(part.topic, part.partition): part.error.name() if part.error else None
            for part in self._partitions
        }

    def poll(self) -> None:
        self._client.poll()

    def close(self) -> None:
        self._client.consumer.close()

    def _await(self, deadline: float) -> None:
        while self._waiting:
            if time.monotonic() >= deadline:
                raise self._client.failure(self._what, Answer(_TIMED_OUT))
            self._client.poll(_STEP)

    def _answered(self, error: Answer | None, partitions: list[Wire]) -> None:
        self._waiting = False
        self._error = error
        self._partitions = partitions
