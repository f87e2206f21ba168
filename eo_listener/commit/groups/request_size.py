"""How many partitions one commit request takes.

The coordinator writes what a request commits as one record batch, of 1 MB by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from eo_listener.commit.groups.group_events import Positions
from eo_listener.model.kafka_errors import PERHAPS_TOO_LARGE, TOO_LARGE
from eo_listener.model.offsets import Position, TopicPartition

MAX_PART = 1000  # partitions of one request
MIN_PART = 50
GROW_AFTER = 16  # full parts that are accepted before a larger one is tried
_GROW_AT_LATEST = 1 << 14  # where each larger one was refused

_MAX_BYTES = 500_000
_RECORD_OVERHEAD = 80  # bytes of a record beside its texts


def fitting(group: str, ready: Positions) -> Positions:
    """As many of the first as fit into one request by their bytes; one always does."""
    part: dict[TopicPartition, Position] = {}
    bytes_left, each = _MAX_BYTES, _RECORD_OVERHEAD + len(group.encode())
    for tp, position in ready.items():
        bytes_left -= each + len(tp.topic.encode()) + len(position.metadata.encode())
        if part and bytes_left < 0:
            break
        part[tp] = position
    return part


@dataclass(slots=True)
class PartSize:
    """The partitions of one request: half as many where it is too large, and more again later.

    `full` counts the full parts that were accepted since the last change; after `grow_after` of
    them a larger one is tried. Where that one is refused `grow_after` is doubled: what a broker
    takes is a setting, and each try costs a failure. `suspects` failed once with an error that may
    mean that their part was too large.
    """

    partitions: int = MAX_PART
    full: int = 0
    grow_after: int = GROW_AFTER
    grown: bool = False
    suspects: frozenset[TopicPartition] = frozenset()

    def learn(
        self, part: AbstractSet[TopicPartition], errors: Mapping[TopicPartition, str]
    ) -> None:
        """Take in how the broker answered a part."""
        self.suspects -= part - errors.keys()
        if not errors:
            self._on_success(len(part))
            return
        doubtful = {tp for tp, code in errors.items() if code in PERHAPS_TOO_LARGE}
        again = not self.suspects.isdisjoint(doubtful)
        if again or not TOO_LARGE.isdisjoint(errors.values()):
            self._refused(len(part))
        else:
            self.suspects |= doubtful

    def _on_success(self, size: int) -> None:
        if size < self.partitions:
            return
        self.grown = False
        if self.partitions == MAX_PART:
            self.grow_after = GROW_AFTER
            return
        self.full += 1
        if self.full >= self.grow_after:
            self.partitions, self.full = min(MAX_PART, 2 * self.partitions), 0
            self.grown = True

    def _refused(self, size: int) -> None:
        self.suspects, self.full = frozenset(), 0
        if self.grown:
            self.grow_after, self.grown = min(_GROW_AT_LATEST, 2 * self.grow_after), False
        self.partitions = min(self.partitions, max(MIN_PART, size // 2))
