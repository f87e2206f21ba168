"""Repairs of a ledger in a topic: the chapter, and whom a transactional id fences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

import pytest

from eo_listener.errors import (
    ForeignWriterError,
    InUseError,
    KafkaError,
    OutcomeUnknownError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.kafka.producers import BatchProducer, Stage
from eo_listener.model.ledger import Unexpected
from eo_listener.offsets import OffsetRange
from eo_listener.sinks.kafka.ledger_repair import KafkaLedgerRepair
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import QUERY, entry_of
from tests.sinks.chapters.ledger_repair import (
    BOTH,
    NEW,
    InterruptedRepairs,
    LedgerRepairs,
    history,
    planned,
    rename,
)
from tests.sinks.chapters.store import TP, once
from tests.sinks.kafka import test_unfenced as unfenced
from tests.sinks.kafka.conftest import KafkaStore, batch, put

pytestmark = pytest.mark.kafka

FIRST = {TP: OffsetRange(0, 3)}


class TestLedgerRepairs(LedgerRepairs):
    """In a transaction under the id of the sink whose ledger it is."""

    def test_history_and_targets_go_along(self, written: KafkaStore) -> None:
        """The ids of the topics that hold the rows are in the ledger of the new name."""
        repair = written.repair()
        repair.rename(rename(written, repair))
        assert history(written, repair) == []
        written.write({TP: OffsetRange(3, 5)}, 1, query=NEW)
        records = repair.reader.read(lambda _: True)
        assert set(records.targets(written.name, NEW)) == {written.name}

    def test_what_is_appended_after_the_repair_has_read(
        self, written: KafkaStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is counted before the commit: then nothing of the repair is there."""
        done, before = planned(written, written.repair(), is_rename=True), written.heads()
        begin, due = BatchProducer.begin, [True]

        def begun(producer: BatchProducer) -> None:
            if due:
                due.pop()
                written.write(FIRST, query=NEW)
            begin(producer)

        monkeypatch.setattr(BatchProducer, "begin", begun)
        with pytest.raises(InUseError, match=f"query '{NEW}' of {written.name}"):
            done()
        assert not due
        assert (written.heads(), set(written.heads(NEW))) == (before, {TP})

    def test_a_sink_of_the_new_name_that_has_read_before(self, written: KafkaStore) -> None:
        """What it appends is counted by it, and so is the repair: repeated, it is refused."""
        done, before = planned(written, written.repair(), is_rename=True), written.heads()
        other, entry = written.sink(), entry_of({}, FIRST, query=NEW)
        with once("sink.rows-written", done), pytest.raises(RetriableSinkError):
            written.put(other, entry)
        with pytest.raises(ForeignWriterError):
            written.put(other, entry)
        assert written.heads(NEW) == before
        assert len(written.rows()) == 7

    @pytest.mark.parametrize("is_sent", [True, False])
    def test_a_commit_without_an_answer(self, written: KafkaStore, is_sent: bool) -> None:
        """The ledger is read when nothing can end the transaction any more: then it is known."""
        done = planned(written, written.repair())
        with unanswered(is_sent=is_sent), nullcontext() if is_sent else pytest.raises(InUseError):
            done()
        assert written.heads()[TP].range.until == (8 if is_sent else 3)

    def test_a_commit_of_which_nothing_is_known(
        self, written: KafkaStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where the ledger cannot be read after it, neither success nor failure is said."""
        done = planned(written, written.repair())

        def away(*_: object) -> None:
            raise KafkaError("nobody answers", code="_TRANSPORT")

        monkeypatch.setattr(KafkaLedgerRepair, "_take_over", away)
        with unanswered(is_sent=False), pytest.raises(OutcomeUnknownError):
            done()

    def test_a_sink_by_other_topics(self, written: KafkaStore) -> None:
        """Kafka renames no topic, so rows stay where they are: a name is taken, and more topics."""
        repair, other = written.repair(), written.place.topics.create("other", 1)

        def plan(topics: str) -> str:
            sink = repair.key_of(topics)
            repair.check_rename(rename(written, repair, sink=sink))
            return sink

        with pytest.raises(SettingsError, match=written.name):
            plan(other)
        assert plan(f"{written.name}, {other}") == ",".join(sorted((other, written.name)))
        assert plan("my own name") == "my own name"
        before = written.heads()
        repair.rename(rename(written, repair, new=QUERY, sink="my own name"))
        assert written.place.sink(name="my own name").applied(QUERY) == before

    def test_another_query_that_hides_the_ledger(self, written: KafkaStore) -> None:
        """A transaction that is open in the ledger, of whomever, is waited for, and then named."""
        repair, place = written.repair(), written.place
        done = planned(written, repair)
        records = repair.reader.read(lambda _: True)
        at = records.partition(place.target, QUERY, repair.reader.partitions)
        servers = {"bootstrap.servers": place.servers}
        held = BatchProducer(servers, "another", transaction_timeout=60)
        held.take_over(10, topic=place.ledger)
        held.begin()
        held.send(place.ledger, b"{}", key=b"{}", partition=at)
        held.flush(10)
        written.write({TP: OffsetRange(3, 5)}, 1)
        with pytest.raises(SinkError, match=f"txn list -b .* --topic {place.ledger}"):
            done()
        held.commit(10)
        held.leave()


@contextmanager
def unanswered(*, is_sent: bool) -> Iterator[None]:
    """Lose the answer to a commit, or the commit."""
    commit = BatchProducer.commit

    def lost(producer: BatchProducer, timeout: float) -> None:
        if is_sent:
            commit(producer, timeout)
        producer.stage = Stage.COMMITTING
        raise KafkaError("committing the transaction failed", code="_TIMED_OUT")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchProducer, "commit", lost)
        yield


class TestInterruptedRepairs(InterruptedRepairs):
    """The query's own sink takes the transactional id over, and so does a repair."""

    points = ("sink.fenced", "sink.ledger-moved")
    late = ("sink.commit-sent",)
    batch_wins = points
    sleep = "sink.rows-written"

    @contextmanager
    def crash(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KafkaLedgerRepair, "_take_over", lambda self, name: None)
            patch.setattr(BatchProducer, "leave", lambda self: None)
            yield


class TestWithoutTransactions:
    """Rows are there before the ledger says so."""

    @pytest.fixture
    def written(self, store: KafkaStore) -> KafkaStore:
        """The store after a batch of six rows."""
        self.sink = store.place.plain_sink()
        unfenced.write(self.sink)
        return store

    @BOTH
    def test_a_batch_that_was_begun(self, written: KafkaStore, is_rename: bool) -> None:
        """Some of its rows may be there, and no head says so: it is refused, also in between."""
        repair = written.repair()
        done = planned(written, repair, is_rename=is_rename, gap=OffsetRange(6, 8))
        unfenced.fell(self.sink, batch(self.sink.applied(QUERY), 1), "sink.rows-written")
        assert repair.reader.ledgers()[written.key()].unfinished_batch == 1
        with pytest.raises(InUseError, match="batch 1 of query 'flights'"):
            done()
        unfenced.write(self.sink, 1, size=3)
        assert unfenced.numbers(written.place) == list(range(9))

    def test_a_gap(self, written: KafkaStore) -> None:
        """The record of the last batch gives way to the new head, but for what it says of rows."""
        repair = written.repair()
        planned(written, repair, gap=OffsetRange(6, 8))()
        assert self.sink.applied(QUERY)[TP].range == OffsetRange(8, 8)
        before = repair.reader.read(lambda _: True).batch(written.name, QUERY)
        assert before is not None
        assert (before.number, before.rows, before.moves) == (1, 6, {})
        unfenced.write(self.sink, 1)
        assert self.sink.applied(QUERY)[TP].range == OffsetRange(8, 14)
        assert unfenced.numbers(written.place) == [*range(6), *range(8, 14)]

    def test_a_rename(self, written: KafkaStore) -> None:
        """Rows written under the old name do not count as lost, whatever else is there."""
        repair, sink, place = written.repair(), self.sink, written.place
        repair.rename(rename(written, repair))
        assert sink.applied(QUERY) == {}
        entry = batch(sink.applied(NEW), 1, query=NEW)
        assert entry.moves[TP].range == OffsetRange(6, 9)
        assert put(sink, entry, unfenced.rows(entry)).unexpected == ()
        assert unfenced.numbers(place) == list(range(9))
        repair.rename(rename(written, repair, NEW, "again"))
        place.topics.fill(place.target, 1)
        entry = batch(sink.applied("again"), 2, query="again")
        found = put(sink, entry, unfenced.rows(entry)).unexpected
        assert {one.kind for one in found} == {Unexpected.FOREIGN}

    def test_a_batch_in_the_middle(self, written: KafkaStore) -> None:
        """Whoever appends last finds the other's records, and gives up."""
        entry = batch(self.sink.applied(QUERY), 1)
        done = planned(written, written.repair(), gap=OffsetRange(6, 8))

        def begin() -> None:
            with suppress(Killed), broken_off("sink.begun"):
                put(self.sink, entry, unfenced.rows(entry))

        with once("sink.fenced", begin), pytest.raises(InUseError, match="batch 1 "):
            done()
        assert self.sink.applied(QUERY)[TP].range == OffsetRange(0, 6)
