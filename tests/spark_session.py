"""The Spark session that tests share: one JVM a process, small, quiet, on 127.0.0.1."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pyspark's own imports warn, of pandas and the like
    import pyspark
    from pyspark.sql import SparkSession

from eo_listener import artifacts
from eo_listener.session import configure

# The repository that our own machines reach has the token provider of these versions only;
# the one of 4.0.0 also serves later ones. Users have all of them, so this is for tests alone.
_COMPLETE = ("3.5.7", "4.0.0")
_TOKENS = artifacts.Artifact(
    organisation="org.apache.spark",
    name="spark-token-provider-kafka-0-10_2.13",
    revision="4.0.0",
    transitive=False,
)


def session_conf() -> dict[str, str]:
    """Return the settings of a small, quiet session, with what this Spark version needs."""
    conf = {
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
    }
    if pyspark.__version__ not in _COMPLETE:
        (jar,) = artifacts.fetch([_TOKENS], artifacts.cache_folder() / "tests" / "tokens")
        conf["spark.jars"] = str(jar)
        conf["spark.jars.excludes"] = f"{_TOKENS.organisation}:{_TOKENS.name}"
    return conf


def builder(conf: Mapping[str, str] = MappingProxyType({})) -> SparkSession.Builder:
    """Return a builder with `session_conf`, then `conf`; not yet configured."""
    made = SparkSession.Builder()
    for key, value in {**session_conf(), **conf}.items():
        made = made.config(key, value)
    return made


def new_session(
    conf: Mapping[str, str] = MappingProxyType({}), *, connector: bool = True, shim: bool = True
) -> SparkSession:
    """Return the session of this process, with the Kafka connector and the shim.

    Its JVM lives as long as the process, so the first call decides about jars.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return configure(builder(conf), connector=connector, shim=shim).getOrCreate()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that the tests of one process share; import it in a conftest.py."""
    session = new_session()
    yield session
    session.stop()
