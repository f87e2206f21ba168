"""Snapshots that have expired are found in older metadata, each file of which is read once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from eo_listener.spark.jvm import iceberg_metadata_log
from eo_listener.spark.jvm.iceberg_metadata_log import MetadataLog


class Files:
    """Metadata files by number; each has the two snapshots before it, and a log of three files."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.deleted: set[int] = set()

    def metadata(self, number: int) -> Any:
        """What a file has."""
        older = range(max(0, number - 3), number)
        return SimpleNamespace(
            snapshot=lambda at: f"snapshot {at}" if number - 2 < at <= number else None,
            previousFiles=lambda: [SimpleNamespace(file=lambda n=n: str(n)) for n in older],
        )

    def open(self, name: str) -> Any:
        """Read one."""
        if int(name) in self.deleted:
            return None
        self.read.append(int(name))
        return self.metadata(int(name))

    def log(self, number: int) -> MetadataLog:
        """The log of one of them."""
        return MetadataLog(self.metadata(number), self.open)


def test_files_are_read_from_the_newest_to_the_oldest() -> None:
    """Beyond the log of the first one too, and only as far as needed."""
    files = Files()
    log = files.log(20)
    assert log.snapshot(20) == "snapshot 20"
    assert files.read == []
    assert [log.snapshot(at) for at in (15, 14, 9)] == ["snapshot 15", "snapshot 14", "snapshot 9"]
    assert files.read == [19, 18, 17, 16, 15, 14, 13, 12, 11, 10]
    assert log.snapshot(-5) is None
    assert files.read[-1] == 0
    assert len(set(files.read)) == len(files.read)


def test_what_was_deleted_ends_the_search() -> None:
    """What lies behind it is not known; what lies before it still is."""
    files = Files()
    files.deleted = {15}
    log = files.log(20)
    assert log.snapshot(16) == "snapshot 16"
    assert log.snapshot(12) is None
    assert log.snapshot(15) == "snapshot 15"


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
        log.snapshot(18)
    assert log.snapshot(18) == "snapshot 18"


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table can have any number of files."""
    monkeypatch.setattr(iceberg_metadata_log, "FILES", 4)
    files = Files()
    assert files.log(20).snapshot(10) is None
    assert files.read == [19, 18, 17, 16]
