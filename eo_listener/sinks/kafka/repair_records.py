"""What the ledger's topic keeps of a repair for good: a rename, or a gap that was accepted. No I/O.

Format 1. The topic has heads and no history of batches; these records are all that it remembers.
Each has the heads as the repair found them, of PER_RECORD partitions of one topic at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from eo_listener.model.errors import FormatError
from eo_listener.model.ledger import (
    FORMAT,
    GAP_ACCEPTED,
    UNKNOWN_TIME,
    AppliedBatch,
    BatchVerdict,
    Head,
)
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka.batch_records import encoded
from eo_listener.sinks.packed_heads import Heads, Movers, read_row


class RepairKey(NamedTuple):
    """Whose ledger was repaired; `repair` is another text for each record."""

    sink: str
    query: str
    repair: str

    def encode(self) -> bytes:
        """As it stands in Kafka."""
        return encoded({"v": FORMAT, **self._asdict()})


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRecord:
    """Heads of `topic` as a repair found them, and what it made of each.

    With `gap` the next offset was moved over it, by `run_id`; without, the ledger was renamed, as
    `verdict` says. `at` is when, in ISO 8601.
    """

    topic: str
    heads: Heads
    run_id: str
    verdict: str
    gap: OffsetRange | None
    at: str

    def encode(self) -> bytes:
        """As it stands in Kafka."""
        movers = Movers()
        rows = [movers.row(tp, head) for tp, head in sorted(self.heads.items())]
        return encoded(
            {
                "v": FORMAT,
                "topic": self.topic,
                "moved": movers.listed,
                "heads": rows,
                "run": self.run_id,
                "verdict": self.verdict,
                "gap": self.gap,
                "at": self.at,
            }
        )

    @classmethod
    def decode(cls, given: Mapping[str, Any]) -> RepairRecord:
        """Read it. Raises FormatError."""
        try:
            topic, gap = given["topic"], given["gap"]
            return cls(
                topic=topic,
                heads=dict(read_row(topic, row, given["moved"]) for row in given["heads"]),
                run_id=given["run"],
                verdict=given["verdict"],
                gap=None if gap is None else OffsetRange(*gap),
                at=given["at"],
            )
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise FormatError(
                f"the ledger's topic holds a repair that cannot be read: {type(error).__name__}",
                cause="another program writes to this topic, or a newer release of eo_listener has",
                fix="Give the ledger a topic of its own, ledger_topic=, or use that release",
            ) from error

    def applied(self) -> Iterator[AppliedBatch]:
        """For each partition what was found, and what it was made."""
        for tp, found in self.heads.items():
            yield AppliedBatch(
                partition=tp,
                head=found,
                rows=None,
                verdict=BatchVerdict.NEXT.value,
                gap=None,
                applied_at=UNKNOWN_TIME,
            )
            at = found.range.until if self.gap is None else self.gap.until
            run_id = found.run_id if self.gap is None else self.run_id
            yield AppliedBatch(
                partition=tp,
                head=replace(found, range=OffsetRange(at, at), run_id=run_id),
                rows=0,
                verdict=self.verdict if self.gap is None else GAP_ACCEPTED,
                gap=self.gap,
                applied_at=self.at,
            )


def history_of(repairs: Iterable[RepairRecord]) -> list[AppliedBatch]:
    """What repairs have found and made, each partition's in the order of offsets.

    A head that one has made and the next has found is there once.
    """
    found: list[AppliedBatch] = []
    seen: set[tuple[TopicPartition, Head]] = set()
    for one in sorted(repairs, key=lambda one: one.at):
        for applied in one.applied():
            place = (applied.partition, applied.head)
            if applied.applied_at != UNKNOWN_TIME or place not in seen:
                found.append(applied)
            seen.add(place)
    return sorted(found, key=lambda one: (one.partition, one.head.range.until))
