"""What is read back from a target, and whose it is. No broker."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.model.errors import FormatError, SettingsError
from eo_listener.model.ledger import Unexpected
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import tail as tail_module
from eo_listener.sinks.kafka.row_identity import HEADER, IdentityColumns, RowIdentity, writer_of
from eo_listener.sinks.kafka.tail import TailRecord, judge_tail
from eo_listener.testing.made_up_entries import HOSTILE
from tests.sinks.kafka.made_up_tasks import header_of

OURS = writer_of("sink", "query")
BATCH = 7
PLACES = st.builds(TopicPartition, st.just("out"), st.integers(0, 2))
IDENTITIES = st.one_of(
    st.none(),
    st.builds(
        RowIdentity,
        st.sampled_from([OURS, writer_of("sink", "another")]),
        st.sampled_from([BATCH - 1, BATCH]),
        st.sampled_from(["[0]", "[1]", "[2]", "[3]"]),
    ),
)


@st.composite
def tails(draw: st.DrawFn) -> list[TailRecord]:
    """Records of three partitions, each at the next offset of its own."""
    ends: dict[TopicPartition, int] = {}
    records = []
    for tp, identity in draw(st.lists(st.tuples(PLACES, IDENTITIES), max_size=30)):
        records.append(TailRecord(tp, ends.get(tp, 5), identity))
        ends[tp] = records[-1].offset + 1
    return records


@given(tails())
def test_each_record_is_of_one_kind(records: list[TailRecord]) -> None:
    """A row of the batch at its first place, or something unexpected, whose place is named."""
    tail = judge_tail(records, writer=OURS, batch=BATCH)
    found = {one.kind: one for one in tail.findings.records()}
    assert len(tail.rows) + sum(one.count for one in found.values()) == len(records)
    met: set[str] = set()
    for tp, offset, identity in records:
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
    assert RowIdentity.of(headers) == identity


def test_writers_differ() -> None:
    """Also where names are alike but for where they are cut."""
    names = [*HOSTILE, "", "a", "aa"]
    assert len({writer_of(sink, query) for sink in names for query in names}) == len(names) ** 2


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b'"x"', b'{"w":"a"}', b'{"v":1,"w":"a"}'])
def test_a_header_of_others(value: bytes) -> None:
    """Is none of ours."""
    assert RowIdentity.of([(HEADER, value)]) is None
    assert RowIdentity.of([("other", b"x")]) is None


def test_a_header_of_a_newer_release() -> None:
    """Is an error: it may be a row of the batch."""
    with pytest.raises(FormatError, match="not of format 1"):
        RowIdentity.of([(HEADER, b'{"v":2,"w":"a","n":1,"id":[0]}')])


def test_values_of_any_exact_type() -> None:
    """Texts, numbers, bytes, dates and decimals have one form each."""
    rows = pa.RecordBatch.from_pydict(
        {
            "s": pa.array(["a\u017e", None]),
            "n": pa.array([2**62, 0], pa.int64()),
            "b": pa.array([b"\xff", b""], pa.binary()),
            "d": pa.array([date(2026, 1, 2), None]),
            "m": pa.array([Decimal("1.10"), Decimal("0.00")]),
        }
    )
    columns = IdentityColumns.of(rows.schema, rows.schema.names)
    assert list(columns.values(rows)) == [
        f'["a\\u017e",{2**62},"ff","2026-01-02","1.10"]',
        '[null,0,"",null,"0.00"]',
    ]


def test_columns_that_cannot_identify() -> None:
    """Those that are missing, and those whose values have no form that is always the same."""
    schema = pa.schema([("value", pa.string()), ("ratio", pa.float64())])
    with pytest.raises(SettingsError, match="no column 'topic'") as caught:
        IdentityColumns.of(schema, None)
    assert "transactions=False" in str(caught.value)
    with pytest.raises(SettingsError, match="of type double"):
        IdentityColumns.of(schema, ("ratio",))
    assert IdentityColumns.of(schema, ("value",)).names == ("value",)


def test_a_range_covers_what_it_names() -> None:
    """The first and the last of a kind; others may lie between."""
    tp = TopicPartition("out", 0)
    records = [TailRecord(tp, 3, None), TailRecord(tp, 9, None)]
    tail = judge_tail(records, writer=OURS, batch=BATCH)
    (found,) = tail.findings.records()
    assert (found.count, found.ranges) == (2, {tp: OffsetRange(3, 10)})


@pytest.mark.parametrize("most", [1, 3])
def test_a_tail_that_does_not_fit(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is refused, with a way out; records of others and repeated ones take no room."""
    monkeypatch.setattr(tail_module, "MAX_TAIL", most)
    tp = TopicPartition("out", 0)
    made = [TailRecord(tp, at, RowIdentity(OURS, BATCH, f"[{at}]")) for at in range(most)]
    more = [TailRecord(tp, 10 + at, None) for at in range(9)] + made
    tail = judge_tail([*made, *more], writer=OURS, batch=BATCH)
    assert len(tail.rows) == most
    one_more = TailRecord(tp, 99, RowIdentity(OURS, BATCH, "[99]"))
    with pytest.raises(SettingsError, match=f"more than {most} rows") as caught:
        judge_tail([*made, one_more], writer=OURS, batch=BATCH)
    assert "name=" in str(caught.value)
