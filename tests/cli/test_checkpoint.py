"""`eo-listener checkpoint`: what is printed, and by which exit code it is known; no broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner, Result

from eo_listener.cli import app
from eo_listener.model.errors import EoListenerError
from tests.attack import surgery
from tests.spark.checkpoint.recorded import read, unpack


def run(*arguments: object) -> Result:
    answer = CliRunner().invoke(app, ["checkpoint", *map(str, arguments)])
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer


def document(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return found


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Three batches of Spark 4.0, the last of them in doubt."""
    folder = unpack("4.0.0", "plain", tmp_path / "plain")
    surgery.before_commit(folder)
    return folder


def test_show_prints_where_the_query_is(plain: Path) -> None:
    """Query id, batches, offsets and the batch in doubt; 0, since nothing is wrong with that."""
    answer = run("show", plain)
    assert answer.exit_code == 0
    for part in ("planned 0 to 2", "committed 0 to 1", "in doubt    2,", "plain-4.0.0"):
        assert part in answer.stdout
    found = document("show", plain)
    assert found["batch"]["batch"] == 1
    assert found["in_doubt"]["batch"] == 2
    assert found["sources"][0]["partitions"][0] == {
        "topic": "plain-4.0.0",
        "partition": 0,
        "initial": 0,
        "next_offset": 16,
        "in_doubt_until": 24,
    }


def test_show_says_that_a_batch_is_not_committed(plain: Path) -> None:
    """Its end is no place to begin at; that of an older one is."""
    assert "batch       2, not committed, format v1" in run("show", plain, "--batch", "2").stdout
    assert document("show", plain, "--batch", "2")["batch"]["done"] is False
    assert "not committed" not in run("show", plain, "--batch", "0").stdout
    found = document("show", plain)
    assert (found["batch"]["done"], found["in_doubt"]["done"]) == (True, False)


def test_show_reads_a_remote_checkpoint() -> None:
    """By a URL of any storage that fsspec has."""
    storage = MemoryFileSystem()
    try:
        for path, content in read("4.2.0")["v2"].items():
            storage.pipe_file(f"/shown/{path}", content)
        assert document("show", "memory://shown")["batch"]["format"] == 2
    finally:
        storage.rm("/shown", recursive=True)


def test_show_names_a_source_that_is_not_kafka(tmp_path: Path) -> None:
    """With what its last offset says."""
    answer = run("show", unpack("4.0.0", "mixed", tmp_path))
    assert "is not Kafka: " in answer.stdout


def test_a_damaged_file_is_a_finding(plain: Path) -> None:
    """It is named with its cause, and the exit status is 1."""
    (plain / "offsets" / "1").write_text("v9\n{}\n{}")
    (plain / "offsets" / ".1.crc").unlink()
    answer = run("show", plain)
    assert answer.exit_code == 1
    assert "offsets/1 is in a newer format" in answer.stdout
    assert "Cause: a newer Spark" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "/no/such"], 2, "there is no checkpoint at /no/such"),
        (["show", "{empty}"], 2, "there is no checkpoint at"),
        (["show", "{plain}/offsets"], 3, "this is not a checkpoint"),
        (["show", "nosuch://x/y"], 2, "cannot be opened"),
        (["show", "{plain}", "--batch", "7"], 3, "offsets/7 is missing"),
        (["show", "{plain}", "--storage", "x"], 2, "key=value"),
    ],
)
def test_bad_input(
    arguments: list[str], code: int, words: str, plain: Path, tmp_path: Path
) -> None:
    """One error that says what is wrong."""
    (tmp_path / "empty").mkdir()
    given = [one.format(plain=plain, empty=tmp_path / "empty") for one in arguments]
    with pytest.raises(EoListenerError, match=words) as raised:
        run(*given)
    assert raised.value.exit_code == code


def test_a_large_checkpoint(plain: Path) -> None:
    """10,000 partitions are shown."""
    offsets = json.dumps({"t": dict.fromkeys(map(str, range(10_000)), 7)})
    (plain / "offsets" / "1").write_text(f'v1\n{{"batchTimestampMs":1}}\n{offsets}')
    (plain / "offsets" / ".1.crc").unlink()
    (plain / "offsets" / "2").unlink()
    found = document("show", plain)
    assert len(found["sources"][0]["partitions"]) == 10_003  # those of the start, too
