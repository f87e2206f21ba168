"""Did it all arrive? Judged by what Kafka's own tool printed, not by our reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from eo_listener.broker import GroupRow
from eo_listener.broker.record import Record
from eo_listener.demo.scoreboard import Snapshot
from eo_listener.demo.settings import GROUP, LOG, TOPIC, DemoSettings

_WORST: Final = 5  # delays that the document names


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must hold, and the numbers that say whether it does."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The checks; the demo has passed when all of them have."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.passed for check in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The verdict and what it rests on. `table` is what kafka-consumer-groups printed at the end.

    `drained` tells whether lag 0 was reached in time; `kept` is the broker that still runs;
    `folder` is what was left of the demo, with the log of Spark in it: when it failed or was kept.
    """

    settings: DemoSettings
    verdict: Verdict
    servers: str
    table: str
    last: Snapshot
    drained: bool
    kept: Record | None = None
    folder: Path | None = None

    @property
    def log(self) -> Path | None:
        """What Spark said, where it was left."""
        return self.folder and self.folder / LOG

    @property
    def command(self) -> str:
        """What prints the table, in a Kafka distribution."""
        return (
            f"kafka-consumer-groups.sh --bootstrap-server {self.servers} --describe --group {GROUP}"
        )

    def document(self) -> Mapping[str, object]:
        """Return all of it as JSON values."""
        return {
            "passed": self.verdict.passed,
            "checks": [asdict(check) for check in self.verdict.checks],
            "drained": self.drained,
            "seconds": round(self.last.elapsed, 1),
            "kafka": self.settings.kafka_version,
            "topic": TOPIC,
            "group": GROUP,
            "produced": self.last.produced,
            "counted": self.last.counted,
            "commits": self.last.commits,
            "batches": self.last.batch_count,
            "partitions": [
                {
                    "partition": row.partition,
                    "current_offset": row.current_offset,
                    "log_end_offset": row.log_end_offset,
                    "lag": row.lag,
                }
                for row in self.last.told
            ],
            "worst": [asdict(delay) for delay in self.last.worst(_WORST)],
            "kafka_consumer_groups": self.table,
            "kept": self.kept
            and {"bootstrap_servers": self.kept.bootstrap_servers, "data": self.kept.data},
            "folder": self.folder and str(self.folder),
        }


def judge(
    rows: Sequence[GroupRow], *, topic: str, partitions: int, produced: int, counted: int
) -> Verdict:
    """Judge the table of kafka-consumer-groups for a topic that had `partitions` partitions."""
    own = {row.partition: row for row in rows if row.topic == topic}
    expected = [own.get(number) for number in range(partitions)]
    return Verdict(
        checks=(
            _at_the_end(expected),
            _no_lag(expected),
            _all_counted(produced, counted),
        )
    )


def _at_the_end(rows: Sequence[GroupRow | None]) -> Check:
    behind = [
        number
        for number, row in enumerate(rows)
        if row is None or row.current_offset is None or row.current_offset != row.log_end_offset
    ]
    current = sum(row.current_offset or 0 for row in rows if row)
    end = sum(row.log_end_offset or 0 for row in rows if row)
    found = f"{len(rows) - len(behind)} of {len(rows)} partitions ({current:,} and {end:,} in all)"
    if behind:
        found += f"; not in {', '.join(map(str, behind))}"
    return Check(name="group end = log end", passed=bool(rows) and not behind, found=found)


def _no_lag(rows: Sequence[GroupRow | None]) -> Check:
    lags = [row.lag if row else None for row in rows]
    known = [lag for lag in lags if lag is not None]
    unknown = len(lags) - len(known)
    found = f"{sum(known):,} in all" + (f", unknown in {unknown} partitions" if unknown else "")
    return Check(name="lag 0", passed=bool(rows) and not unknown and not any(known), found=found)


def _all_counted(produced: int, counted: int) -> Check:
    return Check(
        name="rows counted = rows produced",
        passed=counted == produced,
        found=f"{counted:,} counted by the query, {produced:,} produced",
    )
