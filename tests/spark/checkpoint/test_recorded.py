"""What Spark 3.5, 4.0 and 4.2 wrote is read right, and shown whole after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.offsets import Offsets
from eo_listener.spark.checkpoint.checkpoint import Checkpoint, Durable
from eo_listener.spark.checkpoint.contents import read_contents
from eo_listener.spark.checkpoint.errors import CheckpointError
from tests.attack import surgery
from tests.spark.checkpoint import writers
from tests.spark.checkpoint.recorded import VERSIONS, read, unpack

DATA = [(version, name) for version in VERSIONS for name in read(version)]


def expected(version: str, name: str, records: int) -> Offsets:
    """Where the keys 0, 1, 2, ... of the recorder end, per round of 20 records: 8, 7, 5."""
    rounds = records // 20
    return Offsets.of({f"{name}-{version}": {0: 8 * rounds, 1: 7 * rounds, 2: 5 * rounds}})


@pytest.mark.parametrize(("version", "name"), DATA)
def test_every_file_is_read_and_written_back(version: str, name: str, tmp_path: Path) -> None:
    """No file of Spark's is found fault with, and each offsets file is written back the same."""
    checkpoint = Checkpoint(str(unpack(version, name, tmp_path)))
    assert checkpoint.exists()
    contents = read_contents(checkpoint)
    assert contents.findings == ()
    assert contents.query_id == checkpoint.query_id()
    assert contents.batch is not None
    assert contents.batch.batch == contents.batches.committed[-1]
    assert contents.batch == checkpoint.committed().offsets
    ended = {one.id: one.ended for one in contents.sources if one.ended is not None}
    assert ended.items() <= contents.batch.kafka().items()
    assert all(one.kafka for one in contents.sources if one.ended is not None)
    assert contents.batch.continuous == (name == "continuous")
    assert (contents.batch.planned_at is None) == contents.batch.continuous
    for batch in checkpoint.batches().planned:
        text = (tmp_path / "offsets" / str(batch)).read_text()
        assert writers.batch_offsets(checkpoint.offsets(batch)) == text


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "records"),
    [("plain", 60), ("purged", 120), ("twice", 40), ("async", 120), ("continuous", None)],
)
def test_one_topic(version: str, name: str, records: int | None, tmp_path: Path) -> None:
    """The newest committed batch, or epoch, ends where the recorder's records do."""
    durable = Checkpoint(str(unpack(version, name, tmp_path))).committed()
    assert durable.offsets is not None
    ends = Offsets.of({f"{name}-{version}": {0: 60}})
    if records is not None:
        ends = expected(version, name, records)
    assert set(durable.offsets.kafka().values()) == {ends}


@pytest.mark.parametrize(
    ("version", "name"), [*((version, "join") for version in VERSIONS), ("4.2.0", "v2-join")]
)
def test_two_sources(version: str, name: str, tmp_path: Path) -> None:
    """Each source of a join has its own offsets, also where version 2 writes them in any order."""
    checkpoint = Checkpoint(str(unpack(version, name, tmp_path)))
    durable = checkpoint.committed()
    assert durable.offsets is not None
    left, right = f"{name}-left-{version}", f"{name}-right-{version}"
    assert durable.offsets.kafka() == {
        "0": Offsets.of({left: {0: 16, 1: 14, 2: 10}}),
        "1": Offsets.of({right: {0: 24, 1: 20, 2: 16}}),
    }
    assert checkpoint.initial(0) == Offsets.of({left: {0: 0, 1: 0, 2: 0}})
    assert checkpoint.initial(1) == Offsets.of({right: {0: 0, 1: 0, 2: 0}})
    assert checkpoint.initial(2) is None


def test_a_source_with_a_name(tmp_path: Path) -> None:
    """From Spark 4.2 on a source can be named: then its name stands where its number did."""
    checkpoint = Checkpoint(str(unpack("4.2.0", "v2-named", tmp_path)))
    durable = checkpoint.committed()
    assert durable.offsets is not None
    assert durable.offsets.version == 2
    assert durable.offsets.kafka() == {"flights": expected("4.2.0", "v2-named", 40)}
    assert checkpoint.initial("flights") == Offsets.of({"v2-named-4.2.0": {0: 0, 1: 0, 2: 0}})


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


def test_a_batch_that_is_committed_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
