"""The Spark of a command: what it is started with, and how it ends. Without a JVM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError

from eo_listener.model.errors import JvmError
from eo_listener.spark.session import local_spark
from eo_listener.spark.session.local_spark import LocalSpark


class Builder:
    """What a session would be made with."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.made = 0
        self.stopped = 0
        self.fails = False
        self.delta: bool | None = None

    def config(self, name: str, value: str) -> Builder:
        self.settings[name] = value
        return self

    def getOrCreate(self) -> Any:  # noqa: N802  # pyspark's name
        if self.fails:
            raise PySparkRuntimeError("[JAVA_GATEWAY_EXITED] ...")
        self.made += 1
        return self

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    made = Builder()

    def configure(given: Builder, *, connector: bool, shim: bool, delta: bool) -> Builder:
        assert not connector
        assert not shim
        given.delta = delta
        return given

    monkeypatch.setattr(local_spark, "configure", configure)
    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=made))
    return made


def test_it_is_made_once_and_ended(builder: Builder) -> None:
    """At first use; its folder is gone afterwards. One that was not used starts nothing."""
    spark = LocalSpark({}, delta=True)
    assert builder.made == 0
    assert spark.session() is spark.session()
    assert (builder.made, builder.delta) == (1, True)
    folder = Path(builder.settings["spark.sql.warehouse.dir"])
    assert folder.is_dir()
    spark.close()
    spark.close()
    assert (builder.stopped, folder.exists()) == (1, False)
    LocalSpark({}, delta=False).close()
    assert (builder.made, builder.stopped) == (1, 1)


def test_it_is_local_and_writes_nothing(builder: Builder) -> None:
    """Whatever the defaults of a cluster say; what the user says here comes first."""
    given = {"spark.master": "local[7]", "spark.sql.catalog.lake.type": "jdbc"}
    spark = LocalSpark(given, delta=False)
    spark.session()
    spark.close()
    expected = {
        "spark.master": "local[7]",
        "spark.submit.deployMode": "client",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.eventLog.enabled": "false",
        "spark.sql.streaming.streamingQueryListeners": "",
    }
    assert {name: builder.settings[name] for name in expected} == expected


def test_a_spark_that_does_not_start(builder: Builder) -> None:
    """Is one error, which says where to correct it; nothing is left."""
    builder.fails = True
    spark = LocalSpark({}, delta=False)
    for _ in range(2):
        with pytest.raises(JvmError, match=r"did not start.*--spark-conf"):
            spark.session()
    folder = Path(builder.settings["spark.sql.warehouse.dir"])
    spark.close()
    assert not folder.exists()
