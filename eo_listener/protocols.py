"""What the threads and decisions need of the outside world, and nothing more of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from eo_listener.offsets import Position, TopicPartition


class GroupStore(Protocol):
    """The consumer groups of one Kafka cluster, through clients that are kept. For one thread."""

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit, and say of each partition None (confirmed) or Kafka's error name.

        A partition missing from the answer was not confirmed. Raises KafkaError when the
        request as a whole failed or was not answered within `timeout` seconds.
        """
        ...

    def tend(self) -> None:
        """Serve the client's own callbacks; called every few seconds, returns at once."""
        ...

    def close(self) -> None:
        """Let go of the connections, within a few seconds."""
        ...


class SourceReader(Protocol):
    """The options that the sources of running queries were given."""

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        """Reader options by source index, keys in lower case; Kafka sources only.

        Raises JvmError when the query cannot be inspected.
        """
        ...

    def forget(self, run_id: str) -> None:
        """Drop what is held of a run that has ended."""
        ...
