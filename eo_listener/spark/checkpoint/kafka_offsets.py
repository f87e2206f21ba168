"""The JSON of Kafka offsets, as Spark's Kafka source writes it: `{"topic":{"0":5}}`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from eo_listener.model.offsets import Offsets, TopicPartition
from eo_listener.spark.checkpoint.errors import FileFindingKind, Unreadable
from eo_listener.spark.checkpoint.json_text import decode

_NUMBER = re.compile(r"-?[0-9]+")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # org.apache.kafka.common.internals.Topic
_MAX_PARTITION = 2**31 - 1
_MAX_OFFSET = 2**63 - 1


def parse(text: str) -> Offsets | None:
    """Read the offsets of a source; None for a source of another kind. Raises Unreadable.

    Told apart by shape, for nothing else is there: a name that holds numbered things is Kafka's.
    """
    value = decode(text)
    if not isinstance(value, dict) or (value and not any(map(_numbered, value.values()))):
        return None
    return Offsets(
        {
            _partition(topic, number): _offset(offset)
            for topic, partitions in value.items()
            for number, offset in _inside(partitions).items()
        }
    )


def text(offsets: Mapping[TopicPartition, int]) -> str:
    """Write offsets as Spark does, without spaces."""
    topics: dict[str, dict[str, int]] = {}
    for tp, offset in offsets.items():
        topics.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps(topics, separators=(",", ":"))


def _numbered(value: Any) -> bool:
    return isinstance(value, dict) and any(map(_NUMBER.fullmatch, value))


def _inside(partitions: Any) -> Mapping[str, Any]:
    if not isinstance(partitions, dict):
        raise Unreadable(FileFindingKind.GARBLED, "a topic holds something else than partitions")
    return partitions


def _partition(topic: str, number: str) -> TopicPartition:
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise Unreadable(FileFindingKind.GARBLED, "Kafka has no topics of such a name")
    if not _PARTITION.fullmatch(number) or int(number) > _MAX_PARTITION:
        raise Unreadable(FileFindingKind.GARBLED, f"{topic} has a partition that is no number")
    return TopicPartition(topic, int(number))


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unreadable(FileFindingKind.GARBLED, "an offset is no integer")
    if not 0 <= value <= _MAX_OFFSET:
        raise Unreadable(FileFindingKind.OUT_OF_RANGE, f"{value}")
    return value
