"""Commit to consumer groups as an outsider: no member, no subscription (KIP-396 semantics)."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from eo_listener.kafka.client_pool import PooledGroupStore
from eo_listener.kafka.group_client import GroupClient
from eo_listener.model.offsets import Position, TopicPartition
from eo_listener.model.protocols import GroupSnapshot


class SimpleGroups(PooledGroupStore[GroupClient]):
    """The consumer groups of one cluster: the `GroupStore` of the simple commit mode.

    Keeps one client for each group, opened at its first use. Kafka refuses such commits
    (UNKNOWN_MEMBER_ID) while the group has members.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(properties, lambda group: GroupClient(properties, group))

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit, and say of each partition None or Kafka's error name. Raises KafkaError."""
        return self._clients.of(group).commit(positions, time.monotonic() + timeout)

    def snapshot(
        self, group: str, partitions: Collection[TopicPartition], *, timeout: float
    ) -> GroupSnapshot:
        """Read where the group and the logs of `partitions` stand. Raises KafkaError."""
        deadline = time.monotonic() + timeout
        held = self._clients.of(group).held(partitions, deadline)
        return self._logs.snapshot(held, partitions, deadline)
