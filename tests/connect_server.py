"""A Spark Connect server of the tests' own, and sessions of both kinds."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.bridge.submitted import LISTENER, command, environment, is_open
from tests.broker import free_port
from tests.spark_session import new_session
from tests.waiting import until

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """Where it listens, on 127.0.0.1, and its process."""

    port: int
    pid: int


@contextlib.contextmanager
def serving(folder: Path, *, listening: bool) -> Iterator[ConnectServer]:
    """A server for a `with` block, with our listener by configuration or with none of ours."""
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    if not listening:
        conf |= dict.fromkeys(LISTENER, "")
    words = [*command("spark-submit", conf=conf), "--class", _CLASS]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, env=environment())
    try:
        until(lambda: is_open(port) or process.poll() is not None, 90)
        assert process.poll() is None, (folder / "log").read_text()[-3000:]
        yield ConnectServer(port=port, pid=process.pid)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            raise


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the clients of a file find a server that knows nothing of us."""
    with serving(tmp_path_factory.mktemp("server"), listening=False) as server:
        yield f"sc://127.0.0.1:{server.port}"


@contextlib.contextmanager
def far_session(folder: Path) -> Iterator[SparkSession]:
    """A session of Spark Connect for a `with` block, beside a classic one of this process."""
    from pyspark.sql.connect.session import SparkSession as Far  # noqa: PLC0415  # Spark 3.5 lacks what it needs

    with serving(folder, listening=False) as server:
        session = Far.builder.remote(f"sc://127.0.0.1:{server.port}").getOrCreate()
        try:
            yield cast(SparkSession, session)
        finally:
            session.stop()


@pytest.fixture(scope="module", params=["classic", "connect"])
def either_spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session of this process, and one of a server that the tests of a file share."""
    if request.param == "classic":
        yield new_session()
    elif pyspark.__version__.startswith("3."):
        pytest.skip("Spark 4 brings its server")
    else:
        with far_session(tmp_path_factory.mktemp("connect")) as session:
            yield session
