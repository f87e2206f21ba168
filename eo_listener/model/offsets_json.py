"""The JSON that Spark uses everywhere for Kafka offsets: `{"topic":{"0":5}}`.

This module reads offsets that Spark has just reported. Files of a checkpoint may be damaged, so
`eo_listener.spark.checkpoint.log_files` reads them more strictly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from eo_listener.offsets import Offsets, TopicPartition


def read_offsets(value: Any) -> Offsets | None:
    """Return the offsets in a JSON text or in parsed JSON, or None if `value` is None or null.

    Raises ValueError, TypeError or AttributeError if `value` has a different form.
    """
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


def write_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Return offsets as JSON in Spark's form: in order, without spaces."""
    topics: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        topics.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps(topics, separators=(",", ":"))
