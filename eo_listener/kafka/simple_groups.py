"""Commits to consumer groups without a membership or a subscription (KIP-396).

All group stores that use librdkafka share the base class in this module. For each group, the base
class has a client and an `Ownership`, which knows whether another driver has taken over the group.
The base class keeps a limited number of clients open.
"""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from typing import Final, Protocol

from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Wire

from eo_listener.errors import KafkaError
from eo_listener.kafka.client import (
    OUTSIDER,
    SOCKET_TIMEOUT,
    STABLE,
    TIMED_OUT,
    Client,
    Role,
    answer_of,
    to_wire,
)
from eo_listener.kafka.logs import GroupOffsets, Logs, group_offsets
from eo_listener.model.fault_points import fault_point
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import Position, TopicPartition

LIMIT = 128  # clients kept open on one cluster; each has two connections and four threads


class Ownership:
    """The positions that a group should hold if no other driver has taken it over.

    Joining with the fixed instance id, or opening the producer, fences the previous owner. At
    start-up this is intended: a new driver replaces the old one. When a client is reopened later, a
    newer driver may own the group, and reopening would fence that driver. So the group store first
    reads the group, and continues only if the group store itself committed every offset. This
    object lives as long as the group store, and so outlives the clients, which the group store
    closes if there are too many.

    The object cannot see a newer driver that has joined but not committed yet. Between the two
    steps a few milliseconds pass. The object itself does no input or output.
    """

    def __init__(self) -> None:
        self.loss: str | None = None  # the reason, once another committer has taken over the group
        self._known: dict[TopicPartition, Position] = {}
        self._unconfirmed: defaultdict[TopicPartition, set[Position]] = defaultdict(set)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions to read before the group store reopens a client."""
        return tuple({**self._known, **self._unconfirmed})

    def record_read(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Record the positions at the first read after this group store took over the group."""
        self._known = {**positions, **self._known}

    def record_sent(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Record positions that are being sent: from now on the group may hold them."""
        for tp, position in positions.items():
            self._unconfirmed[tp].add(position)

    def record_confirmed(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Record positions that the group holds."""
        self._known.update(positions)
        for tp in positions:
            self._unconfirmed.pop(tp, None)

    def record_aborted(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Record positions that will never be stored."""
        for tp, position in positions.items():
            self._unconfirmed[tp].discard(position)

    def foreign(self, positions: Mapping[TopicPartition, Position]) -> TopicPartition | None:
        """Return a partition whose offset is foreign: this group store neither sent nor found it.

        Returns None if there is no such partition. A partition without an offset does not count:
        offsets expire, and vanish with their topic.
        """
        for tp, position in positions.items():
            sent = self._unconfirmed.get(tp, set())
            concerns = tp in self._known or sent
            if concerns and position != self._known.get(tp) and position not in sent:
                return tp
        return None

    def compare(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Record the group as lost if one of `positions`, read from the group, is foreign."""
        foreign = self.foreign(positions)
        if foreign is not None:
            self.loss = f"{foreign} holds offsets that this committer did not send"

    def require_owned(self, action: str, code: str) -> None:
        """If the group is lost, raise a KafkaError that no retry can resolve."""
        if self.loss is not None:
            raise KafkaError(
                f"{action} failed: another committer has taken over",
                code=code,
                cause=self.loss,
                fix="Let only one driver commit to this group",
            )


class PooledClient(Protocol):
    """A client of one group. Each request raises KafkaError if it fails or its deadline passes."""

    @property
    def busy(self) -> bool:
        """True if a request is unanswered, so that the client must not be closed."""

    def commit(
        self, positions: Mapping[TopicPartition, Position], deadline: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit, and return None or Kafka's error name for each partition."""

    def offsets(self, partitions: Collection[TopicPartition], deadline: float) -> GroupOffsets:
        """Return the group's offsets."""

    def poll(self) -> None:
        """Run the client's waiting callbacks, and return at once."""

    def close(self) -> None:
        """Close the connections."""


OpenClient = Callable[[Mapping[str, str], str, Ownership, Logs], PooledClient]


class PooledGroupStore:
    """The base class of group stores: has a reader of the logs, and a client for each group.

    The group store opens a client when its group is first used. If there are more than `LIMIT`
    clients, it closes those that were used longest ago.
    """

    def __init__(self, properties: Mapping[str, str], open_client: OpenClient) -> None:
        self._properties = properties
        self._logs = Logs(properties)
        self._open = open_client
        # They outlive the clients, which the group store closes if there are too many.
        self._owned: defaultdict[str, Ownership] = defaultdict(Ownership)
        self._clients: OrderedDict[str, PooledClient] = OrderedDict()

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit, and return None or Kafka's error name for each partition. Raises KafkaError."""
        return self._client(group).commit(positions, time.monotonic() + timeout)

    def snapshot(
        self, group: str, partitions: Collection[TopicPartition], *, timeout: float
    ) -> GroupSnapshot:
        """Read the group's offsets and the logs of `partitions`. Raises KafkaError.

        A group store that fences other committers takes over the group first: otherwise a commit of
        an older driver could arrive after the snapshot.
        """
        deadline = time.monotonic() + timeout
        offsets = self._client(group).offsets(partitions, deadline)
        return self._logs.snapshot(offsets, partitions, deadline)

    def take_over(self, group: str) -> None:
        """Close the group's client, and forget who has the group: the next request takes it."""
        self._owned.pop(group, None)
        client = self._clients.pop(group, None)
        if client is not None:
            client.close()

    def poll(self) -> None:
        """Run the clients' waiting callbacks.

        Otherwise the callbacks pile up, and members seem to hang.
        """
        for client in self._clients.values():
            client.poll()
        self._logs.poll()

    def close(self) -> None:
        """Close all connections; wait a few seconds for an unanswered commit.

        A member stays in its group until the member's session has ended.
        """
        while self._clients:
            self._clients.popitem()[1].close()
        self._logs.close()

    def _client(self, group: str) -> PooledClient:
        """Return the client of this group, opened if necessary."""
        client = self._clients.get(group)
        if client is None:
            owned = self._owned[group]
            client = self._open(self._properties, group, owned, self._logs)
            self._clients[group] = client
            self._close_idle()
        self._clients.move_to_end(group)
        return client

    def _close_idle(self) -> None:
        """Close idle clients, those used longest ago first, until `LIMIT` clients remain."""
        surplus = len(self._clients) - LIMIT
        idle = [group for group, client in self._clients.items() if not client.busy]
        for group in idle[: max(0, surplus)]:
            self._clients.pop(group).close()


# Seconds between two checks for an answer, shortest and longest: a poll does not end when the
# answer comes, and a poll of less than a millisecond does not wait at all.
_STEPS = (0.0002, 0.05)
_EARLY: Final = 0.05  # seconds by which librdkafka may give up before its time
_SETTLE: Final = 2.0
"""Seconds to wait for the end of a transaction that commits offsets to the group.

Such a transaction ends a few milliseconds after its producer has the answer; the transaction of a
killed driver lasts until its time-out.
"""


class GroupClient:
    """Commits to one group, one request after another."""

    def __init__(self, properties: Mapping[str, str], group: str, role: Role = STABLE) -> None:
        self._properties = properties
        self.client = Client(properties, group, self._on_commit, role=role)
        self._group = group
        self._action = f"committing to group {group}"
        self._error: Answer | None = None
        self.busy = False

    @property
    def dead(self) -> bool:
        """True if librdkafka has reported a fatal error: no later call succeeds."""
        return self.client.errors.fatal is not None

    def commit(
        self, positions: Mapping[TopicPartition, Position], deadline: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit, and return None or Kafka's error name for each partition. Raises KafkaError."""
        # librdkafka may still send an abandoned request. No newer request may be sent at the same
        # time: the older one could arrive last, and move the group back.
        self._await(deadline)
        try:
            self.client.consumer.commit(offsets=to_wire(positions), asynchronous=True)
        except KafkaException as error:
            raise self.client.failure(self._action, answer_of(error)) from error
        self.busy = True
        began, lost = time.monotonic(), self.client.errors.connections_lost
        fault_point("commit.after-request")
        self._await(deadline)
        if self._error is None:
            slow = time.monotonic() - began >= SOCKET_TIMEOUT
            if slow or self.client.errors.connections_lost > lost:
                # librdkafka repeats a request on its own if its connection fails: the first request
                # may still arrive, after the second. So this does not count as success.
                raise self.client.failure(self._action, Answer(TIMED_OUT))
            self.client.errors.forget()
            return dict.fromkeys(positions)
        failure = self.client.failure(self._action, self._error)
        if len(positions) == 1 or failure.code.startswith("_"):
            raise failure
        # librdkafka gives all partitions the error of one partition: find out which are committed.
        try:
            offsets = self.offsets(positions, max(deadline, time.monotonic() + _SETTLE + 1.0))
        except KafkaError:  # the group cannot be read either: the outcome is unknown
            raise failure from None
        return {
            tp: offsets.errors.get(tp.topic, failure.code)
            if offsets.positions.get(tp) != position
            else None
            for tp, position in positions.items()
        }

    def offsets(self, partitions: Collection[TopicPartition], deadline: float) -> GroupOffsets:
        """Return the group's offsets; wait 2 s at most for open transactions. Raises KafkaError.

        Without the wait, the group store would not see offsets that a sink has just committed in a
        transaction, and would commit them again.
        """
        settled = min(deadline, time.monotonic() + _SETTLE)
        try:
            offsets = group_offsets(self.client, self._group, partitions, settled)
        except KafkaError:
            if time.monotonic() < settled - _EARLY or settled == deadline:
                raise
            with closing(Client(self._properties, self._group, role=OUTSIDER)) as unsettled:
                offsets = group_offsets(unsettled, self._group, partitions, deadline)
        self.client.errors.forget()
        return offsets

    def poll(self) -> None:
        """Run librdkafka's waiting callbacks."""
        self.client.poll()

    def close(self) -> None:
        """Close the connections; wait a few seconds for an unanswered commit."""
        self.client.close()

    def _await(self, deadline: float) -> None:
        began = now = time.monotonic()
        while self.busy:
            if now >= deadline:
                raise self.client.failure(self._action, Answer(TIMED_OUT))
            shortest, longest = _STEPS
            time.sleep(min(longest, max(shortest, (now - began) / 24)))
            self.client.poll()
            now = time.monotonic()

    def _on_commit(self, error: Answer | None, partitions: list[Wire]) -> None:
        self.busy = False
        self._error = error or next((part.error for part in partitions if part.error), None)


class SimpleGroups(PooledGroupStore):
    """The consumer groups of one cluster: the `GroupStore` of the simple commit mode.

    The group store has one client for each group, and opens the client at its first use. Kafka
    refuses commits (UNKNOWN_MEMBER_ID) while a group has members.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(properties, lambda _, group, *__: GroupClient(properties, group))
