"""The settings under which the drivers of the campaign are attacked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests import iceberg_jars
from tests.attack.exactly_once.driver import LETTERS
from tests.attack.exactly_once.lives import Lives
from tests.attack.exactly_once.store import Database, DeltaStore, IcebergStore, KafkaStore, Store
from tests.postgres_server import schema_of_its_own
from tests.sinks.iceberg.java_tables import NAMESPACE, Catalog
from tests.topics import Topics

BY_TASKS: Mapping[str, Any] = {"atomicity": "partition", "executor_rows": 0}
UPSERT: Mapping[str, Any] = {"mode": "upsert", "keys": ("topic", "partition", "offset")}
REJECTING: Mapping[str, Any] = {"dead_letters": f"lake.{NAMESPACE}.{LETTERS}"}
_DRIVER, _EXECUTORS = {"write_method": "driver"}, {"write_method": "executors"}
_STAGING, _BARE = {"write_method": "staging"}, {"transactions": False}
_CLUSTER = {"master": "local-cluster[2,1,1024]"}
_DELTA, _ICEBERG, _KAFKA, _POSTGRES = (
    {"store": store} for store in ("delta", "iceberg", "kafka", "postgres")
)

Begin = Callable[..., Lives]  # `begin` but for what it takes of the test

# What differs from three partitions of rows, on SQLite, in one process with Spark.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "sqlite": {},
    "sqlite windows": {"shape": "windows"},
    "delta": _DELTA,
    "delta upsert": {**_DELTA, "sink": UPSERT},
    "iceberg": _ICEBERG,
    "iceberg upsert": {**_ICEBERG, "sink": UPSERT},
    "iceberg letters": {**_ICEBERG, "sink": REJECTING},
    "iceberg upsert letters": {**_ICEBERG, "sink": {**UPSERT, **REJECTING}},
    "kafka driver": {**_KAFKA, "sink": _DRIVER},
    "kafka executors": {**_KAFKA, "sink": _EXECUTORS, **_CLUSTER},
    "kafka without transactions": {**_KAFKA, "sink": _BARE, **_CLUSTER},
    "kafka windows": {**_KAFKA, "shape": "windows"},
    "postgres driver": {**_POSTGRES, "sink": _DRIVER},
    "postgres staging": {**_POSTGRES, "sink": _STAGING},
    "postgres partition": {**_POSTGRES, "sink": BY_TASKS},
    "postgres windows": {**_POSTGRES, "shape": "windows"},
    "postgres executors": {**_POSTGRES, "sink": _STAGING, **_CLUSTER},
    "postgres partition executors": {**_POSTGRES, "sink": BY_TASKS, **_CLUSTER},
}


def begin(
    name: str,
    request: pytest.FixtureRequest,
    folder: Path,
    sink: Mapping[str, Any] = MappingProxyType({}),
    servers: str | None = None,  # of a broker of the test's own
    **more: Any,
) -> Lives:
    """A query that has not lived yet; `sink` goes to its sink, `more` to its Job."""
    chosen = {**SETTINGS[name], "sink": {**SETTINGS[name].get("sink", {}), **sink}, **more}
    servers = servers or request.getfixturevalue("broker").bootstrap_servers
    assert servers is not None
    if chosen.get("store") == "postgres":
        schema = contextlib.ExitStack()
        request.addfinalizer(schema.close)
        where = schema.enter_context(schema_of_its_own(request))
        store: Store = Database.postgres(where)
    elif chosen.get("store") == "kafka":
        where = Topics(servers).create("target", 2)
        store = KafkaStore(servers, where)
    elif chosen.get("store") == "delta":
        where = str(folder / "delays")
        store = DeltaStore(Path(where))
    elif chosen.get("store") == "iceberg":
        if not iceberg_jars.jars():
            pytest.skip("Iceberg has no runtime for this Spark")
        where = str(folder)
        catalog = Catalog(folder)
        request.addfinalizer(catalog.close)
        store = IcebergStore(catalog, letters="dead_letters" in chosen.get("sink", {}))
    else:
        where = str(folder / "delays.sqlite")
        store = Database.sqlite(where)
    return Lives.begin(servers, store, where, folder, **chosen)
