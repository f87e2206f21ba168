"""What the ledger's topic keeps of repairs: the format, and the history that an audit reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.audit.history import read_history
from eo_listener.model.errors import FormatError
from eo_listener.model.ledger import GAP_ACCEPTED, Head
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka.ledger import Decoder, RepairKey, RepairRecord, decode_key, history_of

T0, T1 = TopicPartition("flights", 0), TopicPartition("flights", 1)


def head(start: int, until: int, batch: int, run_id: str = "run-1") -> Head:
    return Head(
        range=OffsetRange(start, until),
        topic_id="topic-1",
        query_id="query-1",
        run_id=run_id,
        batch_id=batch,
    )


def accepted(found: Head, until: int, at: str) -> RepairRecord:
    return RepairRecord(
        topic="flights",
        heads={T0: found},
        run_id=f"repair {at}",
        verdict=GAP_ACCEPTED,
        gap=OffsetRange(found.range.until, until),
        at=at,
    )


def renamed(at: str, **heads: Head) -> RepairRecord:
    found = {TopicPartition("flights", int(number[1:])): one for number, one in heads.items()}
    return RepairRecord(
        topic="flights", heads=found, run_id="r", verdict="renamed from x", gap=None, at=at
    )


@given(st.text(), st.text(), st.text(), st.text())
def test_it_comes_back(sink: str, query: str, name: str, verdict: str) -> None:
    """With any names; the key says whose it is."""
    key = RepairKey(sink, query, name)
    record = RepairRecord(
        topic=name,
        heads={TopicPartition(name, 7): head(1, 5, 3)},
        run_id=query,
        verdict=verdict,
        gap=OffsetRange(5, 9),
        at="2026-11-24T00:00:00.000+00:00",
    )
    assert decode_key(key.encode()) == key
    assert RepairRecord.decode(json.loads(record.encode())) == record
    read = Decoder().decode({key.encode(): (record.encode(), 4)})
    assert read.repairs[key].repair == record
    assert read.heads(sink, query) == {}


def test_what_cannot_be_read_stops_the_query_that_its_key_names() -> None:
    """And no other one."""
    broken = {RepairKey("delays", "q", "1").encode(): (b'{"v":1,"topic":"t"}', 0)}
    found = Decoder().decode(broken)
    with pytest.raises(FormatError, match="KeyError"):
        found.heads("delays", "q")
    assert found.heads("delays", "other") == {}


def test_an_audit_finds_the_gaps_and_nothing_else() -> None:
    """Batches between two repairs are not in the history, and are neither lost nor repeated."""
    first = accepted(head(0, 10, 3), 15, "2026-11-24T01")
    at_once = accepted(head(15, 20, 4), 22, "2026-11-24T02")
    far = renamed("2026-11-24T03", p0=head(90, 100, 9), p1=head(5, 7, 9))
    last = accepted(head(90, 100, 9), 120, "2026-11-24T04")
    history = history_of([last, far, at_once, first])
    facts = read_history(history, {T0: head(120, 120, 9), T1: head(5, 7, 9)})
    assert facts.gaps == {T0: [OffsetRange(10, 15), OffsetRange(20, 22), OffsetRange(100, 120)]}
    assert (facts.missing, facts.repeated, facts.began) == ({}, {}, {})
    assert [(one.head.range.until, one.verdict) for one in history if one.partition == T0] == [
        (10, "next"),
        (15, "gap accepted"),
        (20, "next"),
        (22, "gap accepted"),
        (100, "next"),
        (100, "renamed from x"),
        (120, "gap accepted"),
    ]


def test_two_repairs_in_a_row() -> None:
    """What the first has made is what the second has found, and there once."""
    first = accepted(head(0, 10, 3), 15, "2026-11-24T01")
    made = head(15, 15, 3, first.run_id)
    history = history_of([first, accepted(made, 18, "2026-11-24T02")])
    assert [one.gap for one in history] == [None, OffsetRange(10, 15), OffsetRange(15, 18)]
