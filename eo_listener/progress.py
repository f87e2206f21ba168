"""Spark's progress event, as typed offsets.

Only the JSON of `StreamingQueryProgress` is read: its shape is the same from Spark 3.5 to
4.x and under Connect, while the Python objects built from it are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from eo_listener.errors import FormatError
from eo_listener.offsets import Offsets, TopicPartition

# KafkaV2[Subscribe[t]] (KafkaMicroBatchStream), KafkaSourceV1[...] where V2 readers are disabled
_KAFKA = re.compile(r"Kafka\w*\[")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """One Kafka source of a progress event.

    `index` is its place among *all* sources of the event. `start` is None for batch 0, and
    `end` is None when the event carries none.
    """

    index: int
    description: str
    start: Offsets | None
    end: Offsets | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What one progress event says about Kafka; sources of other kinds are left out.

    `planned` is when the batch's end offsets were known, in seconds since the epoch: none of its
    tasks has read before that. It is the driver's clock; None when the event does not say.
    """

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    timestamp: str
    sources: tuple[SourceProgress, ...]
    planned: float | None = None

    @property
    def query(self) -> str:
        """The query's name, or its id when it has none."""
        return self.name or self.query_id

    @classmethod
    def parse(cls, text: str) -> Progress:
        """Read the JSON of `StreamingQueryProgress`. Raises FormatError."""
        try:
            event = json.loads(text)
            sources = tuple(
                _source(index, source)
                for index, source in enumerate(event["sources"])
                if _KAFKA.match(source["description"])
            )
            return cls(
                query_id=event["id"],
                run_id=event["runId"],
                name=event.get("name"),
                batch_id=int(event["batchId"]),
                timestamp=event["timestamp"],
                sources=sources,
                planned=_planned(event),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FormatError(
                f"a progress event of Spark cannot be read ({type(error).__name__}: {error})",
                cause="this version of Spark may write it in another form",
                fix="Report it with the Spark version; nothing is committed for this event",
            ) from error

    def only(self, indices: Collection[int]) -> Progress:
        """The same event with the sources of these indices."""
        kept = tuple(source for source in self.sources if source.index in indices)
        return replace(self, sources=kept)

    def without(self, indices: Collection[int]) -> Progress:
        """The same event without the sources of these indices."""
        kept = tuple(source for source in self.sources if source.index not in indices)
        return replace(self, sources=kept)


def _planned(event: Mapping[str, Any]) -> float | None:
    fetching = (event.get("durationMs") or {}).get("latestOffset", 0)
    try:
        began = datetime.strptime(event["timestamp"], "%Y-%m-%dT%H:%M:%S.%f%z")
    except ValueError:
        return None
    return began.timestamp() + float(fetching) / 1000.0


def _source(index: int, source: Mapping[str, Any]) -> SourceProgress:
    return SourceProgress(
        index=index,
        description=source["description"],
        start=_offsets(source.get("startOffset")),
        end=_offsets(source.get("endOffset")),
    )


def _offsets(value: Any) -> Offsets | None:
    if isinstance(value, str):
        value = json.loads(value)
    if value is None:
        return None
    return Offsets(
        {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in value.items()
            for partition, offset in partitions.items()
        }
    )
