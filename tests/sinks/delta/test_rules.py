"""What a DeltaSink refuses before it asks Spark for anything."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.errors import SettingsError
from eo_listener.sinks.delta import DeltaSink
from eo_listener.sinks.delta.arguments import Target
from eo_listener.sinks.delta.catalog import check_storage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "exactly one of"),
        ({"table": "a", "path": "/b"}, "exactly one of"),
        ({"path": ""}, "exactly one of"),
        ({"table": "/lake/delays"}, "/lake/delays.*path="),
        ({"table": "a.b.c.d"}, "a.b.c.d"),
        ({"table": "a b"}, "a b"),
        ({"table": "a", "mode": "merge-it"}, "mode must be one of 'append', 'upsert'"),
        ({"table": "a", "mode": "upsert"}, "keys="),
        ({"table": "a", "keys": "id"}, "keys= has no meaning"),
        ({"table": "a", "version_column": "at"}, "version_column= has no meaning"),
        ({"table": "a", "delete_when": "gone"}, "delete_when= has no meaning"),
        ({"table": "a", "mode": "upsert", "keys": "at", "version_column": "at"}, "one of keys="),
        ({"table": "a", "partition_by": ("day", "")}, "partition_by= names columns"),
        ({"table": "a", "dead_letters": "bad"}, "dead_letters="),
    ],
)
def test_arguments_that_cannot_be(arguments: dict[str, Any], said: str) -> None:
    """Each is refused at once, with what to write instead."""
    with pytest.raises(SettingsError, match=said) as refused:
        DeltaSink(**arguments)
    assert refused.value.fix


@pytest.mark.parametrize("name", ["delays", "lake.delays", "lake.db.delays", "lake.`de.la ys`"])
def test_names_of_tables(name: str) -> None:
    """A name has up to three parts; what it is in the ledger and for people stays as given."""
    sink = DeltaSink(name)
    assert sink.key == name
    assert sink.label == f"Delta table {name}"
    assert DeltaSink(path="/lake/it's").key == "/lake/it's"


def test_a_name_without_a_database_gets_one() -> None:
    """The one that it had first: USE changes no table under a query."""

    def reference(name: str) -> str:
        return Target(table=name).reference(None, "my db")

    assert reference("delays") == "`my db`.delays"
    assert reference("`de.lays`") == "`my db`.`de.lays`"
    assert reference("lake.delays") == "lake.delays"


def test_on_s3_a_log_store_must_be_chosen() -> None:
    """Delta's own choice is for one JVM; what is named, of either spelling, was chosen."""
    for place in ("s3a://bucket/delays", "S3://bucket/delays", "s3n://bucket/delays"):
        with pytest.raises(SettingsError, match=r"logStore\.s3.?\.impl") as refused:
            check_storage("Delta table t", place, {"spark.delta.logStore.gs.impl"})
        assert "S3DynamoDBLogStore" in str(refused.value.fix)
    for chosen in ("spark.delta.logStore.s3a.impl", "delta.logStore.class"):
        check_storage("Delta table t", "s3a://bucket/delays", {chosen})
    for place in ("file:/tmp/s3", "hdfs://s3/delays", "/s3:a", "abfss://c@s3a.net/x"):
        check_storage("Delta table t", place, ())
