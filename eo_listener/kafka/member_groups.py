"""Commits to groups as a member, so that a group is Stable and its offsets do not expire."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress

from confluent_kafka import OFFSET_END, Consumer
from confluent_kafka import KafkaError as Answer
from confluent_kafka import TopicPartition as Wire

from eo_listener.errors import KafkaError
from eo_listener.kafka.client import MEMBER, TIMED_OUT
from eo_listener.kafka.logs import GroupOffsets, Logs
from eo_listener.kafka.simple_groups import GroupClient, Ownership, PooledGroupStore
from eo_listener.offsets import Position, TopicPartition

_STEP = 0.05
_JOIN_TIMEOUT = 3.0  # seconds for an existing member to add topics
_REJOIN_EVERY = 15.0  # seconds between two tries to join again while there is nothing to commit
_CLOSE = 3.0  # seconds to wait for a member to end
_PAUSE = 10.0  # seconds to wait for a commit of another driver that may exist
_REJOIN = 1.0  # seconds for which one try to join again may delay the thread
_FATAL = -150  # librdkafka's RD_KAFKA_RESP_ERR__FATAL
_FENCED = "FENCED_INSTANCE_ID"
_REBALANCE = "REBALANCE_IN_PROGRESS"
# The group has continued without the member. If the client has not joined, these errors mean that
# the group has members.
_LEFT_BEHIND = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH"})


class MemberGroups(PooledGroupStore):
    """The consumer groups of one cluster: the `GroupStore` of the member commit mode.

    Each group has one member, with a fixed `group.instance.id`. The member subscribes to the topics
    for which it commits, and fetches nothing. In a classic group, the member of a second driver
    replaces this member, which from then on always gets FENCED_INSTANCE_ID. In a group of the new
    protocol (KIP-848), the second driver gets UNRELEASED_INSTANCE_ID until the first driver's
    member has left.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(properties, _Member)


class _Member:
    """The member of one group.

    After the member has ended, a new member joins, unless another driver's member has replaced it.
    """

    def __init__(
        self, properties: Mapping[str, str], group: str, ownership: Ownership, logs: Logs
    ) -> None:
        self._properties = properties
        self._group = group
        self._ownership = ownership
        self._logs = logs
        self._by_increments = properties.get(
            "group.protocol"
        ) == "consumer" or "cooperative" in properties.get("partition.assignment.strategy", "")
        self._member: GroupClient | None = None
        self._topics: frozenset[str] = frozenset()
        self._assigned = False
        self._outside = True  # neither in the group nor joining it
        self._rejoin_at = 0.0
        self._pause_until = 0.0
        self._joins = len(ownership.partitions) and 1

    @property
    def busy(self) -> bool:
        return self._member is not None and self._member.busy

    def commit(
        self, positions: Mapping[TopicPartition, Position], deadline: float
    ) -> Mapping[TopicPartition, str | None]:
        member = self._join({tp.topic for tp in positions}, deadline)
        self._ownership.record_sent(positions)
        try:
            answer = member.commit(positions, deadline)
        except KafkaError as error:
            if member.dead:
                raise self._bury(member) from None
            if not _is_open(error.code):
                self._ownership.record_aborted(positions)
            if error.code in _LEFT_BEHIND:
                error.code = _REBALANCE
            raise
        refused = {tp: positions[tp] for tp, code in answer.items() if code and not _is_open(code)}
        self._ownership.record_aborted(refused)
        self._ownership.record_confirmed(
            {tp: positions[tp] for tp, error in answer.items() if error is None}
        )
        if _FENCED in answer.values():
            raise self._bury(member)
        return {tp: _REBALANCE if code in _LEFT_BEHIND else code for tp, code in answer.items()}

    def offsets(self, partitions: Collection[TopicPartition], deadline: float) -> GroupOffsets:
        """Join the group for the topics that exist, and return the group's offsets.

        If no topic exists, or another committer has taken over the group, only read the offsets.
        """
        topics = {tp.topic for tp in self._logs.existing(partitions, deadline)}
        member = self._join(topics, deadline) if topics and not self._ownership.loss else None
        offsets = (member or self._open()).offsets(partitions, deadline)
        if member is not None:
            self._ownership.record_read(offsets.positions)
        return offsets

    def poll(self) -> None:
        if self._member is not None:
            self._member.poll()
        now = time.monotonic()
        if self._outside and self._topics and not self._ownership.loss and now >= self._rejoin_at:
            self._rejoin_at = now + _REJOIN_EVERY
            with suppress(KafkaError):  # the next commit tries again, and reports
                self._join(self._topics, now + _REJOIN)

    def close(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            # With an unanswered commit, closing would take as long as a session.
            thread = threading.Thread(target=member.close, name="eo-listener-leave", daemon=True)
            thread.start()
            thread.join(_CLOSE)

    def _open(self) -> GroupClient:
        if self._member is None:
            self._member = GroupClient(self._properties, self._group, MEMBER)
            self._assigned, self._outside = False, True
        return self._member

    def _join(self, topics: Collection[str], deadline: float) -> GroupClient:
        """Return the member, after it has also subscribed to `topics`. Raises KafkaError."""
        self._require_not_lost()
        # A poll may have reported a fatal error meanwhile.
        if self._member is not None and self._member.dead:
            self._bury(self._member)
            self._require_not_lost()
        if self._outside:
            self._renew(deadline)
        member = self._open()
        first, subscription = not self._assigned, self._topics.union(topics)
        if self._outside or subscription != self._topics:
            self._assigned, self._outside, self._topics = False, False, subscription
            member.client.consumer.subscribe(
                sorted(subscription), on_assign=self._on_assign, on_lost=self._on_lost
            )
        wait_until = deadline if first else min(deadline, time.monotonic() + _JOIN_TIMEOUT)
        while not (self._assigned or self._outside) and time.monotonic() < wait_until:
            member.client.poll(_STEP)
            if member.dead:
                raise self._bury(member)
        if self._outside or (first and not self._assigned):
            raise self._join_error(member)
        self._assigned = True  # it commits also for topics that were not assigned in time
        return member

    def _renew(self, deadline: float) -> None:
        """Prepare to join (again); raise KafkaError if another driver has the group.

        The method opens a new client, because Kafka would answer late requests of the earlier
        client as if another driver had fenced this member.
        """
        if time.monotonic() < self._pause_until:
            raise self._join_error(self._open())
        if self._joins:
            self.close()
        partitions = self._ownership.partitions
        self._ownership.compare(self._open().offsets(partitions, deadline).positions)
        self._require_not_lost()
        self._joins += 1

    def _on_assign(self, consumer: Consumer, partitions: list[Wire]) -> None:
        if self._by_increments:
            # A partition that is paused in the same callback is never fetched: librdkafka must ask
            # for its end first. With a known offset, the pause would race with the fetch.
            parts = [Wire(part.topic, part.partition, OFFSET_END) for part in partitions]
            consumer.incremental_assign(parts)
            if parts:
                consumer.pause(parts)
        else:
            # In the classic protocol the broker does not check what a member does with partitions.
            # With 20,000 of them librdkafka would spend minutes asking for their ends.
            consumer.assign([])
        self._assigned = True

    def _on_lost(self, consumer: Consumer, _: list[Wire]) -> None:
        """Unsubscribe: the group has continued without this member, which hung or was cut off.

        Otherwise librdkafka would join again at once, and in a classic group displace the member of
        a newer driver that has joined meanwhile. So the member stays out until this group store has
        read the group.
        """
        consumer.unsubscribe()
        self._assigned, self._outside = False, True

    def _join_error(self, member: GroupClient) -> KafkaError:
        error = member.client.failure(f"joining group {self._group}", Answer(TIMED_OUT))
        if error.code != "_TIMED_OUT":
            return error
        return KafkaError(
            error.problem,
            code=_REBALANCE,
            cause="the group has not admitted the committer yet: it waits for its other "
            "members, or the broker does not support the requested group.protocol",
        )

    def _bury(self, member: GroupClient) -> KafkaError:
        """Close a member that has ended, and return the error that explains why it ended.

        If a member has joined only once and is fenced, another driver has replaced it. After a
        second join, or if its session has ended, the member may have fenced itself: Kafka takes its
        late request for a request of another member. Then the group store waits a while, and
        decides by the group's offsets.
        """
        error = member.client.failure(f"committing to group {self._group}", Answer(_FATAL))
        certain = self._joins == 1 and not self._outside
        self.close()
        self._outside = True
        if error.code == _FENCED:
            if certain:
                self._ownership.loss = error.cause or error.problem
            else:
                self._pause_until = time.monotonic() + _PAUSE
                error.code = _REBALANCE
        return error

    def _require_not_lost(self) -> None:
        self._ownership.require_owned(f"committing to group {self._group}", _FENCED)


def _is_open(code: str) -> bool:
    """Return True if a commit that failed with this error may have arrived, or may still arrive."""
    return code.startswith("_") or code in ("REQUEST_TIMED_OUT", "NETWORK_EXCEPTION")
