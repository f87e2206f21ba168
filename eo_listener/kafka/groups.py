"""Commit to consumer groups as an outsider: no member, no subscription (KIP-396 semantics)."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Wire

from eo_listener.errors import KafkaError
from eo_listener.fault_points import reached
from eo_listener.kafka.clients import TIMED_OUT, Client, answer_of
from eo_listener.kafka.logs import Logs, group_offsets
from eo_listener.kafka.open_clients import OpenClients
from eo_listener.offsets import Position, TopicPartition
from eo_listener.protocols import Look

_STEP = 0.05  # seconds between two looks at the clock while waiting for an answer


class ConfluentGroups:
    """The consumer groups of one cluster: the `GroupStore` of the simple commit mode.

    Keeps one client for each group, opened at its first use. Kafka refuses such commits
    (UNKNOWN_MEMBER_ID) while the group has members.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._logs = Logs(properties)
        self._clients = OpenClients(lambda group: _GroupClient(properties, group))

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit, and say of each partition None or Kafka's error name. Raises KafkaError."""
        return self._clients.of(group).commit(positions, timeout)

    def look(self, group: str, partitions: Collection[TopicPartition], *, timeout: float) -> Look:
        """Read where the group and the logs of `partitions` stand. Raises KafkaError."""
        deadline = time.monotonic() + timeout
        held = self._clients.of(group).held(partitions, deadline)
        return self._logs.look(held, partitions, deadline)

    def tend(self) -> None:
        """Serve the clients' callbacks, which pile up otherwise."""
        self._clients.poll()
        self._logs.poll()

    def close(self) -> None:
        """Close all connections; waits some seconds for a commit that is still out."""
        self._clients.close()
        self._logs.close()


class _GroupClient:
    """Commits to one group, one request after the other."""

    def __init__(self, properties: Mapping[str, str], group: str) -> None:
        self._client = Client(properties, group, self._answered)
        self._group = group
        self._what = f"committing to group {group}"
        self._error: Answer | None = None
        self.busy = False

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
        self.busy = True
        reached("commit.after-request")
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

    def held(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, Position]:
        held = group_offsets(self._client, self._group, partitions, deadline)
        self._client.content()
        return held

    def poll(self) -> None:
        self._client.poll()

    def close(self) -> None:
        self._client.close()

    def _await(self, deadline: float) -> None:
        while self.busy:
            if time.monotonic() >= deadline:
                raise self._client.failure(self._what, Answer(TIMED_OUT))
            self._client.poll(_STEP)

    def _answered(self, error: Answer | None, partitions: list[Wire]) -> None:
        self.busy = False
        self._error = error or next((part.error for part in partitions if part.error), None)
