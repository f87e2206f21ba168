"""KafkaSink is a sink as every other: the suite, dead letters, and a broker that dies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
import pytest

from eo_listener.model.ledger import Applied, Entry
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY, Row, entry_of, heads_of, rows_of
from tests.broker import Broker
from tests.conftest import StartBroker
from tests.sinks.chapters import target_table
from tests.sinks.chapters.bad_days import MortalStore, Outages
from tests.sinks.chapters.dead_letters import DeadLettersChapter
from tests.sinks.chapters.store import NAMES, frame_of
from tests.sinks.kafka.conftest import (
    KafkaStore,
    Place,
    letters,
    place_at,
    put,
    rows_in,
    table,
    write,
)
from tests.sinks.kafka.frames import rows_at, without_spark
from tests.sinks.kafka.made_up_tasks import with_made_up_tasks
from tests.sinks.kafka.records import committed
from tests.topics import Topics, unique

_TP = TopicPartition("flights", 0)

pytestmark = pytest.mark.kafka


class TestThroughTheDriver(SinkConformance):
    """With write_method="driver", but for how rows come from Spark."""

    write_method: Literal["driver", "executors"] | None = "driver"
    transactions = True
    # At "sink.commit-sent" the answer is on its way: what is durable then, nobody can say.
    fault_points: Sequence[str] = (
        *("sink.fenced", "sink.ledger-read", "sink.begun"),
        *("sink.copying", "sink.rows-written", "sink.ledger-moved"),
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
        return KafkaSink(
            {"kafka.bootstrap.servers": self.servers},
            self.topics[target],
            ledger_topic=self.ledger,
            write_method=self.write_method,
            transactions=self.transactions,
        )

    def read_rows(self, target: str) -> list[Row]:
        if target not in self.topics:
            return []
        found = [json.loads(one.value()) for one in committed(self.servers, self.topics[target])]
        return [(one["topic"], one["partition"], one["offset"], one["word"]) for one in found]

    @pytest.fixture(autouse=True)
    def _rows(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        without_spark(monkeypatch)
        with_made_up_tasks(monkeypatch)

    def make_frame(self, rows: Sequence[Row]) -> Any:
        """Each row as JSON, a record's value."""
        return table(*(json.dumps(dict(zip(NAMES, row, strict=True))) for row in rows))


class TestWithoutTransactions(TestThroughTheDriver):
    """With transactions=False: three tests of the suite cannot hold, and say here what does.

    Kafka shows each row at once and fences nobody. So a batch is not whole or not there at all,
    neither for readers nor after a crash, and of two drivers at the same time both may write.
    """

    write_method = None
    transactions = False
    fault_points = ("sink.ledger-read", "sink.begun", "sink.copying", "sink.rows-written")

    def make_frame(self, rows: Sequence[Row]) -> Any:
        """The same with the source's columns, by which rows are known."""
        places = [(TopicPartition(*row[:2]), row[2]) for row in rows]
        return rows_at(places, value=super().make_frame(rows)["value"])

    def test_a_crash_before_the_commit_leaves_nothing(self) -> None:
        """It leaves no heads, and rows of which none is there twice after the batch is repeated."""
        first = entry_of({}, {_TP: OffsetRange(0, 2)})
        second = entry_of(heads_of(first), {_TP: OffsetRange(2, 6)}, batch_id=1)
        with self.opened() as sink:
            self.write(sink, first)
        for point in self.fault_points:
            with self.opened() as sink:
                sink.applied(QUERY)
                self.break_off(sink, second, point)
            with self.opened() as fresh:
                assert dict(fresh.applied(QUERY)) == heads_of(first)
            found = self.read_rows("words")
            assert len(found) == len(set(found))
            assert set(rows_of(first)) <= set(found) <= {*rows_of(first), *rows_of(second)}
        with self.opened() as sink:
            self.write(sink, second)
        self.check([*rows_of(first), *rows_of(second)], heads_of(second))

    def test_a_reader_sees_all_or_nothing(self) -> None:
        """It sees rows before the heads, and never heads before their rows."""
        first = entry_of({}, {_TP: OffsetRange(0, 2)})
        second = entry_of(heads_of(first), {_TP: OffsetRange(2, 4)}, batch_id=1)
        checked: dict[str, tuple[bool, bool]] = {}
        with self.opened() as sink, self.opened() as reader:
            self.write(sink, first)

            def snapshot(point: str) -> None:
                whole = len(self.read_rows("words")) == 4
                checked[point] = whole, dict(reader.applied(QUERY)) == heads_of(second)

            with hooked(snapshot):
                self.write(sink, second)
        assert checked.pop("sink.committed") == (True, True)
        checked.pop("sink.ledger-moved")  # on its way
        assert not any(moved for _, moved in checked.values())
        assert checked["sink.rows-written"] == (True, False)

    def test_of_two_writers_one_wins(self) -> None:
        """The second one finds that the ledger has moved; see also `test_unfenced`."""
        entry = entry_of({}, {_TP: OffsetRange(0, 2)}, run_id="one")
        other = entry_of({}, {_TP: OffsetRange(0, 2)}, run_id="two")
        with self.opened() as one, self.opened() as two:
            one.applied(QUERY)
            two.applied(QUERY)
            self.write(one, entry)
            self.check_refused(two, other)
        self.check(rows_of(entry), heads_of(entry))


class _RowsOfSpark:
    """Frames are DataFrames that the JVM makes by itself."""

    identity: Sequence[str] = ()

    @pytest.fixture(autouse=True)
    def _rows(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        self.spark = request.getfixturevalue("spark")

    def make_frame(self, rows: Sequence[Row]) -> Any:
        """Each row as JSON, a record's value, beside the columns of its identity."""
        return frame_of(self.spark, rows).selectExpr(*self.identity, "to_json(struct(*)) AS value")


@pytest.mark.spark
@pytest.mark.slow
class TestWithSpark(_RowsOfSpark, TestThroughTheDriver):
    """With write_method="driver"."""


@pytest.mark.spark
@pytest.mark.slow
class TestByTheExecutors(TestWithSpark):
    """With write_method="executors"."""

    write_method = "executors"


@pytest.mark.spark
@pytest.mark.slow
class TestWithoutTransactionsByTheExecutors(_RowsOfSpark, TestWithoutTransactions):
    """With transactions=False."""

    identity = NAMES[:3]


class TestDeadLetters(DeadLettersChapter):
    """In a topic of their own, in the batch's transaction; the executors have none of them."""

    knows_origins = False  # the columns topic and partition say where a record is to go

    @pytest.fixture
    def _store(self, place: Place) -> None:
        self.place = place
        self.letters_table = place.topics.create("dead", 1)

    def new_sink(self, **arguments: Any) -> KafkaSink:
        return self.place.sink(**arguments)

    def apply(
        self, sink: Any, rows: Sequence[target_table.Row], kinds: Mapping[str, str], at: Entry
    ) -> Applied:
        """With the word as a record's value."""
        batch = target_table.record_batch(rows, kinds)
        names = ["value" if name == "word" else name for name in batch.schema.names]
        return put(sink, at, pa.Table.from_batches([batch]).rename_columns(names))

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        assert columns == ("word",)
        return [(value,) for value in self.place.values()]

    def letters(self) -> list[dict[str, Any]]:
        origin = dict.fromkeys(("topic", "partition", "offset"))
        return [
            {**one, **origin, "row": one["row"].replace('"value":', '"word":')}
            for one in letters(self.place, self.letters_table)
        ]


def test_records_that_cannot_be_sent(place: Place) -> None:
    """Each is a letter with its reason, and with the row unless it is too large for that too."""
    dead = place.topics.create("dead", 1)
    rows = table("a", "b", "x" * 1_100_000, partition=pa.array([None, 7, None], pa.int32()))
    sink = place.sink(dead_letters=dead, max_dead_letters=2)
    assert write(sink, rows=rows) == Applied(rows=1, dead_letters=2)
    assert place.values() == ["a"]
    found = letters(place, dead)
    assert {one["query"] for one in found} == {QUERY}
    large, misplaced = sorted(found, key=lambda one: one["row"] is not None)
    assert "kafka.max.request.size" in large["reason"]
    assert large["row"] is None
    assert {"7", place.target, "2"} <= set(re.split(r"[ ,]+", misplaced["reason"]))
    assert json.loads(misplaced["row"])["value"] == "b"


class MortalKafka(KafkaStore, MortalStore):
    points = (
        *("sink.fenced", "sink.begun", "sink.rows-written", "sink.ledger-moved"),
        "sink.commit-sent",
    )

    def __init__(self, broker: Broker) -> None:
        super().__init__(place_at(broker.bootstrap_servers))
        self.kill, self.start = broker.kill, broker.restart

    def make_sink(self) -> KafkaSink:
        return self.place.sink(timeout=5, transaction_timeout=20)

    def rows(self) -> list[Row]:
        return rows_in(self.place, settle=20)


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestOutages(Outages):
    """kill -9 of the only broker."""

    @pytest.fixture
    def mortal(
        self, start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[MortalKafka]:
        without_spark(monkeypatch)
        made = MortalKafka(start_broker())
        with made.opened:
            yield made
