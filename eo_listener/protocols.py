"""What the threads and decisions need of the outside world, and nothing more of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from eo_listener.offsets import Offsets, Position, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What Kafka says of one group, and of the logs behind it.

    `held` leaves out partitions for which the group has no offset; `starts` (the first offset
    still in the log) and `ends` (the next to be written) leave out partitions that do not exist;
    `topic_ids` leaves out topics that do not exist. Ids are spelt as Kafka's own tools do.
    """

    held: Mapping[TopicPartition, Position]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]


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

    def look(self, group: str, partitions: Collection[TopicPartition], *, timeout: float) -> Look:
        """Read where the group and the logs of `partitions` stand; changes nothing.

        Raises KafkaError when any part of it could not be read within `timeout` seconds; what
        does not exist is left out of the answer and is no error.
        """
        ...

    def tend(self) -> None:
        """Serve the client's own callbacks; called every few seconds, returns at once."""
        ...

    def close(self) -> None:
        """Let go of the connections, within a few seconds."""
        ...


class QueryMode(Enum):
    """How a query makes its progress durable, which says what its offsets mean."""

    MICRO_BATCH = "micro-batch"
    ASYNC_PROGRESS = "asynchronous progress tracking"
    CONTINUOUS = "continuous"
    REAL_TIME = "real-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePosition:
    """What a run of a query has made durable in its checkpoint.

    `batch_id` is the last batch behind it (-1: none yet); `committed` holds the end offsets by
    the index of the source, Kafka sources only.
    """

    batch_id: int
    committed: Mapping[int, Offsets]


class QueryReader(Protocol):
    """What can be asked of running queries, also when they have just ended.

    Every method raises JvmError when the query cannot be asked.
    """

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        """Reader options by source index, keys in lower case; Kafka sources only."""
        ...

    def mode(self, query_id: str, run_id: str) -> QueryMode:
        """How the query makes its progress durable."""
        ...

    def position(self, query_id: str, run_id: str) -> LivePosition | None:
        """What is durable now; None while the query has not restored its checkpoint yet.

        Never ahead of the commit log, in no mode.
        """
        ...

    def forget(self, run_id: str) -> None:
        """Drop what is held of a run that has ended."""
        ...


class Hands(Protocol):
    """What the shim does for us inside Spark's JVM, over whichever way leads there."""

    def call(self, what: str, argument: str) -> str:
        """Do `what` with `argument`; both it and the answer are JSON texts. For any thread.

        They may hold secrets. Raises JvmError, which never does.
        """
        ...
