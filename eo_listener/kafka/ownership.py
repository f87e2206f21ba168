"""A fencing store's knowledge of its right to a group (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from eo_listener.errors import KafkaError
from eo_listener.offsets import Position, TopicPartition


class Ownership:
    """Which commits a group should hold, if no other driver has taken it over.

    Joining with the fixed instance id, or opening the producer, fences the previous owner. At
    start-up this is intended: a new driver replaces the old one. When a client is reopened later,
    a newer driver may own the group, and reopening would fence it. So the store first reads the
    group, and continues only if every offset is one that it committed itself. This is kept as long
    as the store: it outlives the clients, which are closed when there are too many of them.

    It cannot see a successor that has joined but not committed yet: a few milliseconds.
    """

    def __init__(self) -> None:
        self.loss: str | None = None  # the reason, once another committer has the group for good
        self._known: dict[TopicPartition, Position] = {}
        self._unconfirmed: defaultdict[TopicPartition, set[Position]] = defaultdict(set)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions to read before a client is replaced."""
        return tuple({**self._known, **self._unconfirmed})

    def record_read(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Record what the group held at the first read after it was taken over."""
        self._known = {**positions, **self._known}

    def record_sent(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Record positions that are being sent: from now on the group may hold them."""
        for tp, position in positions.items():
            self._unconfirmed[tp].add(position)

    def record_confirmed(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Record positions that the group holds."""
        self._known.update(positions)
        for tp in positions:
            self._unconfirmed.pop(tp, None)

    def record_aborted(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Record positions that will never be stored."""
        for tp, position in positions.items():
            self._unconfirmed[tp].discard(position)

    def foreign(self, positions: Mapping[TopicPartition, Position]) -> TopicPartition | None:
        """A partition for which the group holds what this store has neither sent nor found.

        A partition without an offset does not count: offsets expire, and go with their topic.
        """
        for tp, position in positions.items():
            sent = self._unconfirmed.get(tp, set())
            concerns = tp in self._known or sent
            if concerns and position != self._known.get(tp) and position not in sent:
                return tp
        return None

    def compare(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Record the group as lost if it holds foreign offsets."""
        foreign = self.foreign(positions)
        if foreign is not None:
            self.loss = f"{foreign} holds offsets that this committer did not send"

    def require_owned(self, action: str, code: str) -> None:
        """Raise KafkaError, the final answer, if the group is lost."""
        if self.loss is not None:
            raise KafkaError(
                f"{action} failed: another committer has taken over",
                code=code,
                cause=self.loss,
                fix="Let only one driver commit to this group",
            )
