"""What commands are given and print: client properties, settings of Spark, and hostile texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from eo_listener import cli
from eo_listener.cli import group, preflight, spark_options
from eo_listener.cli.options import as_properties, print_json
from eo_listener.cli.spark_options import spark_for, spark_settings
from eo_listener.commit.groups.group_change import GroupChange
from eo_listener.errors import FormatError, SettingsError
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.model.check_finding import warning
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import OffsetRange, Position, TopicPartition
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.testing.made_up_entries import entry_of
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.commands import invoke
from tests.cli.sqlite_ledger import Store


def test_properties_of_a_file(tmp_path: Path) -> None:
    """One a line; comments and empty lines are left out, and what is typed after it counts."""
    file = tmp_path / "client.properties"
    file.write_text("# login\r\nsecurity.protocol = SASL_SSL\n\nsasl.mechanism=PLAIN\n"
                    "sasl.username=al\nsasl.password=a=b #c\n")  # fmt: skip
    assert as_properties("h:9092", [f"@{file}", "sasl.username=bo"]) == {
        "bootstrap.servers": "h:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "bo",
        "sasl.password": "a=b #c",
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe", "not UTF-8"),
        (b"sasl.password=planted\nplanted", "line 2.*key=value"),
        (b"bootstrap.servers=h:1", "cannot set bootstrap.servers"),
    ],
)
def test_a_file_that_cannot_be_used(content: bytes | None, said: str, tmp_path: Path) -> None:
    """It is said why, and nothing of its content."""
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=said) as raised:
        as_properties("h:9092", [f"@{file}"])
    assert "planted" not in str(raised.value)


def test_settings_are_read_as_they_are_written() -> None:
    """A value may have an equals sign; of what is refused no value is shown."""
    assert spark_settings(["spark.a=b=c", "spark.d="]) == {"spark.a": "b=c", "spark.d": ""}
    for wrong in ("a=hidden", "spark.a", "=hidden", "spark.a hidden", "spark.a:hidden", "hidden"):
        with pytest.raises(SettingsError, match=r"(spark\.a|\.\.\.) .* spark\.key=") as raised:
            spark_settings([wrong])
        assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("addresses", "delta", "iceberg"),
    [
        (["sqlite:x.db"], False, False),
        (["iceberg:lake.db.t"], False, True),
        (["iceberg:l.d.t", "delta:t"], True, True),
    ],
)
def test_what_a_table_needs_is_there(
    addresses: list[str], delta: bool, iceberg: bool,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Of several ledgers one is enough; it cannot be added later. That it takes long is said."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(spark_options, "LocalSpark", lambda _, **given: made.append(given))
    spark_for([LedgerAddress.parse(one) for one in addresses], {})
    made[0].pop("announce")()
    assert made == [{"delta": delta, "iceberg": iceberg}]
    printed = capsys.readouterr()
    assert (printed.out, "starting Spark" in printed.err) == ("", True)


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
    group._print(Origin(label="a time", offsets={}), change, executed=False)
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
    error = FormatError("group \x1b]0;owned\x07 is of another file", fix="Name\nanother")
    monkeypatch.setattr(cli, "app", Mock(side_effect=error))
    with pytest.raises(SystemExit):
        cli.main()
    expected = "eo-listener: group \\x1b]0;owned\\x07 is of another file. Fix: Name\nanother\n"
    assert capsys.readouterr().err == expected
