"""The process that audits: what it gives, how it ends, and that the next one takes its place."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from eo_listener.cli.position_reader import AuditRequest
from eo_listener.cli.serve.audit_process import AuditProcess
from eo_listener.cli.serve.audit_reading import read_audit
from eo_listener.model.errors import UnavailableError
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.ledger_address import LedgerAddress
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.sqlite_ledger import Store

TP = TopicPartition("flights", 0)


@pytest.fixture
def request_of_two(tmp_path: Path) -> AuditRequest:
    """A checkpoint of one batch, and a store that has nothing of it."""
    files = CheckpointFiles(tmp_path / "c", {TP: 0})
    files.plan(0, {TP: 10})
    files.commit(0)
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
        with pytest.raises(UnavailableError, match=r"has ended.*the next audit starts it again"):
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
