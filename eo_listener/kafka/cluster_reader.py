"""Reads the offsets of groups and the starts and ends of logs; changes nothing."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing

from eo_listener.client_config.admin_commands import (
    AS_ADMINISTRATOR,
    grant_command_for,
    topic_options,
)
from eo_listener.client_config.validation import require_name
from eo_listener.errors import KafkaError, few
from eo_listener.kafka.client import OUTSIDER, STABLE, Client, Role
from eo_listener.kafka.logs import Logs, group_offsets
from eo_listener.model.kafka_errors import COORDINATOR_MOVES
from eo_listener.offsets import OffsetRange, Position, TopicPartition

_PAUSE = 0.2


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
                cause="it may not Describe the topic; Kafka then also leaves out the "
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
                    late = time.monotonic() + _PAUSE >= deadline
                    if error.code not in COORDINATOR_MOVES or late:
                        raise
                time.sleep(_PAUSE)

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout
