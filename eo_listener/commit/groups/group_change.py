"""Plans the repair of a consumer group by partition, and judges its outcome.

This module reads and writes nothing. A repair either seeds a group or rewinds it. A seed sets the
offsets that the group lacks, and raises those that it holds; a rewind lowers them. One repair never
does both: a seed that would go back, and a rewind that would skip records, are not what the user
requested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from eo_listener.commit.groups.group_state import MAX_PART, Positions, fitting
from eo_listener.errors import KafkaError, SettingsError, few
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition


class Direction(Enum):
    """The direction in which the group's offset of a partition would move."""

    NEW = "new"
    FORWARD = "forward"
    SAME = "same"
    BACK = "back"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """The planned offset of one partition; `position` is None if the group has no offset for it."""

    partition: TopicPartition
    position: Position | None
    offset: int

    @property
    def direction(self) -> Direction:
        """The direction in which the group's offset would move."""
        if self.position is None:
            return Direction.NEW
        if self.offset == self.position.offset:
            return Direction.SAME
        return Direction.FORWARD if self.offset > self.position.offset else Direction.BACK

    @property
    def writer(self) -> CommitMetadata | None:
        """The metadata of the group's offset, or None if eo_listener did not commit that offset."""
        return None if self.position is None else CommitMetadata.parse(self.position.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """The planned repair of one group. `author` is the metadata of the repair's commits.

    `group_positions` are all positions that the group held when the repair was planned, including
    those of partitions that the repair does not change.
    """

    group: str
    author: CommitMetadata
    rewinds: bool
    group_positions: Positions
    partitions: tuple[PartitionChange, ...]

    @classmethod
    def plan(
        cls,
        group: str,
        positions: Positions,
        offsets: Mapping[TopicPartition, int],
        author: CommitMetadata,
        *,
        rewinds: bool,
    ) -> GroupChange:
        """Plan the repair that gives `offsets` to `group`, which now holds `positions`.

        Raises SettingsError for a seed that would move the group back, and for a rewind if the
        group holds no offset of any of the partitions.
        """
        partitions = tuple(
            PartitionChange(partition=tp, position=positions.get(tp), offset=offset)
            for tp, offset in sorted(offsets.items())
        )
        if rewinds and all(change.direction is Direction.NEW for change in partitions):
            raise SettingsError(
                f"group {group} holds no offsets of {few(sorted(offsets))}",
                cause="the offsets expired, no offset was ever committed, or the name is wrong",
                fix="Run `eo-listener status GROUP -b SERVERS` to see its offsets. To give "
                "it offsets, run `eo-listener group seed` with the same arguments",
            )
        back = [
            f"{change.partition} from {change.position and change.position.offset} to "
            f"{change.offset}"
            for change in partitions
            if change.direction is Direction.BACK
        ]
        if back and not rewinds:
            raise SettingsError(
                f"group {group} would go back: {few(back)}",
                cause="the group is ahead of the origin of the new offsets",
                fix="To have these records read again, run `eo-listener group rewind` with "
                "the same --from option (--from-file for a file). Otherwise name the "
                "other topics with --topic",
            )
        return cls(
            group=group,
            author=author,
            rewinds=rewinds,
            group_positions=dict(positions),
            partitions=partitions,
        )

    def moves(self, change: PartitionChange) -> bool:
        """Return True if this repair commits the offset in `change`."""
        directions = {Direction.BACK} if self.rewinds else {Direction.NEW, Direction.FORWARD}
        return change.direction in directions

    def positions(self) -> dict[TopicPartition, Position]:
        """Return the positions to commit."""
        return {
            change.partition: Position(offset=change.offset, metadata=self._metadata(change).text())
            for change in self.partitions
            if self.moves(change)
        }

    def parts(self) -> Iterator[dict[TopicPartition, Position]]:
        """Yield the positions to commit in parts, each of which fits into one request."""
        remaining = self.positions()
        while remaining:
            part = fitting(self.group, dict(islice(remaining.items(), MAX_PART)))
            yield dict(part)
            remaining = {tp: at for tp, at in remaining.items() if tp not in part}

    def marked(self) -> tuple[TopicPartition, ...]:
        """Return the partitions whose commit removes the guard's mark from the group's offset."""
        return tuple(
            change.partition
            for change in self.partitions
            if self.moves(change) and change.writer is not None and change.writer.withheld
        )

    def moved_since(self, positions: Positions) -> tuple[TopicPartition, ...]:
        """Return the partitions whose position in the group has changed since the plan was made."""
        planned = self.group_positions
        partitions = sorted(planned.keys() | positions.keys())
        return tuple(tp for tp in partitions if positions.get(tp) != planned.get(tp))

    def _metadata(self, change: PartitionChange) -> CommitMetadata:
        if not self.rewinds or change.position is None:
            return self.author
        return self.author.rewinding(change.position.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutcome:
    """The outcome of a repair.

    `group_positions` are the group's positions after the repair: only they show if the repair
    succeeded. `errors` has a text for each error of the repair's commits, by Kafka's error name.
    """

    change: GroupChange
    group_positions: Positions
    errors: Mapping[str, str]

    @property
    def missing(self) -> tuple[TopicPartition, ...]:
        """The partitions whose requested position the group still lacks after the repair."""
        requested, positions = self.change.positions(), self.group_positions
        return tuple(tp for tp, position in requested.items() if positions.get(tp) != position)

    def require_all(self) -> None:
        """If a partition is missing, raise KafkaError, which lists moved and missing partitions."""
        missing = self.missing
        if not missing:
            return
        moved = sorted(self.change.positions().keys() - set(missing))
        code = next(iter(self.errors), "UNKNOWN")
        raise KafkaError(
            f"group {self.change.group}, read back, does not hold all offsets that were committed "
            f"to it. Moved: {few(moved) or 'none'}. Not moved: {few(missing)}",
            code=code,
            cause=self.errors.get(code, "another program committed to it at the same time"),
            fix="Run `eo-listener status`, then repeat the command: it starts from the "
            "group's offsets at that time",
        )
