"""Whether a group can be handed over to another consumer, by what was read at one moment. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from eo_listener.model.errors import few
from eo_listener.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReading:
    """One partition: what the group has committed, and where its log stands.

    `stable` is the last stable offset, `end` the log's end. `unread`: there are records from
    `committed` to `stable`, not only the markers of transactions. `durable` is where the
    checkpoint's newest committed batch ended; both are None where that is not known.
    """

    committed: int | None
    start: int
    stable: int
    end: int
    unread: bool = True
    durable: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverReading:
    """All that was read.

    `members` names those of the group, `in_doubt` a batch of the checkpoint. `unknown` is why a
    checkpoint that was named does not say where the query is.
    """

    partitions: Mapping[TopicPartition, PartitionReading]
    members: tuple[str, ...] = ()
    in_doubt: int | None = None
    unknown: str | None = None

    @property
    def lag(self) -> int:
        """Offsets that are left to read, in all; those of a partition never committed count."""
        return sum(
            max(0, one.stable - (one.start if one.committed is None else one.committed))
            for one in self.partitions.values()
            if one.unread
        )

    def obstacles(self) -> tuple[str, ...]:
        """What is in the way of a handover; nothing where the group is drained and free."""
        return tuple(self._obstacles())

    def _obstacles(self) -> Iterator[str]:
        if not self.partitions:
            yield "the group holds no offsets"
        behind = {tp: one for tp, one in self.partitions.items() if _is_behind(one)}
        if behind:
            yield f"{self.lag} offsets are not read yet: {few(map(str, behind))}"
        never = [tp for tp, one in self.partitions.items() if one.committed is None]
        if never:
            yield f"nothing is committed for {few(map(str, never))}"
        opened = [tp for tp, one in self.partitions.items() if one.stable < one.end]
        if opened:
            yield f"a transaction is open in {few(map(str, opened))}"
        beyond = [
            tp
            for tp, one in self.partitions.items()
            if one.committed is not None and one.committed > one.end
        ]
        if beyond:
            yield f"the group is beyond the end of the log in {few(map(str, beyond))}"
        other = [
            tp
            for tp, one in self.partitions.items()
            if one.durable is not None and one.durable != one.committed
        ]
        if other:
            yield f"the checkpoint is not where the group is in {few(map(str, other))}"
        if self.unknown is not None:
            yield f"the checkpoint does not say where the query is: {self.unknown}"
        if self.in_doubt is not None:
            yield f"batch {self.in_doubt} of the checkpoint is planned and not committed"
        if self.members:
            yield f"the group has members: {few(self.members)}"


def _is_behind(one: PartitionReading) -> bool:
    return one.committed is not None and one.committed < one.stable and one.unread
