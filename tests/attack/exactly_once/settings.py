"""The settings under which the drivers of the campaign are attacked."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests import iceberg_jars
from tests.attack.exactly_once.driver import LETTERS
from tests.attack.exactly_once.lives import Lives
from tests.attack.exactly_once.store import Database, DeltaStore, IcebergStore, KafkaStore, Store
from tests.broker import Broker
from tests.postgres_server import schema_of_its_own
from tests.sinks.iceberg.java_tables import NAMESPACE, Catalog
from tests.topics import Topics

BY_TASKS: Mapping[str, Any] = {"atomicity": "partition", "executor_rows": 0}
UPSERT: Mapping[str, Any] = {"mode": "upsert", "keys": ("topic", "partition", "offset")}
REJECTING: Mapping[str, Any] = {"dead_letters": f"lake.{NAMESPACE}.{LETTERS}"}

# What differs from three partitions of rows, on SQLite, in one process with Spark.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "sqlite": {},
    "sqlite windows": {"shape": "windows"},
    "delta": {"store": "delta"},
    "delta upsert": {"store": "delta", "sink": UPSERT},
    "iceberg": {"store": "iceberg"},
    "iceberg upsert": {"store": "iceberg", "sink": UPSERT},
    "iceberg letters": {"store": "iceberg", "sink": REJECTING},
    "iceberg upsert letters": {"store": "iceberg", "sink": {**UPSERT, **REJECTING}},
    "kafka driver": {"store": "kafka", "sink": {"write_method": "driver"}},
    "kafka executors": {
        "store": "kafka",
        "sink": {"write_method": "executors"},
        "master": "local-cluster[2,1,1024]",
    },
    "kafka without transactions": {
        "store": "kafka",
        "sink": {"transactions": False},
        "master": "local-cluster[2,1,1024]",
    },
    "kafka windows": {"store": "kafka", "shape": "windows"},
    "postgres driver": {"store": "postgres", "sink": {"write_method": "driver"}},
    "postgres staging": {"store": "postgres", "sink": {"write_method": "staging"}},
    "postgres partition": {"store": "postgres", "sink": BY_TASKS},
    "postgres windows": {"store": "postgres", "shape": "windows"},
    "postgres executors": {
        "store": "postgres",
        "sink": {"write_method": "staging"},
        "master": "local-cluster[2,1,1024]",
    },
    "postgres partition executors": {
        "store": "postgres",
        "sink": BY_TASKS,
        "master": "local-cluster[2,1,1024]",
    },
}


def begin(
    name: str,
    request: pytest.FixtureRequest,
    folder: Path,
    sink: Mapping[str, Any] = MappingProxyType({}),
    servers: str | None = None,
    **more: Any,
) -> Lives:
    """A query under that setting, which has not lived yet; `sink` goes to its sink.

    `servers` are those of a broker of the test's own. `more` are further arguments of its Job.
    """
    chosen = {**SETTINGS[name], "sink": {**SETTINGS[name].get("sink", {}), **sink}, **more}
    if servers is None:
        broker: Broker = request.getfixturevalue("broker")
        servers = broker.bootstrap_servers
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
