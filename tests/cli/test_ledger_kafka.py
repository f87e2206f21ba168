"""`eo-listener ledger` with a real broker: repairs of a Kafka sink, and gaps in a source's log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eo_listener.cli import ledger as ledger_command
from eo_listener.client_config.identities import sink_transactional_id
from eo_listener.errors import InUseError, JavaError, SettingsError
from eo_listener.kafka.logs import NO_OFFSETS, Logs
from eo_listener.kafka.producers import BatchProducer
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.spark import java
from eo_listener.testing.made_up_entries import QUERY, entry_of
from tests.broker import Broker
from tests.cli.commands import document_of, error_of, invoke
from tests.cli.sqlite_ledger import Store
from tests.cli.test_txn_broker import one_process
from tests.sinks.kafka.conftest import TP, Place, place_at, write
from tests.sinks.kafka.frames import without_spark
from tests.topics import Topics

__all__ = ["one_process"]

pytestmark = pytest.mark.kafka

QUICK = ["--watch", "0", "--execute"]
GAP = ["--partition", "flights-0", "--gap", "3..8"]
RENAME = ["rename", "--to-query", "new"]


@pytest.fixture
def place(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    without_spark(monkeypatch)
    made = place_at(broker.bootstrap_servers)
    with made.opened:
        yield made


@pytest.fixture
def sink(place: Place) -> KafkaSink:
    """One that has written a batch."""
    made = place.sink()
    write(made)
    return made


def of(place: Place, broker: Broker, command: str, *words: str) -> list[str]:
    """The command line for the ledger of a place."""
    clients = ["--kafka-clients", str(broker.release.jars[0].parent)] if command != "show" else []
    return ["ledger", command, f"kafka:{place.ledger}", *words, "-b", place.servers, *clients]


def test_the_dry_run_fences_nobody_and_says_who_will_be(
    place: Place, broker: Broker, sink: KafkaSink
) -> None:
    """The plan, whose id is taken over, and what that means, before it is done."""
    name = sink_transactional_id(place.target, QUERY)
    for words in (RENAME, ["accept", *GAP]):
        command = of(place, broker, *words)
        document = document_of(*command)
        assert not document["executed"]
        (remark,) = document["remarks"]
        assert repr(name) in remark
        assert remark in invoke(*command).stdout
    described = BatchProducer({"bootstrap.servers": place.servers}, name, transaction_timeout=10)
    described.leave()
    write(sink, 1)  # by the same connections
    assert place.values() == ["row 0", "row 1"]


def test_a_gap_and_a_rename(place: Place, broker: Broker, sink: KafkaSink) -> None:
    """Both are done, and `ledger show` has both; the second time is refused in plain words."""
    accept, rename = of(place, broker, "accept", *GAP, *QUICK), of(place, broker, *RENAME, *QUICK)
    assert invoke(*accept).exit_code == 0
    assert "offset is 8" in str(error_of(*accept))
    document = document_of(*rename)
    assert (document["executed"], document["heads"]) == (True, 1)
    assert "already has that name" in str(error_of(*rename))
    show = of(place, broker, "show", "--history", "5")
    (ledger,) = document_of(*show)["ledgers"]
    assert ledger["query"] == "new"
    assert [head["next_offset"] for head in ledger["heads"]] == [8]
    assert [(one["verdict"], one["gap"]) for one in ledger["history"]] == [
        ("next", None),
        ("gap accepted", [3, 8]),
        (f"renamed from {place.target}, query {QUERY}", None),
    ]
    assert "new" in invoke(*show).stdout


@pytest.mark.parametrize("command", [RENAME, ["accept", *GAP]])
def test_a_query_that_runs(
    place: Place,
    broker: Broker,
    sink: KafkaSink,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is seen by its open transaction, by an id that was taken over, and by the ledger."""
    name = sink_transactional_id(place.target, QUERY)

    def producer() -> BatchProducer:
        made = BatchProducer({"bootstrap.servers": place.servers}, name, transaction_timeout=60)
        made.take_over(10, topic=place.target)
        return made

    def refused(*more: str, meanwhile: Any = None) -> str:
        clock = SimpleNamespace(sleep=meanwhile, monotonic=time.monotonic)
        monkeypatch.setattr(ledger_command, "time", clock)
        error = error_of(*of(place, broker, *command, *more))
        assert isinstance(error, InUseError)
        return str(error)

    live = producer()
    live.begin()
    live.send(place.target, b"under way")
    live.flush(10)
    assert f"'{name}' is Ongoing" in refused()
    live.commit(10)
    live.leave()
    assert f"'{name}'" in refused("--execute", meanwhile=lambda _: producer().leave())
    assert "flights-0" in refused("--execute", meanwhile=lambda _: write(sink, 1))
    assert sink.applied(QUERY)[TP].range == OffsetRange(3, 6)
    assert sink.applied("new") == {}


def test_without_java(
    place: Place, broker: Broker, sink: KafkaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is done all the same, for it is safe; what cannot be looked at is said."""

    def absent(*_: Any, **__: Any) -> Any:
        raise JavaError("no Java was found")

    monkeypatch.setattr(java, "find", absent)
    address = f"kafka://{place.servers}/{place.ledger}"
    answer = invoke("ledger", "accept", address, *GAP, *QUICK)
    assert answer.exit_code == 0
    assert "no Java was found" in answer.stdout
    assert sink.applied(QUERY)[TP].range == OffsetRange(8, 8)
    assert isinstance(error_of(*of(place, broker, "accept", *GAP, *QUICK)), JavaError)


@pytest.fixture
def source(broker: Broker) -> TopicPartition:
    """Offsets 4 to 19 are there."""
    topics = Topics(broker.bootstrap_servers)
    tp = TopicPartition(topics.create(partitions=1), 0)
    topics.fill(tp.topic, 20)
    topics.forget_before(tp.topic, {0: 4})
    return tp


def store_of(folder: Path, tp: TopicPartition, topic_id: str | None) -> Store:
    """A file in which the partition is applied up to 2."""
    made = Store(folder / "delays.db")
    made.write(entry_of({}, {tp: OffsetRange(0, 2)}, topic_id=topic_id))
    return made


def accept(store: Store, broker: Broker, tp: TopicPartition, gap: str, *more: str) -> list[str]:
    words = ["ledger", "accept", store.address, "--partition", str(tp), "--gap", gap]
    return [*words, "-b", broker.bootstrap_servers, *more]


def untouched(store: Store) -> bool:
    (head,) = store.heads().values()
    return head.range.until == 2


def test_a_dry_run_says_what_is_given_up(
    broker: Broker, source: TopicPartition, tmp_path: Path
) -> None:
    """Whether Kafka has it still, and whether the log begins later than the gap ends."""
    with closing(Logs({"bootstrap.servers": broker.bootstrap_servers})) as logs:
        ids = logs.snapshot(NO_OFFSETS, [source], time.monotonic() + 10).topic_ids
    store = store_of(tmp_path, source, ids[source.topic])
    for gap, offsets, in_log, part in (
        ("2..4", 2, 0, "2 offsets"),
        ("2..3", 1, 0, "3..4"),  # will be another gap
        ("2..20", 18, 16, "16 of these offsets, 4..20"),
    ):
        command = accept(store, broker, source, gap)
        document = document_of(*command)
        assert (document["offsets"], document["in_log"]) == (offsets, in_log)
        assert document["not_compared"] is None
        assert part in invoke(*command).stdout
    assert untouched(store)
    invoke(*accept(store, broker, source, "2..4", *QUICK))
    (head,) = store.heads().values()
    assert head.range.until == 4


@pytest.mark.parametrize(
    ("topic_id", "gap", "part"),
    [
        (None, "2..21", "end at 20"),  # what will be written there would never be read
        ("tv9Lg1mUQ5mX5yWk4vcVXA", "2..4", "is not the topic"),  # its offsets are others
    ],
)
def test_a_gap_that_the_log_cannot_have_is_refused(
    topic_id: str | None,
    gap: str,
    part: str,
    broker: Broker,
    source: TopicPartition,
    tmp_path: Path,
) -> None:
    """Beyond the end of the log, and of another topic of the name."""
    store = store_of(tmp_path, source, topic_id)
    error = error_of(*accept(store, broker, source, gap, *QUICK))
    assert isinstance(error, SettingsError)
    assert part in str(error)
    assert untouched(store)


def test_a_topic_that_is_not_there_says_nothing_of_a_gap(broker: Broker, tmp_path: Path) -> None:
    """It is said that the gap was not compared, and why."""
    nowhere = TopicPartition("nowhere", 0)
    store = store_of(tmp_path, nowhere, None)
    assert str(nowhere) in document_of(*accept(store, broker, nowhere, "2..4"))["not_compared"]
