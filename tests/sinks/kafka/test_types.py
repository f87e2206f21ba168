"""Rows as records, whose they are when they are read back, and which cannot be one. No broker."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.errors import FormatError, SettingsError
from eo_listener.kafka.logs import Topic
from eo_listener.model.ledger import Unexpected
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka import unfenced
from eo_listener.sinks.kafka.catalog import Targets
from eo_listener.sinks.kafka.row_identity import (
    HEADER,
    RowIdentity,
    identity_columns,
    identity_values,
    writer_of,
)
from eo_listener.sinks.kafka.types import Record, RecordColumns
from eo_listener.sinks.kafka.unfenced import TailRecord, judge_tail
from eo_listener.testing.made_up_entries import HOSTILE
from tests.sinks.kafka.frames import HEADERS
from tests.sinks.kafka.made_up_tasks import header_of

ONE = Targets(topics={"delays": Topic(id="A", partitions=frozenset(range(3)))})
TWO = Targets(topics={**ONE.topics, "rest": Topic(id="B", partitions=frozenset({0}))})
OURS = writer_of("sink", "query")
BATCH = 7
OUT = TopicPartition("out", 0)
IDENTITIES = st.none() | st.builds(
    RowIdentity,
    st.sampled_from([OURS, writer_of("sink", "another")]),
    st.sampled_from([BATCH - 1, BATCH]),
    st.sampled_from(["[0]", "[1]", "[2]", "[3]"]),
)


def records(targets: Targets = ONE, **columns: Any) -> list[Record | str]:
    rows = pa.record_batch(columns)
    return list(
        RecordColumns.from_schema(rows.schema, one_topic=targets.only is not None).records(
            rows, targets
        )
    )


def test_all_columns() -> None:
    """Each column becomes what Spark's own sink makes of it; other columns are ignored."""
    assert records(
        value=pa.array([b"v", None, b""]),
        key=pa.array(["k", None, ""]),
        headers=pa.array([[{"key": "h", "value": b"1"}], None, []], HEADERS),
        partition=pa.array([2, None, 0], pa.int32()),
        timestamp=pa.array([1, 2, 3]),
    ) == [
        Record("delays", b"v", "k", [("h", b"1")], 2),
        Record("delays", None, None, None, -1),
        Record("delays", b"", "", [], 0),
    ]


def test_the_topic_of_a_row() -> None:
    """With one topic it is that of every row; of several a row names one, or cannot be sent."""
    assert records(value=["v"], topic=["flights"]) == [Record("delays", "v", None, None, -1)]
    topics = pa.array(["rest", "delays", None, "flights"])
    first, second, null, unknown = records(TWO, value=["v"] * 4, topic=topics)
    assert [first, second] == [Record(name, "v", None, None, -1) for name in ("rest", "delays")]
    assert null == "its topic is null"
    assert isinstance(unknown, str)
    assert "flights" not in unknown


def test_rows_that_cannot_be_a_record() -> None:
    """Each row has a reason of its own, in which none of its values is quoted."""
    high, low, *headers = records(
        value=["v"] * 5,
        partition=pa.array([3, -1, None, None, None], pa.int32()),
        headers=pa.array(
            [None, None, [None], *([{"key": key, "value": b"x"}] for key in (None, "a\0b"))],
            HEADERS,
        ),
    )
    assert high == "its partition is 3, but topic delays has 3 partitions"
    assert low == "its partition is -1, but topic delays has 3 partitions"
    assert all(isinstance(reason, str) and "header" in reason for reason in headers)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"key": pa.string()}, "no column 'value'"),
        ({"value": pa.int32()}, "'value' must be of type string or binary, got int32"),
        ({"value": pa.null()}, "'value' must be of type string or binary, got null"),
        ({"value": pa.string(), "key": pa.int64()}, "'key' must be of type string or binary"),
        ({"value": pa.string(), "partition": pa.int64()}, "must be of type int, got int64"),
        ({"value": pa.string(), "headers": pa.string()}, "binary>>, got string"),
        ({"value": pa.string(), "headers": pa.list_(pa.string())}, "array<struct<key: string"),
        ({"value": pa.string(), "Value": pa.string()}, "'value', 'Value'"),
        ({"value": pa.string(), "KEY": pa.string()}, "only 'key'"),
        ({"value": pa.string(), "Eo_Poison": pa.string()}, "eo_poison"),
    ],
)
def test_columns_that_are_refused(schema: dict[str, pa.DataType], says: str) -> None:
    """Wrong names and types of columns are refused before anything is written."""
    with pytest.raises(SettingsError) as caught:
        RecordColumns.from_schema(pa.schema(schema), one_topic=True)
    assert says in str(caught.value)


def test_several_topics_need_the_column() -> None:
    """The sink cannot know where a row is to go."""
    with pytest.raises(SettingsError, match="no column 'topic'"):
        RecordColumns.from_schema(pa.schema({"value": pa.string()}), one_topic=False)


@given(st.lists(st.tuples(st.integers(0, 2), IDENTITIES), max_size=30))
def test_each_record_of_a_tail_is_of_one_kind(drawn: list[tuple[int, RowIdentity | None]]) -> None:
    """A row of the batch at its first place, or something unexpected, whose place is named."""
    ends = [5, 5, 5]
    made = []
    for number, identity in drawn:
        made.append(TailRecord(TopicPartition("out", number), ends[number], identity))
        ends[number] += 1
    tail = judge_tail(made, writer=OURS, batch=BATCH)
    found = {one.kind: one for one in tail.findings.records()}
    assert len(tail.rows) + sum(one.count for one in found.values()) == len(made)
    met: set[str] = set()
    for tp, offset, identity in made:
        if identity is None or identity.writer != OURS:
            kind = Unexpected.FOREIGN
        elif identity.batch != BATCH:
            kind = Unexpected.LATE
        elif identity.values in met:
            kind = Unexpected.REPEATED
        else:
            met.add(identity.values)
            assert tail.rows[identity.values] == (tp, offset)
            continue
        assert offset in range(*found[kind].ranges[tp])
    assert met == tail.rows.keys()


@given(st.text(), st.text(), st.integers(1, 2**62), st.lists(st.integers() | st.text() | st.none()))
def test_a_header_comes_back(sink: str, query: str, batch: int, values: list[Any]) -> None:
    """Whatever is in it, and whatever an upstream sink has left before it."""
    text = json.dumps(values, separators=(",", ":"))
    identity = RowIdentity(writer_of(sink, query), batch, text)
    before = RowIdentity(writer_of("upstream", query), 1, "[0]")
    headers = [("h", None), (HEADER, header_of(before)), (HEADER, header_of(identity).encode())]
    assert RowIdentity.from_headers(headers) == identity


def test_writers_differ() -> None:
    """Also if names are alike but for where they are cut."""
    names = [*HOSTILE, "", "a", "aa"]
    assert len({writer_of(sink, query) for sink in names for query in names}) == len(names) ** 2


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b'"x"', b'{"w":"a"}', b'{"v":1,"w":"a"}'])
def test_a_header_of_others_is_none_of_ours(value: bytes) -> None:
    assert RowIdentity.from_headers([(HEADER, value)]) is None
    assert RowIdentity.from_headers([("other", b"x")]) is None


def test_a_header_of_a_newer_release() -> None:
    """It is an error: it may be a row of the batch."""
    with pytest.raises(FormatError, match="has format 2, not 1"):
        RowIdentity.from_headers([(HEADER, b'{"v":2,"w":"a","n":1,"id":[0]}')])


def test_values_of_any_exact_type() -> None:
    """Texts, numbers, bytes, dates and decimals have one form each."""
    columns = {
        "s": pa.array(["a\u017e", None]),
        "n": pa.array([2**62, 0], pa.int64()),
        "b": pa.array([b"\xff", b""], pa.binary()),
        "d": pa.array([date(2026, 1, 2), None]),
        "m": pa.array([Decimal("1.10"), Decimal("0.00")]),
    }
    rows = pa.RecordBatch.from_pydict(columns)
    assert list(identity_values(rows, identity_columns(rows.schema, rows.schema.names))) == [
        f'["a\\u017e",{2**62},"ff","2026-01-02","1.10"]',
        '[null,0,"",null,"0.00"]',
    ]


def test_columns_that_cannot_identify() -> None:
    """Those that are missing, and those whose values have no form that is always the same."""
    fields = [("value", pa.string()), ("ratio", pa.float64()), ("at", pa.timestamp("us"))]
    schema = pa.schema(fields)
    with pytest.raises(SettingsError, match="no column 'topic'") as caught:
        identity_columns(schema, None)
    assert "transactions=False" in str(caught.value)
    for name in ("ratio", "at"):
        with pytest.raises(SettingsError, match=name):
            identity_columns(schema, (name,))
    assert identity_columns(schema, ("value",)) == ("value",)


@pytest.mark.parametrize("most", [1, 3])
def test_a_tail_that_does_not_fit(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, with a way out; records of others and repeated ones take no room."""
    monkeypatch.setattr(unfenced, "MAX_TAIL", most)
    made = [TailRecord(OUT, at, RowIdentity(OURS, BATCH, f"[{at}]")) for at in range(most)]
    others = [TailRecord(OUT, 10 + at, None) for at in range(9)]
    assert len(judge_tail([*made, *others, *made], writer=OURS, batch=BATCH).rows) == most
    one_more = TailRecord(OUT, 99, RowIdentity(OURS, BATCH, "[99]"))
    with pytest.raises(SettingsError, match=rf"more than {most} rows[^$]*name="):
        judge_tail([*made, one_more], writer=OURS, batch=BATCH)
