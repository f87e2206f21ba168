"""Repairs of a ledger in a topic: what they carry over, and who cannot come between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

import pytest

from eo_listener.kafka.batch_producer import BatchProducer
from eo_listener.model.errors import (
    ForeignWriterError,
    InUseError,
    KafkaError,
    OutcomeUnknownError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.model.ledger import Entry, LedgerKey, Unexpected
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.ledger_repair import KafkaLedgerRepair
from eo_listener.sinks.ledger_repair import Rename, plan_acceptance, plan_rename
from eo_listener.testing.faults import Killed, broken_off, hooked
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of
from tests.sinks.kafka import test_unfenced as unfenced
from tests.sinks.kafka.conftest import TP, Place, batch, put, table, write

pytestmark = pytest.mark.kafka

OTHER = TopicPartition("flights", 1)
NEW = "renamed"


def opened(place: Place) -> KafkaLedgerRepair:
    repair = KafkaLedgerRepair({"bootstrap.servers": place.servers}, place.ledger)
    return place.opened.enter_context(closing(repair))


@pytest.fixture
def repair(place: Place) -> KafkaLedgerRepair:
    return opened(place)


@pytest.fixture
def sink(place: Place) -> KafkaSink:
    """One that has written a batch of both partitions."""
    made = place.sink()
    ranges = {TP: OffsetRange(0, 3), OTHER: OffsetRange(0, 4)}
    put(made, entry_of({}, ranges), table("first"))
    return made


def plan(repair: KafkaLedgerRepair, place: Place, **new: str | None) -> Rename:
    ledgers = {key: one.heads for key, one in repair.reader.ledgers().items()}
    names = {"sink": None, "query": NEW, **new}
    return plan_rename(ledgers, LedgerKey(place.target, QUERY), **names)


def gap(repair: KafkaLedgerRepair, place: Place, start: int = 3, until: int = 8) -> Entry:
    key = LedgerKey(place.target, QUERY)
    heads = repair.reader.ledgers()[key].heads
    return plan_acceptance(heads, key, TP, OffsetRange(start, until), run_id="repair")


def planned(
    repair: KafkaLedgerRepair, place: Place, start: int = 3, *, is_rename: bool
) -> Callable[[], None]:
    """What does it, by what the ledger has now."""
    if is_rename:
        return partial(repair.rename, plan(repair, place))
    return partial(repair.accept, place.target, gap(repair, place, start, 8))


def history(repair: KafkaLedgerRepair, place: Place, query: str = QUERY) -> list[Any]:
    repair.reader.ledgers()
    return [
        (one.partition, one.verdict, one.head.range, one.gap)
        for one in repair.reader.history(LedgerKey(place.target, query))
    ]


@contextmanager
def once_at(point: str, act: Callable[[], object]) -> Iterator[list[bool]]:
    """Do it where `point` is reached first; whether it was refused there."""
    refused: list[bool] = []

    def reached(name: str) -> None:
        if name == point and not refused:
            refused.append(False)
            try:
                act()
            except (ForeignWriterError, SinkError):
                refused[0] = True

    with hooked(reached):
        yield refused
    assert refused, f"{point} was not reached"


def test_a_gap_is_accepted(place: Place, sink: KafkaSink, repair: KafkaLedgerRepair) -> None:
    """One head moves, which the history keeps; the sink that was there goes on behind the gap."""
    before = sink.applied(QUERY)
    repair.accept(place.target, gap(repair, place))
    heads = sink.applied(QUERY)
    assert heads[TP].range == OffsetRange(8, 8)
    assert (heads[TP].batch_id, heads[TP].query_id) == (0, before[TP].query_id)
    assert heads[OTHER] == before[OTHER]
    kept = [
        (TP, "next", OffsetRange(0, 3), None),
        (TP, "gap accepted", OffsetRange(8, 8), OffsetRange(3, 8)),
    ]
    assert history(repair, place) == kept
    write(sink, 1)
    assert sink.applied(QUERY)[TP].range == OffsetRange(8, 11)
    repair.accept(place.target, gap(repair, place, 11, 20))
    assert history(repair, place) == [
        *kept,
        (TP, "next", OffsetRange(8, 11), None),
        (TP, "gap accepted", OffsetRange(20, 20), OffsetRange(11, 20)),
    ]
    assert place.values() == ["first", "row 1"]


def test_a_query_is_renamed(place: Place, sink: KafkaSink, repair: KafkaLedgerRepair) -> None:
    """Heads, history and the ids of the targets go by the new name, and nothing by the old one."""
    repair.accept(place.target, gap(repair, place))
    before = sink.applied(QUERY)
    repair.rename(plan(repair, place, query=HOSTILE[0]))
    assert sink.applied(QUERY) == {}
    assert sink.applied(HOSTILE[0]) == before
    assert set(repair.reader.ledgers()) == {LedgerKey(place.target, HOSTILE[0])}
    assert history(repair, place) == []
    said = f"renamed from {place.target}, query {QUERY}"
    assert history(repair, place, HOSTILE[0]) == [
        (TP, "next", OffsetRange(0, 3), None),
        (TP, "gap accepted", OffsetRange(8, 8), OffsetRange(3, 8)),
        (TP, said, OffsetRange(8, 8), None),
        (OTHER, "next", OffsetRange(0, 4), None),
        (OTHER, said, OffsetRange(4, 4), None),
    ]
    put(sink, batch(before, 1, query=HOSTILE[0]), table("second"))
    records = repair.reader.read(lambda _: True)
    assert set(records.targets(place.target, HOSTILE[0])) == {place.target}
    assert place.values() == ["first", "second"]
    with pytest.raises(InUseError):
        repair.rename(
            Rename(old=LedgerKey(place.target, QUERY), new=LedgerKey("x", "y"), heads=before)
        )


def test_a_sink_of_the_old_name_finds_it_under_the_new_one(
    place: Place, sink: KafkaSink, repair: KafkaLedgerRepair
) -> None:
    """A driver that was asleep meanwhile is not written: its ledger is elsewhere, and is named."""
    late = batch(sink.applied(QUERY), 1)
    repair.rename(plan(repair, place))
    with pytest.raises(ForeignWriterError):
        put(sink, late, table("late"))
    moved = sink.moved_by("query-1")
    assert moved is not None
    assert set(moved) == {LedgerKey(place.target, NEW)}
    assert place.values() == ["first"]


@pytest.mark.parametrize("is_rename", [True, False])
def test_a_ledger_that_has_moved(
    place: Place, sink: KafkaSink, repair: KafkaLedgerRepair, is_rename: bool
) -> None:
    """What was planned on older heads is refused, and changes nothing."""
    done = planned(repair, place, is_rename=is_rename)
    write(sink, 1)
    before = sink.applied(QUERY)
    with pytest.raises(InUseError, match="flights-0"):
        done()
    assert sink.applied(QUERY) == before
    assert history(repair, place) == []
    assert sink.applied(NEW) == {}


def test_a_batch_that_is_under_way_is_fenced(
    place: Place, sink: KafkaSink, repair: KafkaLedgerRepair
) -> None:
    """It was judged before the repair, so nothing of it is written."""
    entry, planned = batch(sink.applied(QUERY), 1), gap(repair, place)
    accept = partial(repair.accept, place.target, planned)
    with once_at("sink.rows-written", accept), pytest.raises(ForeignWriterError):
        put(sink, entry, table("late"))
    assert sink.applied(QUERY)[TP].range == OffsetRange(8, 8)
    assert place.values() == ["first"]


@pytest.mark.parametrize("point", ["sink.fenced", "sink.ledger-moved", "sink.commit-sent"])
def test_a_sink_that_comes_back_in_the_middle(
    place: Place, sink: KafkaSink, repair: KafkaLedgerRepair, point: str
) -> None:
    """Its batch and the repair are never both there: one of them is refused."""
    entry, planned = batch(sink.applied(QUERY), 1), gap(repair, place)
    with once_at(point, partial(put, sink, entry, table("second"))) as refused:
        try:
            repair.accept(place.target, planned)
            is_repaired = True
        except InUseError:
            is_repaired = False
    assert refused == [is_repaired]
    heads = sink.applied(QUERY)
    assert heads[TP].range == (OffsetRange(8, 8) if is_repaired else OffsetRange(3, 6))
    assert place.values() == (["first"] if is_repaired else ["first", "second"])
    assert len(history(repair, place)) == (2 if is_repaired else 0)


@pytest.mark.parametrize("point", ["sink.fenced", "sink.ledger-moved"])
def test_a_sink_of_the_new_name_in_the_middle(
    place: Place, sink: KafkaSink, repair: KafkaLedgerRepair, point: str
) -> None:
    """It has an id of its own that is not fenced; two ledgers never become one all the same."""
    planned, other = plan(repair, place), place.sink(timeout=2)  # waits for the repair's end
    entry, before = entry_of({}, {TP: OffsetRange(0, 3)}, query=NEW), sink.applied(QUERY)
    with once_at(point, partial(put, other, entry, table("new"))) as refused:
        if point == "sink.fenced":
            with pytest.raises(InUseError, match=NEW):
                repair.rename(planned)
        else:
            repair.rename(planned)
    assert refused == [point != "sink.fenced"]
    assert (sink.applied(QUERY) == before) is not refused[0]
    assert (sink.applied(NEW) == before) is refused[0]


def test_what_is_appended_after_the_repair_has_read(
    place: Place, sink: KafkaSink, repair: KafkaLedgerRepair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is counted before the commit: then nothing of the repair is there."""
    planned, other, before = plan(repair, place), place.sink(), sink.applied(QUERY)
    begin, done = BatchProducer.begin, list[bool]()

    def begun(producer: BatchProducer) -> None:
        if not done:
            done.append(True)
            put(other, entry_of({}, {TP: OffsetRange(0, 3)}, query=NEW), table("new"))
        begin(producer)

    monkeypatch.setattr(BatchProducer, "begin", begun)
    with pytest.raises(InUseError, match=f"query '{NEW}' of {place.target}"):
        repair.rename(planned)
    assert done
    assert sink.applied(QUERY) == before
    assert set(sink.applied(NEW)) == {TP}


def test_a_sink_of_the_new_name_that_has_read_before(
    place: Place, sink: KafkaSink, repair: KafkaLedgerRepair
) -> None:
    """What it appends is counted by it, and so is the repair: it is repeated, and then refused."""
    planned, other = plan(repair, place), place.sink()
    entry, before = entry_of({}, {TP: OffsetRange(0, 3)}, query=NEW), sink.applied(QUERY)
    rename = partial(repair.rename, planned)
    with once_at("sink.rows-written", rename), pytest.raises(RetriableSinkError):
        put(other, entry, table("new"))
    with pytest.raises(ForeignWriterError):
        put(other, entry, table("new"))
    assert sink.applied(NEW) == before
    assert place.values() == ["first"]


@pytest.mark.parametrize("point", ["sink.fenced", "sink.ledger-moved"])
def test_killed_in_the_middle(
    place: Place, sink: KafkaSink, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Nothing of it is there; the next one, or the query, goes on at once."""
    killed = opened(place)
    planned = plan(killed, place)
    with monkeypatch.context() as patch, broken_off(point):
        patch.setattr(KafkaLedgerRepair, "_end", lambda self, name: None)
        patch.setattr(BatchProducer, "leave", lambda self: None)
        with pytest.raises(Killed):
            killed.rename(planned)
    repair = opened(place)
    before = sink.applied(QUERY)
    assert before[TP].range == OffsetRange(0, 3)
    assert sink.applied(NEW) == {}
    repair.rename(planned)
    assert sink.applied(NEW) == before
    assert sink.applied(QUERY) == {}


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_commit_without_an_answer(
    place: Place,
    sink: KafkaSink,
    repair: KafkaLedgerRepair,
    monkeypatch: pytest.MonkeyPatch,
    is_sent: bool,
) -> None:
    """The ledger is read when nothing can end the transaction any more: then it is known."""
    entry = gap(repair, place)
    commit = BatchProducer.commit

    def unanswered(producer: BatchProducer, timeout: float) -> None:
        if is_sent:
            commit(producer, timeout)
        producer.stage = type(producer.stage).COMMITTING
        raise KafkaError("committing the transaction failed", code="_TIMED_OUT")

    with monkeypatch.context() as patch:
        patch.setattr(BatchProducer, "commit", unanswered)
        if is_sent:
            repair.accept(place.target, entry)
        else:
            with pytest.raises(InUseError):
                repair.accept(place.target, entry)
    at = OffsetRange(8, 8) if is_sent else OffsetRange(0, 3)
    assert sink.applied(QUERY)[TP].range == at


def test_a_commit_of_which_nothing_is_known(
    place: Place, sink: KafkaSink, repair: KafkaLedgerRepair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the ledger cannot be read after it, neither success nor failure is said."""
    entry = gap(repair, place)

    def away(*_: object) -> None:
        raise KafkaError("nobody answers", code="_TRANSPORT")

    def unanswered(producer: BatchProducer, timeout: float) -> None:  # as it is called
        producer.stage = type(producer.stage).COMMITTING
        raise KafkaError("committing the transaction failed", code="_TIMED_OUT")

    monkeypatch.setattr(BatchProducer, "commit", unanswered)
    monkeypatch.setattr(KafkaLedgerRepair, "_take_over", away)
    with pytest.raises(OutcomeUnknownError):
        repair.accept(place.target, entry)


@pytest.mark.parametrize("is_rename", [True, False])
def test_a_batch_that_was_begun_without_transactions(place: Place, is_rename: bool) -> None:
    """Some of its rows may be there, which its heads do not say: it is refused, also in between."""
    made, repair = unfenced.open_sink(place), opened(place)
    unfenced.write(made)
    done = planned(repair, place, 6, is_rename=is_rename)
    unfenced.fell(made, batch(made.applied(QUERY), 1), "sink.rows-written")
    assert repair.reader.ledgers()[LedgerKey(place.target, QUERY)].begun == 1
    with pytest.raises(InUseError, match="batch 1 of query 'flights'"):
        done()
    unfenced.write(made, 1, size=3)
    assert sorted(unfenced.numbers(place)) == list(range(9))


def test_a_gap_without_transactions(place: Place) -> None:
    """The record of the last batch gives way to the new head, and what it says of rows stays."""
    made, repair = unfenced.open_sink(place), opened(place)
    unfenced.write(made)
    repair.accept(place.target, gap(repair, place, 6, 8))
    assert made.applied(QUERY)[TP].range == OffsetRange(8, 8)
    before = repair.reader.read(lambda _: True).batch(place.target, QUERY)
    assert before is not None
    assert (before.number, before.rows, before.moves) == (1, 6, {})
    unfenced.write(made, 1)
    assert made.applied(QUERY)[TP].range == OffsetRange(8, 14)
    assert sorted(unfenced.numbers(place)) == [*range(6), *range(8, 14)]


def test_a_rename_without_transactions(place: Place) -> None:
    """Rows that were written under the old name do not count as lost, whatever else is there."""
    made, repair = unfenced.open_sink(place), opened(place)
    unfenced.write(made)
    repair.rename(plan(repair, place))
    assert made.applied(QUERY) == {}
    entry = batch(made.applied(NEW), 1, query=NEW)
    assert entry.moves[TP].range == OffsetRange(6, 9)
    assert put(made, entry, unfenced.rows(entry)).unexpected == ()
    assert sorted(unfenced.numbers(place)) == list(range(9))
    ledgers = {key: one.heads for key, one in repair.reader.ledgers().items()}
    own = LedgerKey(place.target, NEW)
    repair.rename(plan_rename(ledgers, own, sink=None, query="again"))
    place.topics.fill(place.target, 1)
    entry = batch(made.applied("again"), 2, query="again")
    found = put(made, entry, unfenced.rows(entry)).unexpected
    assert {one.kind for one in found} == {Unexpected.FOREIGN}


def test_a_batch_without_transactions_in_the_middle(place: Place) -> None:
    """Whoever appends last finds the other's records, and gives up."""
    made, repair = unfenced.open_sink(place), opened(place)
    unfenced.write(made)
    planned, entry = gap(repair, place, 6, 8), batch(made.applied(QUERY), 1)
    done: list[str] = []

    def reached(name: str) -> None:
        if name == "sink.fenced" and not done:
            done.append(name)
            with suppress(Killed), broken_off("sink.begun"):
                put(made, entry, unfenced.rows(entry))

    with hooked(reached), pytest.raises(InUseError, match="batch 1 "):
        repair.accept(place.target, planned)
    assert made.applied(QUERY)[TP].range == OffsetRange(0, 6)


def test_a_sink_by_other_topics(place: Place, sink: KafkaSink, repair: KafkaLedgerRepair) -> None:
    """Kafka renames no topic, so rows stay where they are: a name is taken, and more topics."""
    other = place.topics.create("other", 1)
    with pytest.raises(SettingsError, match=place.target):
        repair.check_rename(plan(repair, place, sink=repair.key_of(other)))
    both = repair.key_of(f"{place.target}, {other}")
    assert both == ",".join(sorted((other, place.target)))
    repair.check_rename(plan(repair, place, sink=both))
    repair.check_rename(plan(repair, place, sink=repair.key_of("my own name")))
    before = sink.applied(QUERY)
    repair.rename(plan(repair, place, sink="my own name", query=None))
    assert place.sink(name="my own name").applied(QUERY) == before


def test_another_query_that_hides_the_ledger(
    place: Place, sink: KafkaSink, repair: KafkaLedgerRepair
) -> None:
    """A transaction that is open in the ledger, of whomever, is waited for, and then named."""
    entry = gap(repair, place)
    records = repair.reader.read(lambda _: True)
    at = records.partition(place.target, QUERY, repair.reader.partitions)
    held = BatchProducer({"bootstrap.servers": place.servers}, "another", transaction_timeout=60)
    held.take_over(10, topic=place.ledger)
    held.begin()
    held.send(place.ledger, b"{}", key=b"{}", partition=at)
    held.flush(10)
    write(sink, 1)
    with pytest.raises(SinkError, match=f"txn list -b .* --topic {place.ledger}"):
        repair.accept(place.target, entry)
    held.commit(10)
    held.leave()
