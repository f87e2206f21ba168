"""Options of one client in the names of the other, for commands and for producers."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.client_config.java_names import java_names
from eo_listener.client_config.kafka_options import (
    Partitioner,
    java_properties,
    producer_properties,
)
from eo_listener.client_config.sasl import LoginModule
from eo_listener.errors import SettingsError

SERVERS = {"bootstrap.servers": "b:9092"}
PLANTED = "planted-secret"
KEY = f"-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----\n"


def test_without_a_login() -> None:
    """What tunes a client is left out."""
    tuned = {**SERVERS, "socket.timeout.ms": "7", "client.id": "x", "debug": "all"}
    assert java_names(tuned) == {**SERVERS, "security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("sasl.mechanism", "PLAIN"),
        ("sasl.mechanism", "SCRAM-SHA-256"),
        ("sasl.mechanisms", "scram-sha-512"),
    ],
)
def test_a_user_and_a_password(name: str, mechanism: str) -> None:
    """As Java's login module has them."""
    login = {"sasl.username": "alice", "sasl.password": 'so "quoted"\\'}
    given = {**SERVERS, "security.protocol": "sasl_plaintext", name: mechanism, **login}
    found = java_names(given)
    assert found["security.protocol"] == "SASL_PLAINTEXT"
    assert found["sasl.mechanism"] == mechanism.upper()
    module = LoginModule.parse(found["sasl.jaas.config"])
    assert dict(module.options) == {"username": "alice", "password": 'so "quoted"\\'}
    assert ("Scram" in module.name) == mechanism.upper().startswith("SCRAM")


def test_certificates(tmp_path: Path) -> None:
    """Files are read, since Java takes key and chain as texts only where they are two."""
    files = {"ca": "authority", "certificate": "chain", "key": KEY}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    given = {f"ssl.{name}.location": str(tmp_path / name) for name in files}
    found = java_names(
        {**SERVERS, "security.protocol": "SSL", **given, "ssl.key.password": PLANTED}
    )
    assert found == {
        **SERVERS,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "authority",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "chain",
        "ssl.keystore.key": KEY,
        "ssl.key.password": PLANTED,
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_a_key_store_and_no_check_of_names() -> None:
    """PKCS#12 is read by both; Java writes `none` as an empty text."""
    store = {"ssl.keystore.location": "/dora.p12", "ssl.keystore.password": PLANTED}
    check = {"ssl.endpoint.identification.algorithm": "none"}
    found = java_names({**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
                        **store, **check})  # fmt: skip
    assert found["ssl.keystore.type"] == "PKCS12"
    assert {**found, **store} == found
    assert found["ssl.endpoint.identification.algorithm"] == ""


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification"),
        ({"security.protocol": "SASL_SSL", "sasl.kerberos.keytab": PLANTED}, "kerberos.keytab"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "SCRAM-SHA-256"),
        ({"security.protocol": "SASL_SSL"}, "SCRAM-SHA-256"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nosuch/ca"}, "ssl.ca.location"),
        (
            {
                "security.protocol": "SSL",
                "ssl.certificate.pem": "chain",
                "ssl.key.pem": f"-----BEGIN RSA PRIVATE KEY-----\n{PLANTED}",
            },
            "openssl pkcs8",
        ),
    ],
)
def test_what_java_cannot_be_given(given: dict[str, str], named: str) -> None:
    """It is refused by its name, and no value is shown: nothing is left out of a login."""
    with pytest.raises(SettingsError) as raised:
        java_names({**SERVERS, **given})
    assert named in str(raised.value)
    assert PLANTED not in str(raised.value)


def test_what_both_clients_have() -> None:
    """Options that both clients have are translated to librdkafka's names."""
    assert producer_properties(
        {
            "kafka.linger.ms": "20",
            "kafka.compression.type": "zstd",
            "kafka.max.request.size": "2000000",
            "kafka.buffer.memory": "33554432",
            "kafka.acks": "-1",
            "kafka.enable.idempotence": "True",
            "kafka.bootstrap.servers": "host:1",
            "kafka.sasl.jaas.config": "secret",
            "topic": "t",
            "linger.ms": "7",
        }
    ) == {
        "linger.ms": "20",
        "compression.type": "zstd",
        "message.max.bytes": "2000000",
        "queue.buffering.max.kbytes": "32768",
    }


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("kafka.acks", "1"),
        ("kafka.enable.idempotence", "false"),
        ("kafka.transactional.id", "mine"),
        ("kafka.transaction.timeout.ms", "1"),
        ("kafka.partitioner.ignore.keys", "true"),
        ("kafka.interceptor.classes", "com.example.I"),
        ("kafka.value.serializer", "com.example.S"),
        ("kafka.buffer.memory", "much"),
    ],
)
def test_what_is_refused(option: str, value: str) -> None:
    """A refused option is named in the error, and its value is not."""
    with pytest.raises(SettingsError, match=option) as caught:
        producer_properties({option: value})
    assert "com.example" not in str(caught.value)


def test_a_partitioner_is_for_java_alone() -> None:
    """It is told of the producer's other settings, but for those of the login."""
    options = {
        "kafka.partitioner.class": " com.example.P ",
        "kafka.partitioner.slots": "7",
        "kafka.linger.ms": "20",
        "kafka.ssl.key.password": "hunter2",
        "kafka.sasl.jaas.config": "hunter2",
        "topic": "t",
    }
    assert producer_properties(options) == {"linger.ms": "20"}
    assert "partitioner.class" not in java_properties(options)
    found = Partitioner.from_options(options)
    assert found is not None
    assert found.argument() == {
        "partitioner": "com.example.P",
        "partitionerProperties": {"partitioner.slots": "7", "linger.ms": "20"},
    }
    assert Partitioner.from_options({"kafka.linger.ms": "20"}) is None
