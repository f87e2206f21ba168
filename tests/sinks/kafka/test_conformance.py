"""KafkaSink is a sink as every other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
import pytest

from eo_listener.devtools.broker import Broker
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.made_up_entries import FRAME, Row
from tests.sinks.kafka.frames import without_spark
from tests.sinks.kafka.records import committed
from tests.topics import Topics, unique

_NAMES = [field.split()[0] for field in FRAME.split(", ")]

pytestmark = pytest.mark.kafka


class TestThroughTheDriver(SinkConformance):
    """With write_method="driver", but for how rows come from Spark."""

    write_method: Literal["driver", "executors"] = "driver"
    # At "sink.commit-sent" the answer is on its way: what is durable then, nobody can say.
    fault_points = (
        "sink.fenced",
        "sink.ledger-read",
        "sink.begun",
        "sink.copying",
        "sink.rows-written",
        "sink.ledger-moved",
    )
    fault_points_after = ("sink.committed",)

    @pytest.fixture(autouse=True)
    def _store(self, broker: Broker) -> None:
        self.servers = broker.bootstrap_servers
        self.ledger = unique("ledger")
        self.topics: dict[str, str] = {}

    def open_sink(self, target: str) -> KafkaSink:
        """Open a sink on a topic that stands for `target`: Kafka's names have few letters."""
        if target not in self.topics:
            self.topics[target] = Topics(self.servers).create("target", 2)
        options = {"kafka.bootstrap.servers": self.servers}
        return KafkaSink(
            options,
            self.topics[target],
            ledger_topic=self.ledger,
            write_method=self.write_method,
        )

    def read_rows(self, target: str) -> list[Row]:
        """Read with a consumer of its own."""
        if target not in self.topics:
            return []
        found = [json.loads(one.value()) for one in committed(self.servers, self.topics[target])]
        return [(one["topic"], one["partition"], one["offset"], one["word"]) for one in found]

    @pytest.fixture(autouse=True)
    def _rows(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        without_spark(monkeypatch)

    def make_frame(self, rows: Sequence[Row]) -> Any:
        """Each row as JSON, a record's value."""
        values = [json.dumps(dict(zip(_NAMES, row, strict=True))) for row in rows]
        return pa.table({"value": pa.array(values, pa.string())})


@pytest.mark.spark
@pytest.mark.slow
class TestWithSpark(TestThroughTheDriver):
    """With write_method="driver"."""

    @pytest.fixture(autouse=True)
    def _rows(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        self.spark = request.getfixturevalue("spark")

    def make_frame(self, rows: Sequence[Row]) -> Any:
        """A DataFrame that the JVM makes by itself: each row as JSON, a record's value."""
        given = json.dumps([dict(zip(_NAMES, row, strict=True)) for row in rows])
        sql = f"SELECT inline(from_json(:rows, 'array<struct<{FRAME}>>'))"
        return self.spark.sql(sql, args={"rows": given}).selectExpr("to_json(struct(*)) AS value")


@pytest.mark.spark
@pytest.mark.slow
class TestByTheExecutors(TestWithSpark):
    """With write_method="executors"."""

    write_method = "executors"
