"""Snapshots that have expired are found in older metadata, by time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from eo_listener.spark.jvm import iceberg_metadata_log
from eo_listener.spark.jvm.iceberg_metadata_log import MetadataLog, MetadataSearch

EACH = 1000  # ms between two commits
LOG = 10  # how many files a file names


class Files:
    """A metadata file for each commit, with its snapshot, the `kept` and LOG files before it."""

    def __init__(self, kept: int = 1) -> None:
        self.kept = kept
        self.read: list[int] = []
        self.deleted: set[int] = set()
        self.lacking: dict[int, set[int]] = {}
        self.late: dict[int, int] = {}

    def metadata(self, number: int) -> Any:
        """What a file has."""
        lacking = self.lacking.get(number, set())
        return SimpleNamespace(
            snapshot=lambda at: (
                f"snapshot {at}"
                if number - self.kept <= at <= number and at not in lacking
                else None
            ),
            previousFiles=lambda: [
                SimpleNamespace(file=lambda n=n: str(n), timestampMillis=lambda n=n: self.time(n))
                for n in range(max(0, number - LOG), number)
            ],
        )

    def time(self, number: int) -> int:
        """When a commit was made."""
        return number * EACH + self.late.get(number, 0)

    def open(self, name: str) -> Any:
        """Read one."""
        if int(name) in self.deleted:
            return None
        self.read.append(int(name))
        return self.metadata(int(name))

    def log(self, number: int) -> MetadataLog:
        """The log of one of them."""
        return MetadataLog(self.metadata(number), self.open)

    def parent(self, log: MetadataLog, child: int) -> Any:
        """What the log has of the snapshot before one."""
        return log.snapshot(child - 1, child=child, committed=child * EACH)


def test_the_file_of_that_time_is_read() -> None:
    """One file, wherever it is in the log, and in whatever order snapshots are asked for."""
    files = Files()
    log = files.log(20)
    assert files.parent(log, 20) == "snapshot 19"
    assert files.read == []
    assert [files.parent(log, at) for at in (13, 18, 15)] == [
        "snapshot 12",
        "snapshot 17",
        "snapshot 14",
    ]
    assert files.read == [13, 18, 15]
    assert log.search == MetadataSearch(files=3, back_to=13 * EACH)


def test_a_file_has_all_that_had_not_expired_then() -> None:
    """A chain is read from as few files as it was in."""
    files = Files(kept=4)
    log = files.log(20)
    for at in range(16, 8, -1):
        assert files.parent(log, at) == f"snapshot {at - 1}"
    assert files.read == [16, 12]


def test_the_log_goes_on_in_older_files() -> None:
    """Each names those before it: one file in ten is read to come far back."""
    files = Files()
    log = files.log(1000)
    assert files.parent(log, 503) == "snapshot 502"
    assert len(files.read) == 50
    assert files.parent(log, 2) == "snapshot 1"
    assert files.parent(log, 700) == "snapshot 699"
    assert len(files.read) == 50 + 51 + 1
    assert log.snapshot(-5, child=-4, committed=-4 * EACH) is None


def test_what_a_commit_has_expired_itself() -> None:
    """A transaction can add a snapshot and expire its parent: the file before has it."""
    files = Files()
    files.lacking[15] = {14}
    assert files.parent(files.log(20), 15) == "snapshot 14"
    assert files.read == [15, 14]


def test_clocks_that_differ() -> None:
    """A commit may be a minute older than that before; of a transaction the last time counts."""
    files = Files()
    files.late = {13: 5 * EACH, 14: 2 * EACH, 15: 500}
    assert files.parent(files.log(20), 15) == "snapshot 14"
    assert files.read == [13, 14]


def test_what_was_deleted_ends_the_search() -> None:
    """What lies behind it is not known; what lies before it still is. It is said what is gone."""
    files = Files()
    files.deleted = set(range(15))
    log = files.log(20)
    assert files.parent(log, 13) is None
    assert log.search == MetadataSearch(files=1, back_to=15 * EACH, deleted="14")
    assert files.parent(log, 12) is None
    assert files.parent(log, 16) == "snapshot 15"
    assert files.read == [15, 15]


def test_a_file_that_cannot_be_read_is_tried_again() -> None:
    """It is not taken for the end of the log."""
    files, away = Files(), [True]
    real = files.open

    def open_(name: str) -> Any:
        if away:
            away.clear()
            raise OSError
        return real(name)

    log = MetadataLog(files.metadata(20), open_)
    with pytest.raises(OSError):  # noqa: PT011  # that of the test
        files.parent(log, 18)
    assert files.parent(log, 18) == "snapshot 17"


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table can have any number of files; it is said that there are more."""
    monkeypatch.setattr(iceberg_metadata_log, "FILES", 4)
    files = Files()
    log = files.log(1000)
    assert files.parent(log, 10) is None
    assert len(files.read) == 4
    assert log.search == MetadataSearch(files=4, back_to=960 * EACH, bounded=True)


def test_a_log_is_not_read_unless_something_has_expired() -> None:
    """A table is refreshed several times a batch, and its log has a hundred entries."""

    def previous() -> Any:
        raise AssertionError

    metadata = SimpleNamespace(snapshot=lambda at: f"snapshot {at}", previousFiles=previous)
    log = MetadataLog(metadata, lambda _: None)
    assert log.snapshot(5, child=6, committed=0) == "snapshot 5"
