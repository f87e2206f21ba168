"""What a batch without transactions does and refuses, on a real broker."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener.errors import (
    ForeignWriterError,
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
    TargetRecordsError,
    TopicRecreatedError,
    UnfinishedBatchError,
)
from eo_listener.model.ledger import Applied, Entry, Unexpected
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.row_identity import RowIdentity
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of, plan_of
from tests.sinks.chapters.store import once
from tests.sinks.kafka.conftest import TP, Place, batch, put, table
from tests.sinks.kafka.frames import rows_at
from tests.sinks.kafka.made_up_tasks import place_of

pytestmark = pytest.mark.kafka

# What Java and Python write alike, and in which order; keys and headers on some.
KINDS = (
    "SELECT IF(id % 5 = 0, NULL, concat('é \"\\\\\\\\/😀', char(int(id)), char(127))) AS s,"
    " int(id - 20) AS i, id % 7 = 0 AS b, tinyint(id) AS t, id * 5000000000 AS l,"
    " CAST(id / 10000000 AS decimal(20, 10)) AS d, date_add(DATE'1582-10-01', int(id)) AS day,"
    " CAST(concat('x', char(int(id))) AS binary) AS x, string(id) AS value,"
    " IF(id % 3 = 0, NULL, concat('key-', id)) AS key,"
    " IF(id % 2 = 0, NULL, array(struct('h' AS key, CAST('1' AS binary) AS value))) AS headers"
    " FROM range(0, 60, 1, 4)"
)
IDENTITY = ("s", "i", "b", "t", "l", "d", "day", "x")


def rows(entry: Entry, **columns: Any) -> pa.Table:
    """A row for each offset of the batch, the last one first."""
    offsets = list(range(*entry.moves[TP].range))
    values = pa.array([f"row {offset}" for offset in offsets], pa.string())
    made = rows_at([(TP, offset) for offset in offsets], value=values, **columns)
    return made.take(pa.array(range(len(offsets) - 1, -1, -1)))


def write(sink: KafkaSink, number: int = 0, *, size: int = 6, **more: Any) -> Entry:
    entry = batch(sink.applied(QUERY), number, size=size, **more)
    put(sink, entry, rows(entry))
    return entry


def fell(sink: KafkaSink, entry: Entry, point: str) -> None:
    with broken_off(point), pytest.raises(Killed):
        put(sink, entry, rows(entry))


def by_partition(place: Place, topic: str | None = None) -> list[list[int]]:
    """The offsets of the rows that are there, each as often as it is."""
    found = place.by_partition(topic).values()
    return [[int(one.value().split()[1]) for one in messages] for messages in found]


def numbers(place: Place) -> list[int]:
    return sorted(number for found in by_partition(place) for number in found)


def test_two_rows_of_one_identity_get_other_columns(place: Place) -> None:
    """The other way out that the error names: the batch is written whole, behind what is there."""
    sink = place.plain_sink()
    entry = batch(sink.applied(QUERY), size=3)
    made = pa.concat_tables([rows(entry), rows(entry).slice(0, 1)])
    with pytest.raises(PoisonRowError, match='on_repeated="accept"'):
        put(sink, entry, made)
    numbered = made.append_column("n", pa.array(range(4)))
    names = ("topic", "partition", "offset", "n")
    put(place.plain_sink(id=names, on_repeated="accept"), entry, numbered)
    # Of the first try some may be there too: it did not wait for them.
    assert not Counter([0, 1, 2, 2]) - Counter(numbers(place))
    later = batch(sink.applied(QUERY), 1, size=1)
    put(place.plain_sink(id=names), later, rows(later).append_column("n", pa.array([0])))


def test_a_target_that_is_compacted(place: Place) -> None:
    """It may lose the rows by which a replay knows what is there."""
    name = place.topics.create("compacted", 1, cleanup_policy="compact")
    with pytest.raises(SettingsError, match=name):
        write(place.plain_sink(name))


def test_a_target_that_was_made_again(place: Place) -> None:
    """While the first batch is written: its rows are all in the new one, each once."""
    sink = place.plain_sink()
    entry = batch({}, size=6)
    with (
        once("sink.rows-written", place.recreate),
        pytest.raises(RetriableSinkError, match=place.target),
    ):
        put(sink, entry, rows(entry))
    put(sink, entry, rows(entry))
    assert numbers(place) == list(range(6))


def test_a_tail_that_kafka_has_deleted(place: Place) -> None:
    """What was in it nobody knows."""
    sink = place.plain_sink()
    entry = batch(sink.applied(QUERY), size=6)
    fell(sink, entry, "sink.rows-written")
    place.topics.forget_before(place.target, {0: 1, 1: 1})
    with pytest.raises(TargetRecordsError, match="offsets"):
        put(sink, entry, rows(entry))
    assert sink.applied(QUERY) == {}


def test_a_sink_that_gets_transactions(place: Place) -> None:
    """It goes on where the other ended; but not in the middle of a batch."""
    plain, transactional = place.plain_sink(), place.sink()
    write(plain)
    entry = batch(plain.applied(QUERY), 1, size=6)
    fell(plain, entry, "made-up.sent")
    with pytest.raises(UnfinishedBatchError, match="transactions=False"):
        put(transactional, entry, rows(entry))
    put(plain, entry, rows(entry))
    assert transactional.applied(QUERY) == heads_of(entry)
    later = batch(heads_of(entry), 2, size=2)
    put(transactional, later, rows(later))
    assert plain.applied(QUERY) == transactional.applied(QUERY) == heads_of(later)
    write(plain, 3)
    assert numbers(place) == list(range(20))


def test_no_head_is_lost_when_a_sink_gets_transactions(place: Place) -> None:
    """Nor one of a partition that has no part in the first batch with transactions."""
    before, other = place.plain_sink(id="value"), TopicPartition("cancelled", 0)
    for number in (0, 1):
        ranges = {tp: OffsetRange(3 * number, 3 * number + 3) for tp in (TP, other)}
        entry = entry_of(before.applied(QUERY), ranges, batch_id=number)
        put(before, entry, table(f"row {number}"))
    fenced = place.sink()
    put(fenced, batch(fenced.applied(QUERY), 2), table("row 2"))
    found = {tp: head.range.until for tp, head in fenced.applied(QUERY).items()}
    assert found == {TP: 9, other: 6}


def test_a_target_that_was_made_again_when_a_sink_gets_transactions(place: Place) -> None:
    """Its first batch of all was without, and its rows went with the older topic."""
    write(place.plain_sink())
    place.recreate()
    fenced = place.sink()
    with pytest.raises(TopicRecreatedError):
        put(fenced, batch(fenced.applied(QUERY), 1), table("row"))


def test_another_driver_has_begun(place: Place) -> None:
    """Between the reading of the ledger and the first row: nothing is written."""
    sink, other = place.plain_sink(), place.plain_sink()
    entry = batch(sink.applied(QUERY), size=6, run_id="one")
    later = batch({}, size=6, run_id="two")
    with (
        once("sink.ledger-read", lambda: fell(other, later, "sink.begun")),
        pytest.raises(ForeignWriterError, match="by this driver"),
    ):
        put(sink, entry, rows(entry))
    assert numbers(place) == []
    put(sink, entry, rows(entry))
    assert numbers(place) == list(range(6))


def frame_of(spark: SparkSession, until: int, *, value: str = "concat('row ', id)") -> DataFrame:
    """A row without a key for each offset, the last one first, over several tasks."""
    origin = "'flights' AS topic, 0 AS partition, id AS offset"
    made = spark.sql(f"SELECT {origin}, {value} AS value FROM range(0, {until}, 1, 3)")
    return made.sort("offset", ascending=False)


@pytest.mark.spark
class TestByExecutors:
    """Real tasks, which run Java's producer."""

    def test_an_identity_is_the_same_text_in_java_and_in_python(
        self, spark_place: Place, spark: SparkSession
    ) -> None:
        """Its order is that of rows in a partition; a row without a key goes where it says."""
        place, entry = spark_place, batch({})
        frame, sink = spark.sql(KINDS), place.plain_sink(id=IDENTITY)
        assert put(sink, entry, frame) == Applied(rows=60)
        order = [str(row.value) for row in frame.sort(*IDENTITY).select("value").collect()]
        there: dict[str, tuple[TopicPartition, int]] = {}
        for partition, messages in place.by_partition().items():
            at = [order.index(message.value().decode()) for message in messages]
            assert at == sorted(at)
            for message in messages:
                identity = RowIdentity.from_headers(message.headers())
                assert identity is not None
                assert message.key() is not None or place_of(identity.values, 2) == partition
                there[identity.values] = TopicPartition(place.target, partition), 0
        assert len(there) == 60
        assert sink._choice.task_rows(frame, plan_of(entry), IDENTITY).absent(there) == {}

    def test_rows_that_cannot_be_known_again(self, spark_place: Place, spark: SparkSession) -> None:
        """Two of one identity that no task sees both, and a text that is not UTF-8."""
        value = "IF(id = 7, 'a', 'b') AS key, concat('row ', id)"
        other = frame_of(spark, 9, value="'other' AS key, 'x'").limit(1)
        twice = frame_of(spark, 9, value=value).union(other)
        with pytest.raises(PoisonRowError, match=r"identity \(1 such rows\)"):
            put(spark_place.plain_sink(), batch({}, size=9), twice)
        texts = "VALUES ('61'), ('FF'), ('FE') AS given(x)"
        frame = spark.sql(f"SELECT CAST(unhex(x) AS string) AS s, x AS value FROM {texts}")
        with pytest.raises(PoisonRowError, match=r"not UTF-8.* \(2 rows\)"):
            put(spark_place.plain_sink(id="s", name="texts"), batch({}), frame)
        assert spark_place.plain_sink().applied(QUERY) == {}

    def test_nothing_is_there_behind_a_record_that_failed(
        self, spark_place: Place, spark: SparkSession
    ) -> None:
        """Else a batch that is repeated could not put it in its place."""
        topic = spark_place.topics.create("target", 1, max_message_bytes="2000")
        value = "IF(id = 400, repeat('x', 5000), concat('row ', id))"
        sink = spark_place.plain_sink(topic, options={"kafka.batch.size": "1"})
        with pytest.raises(SettingsError, match=r"max\.message\.bytes"):
            put(sink, batch({}, size=800), frame_of(spark, 800, value=value))
        (found,) = by_partition(spark_place, topic)
        assert found == list(range(len(found)))
        assert len(found) <= 400
        assert put(sink, batch({}, size=800), frame_of(spark, 800)).rows == 800
        assert by_partition(spark_place, topic) == [list(range(800))]

    def test_a_batch_that_was_broken_off_is_finished(
        self,
        spark_place: Place,
        spark: SparkSession,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """What is there of it is left out, in order, without Python; a foreign record is named."""
        sink = spark_place.plain_sink()
        failing = "IF(id = 700, raise_error('of the user'), concat('row ', id))"
        with pytest.raises(Exception, match="of the user"):
            put(sink, batch({}, size=800), frame_of(spark, 800, value=failing))
        assert sink.applied(QUERY) == {}
        with broken_off("sink.rows-written"), pytest.raises(Killed):
            put(sink, batch({}, size=800), frame_of(spark, 400))
        spark_place.produce(spark_place.target, b"row 99999", partition=1)
        monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
        later = batch({}, size=800, run_id="later")
        with caplog.at_level(logging.WARNING, "eo_listener"):
            applied = put(spark_place.plain_sink(), later, frame_of(spark, 800))
        (found,) = applied.unexpected
        assert (applied.rows, found.kind, found.count) == (800, Unexpected.FOREIGN, 1)
        assert [*found.ranges] == [(spark_place.target, 1)]
        assert f"{spark_place.target}-1" in caplog.text
        assert numbers(spark_place) == [*range(800), 99999]
        for there in by_partition(spark_place):
            ours = [number for number in there if number != 99999]
            assert ours == sorted(ours)
