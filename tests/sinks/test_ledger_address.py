"""A ledger is named on a command line and by its sink, and nothing of a dsn is ever said."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Literal
from unittest.mock import Mock

import pytest

from eo_listener import DeltaSink, IcebergSink, KafkaSink, PostgresSink, SqliteSink
from eo_listener.errors import MissingExtraError, SettingsError
from eo_listener.model.ledger import LedgerKey
from eo_listener.model.ledger_place import LedgerPlace, LedgerStore, PlacedSink
from eo_listener.model.protocols import Sink
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks import ledger_address
from eo_listener.sinks.ledger_address import EACH_FORM, LedgerAddress
from eo_listener.spark.session.local_spark import LocalSpark

NONE = LocalSpark({})  # it is never started


@pytest.mark.parametrize(
    ("text", "kind", "place", "servers"),
    [
        ("sqlite:delays.db", "sqlite", "delays.db", None),
        ("postgresql://u:p@h/d", "postgres", "postgresql://u:p@h/d", None),
        ("postgres://h/d", "postgres", "postgres://h/d", None),
        ("postgresql:host=h dbname=d", "postgres", "host=h dbname=d", None),
        ("kafka:eo-ledger", "kafka", "eo-ledger", None),
        ("kafka://h:9092,i:9092/eo-ledger", "kafka", "eo-ledger", "h:9092,i:9092"),
        ("iceberg:lake.db.`a.b`", "iceberg", "lake.db.`a.b`", None),
        ("delta:lake.delays", "delta", "lake.delays", None),
        ("delta:s3a://bucket/delays", "delta", "s3a://bucket/delays", None),
    ],
)
def test_each_form(text: str, kind: str, place: str, servers: str | None) -> None:
    """A file, a dsn in both of libpq's forms, a topic here or on another cluster, a table."""
    found = LedgerAddress.parse(text)
    assert (found.store.value, found.place, found.servers) == (kind, place, servers)
    assert "u:p@h" not in repr(found)
    assert found.shown == (text.replace(":p@", "@") if "host=" not in text else "postgresql://...")


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("//u:hidden@h,i:5433/d?sslmode=require", "//u@h,i:5433/d?sslmode=require"),
        ("///d?user=u&password=hidden", "///d?user=u"),
        ("//h/d?sslpassword=hidden&options=-csearch_path%3Ds", "//h/d?options=-csearch_path%3Ds"),
        ("//u:hid@den@h/d", "//u@h/d"),
        ("host=h password=hidden", "//..."),
        ("//u:hid#den@h/d", "//..."),
    ],
)
def test_a_dsn_is_shown_as_it_can_be_typed_again_without_its_password(
    typed: str, shown: str
) -> None:
    """Only parameters that are known to hold no secret; in libpq's other form nothing."""
    assert LedgerAddress.parse(f"postgresql:{typed}").shown == f"postgresql:{shown}"


def test_the_login_in_a_path_is_not_shown() -> None:
    """Hadoop refuses it; until then it is a secret."""
    assert LedgerAddress.parse("delta:s3a://key:hidden@b/d").shown == "delta:s3a://***@b/d"
    reader = LedgerAddress.parse("delta:s3a://key:hidden@b/d").open(None, schema=None, spark=NONE)
    assert reader.label == "Delta table at s3a://***@b/d"


@pytest.mark.parametrize(
    "text", ["", "delays.db", "mysql://u:hidden@h/d", "sqlite:", "kafka:", "iceberg:", "delta:"]
)
def test_any_other_form_is_refused_and_not_shown(text: str) -> None:
    """It may hold a password."""
    with pytest.raises(SettingsError, match="sqlite:FILE") as raised:
        LedgerAddress.parse(text)
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize("address", ["iceberg:lake.db.delays", "delta:/lake/delays"])
def test_without_pyspark_a_table_is_one_error(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the extra that brings it."""
    missing = ImportError("pyspark.sql", name="pyspark.sql")
    monkeypatch.setattr(ledger_address, "import_module", Mock(side_effect=missing))
    with pytest.raises(MissingExtraError, match=r"needs pyspark.*eo-listener\[spark\]"):
        LedgerAddress.parse(address).open(None, schema=None, spark=NONE)


@pytest.mark.parametrize(
    ("address", "said"), [("iceberg:delays", "delays.*catalog"), ("delta:x-y", "x-y.*nor a path")]
)
def test_a_table_that_cannot_be_is_refused_before_spark_starts(address: str, said: str) -> None:
    """By its name alone."""
    with pytest.raises(SettingsError, match=said):
        LedgerAddress.parse(address).open(None, schema=None, spark=NONE)


@pytest.mark.parametrize("part", ["Reader", "Repair"])
@pytest.mark.parametrize("text", ["sqlite:f", "postgresql:", "kafka:t", "iceberg:l.d.t", "delta:t"])
def test_reader_and_repair_of_each_store_are_where_they_are_loaded_from(
    text: str, part: Literal["Reader", "Repair"]
) -> None:
    """They are loaded by name, which no type checker sees."""
    assert isinstance(LedgerAddress.parse(text)._loaded(part), type)


def test_without_pyspark_ledgers_of_sqlite_and_kafka_are_read() -> None:
    """A machine from which only an audit is run needs no Spark for them."""
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from eo_listener.sinks.ledger_address import LedgerAddress\n"
        "for text in ('sqlite:f', 'kafka:t'):\n"
        "    for part in ('Reader', 'Repair'): LedgerAddress.parse(text)._loaded(part)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# Where each sink says that its ledger is


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
        (KafkaSink({**_SERVERS, **_LOGIN}, "t", ledger_topic="l"), "kafka:l", "-X"),
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
    assert re.findall(r"-\S+", place.note) == ([more] if more else [])
    assert place.servers == ("a:9092,b:9092" if address.startswith("kafka:") else None)
    assert LedgerAddress.parse(address).store is LedgerStore.from_address(address)
    assert "hidden" not in repr(place)


@pytest.mark.parametrize("form", EACH_FORM)
def test_each_form_of_an_address_tells_its_store(form: str) -> None:
    """By how it begins; a placeholder tells none."""
    assert LedgerStore.from_address(form) is LedgerAddress.parse(form.replace("PORT", "9092")).store
    assert LedgerStore.from_address(form.partition(":")[2]) is None
    assert LedgerStore.from_address("LEDGER") is None


def test_the_commands_of_a_place() -> None:
    """The schema of PostgreSQL, the servers of a topic, and what is needed beside, are in them."""
    old, new = LedgerKey("a b", "q"), LedgerKey("c", "q")
    gap = OffsetRange(3, 5)
    here = LedgerPlace(address="kafka:l", servers="k:9092", note="with -X")
    assert here.rename(old, new, "--execute") == (
        "eo-listener ledger rename kafka:l --sink 'a b' --query q --to-sink c --execute -b k:9092 "
        "(with -X)"
    )
    there = LedgerPlace(address="postgresql://h/d", schema="s")
    assert there.accept(new, TopicPartition("t", 1), gap) == (
        "eo-listener ledger accept postgresql://h/d --schema s --sink c --query q "
        "--partition t-1 --gap 3..5"
    )
