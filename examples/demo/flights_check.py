"""Is each flight in the table exactly once, and do all who count agree? Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from examples.demo.chaos import Kill
from examples.demo.read_records import DISORDERED, TORN
from examples.demo.stored_rows import ReaderReport, Rows
from examples.demo.verdict import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProof:
    """One partition: where everybody says that it stands, and the rows that are there.

    `records` is of how many of its records there is a row. Where somebody says nothing it is None.
    """

    partition: int
    log_end: int
    group: int | None
    ledger: int | None
    checkpoint: int | None
    rows: int
    records: int

    @property
    def doubled(self) -> int:
        """Rows of records that have one already."""
        return self.rows - self.records

    @property
    def missing(self) -> int:
        """Records that have no row."""
        return self.log_end - self.records


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the sink holds at the end; `strays` are rows of no record that was sent.

    `report` is of the reader that was there all the time, where there was one.
    """

    place: str
    partitions: tuple[PartitionProof, ...]
    strays: int
    kills: tuple[Kill, ...]
    kills_wanted: int
    report: ReaderReport | None = None

    @property
    def doubled(self) -> int:
        """Rows too many, of whatever partition, or of none."""
        return sum(one.doubled for one in self.partitions) + self.strays

    @property
    def missing(self) -> int:
        """Rows too few."""
        return sum(one.missing for one in self.partitions)

    def document(self) -> Mapping[str, object]:
        """Return all of it as JSON values."""
        return {
            "place": self.place,
            "duplicates": self.doubled,
            "gaps": self.missing,
            "kills": [asdict(kill) for kill in self.kills],
            "reader": self.report and asdict(self.report),
            "partitions": [asdict(one) for one in self.partitions],
        }

    def checks(self, produced: int) -> tuple[Check, ...]:
        """What must hold: `produced` is how many records Kafka has acknowledged."""
        rows = sum(one.rows for one in self.partitions) + self.strays
        agreed = [
            one
            for one in self.partitions
            if one.group == one.ledger == one.checkpoint == one.log_end
        ]
        checks = [
            Check(
                name="rows found = rows expected",
                passed=rows == produced,
                found=f"{rows:,} found, {produced:,} expected",
            ),
            Check(name="duplicates 0", passed=self.doubled == 0, found=f"{self.doubled:,}"),
            Check(name="gaps 0", passed=self.missing == 0, found=f"{self.missing:,}"),
            Check(
                name="group = ledger = checkpoint",
                passed=len(agreed) == len(self.partitions) > 0,
                found=f"{len(agreed)} of {len(self.partitions)} partitions, at the end of the log",
            ),
        ]
        if self.report is not None:
            checks += _read_checks(self.report)
        if self.kills_wanted:
            checks.append(self._killed())
        return tuple(checks)

    def _killed(self) -> Check:
        caught = [str(kill.batch) for kill in self.kills if kill.caught]
        found = f"{len(self.kills)} of {self.kills_wanted} times"
        if caught:
            found += f", in the middle of batch {', '.join(caught)}"
        return Check(
            name="driver killed (SIGKILL)",
            passed=len(self.kills) == self.kills_wanted,
            found=found,
        )


def prove(
    *,
    place: str,
    ends: Mapping[int, int],
    group: Mapping[int, int | None],
    ledger: Mapping[int, int],
    checkpoint: Mapping[int, int],
    rows: Mapping[int, Rows],
    whole: int,
    kills: Sequence[Kill] = (),
    kills_wanted: int = 0,
    report: ReaderReport | None = None,
) -> Proof:
    """Put side by side what each says of every partition; `whole` is the number of all rows."""
    partitions = tuple(
        PartitionProof(
            partition=number,
            log_end=end,
            group=group.get(number),
            ledger=ledger.get(number),
            checkpoint=checkpoint.get(number),
            rows=rows[number].found,
            records=rows[number].records,
        )
        for number, end in sorted(ends.items())
    )
    return Proof(
        place=place,
        partitions=partitions,
        strays=whole - sum(one.rows for one in partitions),
        kills=tuple(kills),
        kills_wanted=kills_wanted,
        report=report,
    )


def _read_checks(report: ReaderReport) -> tuple[Check, Check]:
    """What must hold in what the reader was shown, at any time."""
    torn, disordered = (report.faults.get(kind, 0) for kind in (TORN, DISORDERED))
    read = f"{report.batches} batches, read in {report.rounds:,} rounds under read_committed"
    first = "" if report.first is None else f" ({report.first})"
    return (
        Check(
            name="batches whole",
            passed=torn == 0 < report.batches,
            found=f"{torn:,} torn of {read}{first if torn else ''}",
        ),
        Check(
            name="order of each partition kept",
            passed=disordered == 0,
            found=f"{disordered:,} out of order{first if disordered else ''}",
        ),
    )
