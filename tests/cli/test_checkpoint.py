"""`eo-listener checkpoint`: what is printed, and by which exit code it is known; no broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.offsets import TopicPartition
from tests.attack import surgery
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.commands import document_of, error_of, invoke
from tests.spark.checkpoint.recorded import unpack

SHOW = ("checkpoint", "show")
TP = TopicPartition("flights", 0)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Three batches of Spark 4.0, the last of them in doubt."""
    folder = unpack("4.0.0", "plain", tmp_path / "plain")
    surgery.before_commit(folder)
    return folder


def test_show_prints_where_the_query_is(plain: Path) -> None:
    """Query id, batches, offsets and the batch in doubt; 0, since nothing is wrong with that."""
    answer = invoke(*SHOW, plain)
    assert answer.exit_code == 0
    for part in ("planned 0 to 2", "committed 0 to 1", "in doubt    2,", "plain-4.0.0"):
        assert part in answer.stdout
    found = document_of(*SHOW, plain)
    assert (found["batch"]["batch"], found["in_doubt"]["batch"]) == (1, 2)
    assert (found["batch"]["done"], found["in_doubt"]["done"]) == (True, False)
    numbers = {"partition": 0, "initial": 0, "next_offset": 16, "in_doubt_until": 24}
    assert found["sources"][0]["partitions"][0] == {"topic": "plain-4.0.0", **numbers}


@pytest.mark.parametrize(("batch", "is_done"), [(2, False), (0, True)])
def test_show_says_that_a_batch_is_not_committed(plain: Path, batch: int, is_done: bool) -> None:
    """Its end is no place to begin at; that of an older one is."""
    words = (*SHOW, plain, "--batch", batch)
    assert ("not committed" in invoke(*words).stdout) is not is_done
    assert document_of(*words)["batch"]["done"] is is_done


def test_a_damaged_file_is_a_finding(plain: Path) -> None:
    """It is named with its cause, and the exit status is 1."""
    (plain / "offsets" / "1").write_text("v9\n{}\n{}")
    (plain / "offsets" / ".1.crc").unlink()
    answer = invoke(*SHOW, plain)
    assert answer.exit_code == 1
    assert "offsets/1" in answer.stdout
    assert "Cause: a newer Spark" in answer.stdout


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [
        ([], []),
        # Spark cannot start: it reads the newest batch and the batch before it.
        (["offsets/2"], ["offsets/2"]),
        (["offsets/3", "commits/3", "offsets/1"], ["offsets/1"]),
        (["offsets/3"], ["offsets/3"]),
        # The copy has offsets/3, and not the commits of batches that ended meanwhile.
        (["commits/2", "commits/3"], ["commits/2"]),
        # Asynchronous progress tracking leaves out both files of a batch.
        (["offsets/2", "commits/2"], []),
        (["offsets/1", "commits/1", "offsets/2", "commits/2", "commits/3"], []),
    ],
)
def test_files_of_a_partial_copy(left_out: list[str], missing: list[str], tmp_path: Path) -> None:
    """Those that Spark needs, or whose loss makes it skip a batch, are named: exit status 1."""
    ends: list[dict[TopicPartition, int]] = [{TP: 10 * batch} for batch in range(1, 5)]
    files = CheckpointFiles(tmp_path / "c", {TP: 0}, *ends)
    for file in left_out:
        (files.folder / file).unlink()
    answer = invoke(*SHOW, files.folder)
    named = [finding.split()[0] for finding in document_of(*SHOW, files.folder)["findings"]]
    assert (named, answer.exit_code) == (missing, bool(missing))


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["/no/such"], 2, "/no/such"),
        (["{empty}"], 2, "{empty}"),
        (["{plain}/offsets"], 3, "{plain}/offsets"),
        (["nosuch://x/y"], 2, "nosuch://"),
        (["{plain}", "--batch", "7"], 3, "offsets/7"),
        (["{plain}", "--storage", "x"], 2, "key=value"),
    ],
)
def test_bad_input(arguments: list[str], code: int, part: str, plain: Path, tmp_path: Path) -> None:
    """One error that says what is wrong."""
    (tmp_path / "empty").mkdir()
    *words, part = (one.format(plain=plain, empty=tmp_path / "empty") for one in [*arguments, part])
    error = error_of(*SHOW, *words)
    assert (error.exit_code, part in str(error)) == (code, True), error
