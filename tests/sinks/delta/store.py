"""Delta Lake as the chapters use it: a table of a test's own, by its path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener.model.check_finding import CheckFinding
from eo_listener.sinks.delta import DeltaSink
from eo_listener.sinks.delta.ledger_repair import DeltaLedgerRepair
from eo_listener.spark.jvm import delta_log
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.made_up_entries import QUERY, Row
from tests import delta_lake
from tests.sinks.chapters.lake import LakeStore
from tests.sinks.chapters.store import frame_of


class DeltaStore(LakeStore):
    undoes = "RESTORE TABLE delta.`"

    def __init__(self, spark: SparkSession, path: Path) -> None:
        super().__init__()
        self.spark, self.path = spark, path
        self.table, self.address = f"delta.`{path}`", f"delta:{path}"
        self.words = ("--spark-conf", f"spark.jars={','.join(map(str, delta_lake.jars()))}")

    @property
    def name(self) -> str:
        return str(self.path)

    def make_sink(self) -> DeltaSink:
        return DeltaSink(path=self.name)

    def make_repair(self) -> DeltaLedgerRepair:
        return DeltaLedgerRepair(self.name, LocalSpark({}))

    def frame(self, rows: list[Row]) -> DataFrame:
        return frame_of(self.spark, rows)

    def rows(self) -> list[Row]:
        found = self.spark.newSession().read.format("delta").load(self.name).collect()
        return [(one.topic, one.partition, one.offset, one.word) for one in found]

    def metadata(self) -> Path:
        return self.path / "_delta_log"

    def state(self) -> tuple[str, ...]:
        return tuple(sorted(one.name for one in self.metadata().glob("*")))

    def version(self) -> int:
        return len(list(self.metadata().glob("*.json"))) - 1

    def take_back(self, version: int) -> None:
        self.spark.sql(f"RESTORE TABLE {self.table} TO VERSION AS OF {version}")

    def set(self, properties: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.table} SET TBLPROPERTIES ({properties})")

    def findings(
        self, name: str | None = None, query: str = QUERY, **given: Any
    ) -> list[CheckFinding]:
        if name is not None and "/" not in name:
            return DeltaSink(name, **given).check(query)
        return DeltaSink(path=name or self.name, **given).check(query)


@pytest.fixture
def store(
    delta: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DeltaStore]:
    monkeypatch.setattr(delta_log, "session_here", lambda: delta)
    monkeypatch.setattr(LocalSpark, "session", lambda _: delta)
    made = DeltaStore(delta, tmp_path / "delays")
    with made.opened:
        yield made
