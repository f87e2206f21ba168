"""A stand-in for the consumer groups of a Kafka cluster, in memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping

from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import Position, TopicPartition

Fault = Callable[
    [str, Mapping[TopicPartition, Position]], "Mapping[TopicPartition, str | None] | None"
]
"""A function that gets a commit request, and answers for Kafka, raises, or returns None.

With None, the store handles the request itself.
"""

_ENDLESS = 2**63 - 1


class MemoryGroups:
    """A `GroupStore` that keeps groups in memory, and answers like a coordinator.

    `history` lists every stored commit, in order. Each commit request takes the first element from
    `faults`, if there is one. Logs reach from 0 to the largest offset, unless `starts` or `ends`
    has a different offset. A topic's id is its name, unless `topic_ids` has a different id, or ""
    for no id. `refused` has the topics that Kafka refuses in a snapshot, with the error names.
    """

    def __init__(self) -> None:
        self.groups: dict[str, dict[TopicPartition, Position]] = {}
        self.history: list[tuple[str, Mapping[TopicPartition, Position]]] = []
        self.requests = 0
        self.snapshots = 0
        self.starts: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.faults: deque[Fault] = deque()
        self.closed = False
        self._lock = threading.Lock()

    def commit(
        self,
        group: str,
        positions: Mapping[TopicPartition, Position],
        *,
        timeout: float,  # noqa: ARG002  # part of the protocol; memory answers at once
    ) -> Mapping[TopicPartition, str | None]:
        """Store the positions for which the fault has no error, and return the answer."""
        with self._lock:
            self.requests += 1
            fault = self.faults.popleft() if self.faults else None
        answer = fault(group, positions) if fault else None
        if answer is None:
            answer = dict.fromkeys(positions)
        landed = {tp: positions[tp] for tp, error in answer.items() if error is None}
        with self._lock:
            self.groups.setdefault(group, {}).update(landed)
            self.history.append((group, landed))
        return answer

    def snapshot(
        self,
        group: str,
        partitions: Collection[TopicPartition],
        *,
        timeout: float,  # noqa: ARG002  # part of the protocol; memory answers at once
    ) -> GroupSnapshot:
        """Return the positions of the group, and the starts, ends and ids of its topics."""
        errors = {tp.topic: self.refused[tp.topic] for tp in partitions if tp.topic in self.refused}
        partitions = [tp for tp in partitions if tp.topic not in errors]
        ids = {tp.topic: self.topic_ids.get(tp.topic, tp.topic) for tp in partitions}
        here = [tp for tp in partitions if ids[tp.topic]]
        with self._lock:
            self.snapshots += 1
            positions = self.groups.get(group, {})
            return GroupSnapshot(
                positions={tp: positions[tp] for tp in partitions if tp in positions},
                starts={tp: self.starts.get(tp, 0) for tp in here},
                ends={tp: self.ends.get(tp, _ENDLESS) for tp in here},
                topic_ids={topic: topic_id for topic, topic_id in ids.items() if topic_id},
                errors=errors,
            )

    def take_over(self, group: str) -> None:
        """Do nothing: only `faults` keep a committer out."""

    def poll(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Record that the store was closed."""
        self.closed = True
