"""Is each flight there exactly once, and do all who count agree? Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from tests.broker import GroupRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must hold, and the numbers that say whether it does."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A driver was killed while it wrote this batch; `caught` when the batch was planned only."""

    batch: int
    caught: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition: its offsets by each source of facts, and its rows in the sink.

    `records` is the number of its records that have a row. None stands for no answer.
    """

    partition: int
    log_end: int
    group: int | None
    ledger: int | None
    checkpoint: int | None
    rows: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The contents of the sink at the end; `strays` are rows of records that nobody sent."""

    partitions: tuple[Partition, ...]
    strays: int
    kills: tuple[Kill, ...] = ()
    duplicates: int = field(init=False)
    gaps: int = field(init=False)

    def __post_init__(self) -> None:
        """Sum up."""
        doubled = sum(row.rows - row.records for row in self.partitions) + self.strays
        object.__setattr__(self, "duplicates", doubled)
        object.__setattr__(self, "gaps", sum(row.log_end - row.records for row in self.partitions))

    def document(self) -> Mapping[str, object]:
        """Return all of it as JSON values."""
        return asdict(self)


def prove(
    *,
    ends: Mapping[int, int],
    group: Mapping[int, int | None],
    ledger: Mapping[int, int],
    checkpoint: Mapping[int, int],
    records: Mapping[tuple[int, int], int],
    kills: Sequence[Kill] = (),
) -> Proof:
    """Compare the answers about every partition.

    `records` is the number of rows of each record, by partition and offset.
    """
    rows, present = dict.fromkeys(ends, 0), dict.fromkeys(ends, 0)
    strays = 0
    for (partition, offset), count in records.items():
        if 0 <= offset < ends.get(partition, 0):
            rows[partition] += count
            present[partition] += 1
        else:
            strays += count
    partitions = tuple(
        Partition(
            partition=number,
            log_end=end,
            group=group.get(number),
            ledger=ledger.get(number),
            checkpoint=checkpoint.get(number),
            rows=rows[number],
            records=present[number],
        )
        for number, end in sorted(ends.items())
    )
    return Proof(partitions=partitions, strays=strays, kills=tuple(kills))


def judge_group(rows: Sequence[GroupRow], partitions: int) -> list[Check]:
    """Judge the table of kafka-consumer-groups for a topic of that many partitions."""
    own = {row.partition: row for row in rows}
    own_rows = [own.get(number) for number in range(partitions)]
    at_end = [row is not None and row.current_offset == row.log_end_offset for row in own_rows]
    lags = [row.lag for row in own_rows if row is not None and row.lag is not None]
    current = sum(row.current_offset or 0 for row in own_rows if row)
    end = sum(row.log_end_offset or 0 for row in own_rows if row)
    behind = [str(number) for number, passed in enumerate(at_end) if not passed]
    return [
        Check(
            name="group end = log end",
            passed=not behind and len(lags) == partitions,
            found=f"{sum(at_end)} of {partitions} partitions ({current:,} and {end:,} in all)"
            + (f"; not in {', '.join(behind)}" if behind else ""),
        ),
        Check(
            name="lag 0",
            passed=len(lags) == partitions and not any(lags),
            found=f"{sum(lags):,} in all",
        ),
    ]


def judge_count(counted: int, produced: int) -> Check:
    """Judge how many rows there are; `produced` is how many records Kafka has acknowledged."""
    result = f"{counted:,} found, {produced:,} expected"
    return Check(name="rows found = rows expected", passed=counted == produced, found=result)


def judge_sink(proof: Proof, produced: int, kills_wanted: int) -> list[Check]:
    """Judge what a sink holds."""
    whole = sum(row.rows for row in proof.partitions) + proof.strays
    agreed = [
        row for row in proof.partitions if row.group == row.ledger == row.checkpoint == row.log_end
    ]
    checks = [
        judge_count(whole, produced),
        Check(name="duplicates 0", passed=proof.duplicates == 0, found=f"{proof.duplicates:,}"),
        Check(name="gaps 0", passed=proof.gaps == 0, found=f"{proof.gaps:,}"),
        Check(
            name="group = ledger = checkpoint",
            passed=len(agreed) == len(proof.partitions) > 0,
            found=f"{len(agreed)} of {len(proof.partitions)} partitions, at the end of the log",
        ),
    ]
    if kills_wanted:
        caught = ", ".join(str(kill.batch) for kill in proof.kills if kill.caught)
        result = f"{len(proof.kills)} of {kills_wanted} times"
        result += f", in the middle of batch {caught}" if caught else ""
        passed = len(proof.kills) == kills_wanted
        checks.append(Check(name="driver killed (SIGKILL)", passed=passed, found=result))
    return checks
