"""All that is known when the demo is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from examples.demo.demo_settings import GROUP, LOG, TOPIC, DemoSettings
from examples.demo.flights_check import Proof
from examples.demo.snapshot import Snapshot
from examples.demo.verdict import DemoVerdict
from tests.broker.record import Record

_WORST: Final = 5  # delays that the document names


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSummary:
    """The verdict and what it rests on. `table` is what kafka-consumer-groups printed at the end.

    `proof` is there when the flights went into a sink. `drained` says whether lag 0 was reached
    in time; `kept` is the broker that still runs; `folder` is what was left of the demo, with the
    log of Spark in it: when it failed or was kept.
    """

    settings: DemoSettings
    verdict: DemoVerdict
    servers: str
    table: str
    last: Snapshot
    drained: bool
    proof: Proof | None = None
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
                for row in self.last.tool_rows
            ],
            "worst": [asdict(delay) for delay in self.last.worst(_WORST)],
            "kafka_consumer_groups": self.table,
            "proof": self.proof and self.proof.document(),
            "kept": self.kept
            and {"bootstrap_servers": self.kept.bootstrap_servers, "data": self.kept.data},
            "folder": self.folder and str(self.folder),
        }
