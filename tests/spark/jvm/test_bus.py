"""What is asked of a JVM that goes away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import os, signal, time
from eo_listener.errors import JvmError
from eo_listener.spark.jvm.driver import drain
from eo_listener.spark.jvm.running_query import find
from eo_listener.spark.jvm.driver import LiveQueries
from tests.spark_session import new_session
spark = new_session(connector=False)
query = spark.readStream.format("rate").load().writeStream.format("noop").start()
live, ids = LiveQueries(), (str(query.id), str(query.runId))
live.attach(spark)
query.processAllAvailable()
print("RUNNING", drain(spark, 10), live.mode(*ids).name, live.position(*ids).committed)
pid = spark._jvm.java.lang.ProcessHandle.current().pid()
os.kill(pid, signal.SIGKILL)
begun = time.monotonic()
print("KILLED", [drain(spark, 10) for _ in range(3)], time.monotonic() - begun < 10)
try:
    find(spark, "a", "b")
except JvmError as error:
    print("ASKED", error)
for question in (live.mode, live.position, live.options):
    try:
        question(*ids)
    except JvmError as error:
        print("ASKED", error)
"""


@pytest.mark.slow
def test_killed_jvm() -> None:
    """With the JVM killed drain says no at once, and every question becomes a JvmError."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith(("R", "K", "A"))]
    assert said[:2] == [
        "RUNNING True MICRO_BATCH {}",
        "KILLED [False, False, False] True",
    ], done.stderr[-3000:]
    assert len(said) == 6
    assert all("cannot reach" in line for line in said[2:])
