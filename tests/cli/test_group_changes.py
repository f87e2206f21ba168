"""What `eo-listener group` prints of a change, and refuses to export, without a broker."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest

from eo_listener.cli.group import _refuse_absent, _write
from eo_listener.cli.group_changes import _document, _print
from eo_listener.commit.groups.group_change import GroupChange, GroupOutcome
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.errors import SettingsError, StorageError
from eo_listener.model.offsets import Position, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
AUTHOR = CommitMetadata(name="", query_id="", run_id="12345678", batch_id=-1, command="group seed")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({T0: 5}, "the group is there already"),
        ({T0: 7}, "no partition would go back"),
        ({T0: 5, T1: 7}, "no partition would go back"),
    ],
)
def test_a_rewind_of_nothing_says_why(
    wanted: dict[TopicPartition, int], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group that is behind is not where it was to go."""
    held = {T0: Position(offset=5)}
    change = GroupChange.plan("g", held, wanted, AUTHOR, rewinds=True)
    _print(Origin(what="x", offsets=wanted), change, executed=True)
    assert f"nothing to commit: {words}\n" in capsys.readouterr().out


def test_a_commit_in_part_names_what_has_moved(capsys: pytest.CaptureFixture[str]) -> None:
    """By partition, in the table and in the document; then the error ends the command."""
    change = GroupChange.plan("g", {T1: Position(offset=3)}, {T0: 5, T1: 7}, AUTHOR, rewinds=False)
    held = {T0: change.positions()[T0], T1: Position(offset=3)}
    outcome = GroupOutcome(change=change, held=held, failed={"X": "X for t-1"})
    origin = Origin(what="x", offsets={T0: 5, T1: 7})
    _print(origin, change, executed=True, outcome=outcome)
    printed = capsys.readouterr().out
    assert "committed: 1 of 2 partitions\n" in printed
    rows = [line.split("│") for line in printed.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row[3:6]] for row in rows] == [
        ["-", "5", "new"],
        ["3", "3", "not moved"],
    ]
    document = _document(origin, change, executed=True, outcome=outcome)
    assert [one["moved"] for one in document["partitions"]] == [True, False]  # type: ignore[attr-defined]  # a list
    whole = GroupOutcome(change=change, held=change.positions(), failed={})
    _print(origin, change, executed=True, outcome=whole)
    assert "committed: 2 partitions, and read back\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("groups", "wanted", "words"),
    [
        (("g", "none"), (), "group none holds no offsets$"),
        (("g", "none"), ("t",), "group none holds no offsets of t$"),
        (("g",), ("t", "v"), "group g holds no offsets of v$"),
    ],
)
def test_nothing_is_left_out_of_an_export(
    groups: tuple[str, ...], wanted: tuple[str, ...], words: str
) -> None:
    """A group or a topic that is named and has nothing is more likely misspelled."""
    held = {group: {T0: Position(offset=5)} if group == "g" else {} for group in groups}
    with pytest.raises(SettingsError) as raised:
        _refuse_absent(held, frozenset(wanted))
    assert re.search(words, raised.value.problem)
    _refuse_absent({"g": held["g"]}, frozenset({"t"}))


def test_a_full_disk_leaves_the_file_before(tmp_path: Path) -> None:
    """An export that is cut off would be read as offsets of fewer digits."""
    file = tmp_path / "offsets.csv"
    _write(file, "t,0,5\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, limits[1]))
    try:
        with pytest.raises(StorageError, match="cannot be written: File too large"):
            _write(file, "t,0,123456\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_text() == "t,0,5\n"
    assert [one.name for one in tmp_path.iterdir()] == ["offsets.csv"]


def test_an_export_goes_where_it_is_sent(tmp_path: Path) -> None:
    """Through a link to its file, with the rights it has; and to a device."""
    file, link = tmp_path / "offsets.csv", tmp_path / "link"
    file.touch(mode=0o640)
    link.symlink_to(file)
    _write(link, "t,0,6\n")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("t,0,6\n", 0o640)
    assert link.is_symlink()
    _write(Path("/dev/null"), "x")
    assert Path("/dev/null").is_char_device()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StorageError, match="cannot be written: "):
        _write(tmp_path / "loop", "x")
    with pytest.raises(StorageError, match="cannot be written: No such file"):
        _write(tmp_path / "nosuch" / "x", "x")
