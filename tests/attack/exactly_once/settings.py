"""The settings under which the drivers of the campaign are attacked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from eo_listener.broker import Broker
from tests.attack.exactly_once.lives import Lives
from tests.attack.exactly_once.store import Store
from tests.topics import unique

# What differs from three partitions of rows, on SQLite, in one process with Spark.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "sqlite": {},
    "sqlite windows": {"shape": "windows"},
    "postgres driver": {"store": "postgres", "sink": {"road": "driver"}},
    "postgres staging": {"store": "postgres", "sink": {"road": "staging"}},
    "postgres windows": {"store": "postgres", "shape": "windows"},
    "postgres executors": {
        "store": "postgres",
        "sink": {"road": "staging"},
        "master": "local-cluster[2,1,1024]",
    },
}


def schema_of_its_own(request: pytest.FixtureRequest) -> str:
    """A DSN that leads into an empty schema, which goes with whatever has asked for it."""
    server = os.environ.get("EO_TEST_POSTGRES") or request.getfixturevalue("postgres").dsn()
    name = sql.Identifier(schema := unique("attacked").replace("-", "_"))

    def execute(statement: str) -> None:
        with psycopg.connect(server, autocommit=True) as link:
            link.execute(sql.SQL(statement).format(name))

    execute("CREATE SCHEMA {}")
    request.addfinalizer(lambda: execute("DROP SCHEMA {} CASCADE"))
    return make_conninfo(server, options=f"-csearch_path={schema}")


def begin(
    name: str,
    request: pytest.FixtureRequest,
    folder: Path,
    sink: Mapping[str, Any] = MappingProxyType({}),
) -> Lives:
    """A query under that setting, which has not lived yet; `sink` goes to its sink."""
    chosen = {**SETTINGS[name], "sink": {**SETTINGS[name].get("sink", {}), **sink}}
    broker: Broker = request.getfixturevalue("broker")
    if chosen.get("store") == "postgres":
        where = schema_of_its_own(request)
        store = Store.postgres(where)
    else:
        where = str(folder / "delays.sqlite")
        store = Store.sqlite(where)
    return Lives.begin(broker.bootstrap_servers, store, where, folder, **chosen)
