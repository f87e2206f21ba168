"""What a check for a KafkaSink finds on a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from eo_listener.client_config.identities import sink_transactional_id
from eo_listener.preflight.findings import Level, to_act_on
from tests.broker import Broker
from tests.preflight.checking import check_sink
from tests.topics import Topics, unique

pytestmark = pytest.mark.kafka


def test_all_is_well(broker: Broker) -> None:
    """A topic that is there, a ledger that is to be made, a query that may run."""
    target = Topics(broker.bootstrap_servers).create("target", 2)
    found = check_sink(
        broker.bootstrap_servers,
        target,
        ledger_topic=unique("ledger"),
        query="q",
        group=unique("g"),
    )
    assert not to_act_on(found)
    whats = [one.what for one in found]
    assert "2 partitions; the client may write to it (Write)" in whats
    assert "it does not exist yet: the first batch makes it" in whats
    assert "the client may write with it (Write)" in whats
    assert "transaction.max.timeout.ms is 900000: transaction_timeout fits" in whats


def test_what_is_wrong(broker: Broker) -> None:
    """A missing target, a ledger that deletes, dead letters without keys, a time-out too long."""
    topics = Topics(broker.bootstrap_servers)
    ledger = topics.create("ledger", 1)
    dead = topics.create("dead", 1, cleanup_policy="compact")
    absent = unique("absent")
    found = check_sink(
        broker.bootstrap_servers,
        absent,
        ledger_topic=ledger,
        dead_letters=dead,
        transaction_timeout=901.0,
    )
    problems = {one.about: one for one in to_act_on(found)}
    assert {one.level for one in problems.values()} == {Level.PROBLEM}
    assert problems.keys() == {
        f"topic {absent}",
        f"topic {dead}",
        f"ledger {ledger}",
        f"cluster {broker.bootstrap_servers}",
    }
    assert "below transaction_timeout=901 s" in problems[f"cluster {broker.bootstrap_servers}"].what
    assert "cleanup.policy=compact" in problems[f"ledger {ledger}"].advice
    assert not Topics(broker.bootstrap_servers).exists(absent)


def test_a_query_that_runs_is_not_fenced(broker: Broker) -> None:
    """The right to its transactional id is tried, and its transaction goes on."""
    servers = broker.bootstrap_servers
    target = Topics(servers).create("target", 1)
    settings = {"bootstrap.servers": servers, "log_level": 0}
    own = sink_transactional_id(target, "q")
    live = Producer({**settings, "transactional.id": own})
    live.init_transactions(30)
    begin(live, target)
    found = check_sink(servers, target, ledger_topic=unique("ledger"), query="q")
    assert "the client may write with it (Write)" in [one.what for one in found]
    live.commit_transaction(30)
    Producer({**settings, "transactional.id": own}).init_transactions(30)
    with pytest.raises(KafkaException, match="_FENCED"):  # as it would be, had the check taken it
        begin(live, target)


def begin(producer: Producer, topic: str) -> None:
    """Begin a transaction, and wait until a record is in it."""
    producer.begin_transaction()
    producer.produce(topic, b"a")
    producer.flush(30)
