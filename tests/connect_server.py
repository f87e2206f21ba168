"""A Spark Connect server of the tests' own."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from eo_listener.broker import ports
from tests.bridge.submitted import LISTENER, command, environment, is_open, until

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """Where it listens, on 127.0.0.1, and its process."""

    port: int
    pid: int


@contextlib.contextmanager
def serving(folder: Path, *, listening: bool) -> Iterator[ConnectServer]:
    """A server for a `with` block, with our listener by configuration or with none of ours."""
    port = ports.assign(1, {"connect": None}, {})[1]["connect"]
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


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    """Where a client finds a server that knows nothing of us."""
    with serving(tmp_path, listening=False) as server:
        yield f"sc://127.0.0.1:{server.port}"
