"""The Spark session that tests share: one JVM a process, small, quiet, on 127.0.0.1."""

from __future__ import annotations

import functools
import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pyspark's own imports warn, of pandas and the like
    import pyspark
    from pyspark.sql import DataFrame, SparkSession

from eo_listener.spark.session.configure import configure
from tests import artifacts, delta_lake, iceberg_jars
from tests.artifacts import ClassArchive, DownloadError

# A part of the connector that some repositories lack for some versions of Spark; the one of 4.0.0
# serves later ones too. Only tests stand in for it: `configure` asks for what belongs together.
_TOKENS = "spark-token-provider-kafka-0-10_2.13"
_COMPLETE = ("3.5.7", "4.0.0")
_OF_JAVA = "spark.driver.defaultJavaOptions"  # stands beside a program's own extraJavaOptions


@functools.cache
def _tokens() -> dict[str, str]:
    """Return the settings that put in the token provider of 4.0.0 where the right one lacks."""
    if pyspark.__version__ in _COMPLETE:
        return {}
    try:
        _fetch_tokens(pyspark.__version__)
    except DownloadError:
        jar = _fetch_tokens("4.0.0")
        return {"spark.jars": str(jar), "spark.jars.excludes": f"org.apache.spark:{_TOKENS}"}
    return {}


def _fetch_tokens(version: str) -> Path:
    wanted = artifacts.Artifact.of(f"org.apache.spark:{_TOKENS}:{version}", transitive=False)
    (jar,) = artifacts.fetch([wanted], artifacts.cache_folder() / "tests" / f"tokens-{version}")
    return jar


def _class_archive() -> ClassArchive:
    """The archive of the classes that a driver loads with the connector."""
    return ClassArchive.of("tests", pyspark.__version__, Path(pyspark.__file__).parent)


def _of_archive() -> dict[str, str]:
    options = _class_archive().options
    return {_OF_JAVA: " ".join(options)} if options else {}


def session_conf() -> dict[str, str]:
    """Return the settings of a small, quiet session, with what this Spark version needs."""
    return {
        "spark.master": "local[2]",
        "spark.app.name": "tests",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.streaming.noDataProgressEventInterval": "500",
        **_of_archive(),
        **_tokens(),
    }


def submit_environment() -> dict[str, str]:
    """Return the environment for a program of its own, with what this Spark version needs."""
    options = {
        "--jars": "spark.jars",
        "--packages": "spark.jars.packages",
        "--exclude-packages": "spark.jars.excludes",
    }
    needed = _tokens()
    words = [word for name, key in options.items() if key in needed for word in (name, needed[key])]
    for key, value in _of_archive().items():
        words += ["--conf", f"{key}={value}"]
    submit = {"PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"])} if words else {}
    return {**os.environ, **submit}


def builder(conf: Mapping[str, str] = MappingProxyType({})) -> SparkSession.Builder:
    """Return a builder with `session_conf`, then `conf`; not yet configured."""
    made = SparkSession.Builder()
    for key, value in {**session_conf(), **conf}.items():
        made = made.config(key, value)
    return made


def new_session(
    conf: Mapping[str, str] = MappingProxyType({}), *, connector: bool = True, shim: bool = True
) -> SparkSession:
    """Return the session of this process; its JVM lives on, so the first call decides on jars."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return configure(builder(conf), connector=connector, shim=shim).getOrCreate()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that the tests of one process share; import it in a conftest.py."""
    jars = [*filter(None, [_tokens().get("spark.jars")])]
    jars += map(str, (*iceberg_jars.jars(), *delta_lake.jars()))
    session = new_session({"spark.jars": ",".join(jars)} if jars else {})
    yield session
    session.stop()


def _look(frame: DataFrame, _: int) -> None:
    frame.limit(5).collect()


def main() -> None:
    """Bring the jars here that sessions of the tests ask for, and the archive of classes."""
    iceberg_jars.jars()
    with _class_archive().making() as options:
        session = new_session({_OF_JAVA: " ".join(options)})
        query = (
            session.readStream.format("rate")
            .load()
            .writeStream.foreachBatch(_look)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        jvm = cast(Any, session.sparkContext._gateway).proc
        session.stop()
        jvm.stdin.close()  # ends it
        jvm.wait(150)


if __name__ == "__main__":
    main()
