"""What rights `eo-listener txn` needs, on a broker with TLS, SCRAM and ACLs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from eo_listener.cli import app
from eo_listener.model.errors import EoListenerError, KafkaError, UnavailableError
from eo_listener.model.offsets import TopicPartition
from tests import hanging
from tests.secured import PASSWORDS, Secured
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ACL = "--allow-principal User:carol --operation"


@contextmanager
def left_open(servers: str, name: str, topic: str) -> Iterator[None]:
    """A transaction that is at work all the time; it is committed at the end."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "log_level": "0"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value="open", partition=0)
    assert producer.flush(30) == 0
    yield
    producer.commit_transaction(30)


def test_what_is_missing_is_named_until_it_is_ended(secured: Secured) -> None:
    """A client that may not see all cannot say that one hangs, and may not end it.

    Also one that is kept from a single id, whose healthy transaction nobody names to it.
    """
    inside, producer_id = secured.broker.bootstrap_servers, 800_000_000 + os.getpid()
    topic = Topics(inside).create(partitions=1)
    with left_open(inside, "first", topic):
        pass  # from here on there are coordinators
    with hanging.unverified(inside):
        hanging.append(inside, TopicPartition(topic, 0), producer_id)
    login = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": secured.keys.authority_file,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "carol",
        "sasl.password": PASSWORDS["carol"],
    }
    more = ["-b", secured.broker.addresses("SCRAM")]
    more += [word for name, text in login.items() for word in ("-X", f"{name}={text}")]
    more += ["--kafka-clients", str(secured.broker.release.jars()[0].parent)]

    def run(*words: str) -> Any:
        answer = CliRunner().invoke(app, ["txn", *words, *more, "--json"])
        if isinstance(answer.exception, EoListenerError):
            raise answer.exception
        assert PASSWORDS["carol"] not in answer.stdout
        return json.loads(answer.stdout)

    def why(*words: str) -> str:
        (found,) = run("list", "-t", topic, *words)["transactions"]
        assert found["verdict"] == "not known"
        return str(found["why_not_known"])

    assert f"{ACL} Describe --operation DescribeConfigs --cluster" in why()
    secured.allow("carol", "BROKER", "kafka-cluster", "DESCRIBE")
    assert f"{ACL} Describe --operation DescribeConfigs --cluster" in why()
    secured.allow("carol", "BROKER", "kafka-cluster", "DESCRIBE_CONFIGS")
    assert f"{ACL} Describe --transactional-id '*'" in why()
    abort = (
        "abort",
        "--partition",
        f"{topic}-0",
        "--producer-id",
        str(producer_id),
        "--watch",
        "0",
    )
    with pytest.raises(UnavailableError, match="not known whether"):
        run(*abort, "--execute")
    secured.allow("carol", "TRANSACTIONAL_ID", "*", "DESCRIBE")
    (found,) = run("list", "-t", topic)["transactions"]
    assert found["verdict"] == "hanging"
    with pytest.raises(KafkaError, match=f"{ACL} ClusterAction --cluster"):
        run(*abort, "--execute")
    assert run("list", "-t", topic)["transactions"], "nothing was changed"
    secured.allow("carol", "BROKER", "kafka-cluster", "CLUSTER_ACTION")
    assert run(*abort, "--execute")["ended"] is True
    assert run("list", "-t", topic)["transactions"] == []
    healthy = f"healthy-{os.getpid()}"
    with left_open(inside, healthy, topic), secured.denied("carol", "TRANSACTIONAL_ID", healthy):
        assert f"ACLs keep transactional ids from this client (LITERAL:{healthy})" in why()
