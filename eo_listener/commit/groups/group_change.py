"""The changes of a repair to a group, partition by partition, before and after. Pure.

A repair either seeds a group (sets offsets if it holds none, and raises the offsets that it holds)
or rewinds it (lowers them). One repair never does both: a seed that would go back, and a rewind
that would skip records, are not what the user requested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from eo_listener.commit.groups.group_state import MAX_PART, fitting
from eo_listener.errors import KafkaError, SettingsError, few
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition


class Direction(Enum):
    """The direction in which a partition would move."""

    NEW = "new"
    FORWARD = "forward"
    SAME = "same"
    BACK = "back"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """The group's offset of one partition, None for nothing, and the requested offset."""

    partition: TopicPartition
    held: Position | None
    offset: int

    @property
    def direction(self) -> Direction:
        """The direction in which it would move."""
        if self.held is None:
            return Direction.NEW
        if self.offset == self.held.offset:
            return Direction.SAME
        return Direction.FORWARD if self.offset > self.held.offset else Direction.BACK

    @property
    def writer(self) -> CommitMetadata | None:
        """The author of the group's commit; None if it was another program."""
        return None if self.held is None else CommitMetadata.parse(self.held.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """A whole repair. `author` is the metadata of its commits.

    `held` is all that the group held at the plan, also of partitions that are left alone.
    """

    group: str
    author: CommitMetadata
    rewinds: bool
    held: Mapping[TopicPartition, Position]
    partitions: tuple[PartitionChange, ...]

    @classmethod
    def plan(
        cls,
        group: str,
        held: Mapping[TopicPartition, Position],
        wanted: Mapping[TopicPartition, int],
        author: CommitMetadata,
        *,
        rewinds: bool,
    ) -> GroupChange:
        """Plan a repair.

        Raises SettingsError for a seed that would take the group back, and for a rewind of what the
        group holds nothing of.
        """
        partitions = tuple(
            PartitionChange(partition=tp, held=held.get(tp), offset=offset)
            for tp, offset in sorted(wanted.items())
        )
        if rewinds and all(one.direction is Direction.NEW for one in partitions):
            raise SettingsError(
                f"group {group} holds no offsets of {few(one.partition for one in partitions)}",
                cause="they expired, nobody has committed any, or the name is wrong",
                fix="Run `eo-listener status GROUP -b SERVERS` to see what it holds. To give "
                "it offsets, run `eo-listener group seed` with the same arguments",
            )
        back = [one for one in partitions if one.direction is Direction.BACK]
        if back and not rewinds:
            named = few(f"{one.partition} from {_offset(one)} to {one.offset}" for one in back)
            raise SettingsError(
                f"group {group} would go back: {named}",
                cause="the group is ahead of the origin of the new offsets",
                fix="To have these records read again, run `eo-listener group rewind` with "
                "the same --from option (--from-file for a file). Otherwise name the "
                "other topics with --topic",
            )
        return cls(
            group=group, author=author, rewinds=rewinds, held=dict(held), partitions=partitions
        )

    def moves(self, one: PartitionChange) -> bool:
        """Return True if a partition is one that this repair commits."""
        wanted = {Direction.BACK} if self.rewinds else {Direction.NEW, Direction.FORWARD}
        return one.direction in wanted

    def positions(self) -> dict[TopicPartition, Position]:
        """The offsets to commit."""
        return {
            one.partition: Position(offset=one.offset, metadata=self._metadata(one).text())
            for one in self.partitions
            if self.moves(one)
        }

    def parts(self) -> Iterator[dict[TopicPartition, Position]]:
        """The same, in parts that one request takes each."""
        left = self.positions()
        while left:
            part = fitting(self.group, dict(islice(left.items(), MAX_PART)))
            yield dict(part)
            left = {tp: at for tp, at in left.items() if tp not in part}

    def marked(self) -> tuple[TopicPartition, ...]:
        """Partitions to be committed on which the guard has left its mark, which is then gone."""
        return tuple(
            one.partition
            for one in self.partitions
            if self.moves(one) and one.writer is not None and one.writer.withheld
        )

    def moved_since(self, held: Mapping[TopicPartition, Position]) -> tuple[TopicPartition, ...]:
        """Partitions of which the group holds something else than it did at the plan."""
        both = sorted(self.held.keys() | held.keys())
        return tuple(tp for tp in both if held.get(tp) != self.held.get(tp))

    def missing_in(self, held: Mapping[TopicPartition, Position]) -> tuple[TopicPartition, ...]:
        """Partitions that were to be committed and of which the group holds something else."""
        wanted = self.positions()
        return tuple(tp for tp, position in wanted.items() if held.get(tp) != position)

    def _metadata(self, one: PartitionChange) -> CommitMetadata:
        return self.author.rewinding(one.held.offset) if self.rewinds and one.held else self.author


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutcome:
    """The outcome of a repair.

    `held` is what the group holds after it: only that counts. `failed` are the errors of its
    commits by Kafka's names, each with what it was of.
    """

    change: GroupChange
    held: Mapping[TopicPartition, Position]
    failed: Mapping[str, str]

    @property
    def missing(self) -> tuple[TopicPartition, ...]:
        """Partitions that were to be committed and of which the group holds something else."""
        return self.change.missing_in(self.held)

    def require_all(self) -> None:
        """Raise KafkaError where any is missing; it names which have moved and which have not."""
        missing = self.missing
        if not missing:
            return
        moved = sorted(self.change.positions().keys() - set(missing))
        code = next(iter(self.failed), "UNKNOWN")
        raise KafkaError(
            f"group {self.change.group}, read back, does not hold everything that was committed "
            f"to it. Moved: {few(moved) or 'none'}. Not moved: {few(missing)}",
            code=code,
            cause=self.failed.get(code, "another program committed to it at the same time"),
            fix="Run `eo-listener status`, then repeat the command: it starts from what the "
            "group holds then",
        )


def _offset(one: PartitionChange) -> int | None:
    return None if one.held is None else one.held.offset
