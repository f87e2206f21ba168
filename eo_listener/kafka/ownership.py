"""What a store that fences others knows of its right to a group (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from eo_listener.model.offsets import Position, TopicPartition


class Ownership:
    """Whose commits a group should hold, if nobody has taken it over.

    To join as the fixed member, or to open the producer, fences whoever was there. At first that
    is meant: a new driver takes the place of the old one. Later, when a client has to be
    replaced, this store may itself be the one that was replaced meanwhile, and would throw its
    successor out. So it looks at the group before, and goes on only if all it finds is its own.
    This is kept as long as the store: it outlives the clients, which are closed when there are
    too many of them.

    What this cannot see is a successor that has taken the group and not committed yet. Those are
    milliseconds: it commits in the same breath.
    """

    def __init__(self) -> None:
        self.lost: str | None = None  # how it was lost to another, for good
        self._known: dict[TopicPartition, Position] = {}
        self._doubt: defaultdict[TopicPartition, set[Position]] = defaultdict(set)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Those to look at."""
        return tuple({**self._known, **self._doubt})

    def found(self, held: Mapping[TopicPartition, Position]) -> None:
        """Take note of what the group held when it was first read after it was taken."""
        self._known = {**held, **self._known}

    def sending(self, positions: Mapping[TopicPartition, Position]) -> None:
        """These are on their way: from now on the group may hold them."""
        for tp, position in positions.items():
            self._doubt[tp].add(position)

    def landed(self, positions: Mapping[TopicPartition, Position]) -> None:
        """The group has these."""
        self._known.update(positions)
        for tp in positions:
            self._doubt.pop(tp, None)

    def aborted(self, positions: Mapping[TopicPartition, Position]) -> None:
        """These will never land."""
        for tp, position in positions.items():
            self._doubt[tp].discard(position)

    def foreign(self, held: Mapping[TopicPartition, Position]) -> TopicPartition | None:
        """A partition for which the group holds what this store has neither sent nor found.

        One that holds nothing is none: offsets expire, and go with their topic.
        """
        for tp, position in held.items():
            sent = self._doubt.get(tp, set())
            concerns = tp in self._known or sent
            if concerns and position != self._known.get(tp) and position not in sent:
                return tp
        return None
