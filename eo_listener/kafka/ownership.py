"""What a transactional store knows of its right to a group (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from eo_listener.offsets import Position, TopicPartition


class Ownership:
    """Whose commits a group should hold, if nobody has taken it over.

    To open a producer fences whoever has one. At first that is meant: a new driver takes the
    place of the old one. Later, when a producer has to be replaced, this store may itself be the
    one that was replaced meanwhile, and would throw its successor out. So it looks at the group
    before, and goes on only if all it finds there is its own. What outlives the producers, and
    their closing when there are too many, is kept here.

    What this cannot see is a successor that has opened its producer and not committed yet: those
    are milliseconds, for a successor commits in the same call.
    """

    def __init__(self) -> None:
        self.lost: str | None = None  # how it was lost to another, for good
        self._known: dict[TopicPartition, Position] = {}
        self._sent: Mapping[TopicPartition, Position] = {}

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Those to look at."""
        return tuple({**self._known, **self._sent})

    def found(self, held: Mapping[TopicPartition, Position]) -> None:
        """Take note of what the group held when it was first read under this store's fence."""
        self._known = {**held, **self._known}

    def sending(self, positions: Mapping[TopicPartition, Position]) -> None:
        """A transaction with these is on its way: from now on the group may hold them."""
        self._sent = dict(positions)

    def landed(self) -> None:
        """The transaction was committed."""
        self._known.update(self._sent)
        self._sent = {}

    def aborted(self) -> None:
        """The transaction was aborted, and will never land."""
        self._sent = {}

    def foreign(self, held: Mapping[TopicPartition, Position]) -> TopicPartition | None:
        """A partition for which the group holds what this store has neither sent nor found.

        One that holds nothing is none: offsets expire, and go with their topic.
        """
        return next(
            (
                tp
                for tp, position in held.items()
                if tp in self._known and position not in (self._known[tp], self._sent.get(tp))
            ),
            None,
        )
