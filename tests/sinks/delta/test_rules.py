"""What a DeltaSink refuses before it asks Spark for anything."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.sinks.delta import DeltaSink
from eo_listener.sinks.delta.types import check_version, is_traced


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "exactly one of them"),
        ({"table": "a", "path": "/b"}, "exactly one of them"),
        ({"path": ""}, "exactly one of them"),
        ({"table": "/lake/delays"}, "not the name of a table.*path="),
        ({"table": "a.b.c.d"}, "not the name of a table"),
        ({"table": "a b"}, "not the name of a table"),
        ({"table": "a", "mode": "merge-it"}, "mode must be one of 'append', 'upsert'"),
        ({"table": "a", "mode": "upsert"}, "which columns identify a row"),
        ({"table": "a", "keys": "id"}, "keys= has no meaning"),
        ({"table": "a", "version_column": "at"}, "version_column= has no meaning"),
        ({"table": "a", "delete_when": "gone"}, "delete_when= has no meaning"),
        ({"table": "a", "mode": "upsert", "keys": "at", "version_column": "at"}, "one of keys="),
        ({"table": "a", "partition_by": ("day", "")}, "partition_by= names columns"),
        ({"table": "a", "dead_letters": "bad"}, "Delta commits one table at a time"),
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


def test_only_what_has_an_order_is_a_version() -> None:
    """A number or a moment, in the rows and in the table."""
    check_version("at", {"at": "bigint"}, {"at": "timestamp"})
    check_version("at", {"at": "date"}, {})
    for rows, table in (({"at": "string"}, {}), ({"at": "int"}, {"at": "double"})):
        with pytest.raises(SettingsError, match="version_column='at'"):
            check_version("at", rows, table)


def test_rows_say_where_they_come_from_by_the_types_of_kafka() -> None:
    """Other columns of these names are data."""
    assert is_traced({"topic": "string", "partition": "int", "offset": "bigint", "x": "int"})
    assert not is_traced({"topic": "string", "partition": "bigint", "offset": "bigint"})
    assert not is_traced({"topic": "string"})
