"""What an audit reads while a query goes on, and which ledgers it takes for the query's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from eo_listener.audit.positions import CheckpointPositions, Positions
from eo_listener.cli import position_reader
from eo_listener.cli.position_reader import (
    AuditRequest,
    CheckpointReading,
    LedgerChoice,
    PositionReader,
    claims,
)
from eo_listener.model.ledger import AppliedBatch, Head, LedgerKey, StoredLedger, TableRollback
from eo_listener.offsets import OffsetRange, Position, TopicPartition
from eo_listener.preflight.facts import GroupFacts
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.spark.checkpoint.checkpoint import Checkpoint, Durable
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.sqlite_ledger import BACK, Store

TP = TopicPartition("flights", 0)
PROPERTIES = {"bootstrap.servers": "k:9092"}

Held = Mapping[TopicPartition, Position] | None
Readings = Callable[..., tuple[PositionReader, Positions]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> CheckpointFiles:
    """Batch 0 is committed, up to offset 10."""
    return CheckpointFiles(tmp_path / "c", {TP: 0}, {TP: 10})


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Readings:
    """Read while the group g is, one reading after the other, as it is given; the last stays."""
    monkeypatch.setattr(position_reader, "_PAUSE", 0.0)
    monkeypatch.setattr(position_reader, "_SETTLE", 0.2)
    monkeypatch.setattr(PositionReader, "_source", lambda *_: None)

    def run(*readings: Held, **request: object) -> tuple[PositionReader, Positions]:
        left = list(readings)

        def group(name: str) -> GroupFacts:
            now = left.pop(0) if len(left) > 1 else left[0]
            return GroupFacts(name=name, held=now, held_error=None if now is not None else "GONE")

        fake = SimpleNamespace(cluster=object, group=group, close=lambda: None)
        monkeypatch.setattr(position_reader, "ClusterDescriber", lambda _: fake)
        asked = AuditRequest(properties=PROPERTIES, groups=("g",), **request)  # type: ignore[arg-type]  # its own fields
        reader = PositionReader(asked)
        positions = reader.read()
        reader.close()
        return reader, positions

    return run


def at(offset: int) -> dict[TopicPartition, Position]:
    return {TP: Position(offset=offset, metadata="")}


def test_a_group_that_has_nothing_yet_is_waited_for(
    checkpoint: CheckpointFiles, read: Readings
) -> None:
    """Its first batch was committed a moment ago."""
    _, positions = read({}, {}, {}, at(10), checkpoint=str(checkpoint.folder))
    assert positions.groups[0].after == at(10)


def test_a_group_is_waited_for_where_only_a_ledger_is_named(tmp_path: Path, read: Readings) -> None:
    """The ledger is ahead of the group until the listener has committed."""
    store = Store(tmp_path / "s.db")
    store.write(entry_of({}, {TP: OffsetRange(0, 10)}))
    ledgers = [LedgerAddress.parse(store.address)]
    _, positions = read(at(5), at(5), at(5), at(10), ledgers=ledgers)
    assert positions.groups[0].after == at(10)


def test_a_topic_that_no_group_holds_yet_is_waited_for(tmp_path: Path, read: Readings) -> None:
    """It is new to the query, whose listener commits it a moment later."""
    new = TopicPartition("weather", 0)
    made = CheckpointFiles(tmp_path / "c", {TP: 0, new: 0}, {TP: 10, new: 5})
    whole = {**at(10), new: Position(offset=5, metadata="")}
    _, positions = read(at(10), at(10), at(10), whole, checkpoint=str(made.folder))
    assert positions.groups[0].after == whole
    _, positions = read(
        at(10), at(10), whole, checkpoint=str(made.folder), uncommitted=frozenset({"weather"})
    )
    assert (positions.groups[0].after, positions.uncommitted) == (at(10), frozenset({"weather"}))


def test_a_group_that_cannot_be_read_again_is_not_judged(
    checkpoint: CheckpointFiles, read: Readings
) -> None:
    """Its offsets have not expired: Kafka did not answer."""
    reader, positions = read(at(10), None, checkpoint=str(checkpoint.folder))
    assert positions.groups == ()
    assert [one.about for one in reader.failures] == ["group g"]


def test_a_topic_that_was_named_and_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be misspelled: nothing was compared."""
    fake = SimpleNamespace(cluster=object, close=lambda: None)
    logs = SimpleNamespace(facts=lambda _: {}, partitions=lambda _: (), close=lambda: None)
    monkeypatch.setattr(position_reader, "ClusterDescriber", lambda _: fake)
    monkeypatch.setattr(position_reader, "RecordReader", lambda _: logs)
    monkeypatch.setattr(position_reader, "ClusterReader", lambda _: logs)
    reader = PositionReader(AuditRequest(properties=PROPERTIES, topics=("nosuch",)))
    reader.read()
    assert [one.about for one in reader.failures] == ["topic nosuch"]


KEY = LedgerKey("delays", QUERY)


class Moving:
    """The reader of a ledger that a query at work moves between two readings."""

    def __init__(self, label: str, ends: list[int], read: list[str]) -> None:
        self.label, self._ends, self._read = label, ends, read

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        self._read.append(self.label)
        heads = heads_of(entry_of({}, {TP: OffsetRange(0, self._ends.pop(0))}))
        return {KEY: StoredLedger(key=KEY, heads=heads, moved_at={})}

    def history(self, _: LedgerKey) -> Iterator[AppliedBatch]:
        return iter(())

    def close(self) -> None:
        """Nothing was opened."""


@pytest.mark.parametrize(
    ("file", "table", "order", "later"),
    [
        ([10, 30], [20, 30], ["delta", "sqlite", "sqlite", "delta"], [{TP: 30}, {TP: 30}]),
        ([10], [10], ["delta", "sqlite"], [{}, {}]),
    ],
)
def test_ledgers_that_differ_are_read_once_more(
    file: list[int],
    table: list[int],
    order: list[str],
    later: list[dict[TopicPartition, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables come first, however they are named: Spark starts, and the query goes on meanwhile."""
    read: list[str] = []
    ends = {"sqlite": file, "delta": table}

    def opened(address: LedgerAddress, *_: object, **__: object) -> Moving:
        return Moving(address.store.value, ends[address.store.value], read)

    monkeypatch.setattr(LedgerAddress, "open", opened)
    ledgers = [LedgerAddress.parse(one) for one in ("sqlite:a.db", "delta:/d")]
    reader = PositionReader(AuditRequest(ledgers=ledgers))
    stores = reader.read().stores
    assert read == order
    assert [one.store for one in stores] == ["sqlite", "delta"]
    assert [one.ledgers[0].later for one in stores] == later


def test_two_stores_of_one_name_are_distinguished(
    read: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dsn has not all of a place; each ledger is later read where it is."""

    def opened(address: LedgerAddress, *_: object, **__: object) -> Moving:
        return Moving("PostgreSQL h/d", [10 if "a" in address.shown else 20] * 9, [])

    monkeypatch.setattr(LedgerAddress, "open", opened)
    addresses = [LedgerAddress.parse(f"postgresql://h/d?options={one}") for one in "xa"]
    reader, positions = read(at(5), ledgers=addresses)
    names = [store.store for store in positions.stores]
    assert names == ["PostgreSQL h/d", "PostgreSQL h/d (postgresql://h/d?options=a)"]
    for ledger in positions.ledgers:
        (now,) = reader.readers[ledger.store].ledgers().values()
        assert now.heads == ledger.heads


@pytest.mark.parametrize("before", [False, True])
def test_a_batch_that_is_committed_now(
    before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two listings: no file is damaged, and offsets and batch are of one moment."""
    files = CheckpointFiles(tmp_path / "c", {TP: 0}, {TP: 10})
    files.plan(1, {TP: 20})
    committed = Checkpoint.committed

    def meanwhile(checkpoint: Checkpoint) -> Durable:
        if before:
            files.commit(1)
        found = committed(checkpoint)
        files.commit(1)
        return found

    monkeypatch.setattr(Checkpoint, "committed", meanwhile)
    found = CheckpointReading(str(files.folder), {}).committed()
    assert found.damaged == ()
    assert (found.committed, found.done) == ((1, {TP: 20}) if before else (0, {TP: 10}))


def test_a_committed_batch_without_offsets_is_damaged(tmp_path: Path) -> None:
    """Whatever the query does meanwhile: its offsets are lost."""
    files = CheckpointFiles(tmp_path / "c", {TP: 0}, {TP: 10})
    files.commit(1)
    found = CheckpointReading(str(files.folder), {}).committed()
    assert (found.committed, found.damaged) == (1, ("offsets/1 is missing",))


HEADS = heads_of(entry_of({}, {TP: OffsetRange(0, 10)}))
DONE = {TP: 10}
CHECKPOINT = CheckpointPositions(
    label="c", query_id="none", committed=0, planned=0, done=DONE, ahead=DONE, began={TP: 0}
)


def ledger(
    query: str,
    heads: Mapping[TopicPartition, Head] | None = None,
    back: TableRollback | None = None,
) -> StoredLedger:
    return StoredLedger(
        key=LedgerKey("t", query), heads=heads or {}, moved_at={}, unfinished_batch=0, rollback=back
    )


@pytest.mark.parametrize(
    ("ledgers", "chosen"),
    [
        ([ledger("a", HEADS), ledger("begun")], {"a"}),
        ([ledger("begun")], set()),
        ([ledger("a", HEADS), ledger("b", back=BACK)], {"a"}),
        ([ledger("b", back=BACK), ledger("begun")], {"b"}),
        ([ledger("b", back=BACK), ledger("c", back=BACK)], set()),
    ],
)
def test_a_ledger_without_heads(ledgers: list[StoredLedger], chosen: set[str]) -> None:
    """May be the query's where its table was taken back, and no other one may be."""
    # Not one whose first batch was begun and not finished: it would count as lost what is there.
    choice = LedgerChoice(None, None, CHECKPOINT)
    found = choice.chosen({one.key: one for one in ledgers})
    assert {key.query for key in found} == chosen


class Histories:
    """A reader of a table that several queries write to."""

    label = "table t"

    def __init__(self, **histories: Sequence[AppliedBatch]) -> None:
        self._histories = histories

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        found = {}
        for query, history in self._histories.items():
            found[LedgerKey("t", query)] = ledger(query, {TP: history[-1].head})
        return found

    def history(self, key: LedgerKey) -> Iterator[AppliedBatch]:
        return iter(self._histories[key.query])

    def row_origins(self, sink: str, columns: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        return iter(())

    def close(self) -> None: ...


class NewestOnly(Histories):
    """A reader of a table, which has the newest batches of its history alone."""

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        head = heads_of(entry_of({}, {TP: OffsetRange(60, 70)}))
        return {LedgerKey("t", "a"): replace(ledger("a", head), newest_only=True)}


def applied(
    start: int,
    until: int,
    verdict: str,
    gap: OffsetRange | None = None,
    topic_id: str | None = None,
) -> AppliedBatch:
    (head,) = heads_of(entry_of({}, {TP: OffsetRange(start, until)})).values()
    head = replace(head, topic_id=topic_id)
    return AppliedBatch(
        partition=TP, head=head, rows=1, verdict=verdict, gap=gap, applied_at="2026-11-23"
    )


@pytest.mark.parametrize(
    ("history", "start", "known_from"),
    [
        ([applied(5, 60, "first"), applied(60, 70, "next")], 5, 5),
        ([applied(50, 60, "next"), applied(60, 70, "next")], 0, 50),
        ([applied(60, 70, "gap accepted", OffsetRange(40, 60))], 0, 40),
        ([], 0, 60),  # the last batch itself has its range in the ledger
    ],
)
def test_what_a_table_must_have(history: list[AppliedBatch], start: int, known_from: int) -> None:
    """Since when that is known for certain is where the oldest batch of the history begins."""
    (claim,) = claims(NewestOnly(a=history), "t").values()
    assert (claim.range, claim.known_from) == (OffsetRange(start, 70), known_from)


def test_two_queries_that_write_into_one_table() -> None:
    """Each has its own range; what one has given up was given up where the other has not it."""
    one = [applied(0, 10, "first"), applied(20, 30, "gap accepted", OffsetRange(10, 20))]
    other = [applied(15, 18, "first")]
    (claim,) = claims(Histories(a=one, b=other), "t").values()
    assert set(claim.ranges) == {OffsetRange(0, 30), OffsetRange(15, 18)}
    assert claim.gaps == (OffsetRange(10, 15), OffsetRange(18, 20))


OLD, NEW = (applied(0, 50, "first", topic_id="A"), applied(0, 7, "first", topic_id="B"))
SAYS = [applied(0, 9, "next", topic_id="A"), NEW]


@pytest.mark.parametrize(
    ("of_one", "of_other", "known"),
    [
        # The other one's history says which is the older topic.
        ([OLD], SAYS, {}),
        (SAYS, [OLD], {}),
        # Else Kafka does: the rows of the topic that is there are looked for.
        ([OLD], [NEW], {TP.topic: "B"}),
        ([NEW], [OLD], {TP.topic: "B"}),
    ],
)
def test_two_queries_of_which_one_has_an_older_topic(
    of_one: list[AppliedBatch], of_other: list[AppliedBatch], known: dict[str, str]
) -> None:
    """The rows of the newer one are looked for, and not the other's."""
    (claim,) = claims(Histories(a=of_one, b=of_other), "t", known).values()
    assert (claim.topic_id, claim.ranges) == ("B", (OffsetRange(0, 7),))
    assert claim.older == {"A": OffsetRange(0, 50)}


@pytest.mark.parametrize(
    ("batches", "committed", "chosen"),
    [
        ({"delays": 4, "copy": 9}, 4, "delays"),
        ({"delays": 5, "copy": 9}, 4, "delays"),  # in doubt
        ({"delays": 4, "copy": 9}, 9, "copy"),
        ({"old": 4, "renamed": 9}, 8, "renamed"),
        ({"delays": 4, "copy": 5}, 4, "copy"),  # nothing shows which; the newest, and it is said
        ({"delays": 2, "copy": 9}, 4, "copy"),
    ],
)
def test_a_query_on_a_copy_of_the_checkpoint(
    batches: Mapping[str, int], committed: int, chosen: str
) -> None:
    """Both have one query id; the ledger that stands where the checkpoint does is its own."""
    every = {}
    for query, batch in batches.items():
        heads = heads_of(entry_of({}, {TP: OffsetRange(0, 10)}, batch_id=batch))
        every[LedgerKey("t", query)] = ledger(query, heads)
    checkpoint = replace(CHECKPOINT, query_id="query-1", committed=committed)
    (found,) = LedgerChoice(None, None, checkpoint).chosen(every)
    assert found.query == chosen
