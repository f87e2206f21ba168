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
        self.lost: str | None = None  # why it was lost to another committer for good
        self._known: dict[TopicPartition, Position] = {}
        self._unconfirmed: defaultdict[TopicPartition, set[Position]] = defaultdict(set)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Those to read before a client is replaced."""
        return tuple({**self._known, **self._unconfirmed})

    def found(self, held: Mapping[TopicPartition, Position]) -> None:
        """Record what the group held at the first read after it was taken over."""
        self._known = {**held, **self._known}

    def sending(self, positions: Mapping[TopicPartition, Position]) -> None:
        """These are being sent: from now on the group may hold them."""
        for tp, position in positions.items():
            self._unconfirmed[tp].add(position)

    def confirmed(self, positions: Mapping[TopicPartition, Position]) -> None:
        """The group holds these."""
        self._known.update(positions)
        for tp in positions:
            self._unconfirmed.pop(tp, None)

    def aborted(self, positions: Mapping[TopicPartition, Position]) -> None:
        """These will never be stored."""
        for tp, position in positions.items():
            self._unconfirmed[tp].discard(position)

    def foreign(self, held: Mapping[TopicPartition, Position]) -> TopicPartition | None:
        """A partition for which the group holds what this store has neither sent nor found.

        A partition without an offset does not count: offsets expire, and go with their topic.
        """
        for tp, position in held.items():
            sent = self._unconfirmed.get(tp, set())
            concerns = tp in self._known or sent
            if concerns and position != self._known.get(tp) and position not in sent:
                return tp
        return None

    def compare(self, held: Mapping[TopicPartition, Position]) -> None:
        """Take the group for lost if it holds what is foreign."""
        foreign = self.foreign(held)
        if foreign is not None:
            self.lost = f"{foreign} holds offsets that this committer did not send"

    def require_kept(self, what: str, code: str) -> None:
        """Raise KafkaError, the final answer, if the group is lost."""
        if self.lost is not None:
            raise KafkaError(
                f"{what} failed: another committer has taken over",
                code=code,
                cause=self.lost,
                fix="Let only one driver commit to this group",
            )
