"""What moves, ends or cannot be read between two readings of an audit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from eo_listener.audit.positions import Positions
from eo_listener.cli import position_reader
from eo_listener.cli.position_reader import AuditRequest, PositionReader
from eo_listener.model.ledger import AppliedBatch, LedgerKey, StoredLedger
from eo_listener.model.offsets import OffsetRange, Position, TopicPartition
from eo_listener.preflight.facts import GroupFacts
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of
from tests.cli.checkpoint_files import CheckpointFiles, StoreFile

TP = TopicPartition("flights", 0)
PROPERTIES = {"bootstrap.servers": "k:9092"}

Held = Mapping[TopicPartition, Position] | None
Readings = Callable[..., tuple[PositionReader, Positions]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> CheckpointFiles:
    """Batch 0 is committed, up to offset 10."""
    made = CheckpointFiles(tmp_path / "c", {TP: 0})
    made.plan(0, {TP: 10})
    made.commit(0)
    return made


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
    store = StoreFile(tmp_path / "s.db")
    store.apply(entry_of({}, {TP: OffsetRange(0, 10)}))
    ledgers = [LedgerAddress.parse(f"sqlite:{store.path}")]
    _, positions = read(at(5), at(5), at(5), at(10), ledgers=ledgers)
    assert positions.groups[0].after == at(10)


def test_a_topic_that_no_group_holds_yet_is_waited_for(tmp_path: Path, read: Readings) -> None:
    """It is new to the query, whose listener commits it a moment later."""
    new = TopicPartition("weather", 0)
    made = CheckpointFiles(tmp_path / "c", {TP: 0, new: 0})
    made.plan(0, {TP: 10, new: 5})
    made.commit(0)
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
    monkeypatch.setattr(
        LedgerAddress,
        "open",
        lambda self, *_, **__: Moving(self.store.value, ends[self.store.value], read),
    )
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

    def opened(address: LedgerAddress, *_: object, **__: object) -> SimpleNamespace:
        until = 10 if "a" in address.shown else 20
        heads = heads_of(entry_of({}, {TP: OffsetRange(0, until)}))
        key = LedgerKey("t", QUERY)
        ledger = StoredLedger(key=key, heads=heads, moved_at={})
        return SimpleNamespace(
            label="PostgreSQL h/d",
            ledgers=lambda: {key: ledger},
            history=lambda _: iter(()),
            close=lambda: None,
        )

    monkeypatch.setattr(LedgerAddress, "open", opened)
    addresses = [LedgerAddress.parse(f"postgresql://h/d?options={one}") for one in "xa"]
    reader, positions = read(at(5), ledgers=addresses)
    names = [store.store for store in positions.stores]
    assert names == ["PostgreSQL h/d", "PostgreSQL h/d (postgresql://h/d?options=a)"]
    for ledger in positions.ledgers:
        (now,) = reader.readers[ledger.store].ledgers().values()
        assert now.heads == ledger.heads
