"""Texts that others have chosen, in what a command prints and in its error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eo_listener import cli
from eo_listener.cli import group_changes, preflight
from eo_listener.cli.options import print_json
from eo_listener.commit.groups.group_change import GroupChange
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.errors import FormatError
from eo_listener.model.offsets import OffsetRange, Position, TopicPartition
from eo_listener.preflight.findings import warning
from eo_listener.testing.made_up_entries import entry_of
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.commands import invoke
from tests.cli.sqlite_ledger import Store


@pytest.mark.parametrize("text", ["zürich", "\ud800", "a\nb"])
def test_a_document_of_any_text(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of a character, which another program's metadata may hold, ends no command."""
    writer = CommitMetadata.parse(json.dumps({"v": 1, "i": "i", "r": "r", "b": 1, "q": text}))
    assert writer is not None
    print_json({"writer": writer.name})
    assert json.loads(capsys.readouterr().out) == {"writer": text}


def test_what_a_member_calls_itself_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """A client id may hold anything."""
    preflight._print([warning("group g", "it has 1 members (\x1b[2J at h)", "stop \x1b[2J")])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printed.count("\\x1b[2J") == 2


LONG = TopicPartition("f" * 249, 0)


def test_no_table_cuts_a_topic_or_an_offset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What does not fit goes on in the next line of its cell: half an offset is another one."""
    files = CheckpointFiles(tmp_path / "c", {LONG: 123_456_789_000}, {LONG: 123_456_789_012})
    store = Store(tmp_path / "s.db")
    store.write(entry_of({}, {LONG: OffsetRange(123_456_789_000, 123_456_789_012)}))
    held, wanted = {LONG: Position(offset=1, metadata="")}, {LONG: 123_456_789_012}
    author = CommitMetadata(name="", query_id="", run_id="r", batch_id=-1, command="group seed")
    change = GroupChange.plan("g", held, wanted, author, rewinds=False)
    group_changes._print(Origin(what="a time", offsets={}), change, executed=False)
    printed = [capsys.readouterr().out]
    printed.append(invoke("checkpoint", "show", files.folder).stdout)
    printed.append(invoke("ledger", "show", store.address, "--history", "1").stdout)
    for text in printed:
        assert "\N{HORIZONTAL ELLIPSIS}" not in text
        assert text.count("f") >= 249


def test_an_error_is_text_that_no_terminal_obeys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as the name of a group in a file."""

    def refuse() -> None:
        raise FormatError("group \x1b]0;owned\x07 is of another file", fix="Name\nanother")

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(SystemExit):
        cli.main()
    expected = "eo-listener: group \\x1b]0;owned\\x07 is of another file. Fix: Name\nanother\n"
    assert capsys.readouterr().err == expected
