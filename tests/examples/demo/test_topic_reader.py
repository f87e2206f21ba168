"""The reader of the demo on a real topic: what is committed is shown, at its moment, and judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer

from examples.demo import topic_reader
from examples.demo.demo_settings import DemoStore
from examples.demo.demo_target import DemoTarget
from examples.demo.read_records import TORN
from examples.demo.stored_rows import Rows
from examples.demo.topic_reader import TopicReader
from tests.broker import Broker
from tests.topics import Topics, unique

pytestmark = pytest.mark.kafka

FLIGHT = json.dumps({"origin": "EWR", "hour": 9, "dep_delay": 4})


class Copied:
    """A target topic of two partitions, with a producer that has a transaction open."""

    def __init__(self, servers: str) -> None:
        self.topic = Topics(servers).create("copied", 2)
        self.servers = servers
        self._producer = Producer(
            {"bootstrap.servers": servers, "transactional.id": unique("copies"), "log_level": 0}
        )
        self._producer.init_transactions(30)
        self._producer.begin_transaction()

    def send(self, batch: int, *offsets: int, target: int = 0) -> None:
        for offset in offsets:
            named = {"partition": 0, "offset": offset, "batch": batch}
            headers: dict[str, str | bytes | None] = {key: str(n) for key, n in named.items()}
            self._producer.produce(self.topic, FLIGHT, partition=target, headers=headers)
        self._producer.flush(30)

    def commit(self) -> None:
        self._producer.commit_transaction(30)
        self._producer.begin_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction(30)
        self._producer.begin_transaction()


@pytest.fixture
def copied(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Copied:
    made = Copied(broker.bootstrap_servers)
    monkeypatch.setattr(topic_reader, "TARGET", made.topic)
    return made


@pytest.fixture
def reader(copied: Copied) -> Iterator[TopicReader]:
    where = DemoTarget(store=DemoStore.KAFKA, where=copied.servers, label="")
    with closing(TopicReader(where)) as opened:
        yield opened


def test_a_batch_is_shown_with_its_commit(copied: Copied, reader: TopicReader) -> None:
    """Nothing of an open or aborted transaction; each round reads on, markers at the end too."""
    copied.send(0, 0, 1)
    copied.abort()
    copied.send(0, 0, 1)
    copied.send(0, 2, target=1)
    reader.read()
    assert reader.counted == 0
    copied.commit()
    reader.read()
    assert reader.counted == 3
    assert [(one.origin, one.minutes) for one in reader.delays] == [("EWR", 4.0)]
    copied.send(1, 3)
    copied.commit()
    reader.read()
    reader.read()
    report = reader.report()
    assert (report.rounds, report.batches, report.faults) == (4, 2, {})
    assert reader.count({0: 4}) == ({0: Rows(found=4, records=4)}, 4)


def test_a_batch_in_two_transactions_is_found(copied: Copied, reader: TopicReader) -> None:
    """By the marker between its records."""
    copied.send(0, 0)
    copied.commit()
    copied.send(0, 1)
    copied.commit()
    reader.read()
    assert reader.counted == 2
    assert reader.report().faults == {TORN: 1}


def test_a_kafka_that_is_away_is_no_round(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read stays; no round has ended."""
    monkeypatch.setattr(topic_reader, "_TIMEOUT", 0.5)
    away = DemoTarget(store=DemoStore.KAFKA, where="127.0.0.1:1", label=copied.topic)
    with closing(TopicReader(away)) as reader:
        reader.read()
        assert (reader.counted, reader.report().rounds) == (0, 0)
