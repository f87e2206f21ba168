"""Commit to consumer groups as an outsider: no member, no subscription (KIP-396 semantics)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping

from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Wire

from eo_listener.errors import KafkaError
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
            self._close_idle()
        self._clients.move_to_end(group)
        return client.commit(positions, timeout)

    def _close_idle(self) -> None:
        """Close the clients used longest ago, beyond those to keep, but none with a request out."""
        surplus = len(self._clients) - _OPEN
        idle = [group for group, client in self._clients.items() if not client.waiting]
        for group in idle[: max(0, surplus)]:
            self._clients.pop(group).close()

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
        self._error: Answer | None = None
        self.waiting = False

    def commit(
        self, positions: Mapping[TopicPartition, Position], timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        deadline = time.monotonic() + timeout
        # A request that was given up may still be sent by librdkafka. A newer one must not go
        # out beside it: the older could land last, and take the group back.
        self._await(deadline)
        wire = [
            Wire(tp.topic, tp.partition, position.offset, position.metadata)
            for tp, position in positions.items()
        ]
        try:
            self._client.consumer.commit(offsets=wire, asynchronous=True)
        except KafkaException as error:
            raise self._client.failure(self._what, answer_of(error)) from error
        self.waiting = True
        self._await(deadline)
        if self._error is None:
            self._client.content()
            return dict.fromkeys(positions)
        failure = self._client.failure(self._what, self._error)
        if len(positions) == 1 or failure.code.startswith("_"):
            raise failure
        return self._look(positions, failure, max(1.0, deadline - time.monotonic()))

    def _look(
        self, positions: Mapping[TopicPartition, Position], failure: KafkaError, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        """Find out which partitions landed: librdkafka gives all of them the error of one."""
        asked = [Wire(tp.topic, tp.partition) for tp in positions]
        try:
            answer = self._client.consumer.committed(asked, timeout=timeout)
        except KafkaException:  # not even that may be read: none of them is known to have landed
            raise failure from None
        held = {TopicPartition(p.topic, p.partition): p for p in answer if p.error is None}
        return {
            tp: None if _same(held.get(tp), position) else failure.code
            for tp, position in positions.items()
        }

    def poll(self) -> None:
        self._client.poll()

    def close(self) -> None:
        self._client.consumer.close()

    def _await(self, deadline: float) -> None:
        while self.waiting:
            if time.monotonic() >= deadline:
                raise self._client.failure(self._what, Answer(_TIMED_OUT))
            self._client.poll(_STEP)

    def _answered(self, error: Answer | None, partitions: list[Wire]) -> None:
        self.waiting = False
        self._error = error or next((part.error for part in partitions if part.error), None)


def _same(held: Wire | None, position: Position) -> bool:
    return (
        held is not None
        and held.offset == position.offset
        and (held.metadata or "").rstrip("\0") == position.metadata
    )
