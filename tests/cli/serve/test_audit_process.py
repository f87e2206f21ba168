"""The process that audits for the page, and its Spark: how each ends, and has a successor."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from eo_listener.cli.position_reader import AuditRequest
from eo_listener.cli.serve.audit_reading import AuditProcess, read_audit
from eo_listener.errors import UnavailableError
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.spark.jvm import delta_log
from tests import delta_lake
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.sqlite_ledger import Store
from tests.sinks.delta.conftest import delta
from tests.sinks.delta.store import DeltaStore
from tests.spark_session import spark
from tests.waiting import until

TP = TopicPartition("flights", 0)


@pytest.fixture
def request_of_two(tmp_path: Path) -> AuditRequest:
    """A checkpoint of one batch, and a store that has nothing of it."""
    files = CheckpointFiles(tmp_path / "c", {TP: 0}, {TP: 10})
    address = LedgerAddress.parse(Store(tmp_path / "s.db").address)
    return AuditRequest(checkpoint=str(files.folder), ledgers=[address])


def test_it_reads_what_the_command_reads(request_of_two: AuditRequest) -> None:
    """All of it comes back; after a death of the process too, which is an error of that audit."""
    with closing(AuditProcess(request_of_two)) as process:
        here = read_audit(request_of_two)
        assert here.to_act_on
        assert process.read() == here
        assert process._process.pid is not None
        os.kill(process._process.pid, signal.SIGKILL)  # as an assertion of librdkafka does
        with pytest.raises(UnavailableError, match="has ended"):
            process.read()
        assert process.read() == here


def test_one_that_does_not_end_is_ended(request_of_two: AuditRequest) -> None:
    """After its time; or at once when the command ends."""
    process = AuditProcess(request_of_two)
    process.read()
    assert process._process.pid is not None
    os.kill(process._process.pid, signal.SIGSTOP)
    process.longest = 0.2
    with pytest.raises(UnavailableError, match="not ended within"):
        process.read()
    process.longest = 60.0
    process.read()
    os.kill(process._process.pid, signal.SIGSTOP)
    ending = threading.Timer(0.5, process.close)
    ending.start()
    begun = time.monotonic()
    with pytest.raises(UnavailableError):
        process.read()
    ending.join()
    assert time.monotonic() - begun < 30


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
        assert [one.batch for one in found.ledgers[0].batches] == [1, 0]
        assert jvms(process) == [first]
        os.kill(first, signal.SIGKILL)
        found = process.read()
        assert not found.complete
        assert jvms(process) == []
        assert process.read().complete
        (second,) = jvms(process)
        folder = Path(process._folder.name)
    assert not folder.exists()
    until(lambda: not psutil.pid_exists(second))
