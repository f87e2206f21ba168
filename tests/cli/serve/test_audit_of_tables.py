"""The Spark that reads tables for the page: kept, current, replaced when it has died, and ended."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from eo_listener.cli.position_reader import AuditRequest
from eo_listener.cli.serve.audit_process import AuditProcess
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.spark.jvm import delta_log
from tests import delta_lake
from tests.cli.checkpoint_files import CheckpointFiles
from tests.sinks.delta.conftest import delta
from tests.sinks.delta.store import DeltaStore
from tests.spark_session import spark

__all__ = ["delta", "spark"]


def jvms(process: AuditProcess) -> list[int]:
    """Those that the process has started."""
    pid = process._process.pid
    if pid is None:
        return []
    return [one.pid for one in psutil.Process(pid).children(True) if "java" in one.name()]


@pytest.mark.spark
@pytest.mark.slow
def test_one_spark_for_all_audits(
    delta: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sees the newest commit; after its death another one is there; nothing is left of it."""
    monkeypatch.setattr(delta_log, "session_here", lambda: delta)
    store = DeltaStore(delta, tmp_path / "delays")
    checkpoint = CheckpointFiles(tmp_path / "c", {TopicPartition("flights", 0): 0})
    store.write_with(checkpoint, 0)
    request = AuditRequest(
        checkpoint=str(checkpoint.folder),
        ledgers=[LedgerAddress.parse(store.address)],
        spark={"spark.jars": ",".join(map(str, delta_lake.jars()))},
    )
    with closing(AuditProcess(request)) as process:
        assert process.read().to_act_on == 0
        (first,) = jvms(process)
        store.write_with(checkpoint, 1)
        found = process.read()
        assert (found.to_act_on, found.rows[0][0][-1]) == (0, "6")
        assert [one.batch_id for one in found.ledgers[0].batches] == [1, 0]
        assert jvms(process) == [first]
        os.kill(first, signal.SIGKILL)
        found = process.read()
        assert not found.complete
        assert jvms(process) == []
        assert process.read().complete
        (second,) = jvms(process)
        folder = Path(process._folder.name)
    assert not folder.exists()
    deadline = time.monotonic() + 30
    while psutil.pid_exists(second):
        assert time.monotonic() < deadline
        time.sleep(0.1)
