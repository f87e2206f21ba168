"""The Spark of a command: what it is started with, and how it ends. Without a JVM."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.errors import PySparkRuntimeError

from eo_listener.errors import JvmError
from eo_listener.spark.session import local_spark
from eo_listener.spark.session.local_spark import LocalSpark


class Builder:
    """What a session would be made with."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.made = 0
        self.stopped = 0
        self.fails = False
        self.given: dict[str, bool] = {}

    def config(self, name: str, value: str) -> Builder:
        self.settings[name] = value
        return self

    def getOrCreate(self) -> Any:  # noqa: N802  # pyspark's name
        self.made += 1
        signal.signal(signal.SIGINT, lambda *_: None)  # as pyspark does
        os.write(1, b"said by its logger\n")
        if self.fails:
            raise PySparkRuntimeError("[JAVA_GATEWAY_EXITED] ...")
        return self

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    made = Builder()

    def configure(builder: Builder, **given: bool) -> Builder:
        builder.given = given
        return builder

    monkeypatch.setattr(local_spark, "configure", configure)
    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=made))
    return made


def test_it_is_made_once_and_ended(builder: Builder) -> None:
    """At first use, which is announced; its folder is gone afterwards. Unused it starts nothing."""
    announced: list[int] = []
    spark = LocalSpark({}, delta=True, announce=lambda: announced.append(builder.made))
    assert announced == []
    assert spark.session() is spark.session()
    assert (builder.made, announced) == (1, [0])
    assert builder.given == {"connector": False, "shim": False, "delta": True, "iceberg": False}
    folder = Path(builder.settings["spark.sql.warehouse.dir"])
    assert folder.is_dir()
    spark.close()
    spark.close()
    assert (builder.stopped, folder.exists()) == (1, False)
    LocalSpark({}).close()
    assert (builder.made, builder.stopped) == (1, 1)


def test_it_is_local_and_writes_nothing(builder: Builder) -> None:
    """Whatever the defaults of a cluster say; what the user says here comes first."""
    given = {"spark.master": "local[7]", "spark.sql.catalog.lake.type": "jdbc"}
    with closing(LocalSpark(given, iceberg=True)) as spark:
        spark.session()
    expected = {
        "spark.master": "local[7]",
        "spark.submit.deployMode": "client",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.eventLog.enabled": "false",
        "spark.sql.streaming.streamingQueryListeners": "",
    }
    assert expected.items() <= builder.settings.items()
    assert builder.given == {"connector": False, "shim": False, "delta": False, "iceberg": True}


def test_the_spark_of_another_is_kept(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a driver which has started the command, or of a Spark Connect server."""
    others = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE", "SPARK_API_MODE")
    for name in others:
        monkeypatch.setenv(name, "1")
    with closing(LocalSpark({})) as spark:
        spark.session()
    assert builder.made == 1
    assert not any(name in os.environ for name in others)


def test_a_spark_that_does_not_start(builder: Builder) -> None:
    """Is one error, which says where to correct it. It is tried once, and nothing is left."""
    builder.fails = True
    spark = LocalSpark({})
    for _ in range(2):
        with pytest.raises(JvmError, match=r"did not start.*--spark-conf spark.jars="):
            spark.session()
    assert builder.made == 1
    folder = Path(builder.settings["spark.sql.warehouse.dir"])
    spark.close()
    assert not folder.exists()


@pytest.mark.parametrize("fails", [False, True])
def test_output_and_ctrl_c_stay_the_commands_own(
    fails: bool, builder: Builder, capfd: pytest.CaptureFixture[str]
) -> None:
    """What a JVM prints is no part of a document; pyspark's handler asks a Spark that has ended."""
    builder.fails = fails
    before = signal.getsignal(signal.SIGINT)
    with suppress(JvmError), closing(LocalSpark({})) as spark:
        spark.session()
    os.write(1, b"the document")
    assert signal.getsignal(signal.SIGINT) is before
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("the document", "said by its logger\n")


def test_ctrl_c_in_a_call_is_no_error(builder: Builder, caplog: pytest.LogCaptureFixture) -> None:
    """py4j logs it, with a traceback; what others log stays."""
    with closing(LocalSpark({})) as spark:
        spark.session()
        logging.error("KeyboardInterrupt while sending command.")  # noqa: LOG015  # as py4j does
        logging.error("Exception while sending command.")  # noqa: LOG015  # as py4j does
        logging.error("another")  # noqa: LOG015
    logging.error("KeyboardInterrupt while sending what is nobody's")  # noqa: LOG015
    assert builder.made == 1
    assert [one.getMessage()[:21] for one in caplog.records] == ["another", "KeyboardInterrupt whi"]


def test_ctrl_c_that_fails_is_ctrl_c(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its handler asks Java, which is answering another call, before it says what has come."""
    asks = Mock(side_effect=PySparkRuntimeError("Error while sending or receiving"))

    def interrupted(_: Builder) -> None:
        signal.signal(signal.SIGINT, asks)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Builder, "getOrCreate", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), closing(LocalSpark({})) as spark:
        spark.session()
    assert builder.made == 0
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_ctrl_c_at_start_leaves_no_jvm(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one that downloads: pyspark's `launch_gateway` waits for it, and forgets it."""
    started: list[subprocess.Popen[bytes]] = []

    def launch_gateway(_: Builder) -> None:
        proc = subprocess.Popen(["sleep", "60"])
        started.append(proc)
        raise KeyboardInterrupt

    monkeypatch.setattr(Builder, "getOrCreate", launch_gateway)
    with pytest.raises(KeyboardInterrupt), closing(LocalSpark({})) as spark:
        spark.session()
    assert started[0].returncode == -signal.SIGKILL
