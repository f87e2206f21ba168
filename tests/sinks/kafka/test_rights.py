"""What the sink's user must be allowed to do, on a broker that allows nothing else."""

from __future__ import annotations

import re
import shlex

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # no __all__
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from eo_listener.devtools.broker import Listener
from eo_listener.model.errors import SinkError
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.testing.made_up_entries import QUERY
from tests.conftest import StartBroker
from tests.secured import log_lines
from tests.sinks.kafka.conftest import Place, batch, put, table
from tests.sinks.kafka.frames import without_spark
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PASSWORD = "planted-secret"  # noqa: S105  # of a broker that lives for this test
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def grant(admin: AdminClient, command: str) -> tuple[str, str]:
    """Do what a command of kafka-acls says; return what it is about."""
    words = shlex.split(command)
    assert words[:1] == ["kafka-acls"]
    assert words[words.index("--allow-principal") + 1] == "User:al"
    kind = words[-1] if words[-1] == "--cluster" else words[-2]
    name = "kafka-cluster" if kind == "--cluster" else words[-1]
    resource = {"--cluster": "BROKER"}.get(kind, kind[2:].replace("-", "_").upper())
    for at, word in enumerate(words):
        if word == "--operation":
            operation = re.sub(r"(?<!^)(?=[A-Z])", "_", words[at + 1]).upper()
            binding = AclBinding(
                ResourceType[resource], name, ResourcePatternType.LITERAL, "User:al", "*",
                AclOperation[operation], AclPermissionType.ALLOW,
            )  # fmt: skip
            for done in admin.create_acls([binding]).values():
                done.result(30)
    return kind, name


def lacking(sink: KafkaSink) -> str | None:
    """What is said when a batch is refused; None where it is written."""
    try:
        sink.applied(QUERY)
        put(sink, batch({}), table("a"))
    except SinkError as error:
        return f"{error}"
    return None


def test_each_missing_right_is_named(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who types what each error says can write in the end, and has no right that is not needed."""
    broker = start_broker(
        listeners=[
            Listener(
                name="PLAIN",
                security_protocol="SASL_PLAINTEXT",
                properties={
                    "sasl.enabled.mechanisms": "PLAIN",
                    "plain.sasl.jaas.config": f'{MODULE} required user_al="{PASSWORD}";',
                },
            )
        ],
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
    )
    topics = Topics(broker.bootstrap_servers)
    target = topics.create("target")
    place = Place(
        servers=broker.addresses("PLAIN"), topics=topics, target=target, ledger=unique("ledger")
    )
    without_spark(monkeypatch)
    options = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{MODULE} required username="al" password="{PASSWORD}";',
    }
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    given: list[tuple[str, str]] = []
    with place.opened, log_lines() as lines:
        while True:
            sink = place.sink(options=options)
            says = lacking(sink)
            if says is None:
                break
            commands = says.partition("cluster: ")[2]
            given += [grant(admin, command) for command in commands.split("; ")]
            assert PASSWORD not in says
            assert len(given) < 10, given
    assert PASSWORD not in "".join(lines)
    assert set(given) == {
        ("--topic", place.ledger),
        ("--topic", target),
        ("--transactional-id", f"eo-listener/{target}/{QUERY}"),
    }
