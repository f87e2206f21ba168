"""What there is to show at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from eo_listener.broker import GroupRow
from eo_listener.lag import PartitionLag

_RARE = 500  # an hour with less than one of so many flights says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Departures of one airport in one scheduled hour of the day.

    `minutes` is the average delay of those that left, None when none did.
    """

    origin: str
    hour: int
    flights: int
    cancelled: int
    minutes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch that Spark has ended; `seconds` is what all of it took."""

    number: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The whole demo at one moment; `elapsed` and `told_ago` are in seconds.

    `wanted` is how many rows will be produced, `counted` how many the query has counted.
    `partitions` is what our reader sees, `told` what kafka-consumer-groups said `told_ago`.
    """

    stage: str
    elapsed: float
    wanted: int
    produced: int = 0
    counted: int = 0
    batches: tuple[Batch, ...] = ()
    partitions: tuple[PartitionLag, ...] = ()
    batch_count: int = 0
    commits: int = 0
    told: tuple[GroupRow, ...] = ()
    told_ago: float | None = None
    delays: tuple[Delay, ...] = ()

    @property
    def committed(self) -> int:
        """The sum of the committed offsets: each log starts at 0, so this counts rows."""
        return sum(row.committed or 0 for row in self.partitions)

    @property
    def lag(self) -> int | None:
        """Rows in Kafka that the group has not reached; None while nothing is known."""
        if not self.partitions:
            return None
        return sum((row.log_end or 0) - (row.committed or 0) for row in self.partitions)

    @property
    def told_lag(self) -> int | None:
        """The same as kafka-consumer-groups said it; None when it has said nothing yet."""
        lags = [row.lag for row in self.told if row.lag is not None]
        return sum(lags) if lags else None

    def worst(self, count: int) -> tuple[Delay, ...]:
        """The airports and hours with the greatest average delay, those with few flights aside."""
        usual = [delay for delay in self.delays if delay.flights * _RARE >= self.counted]
        return tuple(sorted(usual, key=lambda delay: -(delay.minutes or 0.0))[:count])
