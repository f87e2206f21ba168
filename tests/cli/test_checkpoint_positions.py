"""Where an audit finds a checkpoint while its query goes on; no broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.cli.position_reader import CheckpointReading
from eo_listener.model.offsets import TopicPartition
from eo_listener.spark.checkpoint import Checkpoint, Durable
from tests.cli.checkpoint_files import CheckpointFiles

TP = TopicPartition("t", 0)


@pytest.mark.parametrize("before", [False, True])
def test_a_batch_that_is_committed_just_now(
    before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two listings: no file is damaged, and offsets and batch are of one moment."""
    files = CheckpointFiles(tmp_path / "c", {TP: 0})
    for batch in (0, 1):
        files.plan(batch, {TP: 10 * (batch + 1)})
    files.commit(0)
    committed = Checkpoint.committed

    def meanwhile(checkpoint: Checkpoint) -> Durable:
        if before:
            files.commit(1)
        found = committed(checkpoint)
        files.commit(1)
        return found

    monkeypatch.setattr(Checkpoint, "committed", meanwhile)
    found = CheckpointReading(str(files.folder), {}).committed()
    assert found.damaged == ()
    assert (found.committed, found.done) == ((1, {TP: 20}) if before else (0, {TP: 10}))


def test_a_committed_batch_without_offsets_is_damaged(tmp_path: Path) -> None:
    """Whatever the query does meanwhile: its offsets are lost."""
    files = CheckpointFiles(tmp_path / "c", {TP: 0})
    files.plan(0, {TP: 10})
    files.commit(0)
    files.commit(1)
    found = CheckpointReading(str(files.folder), {}).committed()
    assert (found.committed, found.damaged) == (1, ("offsets/1 is missing",))
