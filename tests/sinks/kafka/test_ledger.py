"""The ledger's records of batches and repairs: what is in which, how large, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.audit.history import read_history
from eo_listener.client_config.identities import sink_transactional_id, transactional_id
from eo_listener.errors import FormatError, SettingsError
from eo_listener.model.ledger import GAP_ACCEPTED, Entry, Head
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka.ledger import (
    PER_RECORD,
    BatchKey,
    BatchRecord,
    Decoder,
    HeadsRecord,
    LedgerRecord,
    RecordKey,
    RepairKey,
    RepairRecord,
    TargetEnds,
    concerns,
    decode_key,
    history_of,
    newest,
    owner,
    records_of,
    refuse_policy,
)
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of, heads_of

MEGABYTE = 1_000_000  # Kafka's default for a message is a little more
FAR = 2**62
TP = TopicPartition("flights", 3)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

PARTITIONS = st.integers(0, 10_000)
BOUNDS = st.tuples(st.integers(0, FAR), st.integers(0, FAR)).map(
    lambda two: OffsetRange(*sorted(two))
)
RANGES = st.dictionaries(st.builds(TopicPartition, st.text(), PARTITIONS), BOUNDS, max_size=5)
ENDS = st.builds(
    TargetEnds, st.none() | st.text(), st.dictionaries(PARTITIONS, st.integers(0, FAR), max_size=5)
)
HEADS = st.builds(
    Head,
    range=BOUNDS,
    topic_id=st.none() | st.text(),
    query_id=st.text(),
    run_id=st.text(),
    batch_id=st.integers(0, FAR),
)


def stored(*written: LedgerRecord, partition: int = 3) -> dict[bytes, tuple[bytes, int]]:
    return {record.key: (record.value, partition) for record in written}


def entry_at(tp: TopicPartition = T0, start: int = 0, until: int = 1) -> Entry:
    return entry_of({}, {tp: OffsetRange(start, until)})


def record(number: int = 1, size: int | None = None, **more: object) -> BatchRecord:
    made = BatchRecord(
        number=number,
        query_id="query-1",
        run_id="run-1",
        batch_id=number,
        identity=("topic", "partition", "offset"),
        moves={TP: OffsetRange(0, 5)},
        topic_ids={"flights": "id"},
        remaining={TP: OffsetRange(0, 5)},
        since={"delays": TargetEnds("other", {0: 7})},
        size=size,
    )
    return replace(made, **more)  # type: ignore[arg-type]  # of the fields


@given(st.text(), st.dictionaries(PARTITIONS, HEADS))
def test_heads_come_back(topic: str, by_number: dict[int, Head]) -> None:
    """Heads with any values are decoded as they were encoded."""
    wanted = {TopicPartition(topic, number): head for number, head in by_number.items()}
    record = HeadsRecord(wanted, {})
    assert HeadsRecord.decode(topic, json.loads(record.encode())) == record


@given(RANGES, RANGES, st.dictionaries(st.text(), ENDS, max_size=3), st.none() | st.integers(0))
def test_a_batch_comes_back(
    moves: dict[TopicPartition, OffsetRange],
    left: dict[TopicPartition, OffsetRange],
    since: dict[str, TargetEnds],
    size: int | None,
) -> None:
    """Whatever is in it."""
    ids = {tp.topic: f"id of {tp.topic}" for tp in (*moves, *left)}
    made = record(FAR, size, moves=moves, remaining=left, since=since, topic_ids=ids)
    assert BatchRecord.decode(json.loads(made.encode())) == made


@given(st.text(), st.text(), st.text(), st.text())
def test_a_repair_comes_back(sink: str, query: str, name: str, verdict: str) -> None:
    """With any names; the key says whose it is."""
    key = RepairKey(sink, query, name)
    made = RepairRecord(
        topic=name,
        heads={TopicPartition(name, 7): head(1, 5, 3)},
        run_id=query,
        verdict=verdict,
        gap=OffsetRange(5, 9),
        at="2026-11-24T00:00:00.000+00:00",
    )
    assert decode_key(key.encode()) == key
    assert RepairRecord.decode(json.loads(made.encode())) == made
    read = Decoder().decode({key.encode(): (made.encode(), 4)})
    assert read.repairs[key].record == made
    assert read.heads(sink, query) == {}


@given(st.text(), st.text(), st.text(), st.integers(0, FAR))
def test_keys_come_back(sink: str, query: str, name: str, first: int) -> None:
    """With any names; one of a batch is not taken for one of heads."""
    key = RecordKey(sink, query, name, first)
    assert decode_key(key.encode()) == key
    of_batch = BatchKey(sink, query, name).encode()
    assert owner(key.encode()) == owner(of_batch) == (sink, query)
    assert concerns(sink, query)(of_batch, None)
    assert decode_key(of_batch) == BatchKey(sink, query, name)


def test_ten_thousand_partitions_fit() -> None:
    """Their heads are 20 records, each far below a megabyte, even if each was moved by another."""
    ranges = {TopicPartition("flights", at): OffsetRange(FAR, FAR + 1) for at in range(10_000)}
    entry = entry_of({}, ranges, batch_id=FAR, run_id="0" * 36)
    records = list(records_of("delays", entry, {}, {}))
    assert len(records) == 20
    assert max(len(record.value) for record in records) < 30_000
    others = {
        tp: replace(entry.head(tp), query_id=f"{tp.partition:036}", run_id=f"{tp.partition:036}")
        for tp in [*ranges][:PER_RECORD]
    }
    assert len(HeadsRecord(others, {}).encode()) < MEGABYTE / 5
    batch = record(moves=ranges, remaining={}, since={"delays": TargetEnds("id", {})}, size=FAR)
    assert len(batch.encode()) < 600_000


def test_a_head_stays_in_its_record() -> None:
    """A record that is written again has the heads that the batch does not move."""
    first = entry_of({}, {TopicPartition("t", at): OffsetRange(0, 1) for at in range(1200)})
    there = Decoder().decode(stored(*records_of("s", first, {}, {}))).heads("s", QUERY)
    assert there == heads_of(first)
    second = entry_of(there, {TopicPartition("t", 501): OffsetRange(1, 9)}, batch_id=1)
    (only,) = records_of("s", second, there, {})
    assert decode_key(only.key) == RecordKey("s", QUERY, "t", PER_RECORD)
    whole = stored(*records_of("s", first, {}, {})) | stored(only)
    assert Decoder().decode(whole).heads("s", QUERY) == {**there, **heads_of(second)}


def test_records_stay_in_the_partition_in_which_they_are() -> None:
    """More partitions of the ledger's topic do not lead to a second set of records."""
    none = Decoder().decode({})
    assert {none.partition("s", str(number), 16) for number in range(200)} == set(range(16))
    records = Decoder().decode(stored(*records_of("s", entry_at(), {}, {}), partition=11))
    assert records.partition("s", QUERY, 16) == records.partition("s", QUERY, 64) == 11


OF_HEADS, OF_BATCH = RecordKey("s", "q", "t", 0).encode(), BatchKey("s", "q", "r").encode()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (OF_HEADS, b""),
        (OF_HEADS, b"\xff"),
        (OF_HEADS, b"[]"),
        (OF_HEADS, b'{"v":2,"moved":[],"heads":[]}'),
        (OF_HEADS, b'{"v":1,"moved":[]}'),
        (OF_HEADS, b'{"v":1,"moved":[],"heads":[[0,0,1,0]]}'),
        (OF_HEADS, b'{"v":1,"moved":[["q","r",0]],"heads":[[0,0,1,0]]}'),
        (OF_HEADS, b'{"v":1,"moved":[["q","r",0,null]],"heads":[[0,0,1]]}'),
        (OF_HEADS, b'{"v":1,"moved":[],"heads":[]}'),
        (OF_HEADS, b'{"v":1,"moved":[],"heads":[],"targets":[]}'),
        (OF_BATCH, b"{}"),
        (OF_BATCH, b'{"v":2}'),
        (OF_BATCH, b'{"v":1}'),
        (OF_BATCH, b'{"v":1,"moved":["q","r"],"number":1}'),
        (OF_BATCH, b"[]"),
        (RepairKey("s", "q", "1").encode(), b'{"v":1,"topic":"t"}'),
    ],
)
def test_what_no_ledger_has_written(key: bytes, value: bytes) -> None:
    """It stops the query that its key names, and no other, and never counts as no heads."""
    found = Decoder().decode({key: (value, 0)})
    with pytest.raises(FormatError):
        found.heads("s", "q")
    assert found.heads("s", "other") == {}


@pytest.mark.parametrize(
    "key", [b"", b"1", b"\xff", b"[" * 9000, b'{"v":1,"sink":"s"}', b'{"sink":{},"query":[]}']
)
def test_a_key_that_no_ledger_has_written(key: bytes) -> None:
    """It is of another program: it belongs to no sink and query, and stops none of them."""
    found = Decoder().decode({key: (b"{}", 2)} | stored(*records_of("s", entry_at(), {}, {})))
    assert owner(key) is None
    assert found.heads("s", QUERY) == heads_of(entry_at())
    assert found.moved_by("query-1").keys() == {("s", QUERY)}
    assert found.unreadable[key].partition == 2


@pytest.mark.parametrize(
    ("key", "stops"),
    [
        (b'{"v":2,"sink":"s","query":"q","part":7}', {"q"}),
        (b'{"v":1,"sink":"s","query":"q"}', {"q"}),
        (b'{"v":1,"sink":"s","query":"q","topic":"t","first":"0"}', {"q"}),
        (b'{"v":2,"of":["s","q"]}', {"q", "another"}),
        (b'{"v":2,"sink":"other","query":"q"}', set()),
    ],
)
def test_a_key_of_another_format(key: bytes, stops: set[str]) -> None:
    """It stops those whose it may be: a newer release may have moved their heads."""
    found = Decoder().decode({key: (b"{}", 0)})
    stopped = set()
    for query in ("q", "another"):
        try:
            assert found.heads("s", query) == {}
        except FormatError:
            stopped.add(query)
    assert stopped == stops


def test_an_unreadable_record_of_a_query_id() -> None:
    """It stops the question what this id has moved, and none about another."""
    found = Decoder().decode({OF_HEADS: (b'{"v":2,"moved":[["query-1"]]}', 0)})
    assert found.moved_by("query-2") == {}
    with pytest.raises(FormatError, match="not have format 1"):
        found.moved_by("query-1")


def test_a_policy_that_would_lose_heads_is_refused() -> None:
    """A cleanup.policy with delete is refused: heads are valid however old they are."""
    refuse_policy("eo-ledger", "compact", "host:1")
    for policy in ("delete", "compact,delete"):
        with pytest.raises(SettingsError, match=r"--add-config cleanup\.policy=compact"):
            refuse_policy("eo-ledger", policy, "host:1")


def test_transactional_ids_differ() -> None:
    """For any two pairs of sink and query, and from those of groups; printable in any terminal."""
    names = [*HOSTILE, "a", "a/b", "b", "", "a%2Fb", "eo-listener"]
    ids = {sink_transactional_id(sink, query) for sink in names for query in names}
    assert len(ids) == len(names) ** 2
    assert not ids & {transactional_id(f"{one}/{two}") for one in names for two in names}
    assert all(one.isascii() and one.isprintable() and " " not in one for one in ids)
    assert sink_transactional_id("delays", "flights") == "eo-listener/delays/flights"


def test_records_are_plain_json() -> None:
    """People read them with any consumer."""
    (heads,) = records_of("delays", entry_at(TopicPartition("t", 7), 5, 8), {}, {"delays": "A"})
    whose = {"v": 1, "sink": "delays", "query": QUERY}
    assert json.loads(heads.key) == {**whose, "topic": "t", "first": 0}
    assert json.loads(heads.value) == {
        "v": 1,
        "moved": [["query-1", "run-1", 0, "tv9Lg1mUQ5mX5yWk4vcVXA"]],
        "heads": [[7, 5, 8, 0]],
        "targets": {"delays": "A"},
    }
    assert json.loads(BatchKey("delays", QUERY, "r").encode()) == {**whose, "run": "r"}
    assert json.loads(record(7, 4, remaining={}).encode()) == {
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


def test_the_last_applied_batch_has_moved_its_heads() -> None:
    """Until they are written; one that was only begun has moved none."""
    first = entry_of({}, {TP: OffsetRange(0, 5), TopicPartition("flights", 4): OffsetRange(0, 1)})
    there = stored(*records_of("s", first, {}, {}))
    begun = record(2, moves={TP: OffsetRange(5, 9)})
    for made, until in ((begun, 5), (replace(begun, size=4, remaining={}), 9)):
        key = BatchKey("s", QUERY, "run-1").encode()
        records = Decoder().decode({**there, key: (made.encode(), 3)})
        assert records.heads("s", QUERY)[TP].range.until == until
        assert records.written_heads("s", QUERY) == heads_of(first)
        assert records.moved_by("query-1") == {("s", QUERY): records.heads("s", QUERY)}
        assert records.partition("s", QUERY, 16) == 3


def test_the_batch_that_counts() -> None:
    """It is of the highest number, and applied rather than begun, whatever run wrote it last."""
    applied = record(4, 5, remaining={})
    assert newest([]) is None
    assert newest([applied, record(3), record(4)]) == applied
    assert newest([record(5), applied]) == record(5)


def test_of_two_that_have_begun_the_lower_ends_count() -> None:
    """What either has begun is left, and a partition that one of them has not met begins at 0."""
    one = record(2, since={"a": TargetEnds("i", {0: 5, 1: 9}), "b": TargetEnds("i", {0: 1})})
    two = record(
        2, since={"a": TargetEnds("i", {0: 7, 1: 3, 2: 4})}, remaining={TP: OffsetRange(0, 5)}
    )
    for both in ([one, two], [two, one]):
        found = newest(both)
        assert found is not None
        assert found.since == {"a": TargetEnds("i", {0: 5, 1: 3}), "b": TargetEnds("i", {0: 1})}
        assert found.remaining == {TP: OffsetRange(0, 5)}


def head(start: int, until: int, batch: int, run_id: str = "run-1") -> Head:
    return replace(entry_at(T0, start, until).head(T0), batch_id=batch, run_id=run_id)


def accepted(found: Head, until: int, at: str) -> RepairRecord:
    return RepairRecord(
        topic="t",
        heads={T0: found},
        run_id=f"repair {at}",
        verdict=GAP_ACCEPTED,
        gap=OffsetRange(found.range.until, until),
        at=f"2026-11-24T{at}",
    )


def test_an_audit_finds_the_gaps_and_nothing_else() -> None:
    """Batches between two repairs are not in the history, and are neither lost nor repeated."""
    first = accepted(head(0, 10, 3), 15, "01")
    at_once = accepted(head(15, 20, 4), 22, "02")
    heads = {T0: head(90, 100, 9), T1: head(5, 7, 9)}
    far = replace(first, heads=heads, verdict="renamed from x", gap=None, at="2026-11-24T03")
    last = accepted(head(90, 100, 9), 120, "04")
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
    first = accepted(head(0, 10, 3), 15, "01")
    history = history_of([first, accepted(head(15, 15, 3, first.run_id), 18, "02")])
    assert [one.gap for one in history] == [None, OffsetRange(10, 15), OffsetRange(15, 18)]
