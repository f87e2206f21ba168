"""The ledger's records: what is in which, how large they are, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.client_config.identities import sink_transactional_id, transactional_id
from eo_listener.model.errors import FormatError, SettingsError
from eo_listener.model.ledger import Entry, Head
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka.ledger import (
    PER_RECORD,
    Decoder,
    LedgerRecord,
    RecordKey,
    concerns,
    concerns_mover,
    decode_heads,
    encode_heads,
    owner,
    records_of,
    refuse_policy,
)
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of, heads_of

MEGABYTE = 1_000_000  # Kafka's default for a message is a little more
FAR = 2**62

heads = st.builds(
    Head,
    range=st.tuples(st.integers(0, FAR), st.integers(0, FAR)).map(
        lambda two: OffsetRange(min(two), max(two))
    ),
    topic_id=st.none() | st.text(),
    query_id=st.text(),
    run_id=st.text(),
    batch_id=st.integers(0, FAR),
)


def stored(*written: LedgerRecord, partition: int = 3) -> dict[bytes, tuple[bytes, int]]:
    return {record.key: (record.value, partition) for record in written}


@given(st.text(), st.dictionaries(st.integers(0, 10_000), heads))
def test_heads_come_back(topic: str, by_number: dict[int, Head]) -> None:
    """Heads with any values are decoded as they were encoded."""
    wanted = {TopicPartition(topic, number): head for number, head in by_number.items()}
    assert decode_heads(topic, encode_heads(wanted, {})) == wanted


@given(st.text(), st.text(), st.text(), st.integers(0, FAR))
def test_keys_come_back(sink: str, query: str, topic: str, first: int) -> None:
    """Keys with any names are decoded as they were encoded."""
    key = RecordKey(sink, query, topic, first)
    assert RecordKey.decode(key.encode()) == key
    assert owner(key.encode()) == (sink, query)


def test_ten_thousand_partitions_fit() -> None:
    """Their heads are 20 records, each far below a megabyte, even if each was moved by another."""
    ranges = {TopicPartition("flights", at): OffsetRange(FAR, FAR + 1) for at in range(10_000)}
    entry = entry_of({}, ranges, batch_id=FAR, run_id="0" * 36)
    records = list(records_of("delays", entry, {}, {}))
    assert len(records) == 20
    assert max(len(record.value) for record in records) < 30_000
    others = {
        TopicPartition("flights", at): Head(
            range=OffsetRange(FAR, FAR + 1),
            topic_id="A" * 22,
            query_id=f"{at:036}",
            run_id=f"{at:036}",
            batch_id=FAR,
        )
        for at in range(PER_RECORD)
    }
    assert len(encode_heads(others, {})) < MEGABYTE / 5


def test_a_head_stays_in_its_record() -> None:
    """A record that is written again has the heads that the batch does not move."""
    first = entry_of({}, {TopicPartition("t", at): OffsetRange(0, 1) for at in range(1200)})
    there = Decoder().decode(stored(*records_of("s", first, {}, {}))).heads("s", QUERY)
    assert there == heads_of(first)
    second = entry_of(there, {TopicPartition("t", 501): OffsetRange(1, 9)}, batch_id=1)
    (only,) = records_of("s", second, there, {})
    assert RecordKey.decode(only.key).first == PER_RECORD
    whole = stored(*records_of("s", first, {}, {})) | stored(only)
    assert Decoder().decode(whole).heads("s", QUERY) == {**there, **heads_of(second)}


def test_queries_and_sinks_have_records_of_their_own() -> None:
    """Also where names are alike but for where they are cut."""
    ranges = {TopicPartition("t", 0): OffsetRange(0, 1)}
    written: dict[tuple[str, str], tuple[Entry, LedgerRecord]] = {}
    for sink in HOSTILE:
        for query in HOSTILE:
            entry = entry_of({}, ranges, query=query, run_id=sink + query)
            (record,) = records_of(sink, entry, {}, {})
            written[sink, query] = entry, record
    records = Decoder().decode(stored(*(record for _, record in written.values())))
    for (sink, query), (entry, record) in written.items():
        assert records.heads(sink, query) == heads_of(entry)
        assert concerns(sink, query)(record.key, record.value)
        assert not concerns(sink, query + "x")(record.key, record.value)


def test_what_a_query_id_has_moved() -> None:
    """Exactly the heads that a query id has moved last are found, by sink and query."""
    tps = TopicPartition("t", 0), TopicPartition("t", 1)
    first = entry_of({}, {tp: OffsetRange(0, 1) for tp in tps})
    (record,) = records_of("s", first, {}, {})
    taken: Entry = entry_of(heads_of(first), {tps[0]: OffsetRange(1, 2)})
    taken = Entry(
        query=taken.query, query_id='other "one"', run_id="r", batch_id=1, moves=taken.moves
    )
    (after,) = records_of("s", taken, heads_of(first), {})
    found = Decoder().decode(stored(record) | stored(after))
    assert found.moved_by("query-1") == {("s", QUERY): {tps[1]: first.head(tps[1])}}
    assert found.moved_by('other "one"') == {("s", QUERY): {tps[0]: taken.head(tps[0])}}
    assert concerns_mover('other "one"')(after.key, after.value)
    assert not concerns_mover('other "one"')(record.key, record.value)
    assert not concerns_mover("query-1")(record.key, None)


def test_targets_are_those_of_the_sink_and_query() -> None:
    """The topics that hold what its heads say are applied."""
    entry = entry_of({}, {TopicPartition("t", 0): OffsetRange(0, 1)})
    mine = records_of("s", entry, {}, {"delays": "A", "rest": "B"})
    other = records_of("s2", entry, {}, {"delays": "C"})
    records = Decoder().decode(stored(*mine, *other))
    assert records.targets("s", QUERY) == {"delays": "A", "rest": "B"}
    assert records.targets("s", "other") == {}


def test_records_stay_in_the_partition_where_they_are() -> None:
    """More partitions of the ledger's topic do not lead to a second set of records."""
    entry = entry_of({}, {TopicPartition("t", 0): OffsetRange(0, 1)})
    none = Decoder().decode({})
    places = {none.partition("s", str(number), 16) for number in range(200)}
    assert places == set(range(16))
    records = Decoder().decode(stored(*records_of("s", entry, {}, {}), partition=11))
    assert records.partition("s", QUERY, 16) == records.partition("s", QUERY, 64) == 11


def test_only_what_is_new_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that have not changed since the last read are not decoded again."""
    decoded: list[str] = []
    ours = "eo_listener.sinks.kafka.ledger.decode_heads"

    def decode(topic: str, text: bytes) -> dict[TopicPartition, Head]:
        decoded.append(topic)
        return decode_heads(topic, text)

    monkeypatch.setattr(ours, decode)
    first, second = (entry_of({}, {TopicPartition(t, 0): OffsetRange(0, 1)}) for t in "ab")
    decoder = Decoder()
    values = stored(*records_of("s", first, {}, {}))
    decoder.decode(values)
    found = decoder.decode(values | stored(*records_of("s", second, {}, {})))
    assert decoded == ["a", "b"]
    assert found.heads("s", QUERY) == {**heads_of(first), **heads_of(second)}
    decoder.decode({})
    decoder.decode(values)
    assert decoded == ["a", "b", "a"]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"v":2,"moved":[],"heads":[]}',
        b'{"v":1,"moved":[]}',
        b'{"v":1,"moved":[],"heads":[[0,0,1,0]]}',
        b'{"v":1,"moved":[["q","r",0]],"heads":[[0,0,1,0]]}',
        b'{"v":1,"moved":[["q","r",0,null]],"heads":[[0,0,1]]}',
        b'{"v":1,"moved":[],"heads":[]}',
        b'{"v":1,"moved":[],"heads":[],"targets":[]}',
    ],
)
def test_what_no_ledger_has_written(value: bytes) -> None:
    """A record of another program raises FormatError, and does not count as no heads."""
    found = Decoder().decode({RecordKey("s", "q", "t", 0).encode(): (value, 0)})
    with pytest.raises(FormatError, match="format 1"):
        found.heads("s", "q")
    assert found.heads("s", "another") == found.heads("another", "q") == {}


@pytest.mark.parametrize(
    "key", [b"", b"1", b"\xff", b"[" * 9000, b'{"v":1,"sink":"s"}', b'{"sink":{},"query":[]}']
)
def test_a_key_that_no_ledger_has_written(key: bytes) -> None:
    """Is of another program: it belongs to no sink and query, and stops none of them."""
    entry = entry_of({}, {TopicPartition("t", 0): OffsetRange(0, 1)})
    mine = stored(*records_of("s", entry, {}, {}))
    found = Decoder().decode({key: (b"{}", 2)} | mine)
    assert owner(key) is None
    assert found.heads("s", QUERY) == heads_of(entry)
    assert found.moved_by("query-1").keys() == {("s", QUERY)}
    assert found.unreadable[key].partition == 2


@pytest.mark.parametrize(
    ("key", "stops"),
    [
        (b'{"v":2,"sink":"s","query":"q","part":7}', {("s", "q")}),
        (b'{"v":1,"sink":"s","query":"q"}', {("s", "q")}),
        (b'{"v":1,"sink":"s","query":"q","topic":"t","first":"0"}', {("s", "q")}),
        (b'{"v":2,"of":["s","q"]}', {("s", "q"), ("s", "another")}),
        (b'{"v":2,"sink":"other","query":"q"}', set()),
    ],
)
def test_a_key_of_another_format(key: bytes, stops: set[tuple[str, str]]) -> None:
    """Stops those whose it may be: a newer release may have moved their heads."""
    found = Decoder().decode({key: (b"{}", 0)})
    stopped = set()
    for one in (("s", "q"), ("s", "another")):
        try:
            assert found.heads(*one) == {}
        except FormatError:
            stopped.add(one)
    assert stopped == stops


def test_an_unreadable_record_of_a_query_id() -> None:
    """Stops the question what this id has moved, and none about another."""
    key = RecordKey("s", "q", "t", 0).encode()
    found = Decoder().decode({key: (b'{"v":2,"moved":[["query-1"]]}', 0)})
    assert found.moved_by("query-2") == {}
    with pytest.raises(FormatError, match="not of format 1"):
        found.moved_by("query-1")


def test_a_policy_that_would_lose_heads_is_refused() -> None:
    """A cleanup.policy with delete is refused: heads are valid however old they are."""
    refuse_policy("eo-ledger", "compact", "host:1")
    for policy in ("delete", "compact,delete"):
        with pytest.raises(SettingsError, match=r"cleanup\.policy") as caught:
            refuse_policy("eo-ledger", policy, "host:1")
        assert "--add-config cleanup.policy=compact" in str(caught.value)


def test_transactional_ids_differ() -> None:
    """For any two pairs of sink and query, and from those of groups; printable in any terminal."""
    names = [*HOSTILE, "a", "a/b", "b", "", "a%2Fb", "eo-listener"]
    ids = {sink_transactional_id(sink, query) for sink in names for query in names}
    assert len(ids) == len(names) ** 2
    assert not ids & {transactional_id(f"{one}/{two}") for one in names for two in names}
    assert all(one.isascii() and one.isprintable() and " " not in one for one in ids)
    assert sink_transactional_id("delays", "flights") == "eo-listener/delays/flights"


def test_a_record_is_plain_json() -> None:
    """People read it with any consumer."""
    entry = entry_of({}, {TopicPartition("t", 7): OffsetRange(5, 8)})
    (record,) = records_of("delays", entry, {}, {"delays": "A"})
    assert json.loads(record.key) == {
        "v": 1,
        "sink": "delays",
        "query": QUERY,
        "topic": "t",
        "first": 0,
    }
    assert json.loads(record.value) == {
        "v": 1,
        "moved": [["query-1", "run-1", 0, "tv9Lg1mUQ5mX5yWk4vcVXA"]],
        "heads": [[7, 5, 8, 0]],
        "targets": {"delays": "A"},
    }
