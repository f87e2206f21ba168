"""What a DeltaSink refuses before it asks Spark for anything."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.sinks.delta import DeltaSink


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
