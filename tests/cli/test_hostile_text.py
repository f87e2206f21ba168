"""Texts that others have chosen, in what a command prints and in its error."""

from __future__ import annotations

import json

import pytest

from eo_listener import cli
from eo_listener.cli.options import print_json
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.errors import FormatError


@pytest.mark.parametrize("text", ["zürich", "\ud800", "a\nb"])
def test_a_document_of_any_text(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of a character, which another program's metadata may hold, ends no command."""
    writer = CommitMetadata.parse(json.dumps({"v": 1, "i": "i", "r": "r", "b": 1, "q": text}))
    assert writer is not None
    print_json({"writer": writer.name})
    assert json.loads(capsys.readouterr().out) == {"writer": text}


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
