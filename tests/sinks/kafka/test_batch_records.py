"""What the ledger's topic holds of batches without transactions. No broker."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.model.errors import FormatError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka.ledger import (
    BatchKey,
    BatchRecord,
    Decoder,
    RecordKey,
    TargetEnds,
    concerns,
    newest,
    owner,
    records_of,
)
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of
from tests.sinks.kafka.test_ledger import FAR, stored

TP = TopicPartition("flights", 3)
RANGES = st.dictionaries(
    st.builds(TopicPartition, st.text(), st.integers(0, 10_000)),
    st.tuples(st.integers(0, FAR), st.integers(0, FAR)).map(lambda two: OffsetRange(*sorted(two))),
    max_size=5,
)
ENDS = st.builds(
    TargetEnds,
    st.none() | st.text(),
    st.dictionaries(st.integers(0, 10_000), st.integers(0, FAR), max_size=5),
)


def record(number: int = 1, size: int | None = None, **more: object) -> BatchRecord:
    made = BatchRecord(
        number=number,
        query_id="query-1",
        run_id="run-1",
        batch_id=number,
        identity=("topic", "partition", "offset"),
        moves={TP: OffsetRange(0, 5)},
        topic_ids={"flights": "id"},
        left={TP: OffsetRange(0, 5)},
        since={"delays": TargetEnds("other", {0: 7})},
        size=size,
    )
    return replace(made, **more)  # type: ignore[arg-type]  # of the fields


def of_run(run: str, made: BatchRecord) -> tuple[bytes, bytes]:
    return BatchKey("s", QUERY, run).encode(), made.encode()


@given(RANGES, RANGES, st.dictionaries(st.text(), ENDS, max_size=3), st.none() | st.integers(0))
def test_a_batch_comes_back(
    moves: dict[TopicPartition, OffsetRange],
    left: dict[TopicPartition, OffsetRange],
    since: dict[str, TargetEnds],
    size: int | None,
) -> None:
    """Whatever is in it."""
    ids = {tp.topic: f"id of {tp.topic}" for tp in (*moves, *left)}
    made = record(FAR, size, moves=moves, left=left, since=since, topic_ids=ids)
    assert BatchRecord.decode(json.loads(made.encode())) == made


@given(st.text(), st.text(), st.text())
def test_a_key_comes_back(sink: str, query: str, run: str) -> None:
    """And is not taken for one of heads."""
    key = BatchKey(sink, query, run)
    assert owner(key.encode()) == (sink, query)
    assert concerns(sink, query)(key.encode(), None)
    with pytest.raises(FormatError):
        RecordKey.decode(key.encode())


def test_ten_thousand_partitions_fit() -> None:
    """In one record, below what a client sends in one message by default."""
    moves = {TopicPartition("flights", at): OffsetRange(FAR, FAR + 1) for at in range(10_000)}
    made = record(moves=moves, left={}, since={"delays": TargetEnds("id", {})}, size=FAR)
    assert len(made.encode()) < 600_000


def test_the_last_applied_batch_has_moved_its_heads() -> None:
    """Until they are written; one that was only begun has moved none."""
    first = entry_of({}, {TP: OffsetRange(0, 5), TopicPartition("flights", 4): OffsetRange(0, 1)})
    there = stored(*records_of("s", first, {}, {}))
    begun = record(2, moves={TP: OffsetRange(5, 9)})
    for made, until in ((begun, 5), (replace(begun, size=4, left={}), 9)):
        key, value = of_run("run-1", made)
        records = Decoder().decode({**there, key: (value, 3)})
        assert records.heads("s", QUERY)[TP].range.until == until
        assert records.written_heads("s", QUERY) == heads_of(first)
        assert records.moved_by("query-1") == {("s", QUERY): records.heads("s", QUERY)}
        assert records.partition("s", QUERY, 16) == 3


def test_the_batch_that_counts() -> None:
    """Is of the highest number, and applied rather than begun, whatever run wrote it last."""
    applied = record(4, 5, left={})
    assert newest([]) is None
    assert newest([applied, record(3), record(4)]) == applied
    assert newest([record(5), applied]) == record(5)


def test_of_two_that_have_begun_the_lower_ends_count() -> None:
    """What either has begun is left, and a partition that one of them has not met begins at 0."""
    one = record(2, since={"a": TargetEnds("i", {0: 5, 1: 9}), "b": TargetEnds("i", {0: 1})})
    two = record(2, since={"a": TargetEnds("i", {0: 7, 1: 3, 2: 4})}, left={TP: OffsetRange(0, 5)})
    for both in ([one, two], [two, one]):
        found = newest(both)
        assert found is not None
        assert found.since == {"a": TargetEnds("i", {0: 5, 1: 3}), "b": TargetEnds("i", {0: 1})}
        assert found.left == {TP: OffsetRange(0, 5)}


@pytest.mark.parametrize(
    "value", [b"{}", b'{"v":2}', b'{"v":1}', b'{"v":1,"moved":["q","r"],"number":1}', b"[]"]
)
def test_what_no_ledger_has_written(value: bytes) -> None:
    """Is an error, and never the absence of a batch."""
    key = BatchKey("s", "q", "r").encode()
    with pytest.raises(FormatError):
        Decoder().decode({key: (value, 0)}).heads("s", "q")


def test_a_record_is_plain_json() -> None:
    """People read it with any consumer."""
    key, value = of_run("run-1", record(7, 4, left={}))
    assert json.loads(key) == {"v": 1, "sink": "s", "query": QUERY, "run": "run-1"}
    assert json.loads(value) == {
        "v": 1,
        "number": 7,
        "moved": ["query-1", "run-1", 7],
        "id": ["topic", "partition", "offset"],
        "moves": [["flights", "id", [[3, 0, 5]]]],
        "left": [],
        "since": [["delays", "other", [[0, 7]]]],
        "size": 4,
        "rows": None,
    }
