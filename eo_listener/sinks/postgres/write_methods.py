"""The methods of writing a batch, and the choice between them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from eo_listener.errors import SettingsError
from eo_listener.model.argument_checks import require_one_of
from eo_listener.model.ledger import Entry
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition

STAGING_ROWS: Final = 5_000_000
"""The number of planned rows from which executors stage a batch that is one transaction."""

TASK_ROWS: Final = 200_000
"""The number of planned rows from which tasks write a batch that may be several transactions."""

Ranges = Sequence[tuple[TopicPartition, OffsetRange]]
"""The partition that each task reads, and its offsets, in the order of task ids."""


class WriteMethod(Enum):
    """The way in which the rows of a batch get into the table.

    DRIVER: through the driver. STAGING: the executors write into a staging table, and one statement
    moves the rows. TASKS: each task writes into the table itself, with the head of its partition.
    With DRIVER and STAGING, the batch is one transaction.
    """

    DRIVER = "through the driver"
    STAGING = "through a staging table"
    TASKS = "by the tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The user's choice of write method; executors write batches of at least `rows` planned rows.

    `connections` is the number of connections that the executors may open at a time, or None for as
    many as tasks run.
    """

    write_method: str
    by_partition: bool
    rows: int
    connections: int | None

    @classmethod
    def from_arguments(
        cls, *, write_method: str, atomicity: str, rows: int | None, connections: int | None
    ) -> Choice:
        """Check the arguments of a sink; raises SettingsError."""
        require_one_of("write_method", write_method, ("auto", "driver", "staging"))
        require_one_of("atomicity", atomicity, ("batch", "partition"))
        by_partition = atomicity == "partition"
        if by_partition and write_method != "auto":
            raise SettingsError(
                f'atomicity="partition" cannot be combined with write_method={write_method!r}',
                cause="through the driver or a staging table a batch is one transaction",
                fix='Remove write_method= or atomicity="partition"; executor_rows= sets the '
                "number of rows from which the tasks write",
            )
        for name, value, least in (("executor_rows", rows, 0), ("max_connections", connections, 1)):
            if value is not None and value < least:
                raise SettingsError(
                    f"{name} must be at least {least}, got {value}", fix="Give a larger number"
                )
        usual = TASK_ROWS if by_partition else STAGING_ROWS
        return cls(
            write_method=write_method,
            by_partition=by_partition,
            rows=usual if rows is None else rows,
            connections=connections,
        )

    def wants(self, planned: int) -> WriteMethod:
        """Return the write method to use for `planned` rows if nothing prevents it."""
        if self.write_method == "staging":
            return WriteMethod.STAGING
        if self.write_method == "driver" or planned < self.rows:
            return WriteMethod.DRIVER
        return WriteMethod.TASKS if self.by_partition else WriteMethod.STAGING


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """The obstacles to the write methods, known before a batch needs them; None means no obstacle.

    The obstacle `executors` prevents both methods that use the executors, and is temporary if
    `passing`; the obstacle `staging` prevents only the method with the staging table.
    """

    executors: str | None = None
    staging: str | None = None
    passing: bool = False

    def obstacle(self, method: WriteMethod) -> str | None:
        """Return the obstacle to `method`, or None if nothing prevents it."""
        if method is WriteMethod.DRIVER:
            return None
        return self.executors or (self.staging if method is WriteMethod.STAGING else None)


def missing(plan: PlannedBatch, entry: Entry) -> bool:
    """Return True if `entry` lacks planned offsets, because the sink already has them."""
    return any(
        offset_range.start != offset_range.until and tp not in entry.moves
        for tp, offset_range in plan.ranges().items()
    )


def fit(ranges: Ranges, plan: PlannedBatch) -> bool:
    """Return True if each task reads all planned offsets of one partition, and no offset is left.

    Return False if there are sources other than Kafka: their head belongs to no task, even in a
    batch in which they have no data.
    """
    read, planned = (
        {tp: offset_range for tp, offset_range in items if offset_range.start != offset_range.until}
        for items in (ranges, plan.ranges().items())
    )
    return plan.counted is None and read == planned


def of_each_task(ranges: Ranges, entry: Entry) -> Mapping[int, TopicPartition]:
    """Return the partition of `entry` that each task reads, by the number of the task."""
    return {number: tp for number, (tp, _) in enumerate(ranges) if tp in entry.moves}
