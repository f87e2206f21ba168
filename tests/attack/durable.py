"""What a checkpoint had made durable, and when: the bound that no commit may pass."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eo_listener.offsets import TopicPartition
from tests.attack.offsets_topic import GroupCommit

_SLACK = 0.002  # the broker's clock is ours, but in whole milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch with its end in the commit log; `at` is when that was written, wall clock."""

    number: int
    at: float
    ends: Mapping[TopicPartition, int]


class Durable:
    """The batches of a local checkpoint of which Spark keeps all (`minBatchesToRetain`)."""

    def __init__(self, checkpoint: Path) -> None:
        commits = checkpoint / "commits"
        numbers = sorted(int(file.name) for file in commits.iterdir() if file.name.isdigit())
        self.batches = tuple(
            Batch(
                number=number,
                at=(commits / str(number)).stat().st_mtime,
                ends=_ends((checkpoint / "offsets" / str(number)).read_text()),
            )
            for number in numbers
        )

    def bound(self, commit: GroupCommit) -> int:
        """The offset up to which the partition was durable when the broker wrote this commit."""
        until = commit.timestamp / 1000 + _SLACK
        ends = [
            batch.ends[commit.partition]
            for batch in self.batches
            if batch.at <= until and commit.partition in batch.ends
        ]
        return max(ends, default=0)


def _ends(text: str) -> dict[TopicPartition, int]:
    ends = {}
    for line in text.splitlines()[2:]:  # a version, the batch's own, then a line for each source
        for topic, partitions in json.loads(line).items() if line != "-" else ():
            for partition, offset in partitions.items():
                ends[TopicPartition(topic, int(partition))] = offset
    return ends
