"""How the demo ended, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from eo_listener.broker.record import Record
from eo_listener.demo.settings import GROUP, TOPIC, DemoSettings
from eo_listener.demo.snapshot import Snapshot
from eo_listener.demo.verdict import Verdict

_WORST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The verdict and what it rests on. `table` is what kafka-consumer-groups printed at the end.

    `drained` tells whether lag 0 was reached in time; `kept` is the broker that still runs;
    `logs` is the file of what Spark said, where it was kept.
    """

    settings: DemoSettings
    verdict: Verdict
    servers: str
    table: str
    last: Snapshot
    drained: bool
    kept: Record | None = None
    logs: Path | None = None

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
            "logs": self.logs and str(self.logs),
        }
