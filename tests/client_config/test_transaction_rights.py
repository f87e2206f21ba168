"""What rights `eo-listener txn` needs, on a broker with TLS, SCRAM and ACLs."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from typer.testing import CliRunner

from eo_listener.cli import app
from eo_listener.errors import EoListenerError, KafkaError
from eo_listener.offsets import TopicPartition
from tests import hanging
from tests.secured import PASSWORDS, Secured
from tests.topics import Topics, in_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ACL = "--allow-principal User:carol --operation"


def test_what_is_missing_is_named_until_it_is_ended(secured: Secured) -> None:
    """Without Describe on every id none is said to hang; without Write on its id none is ended."""
    inside, producer_id = secured.broker.bootstrap_servers, 800_000_000 + os.getpid()
    topic, name = Topics(inside).create(partitions=1), f"open-{producer_id}"
    with hanging.unverified(inside):
        hanging.append(inside, TopicPartition(topic, 0), producer_id, written=1_600_000_000_000)
    producer = in_transaction(inside, name)
    producer.produce(topic, value="open", partition=0)
    assert producer.flush(30) == 0
    login = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": secured.keys.authority_file,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "carol",
        "sasl.password": PASSWORDS["carol"],
    }
    more = ["-b", secured.broker.addresses("SCRAM")]
    more += [word for key, text in login.items() for word in ("-X", f"{key}={text}")]
    more += ["--kafka-clients", str(secured.broker.release.jars[0].parent)]

    def run(*words: str) -> Any:
        answer = CliRunner().invoke(app, ["txn", *words, *more, "--json"])
        if isinstance(answer.exception, EoListenerError):
            raise answer.exception
        assert PASSWORDS["carol"] not in answer.stdout
        return json.loads(answer.stdout)

    for found in run("list", "-t", topic)["transactions"]:
        assert found["verdict"] == "not known"
        assert f"{ACL} Describe --transactional-id '*'" in found["why_not_known"]
    secured.allow("carol", "TRANSACTIONAL_ID", "*", "DESCRIBE")
    hangs, is_open = run("list", "-t", topic)["transactions"]
    assert (hangs["verdict"], is_open["transactional_id"]) == ("hanging", name)
    abort = ("abort", "--transactional-id", name, "--watch", "0", "--execute")
    with pytest.raises(KafkaError, match=f"{ACL} Write --transactional-id {name}"):
        run(*abort)
    assert len(run("list", "-t", topic)["transactions"]) == 2, "nothing was changed"
    secured.allow("carol", "TRANSACTIONAL_ID", name, "WRITE")
    assert run(*abort)["not_ended"] == {}
    (hangs,) = run("list", "-t", topic)["transactions"]
    assert hangs["verdict"] == "hanging"
