"""Where each sink says that its ledger is: as a command line takes it, and without a secret."""

from __future__ import annotations

import re

import pytest

from eo_listener import DeltaSink, IcebergSink, KafkaSink, PostgresSink, SqliteSink
from eo_listener.model.ledger import LedgerKey
from eo_listener.model.ledger_place import LedgerPlace, LedgerStore, PlacedSink
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.protocols import Sink
from eo_listener.sinks.ledger_address import EACH_FORM, LedgerAddress
from eo_listener.testing import MemorySink

_LOGIN = {"kafka.security.protocol": "SSL", "kafka.ssl.key.password": "hidden"}
_SERVERS = {"kafka.bootstrap.servers": "a:9092,b:9092"}


@pytest.mark.parametrize(
    ("sink", "address", "more"),
    [
        (SqliteSink("/x.db", table="t"), "sqlite:/x.db", ""),
        (PostgresSink("postgresql://u:hidden@h:5433/d", table="t"), "postgresql://u@h:5433/d", ""),
        (
            PostgresSink("host=/var/run dbname=d user=u password=hidden", table="t"),
            "postgresql://?user=u&dbname=d&host=/var/run",
            "",
        ),
        (PostgresSink(lambda: "hidden", table="t"), "postgresql://USER@HOST/DATABASE", ""),
        (KafkaSink(_SERVERS, "t"), "kafka:eo-ledger", ""),
        (
            KafkaSink({**_SERVERS, **_LOGIN}, "t", ledger_topic="l"),
            "kafka:l",
            "-X",
        ),
        (IcebergSink("lake.db.t"), "iceberg:lake.db.t", "--spark-conf"),
        (DeltaSink("lake.t"), "delta:lake.t", "--spark-conf"),
        (DeltaSink(path="s3a://b/t"), "delta:s3a://b/t", "--spark-conf"),
    ],
)
def test_a_command_finds_the_ledger_of_each_sink(sink: Sink, address: str, more: str) -> None:
    """What errors say is to be typed is an address that commands take, with no secret in it."""
    assert isinstance(sink, PlacedSink)
    place = sink.ledger_place
    assert place.address == address
    assert re.findall(r"-\S+", place.more) == ([more] if more else [])
    assert place.servers == ("a:9092,b:9092" if address.startswith("kafka:") else None)
    assert LedgerAddress.parse(address).store is LedgerStore.of(address)
    assert "hidden" not in repr(place)


def test_a_store_of_a_user_is_found_by_no_command() -> None:
    """It is a sink without more than the protocol asks for."""
    assert not isinstance(MemorySink(), PlacedSink)


@pytest.mark.parametrize("form", EACH_FORM)
def test_each_form_of_an_address_tells_its_store(form: str) -> None:
    """By how it begins; a placeholder tells none."""
    assert LedgerStore.of(form) is LedgerAddress.parse(form.replace("PORT", "9092")).store
    assert LedgerStore.of(form.partition(":")[2]) is None
    assert LedgerStore.of("LEDGER") is None


def test_the_commands_of_a_place() -> None:
    """The schema of PostgreSQL, the servers of a topic, and what is needed beside, are in them."""
    old, new = LedgerKey("a b", "q"), LedgerKey("c", "q")
    gap = OffsetRange(3, 5)
    here = LedgerPlace(address="kafka:l", servers="k:9092", more="with -X")
    assert here.rename(old, new, "--execute") == (
        "eo-listener ledger rename kafka:l --sink 'a b' --query q --to-sink c --execute -b k:9092 "
        "(with -X)"
    )
    there = LedgerPlace(address="postgresql://h/d", schema="s")
    assert there.accept(new, TopicPartition("t", 1), gap) == (
        "eo-listener ledger accept postgresql://h/d --schema s --sink c --query q "
        "--partition t-1 --gap 3..5"
    )
