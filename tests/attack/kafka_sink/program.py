"""A driver whose executors are processes of their own, and whose tasks can be held.

A line "SHAPE" has it write a batch; "written NUMBER ATTEMPTS" or "failed ERROR" comes out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from tests.attack.kafka_sink.batches import Batches
from tests.attack.kafka_sink.shapes import shaped
from tests.attack.offerer import AsText, say
from tests.spark_session import new_session


@dataclass(frozen=True, slots=True, kw_only=True)
class Program(AsText):
    """What it is started with; `holds` is the folder of TaskHold.java's classes and files."""

    servers: str
    target: str
    ledger: str
    source: str
    size: int
    run_id: str
    holds: str
    master: str = "local-cluster[2,1,1024]"
    transactions: bool = True
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, str]:
        armed = f"-Deo.listener.fault.points=TaskHold -Deo.test.hold={self.holds}"
        return {
            "spark.master": self.master,
            "spark.driver.extraClassPath": self.holds,
            "spark.executor.extraClassPath": self.holds,
            "spark.executor.extraJavaOptions": armed,
            "spark.default.parallelism": "4",
            "spark.local.dir": str(Path(self.holds) / "local"),
            **self.conf,
        }

    def sink(self) -> KafkaSink:
        return KafkaSink(
            {"kafka.bootstrap.servers": self.servers, **self.options},
            self.target,
            ledger_topic=self.ledger,
            write_method="executors",
            transactions=self.transactions,
            id=None if self.transactions else "n",
            timeout=10,
        )


def main() -> None:
    program = Program.parse(sys.argv[1])
    spark = new_session(program.settings())
    with closing(program.sink()) as sink:
        source = TopicPartition(program.source, 0)
        batches = Batches(sink=sink, source=source, size=program.size, run_id=program.run_id)
        say("ready")
        for line in sys.stdin:
            try:
                number, attempts = batches.write(shaped(spark, line.strip()))
            except Exception as error:  # noqa: BLE001  # whatever it is, it is told
                say(f"failed {type(error).__name__} {error}".replace("\n", " | "))
            else:
                say(f"written {number} {attempts}")
    spark.stop()


if __name__ == "__main__":
    main()
