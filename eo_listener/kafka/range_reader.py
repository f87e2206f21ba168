"""Reads ranges of logs by a consumer that joins no group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import KafkaError as Answer
from confluent_kafka import TopicPartition as Wire

from eo_listener.kafka.client import TIMED_OUT, ConnectionErrors, open_reader
from eo_listener.model.kafka_errors import COORDINATOR_MOVES
from eo_listener.model.offsets import OffsetRange, TopicPartition

_AT_ONCE: Final = 500
_POLL: Final = 0.05  # seconds; a poll returns early only when it is full
_END: Final = "_PARTITION_EOF"
_QUICK: Final = {"fetch.wait.max.ms": "10", "fetch.error.backoff.ms": "20"}
# librdkafka asks for the coordinator of a group that its consumer never joins.
_OF_GROUPS: Final = frozenset({"GROUP_AUTHORIZATION_FAILED", *COORDINATOR_MOVES})


class RangeReader:
    """A consumer for ranges of partitions; its settings are those of `open_reader`.

    What its connection reports is taken up in `errors`.
    """

    def __init__(
        self, properties: Mapping[str, str], name: str, *, committed: bool, errors: ConnectionErrors
    ) -> None:
        self._errors = errors
        self.consumer: Consumer = open_reader(
            {**properties, **_QUICK}, name, committed=committed, error_cb=self._note
        )

    def messages(
        self,
        ranges: Mapping[TopicPartition, OffsetRange],
        deadline: float,
        *,
        silence: float | None = None,
    ) -> Iterator[Any]:
        """The records in these ranges. Raises KafkaError, also where the deadline has passed.

        With `silence`, each message of a partition that is not read to its end yet puts the
        deadline off until so many seconds after it.
        """
        left = {tp: one.until for tp, one in ranges.items() if one.start < one.until}
        if not left:
            return
        starts = {tp: ranges[tp].start or OFFSET_BEGINNING for tp in left}
        self.consumer.assign([Wire(*tp, start) for tp, start in starts.items()])
        try:
            while left:
                if time.monotonic() >= deadline:
                    raise self._errors.failure(f"reading {min(left)}", Answer(TIMED_OUT))
                for message in self._polled():
                    is_progress = _place(message) in left
                    yield from self._taken(message, left)
                    if silence is not None and is_progress:
                        deadline = time.monotonic() + silence
        finally:
            self.consumer.unassign()

    def close(self) -> None:
        """Let go of the connections."""
        self.consumer.close()

    def _polled(self) -> Iterator[Any]:
        """What there is, at least one unless nothing comes for a moment."""
        first = self.consumer.poll(_POLL)
        if first is not None:
            yield first
            yield from self.consumer.consume(_AT_ONCE, timeout=0)

    def _taken(self, message: Any, left: dict[TopicPartition, int]) -> Iterator[Any]:
        """The message, if it is a record in what is `left`; a partition at its end leaves it."""
        tp = _place(message)
        error, offset = message.error(), message.offset()
        if error is not None and error.name() != _END:
            if tp in left and error.name() not in _OF_GROUPS:
                raise self._errors.failure(f"reading {tp}", error)
            self._note(error)  # of a connection: librdkafka goes on
            return
        if tp not in left or offset is None:
            return
        if error is None and offset < left[tp]:
            yield message
        if offset + (error is None) >= left[tp]:
            del left[tp]

    def _note(self, error: Answer) -> None:
        """Remember an error of a connection; not of a group, of which nothing is asked."""
        if error.name() not in _OF_GROUPS:
            self._errors.record(error)


def _place(message: Any) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0)
