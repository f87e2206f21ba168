"""Consumer groups in memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping

from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import Position, TopicPartition

Fault = Callable[
    [str, Mapping[TopicPartition, Position]], "Mapping[TopicPartition, str | None] | None"
]
"""Gets a commit request; answers it in Kafka's place, raises, or gives None to let it through."""

_ENDLESS = 2**63 - 1


class MemoryGroups:
    """A `GroupStore` that keeps groups in memory, as the coordinator would.

    `history` lists every commit that landed, in order. Each element of `faults` meets one commit
    request, the first the first. Logs reach from 0 to the largest number, except those in `starts`
    and `ends`; a topic's id is its name, except those in `topic_ids`, and none if that is "".
    `refused` are topics that a snapshot may not read, with the error name.
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
        """Keep the positions that no fault has an answer for."""
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
        """Show the group, and logs that hold everything."""
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

    def poll(self) -> None:
        """Nothing to serve."""

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True
