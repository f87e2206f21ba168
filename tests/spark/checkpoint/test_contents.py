"""What a checkpoint holds as a whole, in the states of a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.model.offsets import Offsets
from eo_listener.spark.checkpoint import Checkpoint, CheckpointError, Durable, read_contents
from tests.attack import surgery
from tests.spark.checkpoint.recorded import unpack


def test_the_batch_in_doubt(tmp_path: Path) -> None:
    """A batch that was planned and is not committed is shown, with where it would end."""
    checkpoint = Checkpoint(str(unpack("4.0.0", "plain", tmp_path)))
    assert read_contents(checkpoint).in_doubt is None
    surgery.before_commit(tmp_path)
    contents = read_contents(checkpoint)
    assert contents.batch is not None
    assert contents.in_doubt is not None
    assert (contents.batch.batch, contents.in_doubt.batch) == (1, 2)
    (source,) = contents.sources
    assert source.ended == Offsets.of({"plain-4.0.0": {0: 16, 1: 14, 2: 10}})
    assert source.planned == Offsets.of({"plain-4.0.0": {0: 24, 1: 21, 2: 15}})


def test_a_batch_that_is_committed_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a live query is read: it is done, and not in doubt as well."""
    unpack("4.0.0", "plain", tmp_path)
    commit = (tmp_path / "commits" / "2").read_bytes()
    surgery.before_commit(tmp_path)
    committed = Checkpoint.committed

    def and_now(checkpoint: Checkpoint) -> Durable:
        (tmp_path / "commits" / "2").write_bytes(commit)
        return committed(checkpoint)

    monkeypatch.setattr(Checkpoint, "committed", and_now)
    contents = read_contents(Checkpoint(str(tmp_path)))
    assert contents.batch is not None
    assert (contents.batch.batch, contents.in_doubt) == (2, None)


def test_a_query_of_which_no_batch_is_done(tmp_path: Path) -> None:
    """Only its first batch is planned: no offset is durable, and where it begins is known."""
    unpack("4.0.0", "plain", tmp_path)
    for file in (*tmp_path.glob("commits/*"), *tmp_path.glob("offsets/[12]")):
        file.unlink()
    contents = read_contents(Checkpoint(str(tmp_path)))
    assert contents.batch is None
    assert contents.in_doubt is not None
    (source,) = contents.sources
    assert (source.ended, contents.findings) == (None, ())
    assert source.initial == Offsets.of({"plain-4.0.0": {0: 0, 1: 0, 2: 0}})


def test_files_that_cannot_be_used_are_findings(tmp_path: Path) -> None:
    """Metadata, the newest offsets and the start: each named, and the batch before is shown."""
    unpack("4.0.0", "plain", tmp_path)
    for file in ("metadata", "offsets/2", "sources/0/0"):
        (tmp_path / file).write_bytes(b"")
    contents = read_contents(Checkpoint(str(tmp_path)))
    assert {one.file for one in contents.findings} == {"metadata", "offsets/2", "sources/0/0"}
    assert contents.query_id is None
    assert contents.batch is not None
    assert contents.batch.batch == 1


def test_one_batch_is_asked_for(tmp_path: Path) -> None:
    """Its offsets are shown, and nothing is in doubt; one that is not there is an error."""
    checkpoint = Checkpoint(str(unpack("4.0.0", "plain", tmp_path)))
    contents = read_contents(checkpoint, 0)
    (source,) = contents.sources
    assert source.ended == Offsets.of({"plain-4.0.0": {0: 8, 1: 7, 2: 5}})
    assert contents.in_doubt is None
    with pytest.raises(CheckpointError, match="offsets/9 is missing"):
        read_contents(checkpoint, 9)
