"""Rows as records: the columns of Spark's own Kafka sink, and which rows cannot be one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eo_listener.model.errors import RetriableSinkError, SettingsError
from eo_listener.sinks.kafka.catalog import Target, Targets
from eo_listener.sinks.kafka.types import Record, RecordColumns

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ONE = Targets(topics={"delays": Target(id="A", partitions=3)})
TWO = Targets(topics={"delays": Target(id="A", partitions=3), "rest": Target(id="B", partitions=1)})


def records(rows: pa.RecordBatch, targets: Targets = ONE) -> list[Record | str]:
    columns = RecordColumns.of(rows.schema, one_topic=targets.only is not None)
    return list(columns.records(rows, targets))


def test_all_columns() -> None:
    """Each column becomes what Spark's own sink makes of it; other columns are ignored."""
    rows = pa.record_batch(
        {
            "value": pa.array([b"v", None, b""]),
            "key": pa.array(["k", None, ""]),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None, []], HEADERS),
            "partition": pa.array([2, None, 0], pa.int32()),
            "timestamp": pa.array([1, 2, 3]),
        }
    )
    assert records(rows) == [
        Record("delays", b"v", "k", [("h", b"1")], 2),
        Record("delays", None, None, None, -1),
        Record("delays", b"", "", [], 0),
    ]


def test_one_topic_is_that_of_every_row() -> None:
    """With one topic the column `topic` is ignored, as with Spark's option topic."""
    rows = pa.record_batch({"value": ["v"], "topic": ["flights"]})
    assert records(rows) == [Record("delays", "v", None, None, -1)]


def test_of_several_topics_a_row_names_one() -> None:
    """A row that names none, or another, cannot be sent."""
    rows = pa.record_batch(
        {"value": ["v"] * 4, "topic": pa.array(["rest", "delays", None, "flights"])}
    )
    assert records(rows, TWO) == [
        Record("rest", "v", None, None, -1),
        Record("delays", "v", None, None, -1),
        "its topic is null",
        "its topic is none of those that the sink was given",
    ]


def test_rows_that_cannot_be_a_record() -> None:
    """Each row has a reason of its own, in which none of its values is quoted."""
    rows = pa.record_batch(
        {
            "value": ["v"] * 4,
            "partition": pa.array([3, -1, None, None], pa.int32()),
            "headers": pa.array([None, None, [None], [{"key": None, "value": b"x"}]], HEADERS),
        }
    )
    assert records(rows) == [
        "its partition is 3, and topic delays has 3",
        "its partition is -1, and topic delays has 3",
        "a header of it is null, or has no key",
        "a header of it is null, or has no key",
    ]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"key": pa.string()}, "no column 'value'"),
        ({"value": pa.int32()}, "'value' must be of type string or binary, got int32"),
        ({"value": pa.string(), "key": pa.int64()}, "'key' must be of type string or binary"),
        ({"value": pa.string(), "partition": pa.int64()}, "must be of type int, got int64"),
        ({"value": pa.string(), "headers": pa.string()}, "binary>>, got string"),
        ({"value": pa.string(), "headers": pa.list_(pa.string())}, "array<struct<key: string"),
        ({"value": pa.string(), "Value": pa.string()}, "'value', 'Value'"),
        ({"value": pa.string(), "KEY": pa.string()}, "at most 'key'"),
        ({"value": pa.string(), "Eo_Poison": pa.string()}, "eo_poison"),
    ],
)
def test_columns_that_are_refused(schema: dict[str, pa.DataType], says: str) -> None:
    """Wrong names and types of columns are refused before anything is written."""
    with pytest.raises(SettingsError) as caught:
        RecordColumns.of(pa.schema(schema), one_topic=True)
    assert says in str(caught.value)


def test_several_topics_need_the_column() -> None:
    """The sink cannot know where a row is to go."""
    with pytest.raises(SettingsError, match="no column 'topic'"):
        RecordColumns.of(pa.schema({"value": pa.string()}), one_topic=False)


def test_a_missing_topic_is_refused() -> None:
    """The error shows the command that creates the topic."""
    with pytest.raises(SettingsError, match="no topic gone") as caught:
        Targets.of(ONE.topics, ["delays", "gone"], label="sink", servers="host:1")
    assert "--create --topic gone" in str(caught.value)
    assert TWO.of_rows(["rest"]).only == "rest"


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (Target(id="C", partitions=3), "created again"),
        (Target(id="A", partitions=4), "has 4 partitions now and had 3"),
        (None, "was deleted while"),
    ],
)
def test_a_topic_that_has_changed(now: Target | None, says: str) -> None:
    """A topic that was changed during a batch has the batch repeated."""
    ONE.refuse_changed(ONE, label="sink")
    changed = Targets(topics={} if now is None else {"delays": now})
    with pytest.raises(RetriableSinkError, match=says):
        ONE.refuse_changed(changed, label="sink")
