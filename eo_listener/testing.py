"""Stand-ins that implement this package's protocols, for tests of what is built on them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping

from eo_listener.offsets import Position, TopicPartition

Fault = Callable[
    [str, Mapping[TopicPartition, Position]], "Mapping[TopicPartition, str | None] | None"
]
"""Gets a commit request; answers it in Kafka's place, raises, or gives None to let it through."""


class MemoryGroups:
    """A `GroupStore` that keeps groups in memory, as the coordinator would.

    `history` lists every commit that landed, in order. Each element of `faults` meets one
    request, the first the first.
    """

    def __init__(self) -> None:
        self.groups: dict[str, dict[TopicPartition, Position]] = {}
        self.history: list[tuple[str, Mapping[TopicPartition, Position]]] = []
        self.requests = 0
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

    def tend(self) -> None:
        """Nothing to serve."""

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True
