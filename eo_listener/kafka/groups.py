"""Commit to consumer groups as an outsider: no member, no subscription (KIP-396 semantics)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import AdminClient

from eo_listener.errors import KafkaError
from eo_listener.kafka.clients import TIMED_OUT, Client, answer_of, open_admin
from eo_listener.kafka.readings import group_offsets, look
from eo_listener.offsets import Position, TopicPartition
from eo_listener.protocols import Look

_OPEN = 128  # clients kept open on one cluster; each has two connections and four threads
_STEP = 0.05  # seconds between two looks at the clock while waiting for an answer


class ConfluentGroups:
    """The consumer groups of one cluster: the `GroupStore` of the simple commit mode.

    Keeps one client for each group, opened at its first commit and reused. Kafka refuses such
    commits (UNKNOWN_MEMBER_ID) while the group has members.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._clients: OrderedDict[str, _GroupClient] = OrderedDict()
        self._admin: AdminClient | None = None

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit, and say of each partition None or Kafka's error name. Raises KafkaError."""
        return self._open(group).commit(positions, timeout)

    def look(self, group: str, partitions: Collection[TopicPartition], *, timeout: float) -> Look:
        """Read where the group and the logs of `partitions` stand. Raises KafkaError."""
        deadline = time.monotonic() + timeout
        if self._admin is None:
            self._admin = open_admin(self._properties)
        return self._open(group).look(self._admin, partitions, deadline)

    def _open(self, group: str) -> _GroupClient:
        client = self._clients.get(group)
        if client is None:
            client = self._clients[group] = _GroupClient(self._properties, group)
            self._close_idle()
        self._clients.move_to_end(group)
        return client

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
        self._admin = None


class _GroupClient:
    """Commits to one group, one request after the other."""

    def __init__(self, properties: Mapping[str, str], group: str) -> None:
        self._client = Client(properties, group, self._answered)
        self._group = group
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
        # librdkafka gives all partitions the error of one: find out which landed.
        try:
            held = group_offsets(
                self._client, self._group, positions, max(deadline, time.monotonic() + 1.0)
            )
        except KafkaError:  # not even that may be read: none of them is known to have landed
            raise failure from None
        return {
            tp: None if held.get(tp) == position else failure.code
            for tp, position in positions.items()
        }

    def look(
        self, admin: AdminClient, partitions: Collection[TopicPartition], deadline: float
    ) -> Look:
        found = look(self._client, admin, self._group, partitions, deadline)
        self._client.content()
        return found

    def poll(self) -> None:
        self._client.poll()

    def close(self) -> None:
        self._client.consumer.close()

    def _await(self, deadline: float) -> None:
        while self.waiting:
            if time.monotonic() >= deadline:
                raise self._client.failure(self._what, Answer(TIMED_OUT))
            self._client.poll(_STEP)

    def _answered(self, error: Answer | None, partitions: list[Wire]) -> None:
        self.waiting = False
        self._error = error or next((part.error for part in partitions if part.error), None)
