"""Iceberg as the chapters use it: a table of a test's own namespace."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener.model.check_finding import CheckFinding
from eo_listener.sinks.iceberg import IcebergSink
from eo_listener.sinks.iceberg.ledger_repair import IcebergLedgerRepair
from eo_listener.sinks.iceberg.names import is_branch_of_any
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.made_up_entries import QUERY, Row
from tests import iceberg_jars
from tests.sinks.chapters.lake import LakeStore
from tests.sinks.iceberg.lake import Lake, catalog_conf


@functools.cache
def extended(spark: SparkSession) -> None:
    """Give new sessions Iceberg's procedures, as `spark.sql.extensions` does."""
    jvm = cast(Any, spark._jvm)
    extensions = jvm.org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions()
    extensions.apply(spark._jsparkSession.extensions())


def spark_words(conf: Mapping[str, str]) -> tuple[str, ...]:
    """Say the settings of a catalog to a command."""
    settings = {"spark.jars": ",".join(map(str, iceberg_jars.jars())), **conf}
    return tuple(word for one in settings.items() for word in ("--spark-conf", "=".join(one)))


class IcebergStore(LakeStore):
    undoes = "CALL `lake`.system.fast_forward"

    def __init__(self, lake: Lake) -> None:
        super().__init__()
        self.lake, self.spark, self.table = lake, lake.spark, lake.table("t")
        self.address = f"iceberg:{self.table}"
        self.words = spark_words(catalog_conf(lake.name, lake.folder))

    @property
    def name(self) -> str:
        return self.make_sink().key

    def make_sink(self) -> IcebergSink:
        return self.lake.sink("t")

    def make_repair(self) -> IcebergLedgerRepair:
        return IcebergLedgerRepair(self.table, LocalSpark({}))

    def frame(self, rows: list[Row]) -> DataFrame:
        return self.lake.frame(rows)

    def rows(self) -> list[Row]:
        return self.lake.rows("t")

    def metadata(self) -> Path:
        return Path(self.lake.java("t")._table.location().removeprefix("file:")) / "metadata"

    def state(self) -> tuple[str, ...]:
        if not self.lake.other().catalog.tableExists(self.table):
            return ()
        return (self.lake.java("t")._metadata.metadataFileLocation(),)

    def version(self) -> int | None:
        return self.lake.java("t").main

    def take_back(self, version: int | None) -> None:
        self.lake.roll_back("t", version)

    def session(self) -> SparkSession:
        extended(self.spark)
        return self.lake.another_session()

    def branches(self) -> list[str]:
        return [name for name in self.lake.java("t").branches if is_branch_of_any(name)]

    def findings(
        self, name: str | None = None, query: str = QUERY, **given: Any
    ) -> list[CheckFinding]:
        return IcebergSink(name or self.table, **given).check(query)


@pytest.fixture
def store(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[IcebergStore]:
    """A table that is not there yet.

    Spark looks for a catalog in the settings of the active session: in a command that is its only
    one, here what another test of the process has left.
    """
    monkeypatch.setattr(LocalSpark, "session", lambda _: lake.spark)
    sessions = cast(Any, lake.spark._jvm).org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(lake.spark._jsparkSession)
    made = IcebergStore(lake)
    with made.opened:
        yield made
    if before.isDefined():
        sessions.setActiveSession(before.get())
    else:
        sessions.clearActiveSession()
