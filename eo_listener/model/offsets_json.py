"""The JSON in which Spark writes Kafka offsets, everywhere: `{"topic":{"0":5}}`.

This reads offsets that Spark has just reported. Files of a checkpoint may be damaged, and
`eo_listener.spark.checkpoint.log_files` reads those more strictly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from eo_listener.offsets import Offsets, TopicPartition


def read_offsets(value: Any) -> Offsets | None:
    """Offsets from a text, or from JSON that was read already; None for none.

    Raises ValueError, TypeError or AttributeError for what has another form.
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
    """Write offsets as Spark does: in order, without spaces."""
    topics: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        topics.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps(topics, separators=(",", ":"))
