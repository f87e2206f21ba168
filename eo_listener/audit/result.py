"""The results of a gap proof, and their severity. Reads and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from eo_listener.offsets import OffsetRange, TopicPartition


class Gravity(Enum):
    """The answer that a finding gives to the question: is each record in the store exactly once?"""

    EXPLAINED = "as it should be"
    UNPROVABLE = "can no longer be proved"
    WRONG = "wrong"


class AuditFindingKind(Enum):
    """The reason why offsets have no row, or rows exist that should not.

    Kafka never gives a consumer its control records. So on a compacted topic it is unknown whether
    an absent offset is a marker or was compacted, unless no producer of the topic is transactional.
    A record that was lost and later compacted looks like a record that was only compacted.
    """

    gravity: Gravity
    """The gravity of a finding of this kind."""

    def __new__(  # noqa: PYI034  # Python 3.10 has no Self
        cls, value: str, gravity: Gravity = Gravity.WRONG
    ) -> AuditFindingKind:
        kind = object.__new__(cls)
        kind._value_ = value
        kind.gravity = gravity
        return kind

    MARKER = "transaction marker", Gravity.EXPLAINED
    ABORTED = "record of an aborted transaction", Gravity.EXPLAINED
    OPEN = "record of an open transaction that the ledger has passed"
    COMPACTED = "compacted since, and not in the store", Gravity.UNPROVABLE
    MARKER_OR_COMPACTED = (
        "transaction marker, or compacted since and not in the store",
        Gravity.UNPROVABLE,
    )
    ACCEPTED = "lost, and recorded in the ledger as accepted", Gravity.EXPLAINED
    RETENTION = "deleted from Kafka since, and not in the store", Gravity.UNPROVABLE
    GONE = "the partition is no longer in Kafka", Gravity.UNPROVABLE
    MISSING = "in Kafka and not in the store"
    UNRECORDED = (
        "in Kafka and not in the store; the ledger no longer shows whether they were applied",
        Gravity.UNPROVABLE,
    )
    TAIL = "in Kafka and not in the store, up to the ledger's head"
    UNEXPLAINED = "not in Kafka, although nothing deletes single records there"
    DUPLICATE = "in the store more than once"
    COUNTED = (
        "batches of sources other than Kafka, whose records cannot be compared",
        Gravity.UNPROVABLE,
    )
    UNCLAIMED = "in the store and not in the ledger"
    RECREATED = "of an older topic of the same name"
    EITHER_TOPIC = (
        "in the store, of this topic or an older one of its name: their rows look alike",
        Gravity.UNPROVABLE,
    )
    EITHER_QUERY = (
        "in the store, with fewer rows than queries that have applied it: their rows look alike",
        Gravity.UNPROVABLE,
    )
    MOVED_BACK = "beyond the end of Kafka's log, which has moved back"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """A range of one partition's offsets that have the same kind of finding."""

    kind: AuditFindingKind
    partition: TopicPartition
    range: OffsetRange

    @property
    def gravity(self) -> Gravity:
        """The gravity of the finding."""
        return self.kind.gravity

    def __str__(self) -> str:
        return f"{self.partition} {self.range}: {self.kind.value}"
