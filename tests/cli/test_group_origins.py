"""Where `eo-listener group` takes offsets from: arguments and files, without a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eo_listener.cli.group_changes import Rules, _as_options
from eo_listener.cli.group_origins import NamedLedger, NamedOrigin, parse_offsets, parse_time
from eo_listener.model.errors import EoListenerError, SettingsError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import QUERY, entry_of
from tests.cli.sqlite_ledger import Store

NOBODY: Any = None  # in the place of a cluster that is not asked


def named(**given: Any) -> NamedOrigin:
    return NamedOrigin(group="g", command="group seed", **given)


def ledger(address: str | None, **given: str) -> NamedLedger | None:
    names = {"schema": None, "sink": None, "query": None, **given}
    return NamedLedger.of(address, schema=names["schema"], sink=names["sink"], query=names["query"])


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1357016400000", 1357016400000),
        ("2013-01-01T05:00:00Z", 1357016400000),
        ("2013-01-01T06:00:00+01:00", 1357016400000),
        ("2013-01-01 05:00:00.250+00:00", 1357016400250),
    ],
)
def test_a_time(text: str, milliseconds: int) -> None:
    """By a date with its zone, or in milliseconds."""
    assert parse_time(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "-1", "2013-01-01T05:00:00", "yesterday", "1969-01-01T00:00:00Z", "9" * 40]
)
def test_no_time(text: str) -> None:
    """One without a zone may mean several moments."""
    with pytest.raises(SettingsError, match="with its zone"):
        parse_time(text)


def test_offsets_as_spark_writes_them() -> None:
    """Are taken from the command line."""
    assert parse_offsets('{"t":{"0":5,"1":0}}') == {
        TopicPartition("t", 0): 5,
        TopicPartition("t", 1): 0,
    }


@pytest.mark.parametrize(
    "text", ["", "{}", "null", "5", "[]", '{"t":{"0":-2}}', '{"t":5}', '{"t":']
)
def test_no_offsets(text: str) -> None:
    """Wishes such as the earliest (-2) are no offsets, and nothing is not taken for all."""
    with pytest.raises(SettingsError, match="as Spark writes them"):
        parse_offsets(text)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "exactly one place"),
        ({"checkpoint": "/c", "time": "0"}, "exactly one place"),
        ({"checkpoint": "/c", "ledger": ledger("sqlite:x")}, "exactly one place"),
        ({"other_group": "g"}, "group g is both"),
        ({"other_group": " "}, "a group is empty"),
    ],
)
def test_one_origin(given: dict[str, Any], words: str) -> None:
    """Is named, and is not the group itself."""
    with pytest.raises(SettingsError, match=words):
        named(**given)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"", "it is empty"),
        (b"\xff\xfe\x00", "not text in UTF-8"),
        (b"a,t,0,5\nb,t,0,5\n", "has 2 groups, and none of them is g"),
        (b'{"v":7}', "of format 7"),
    ],
)
def test_a_file_that_does_not_do(content: bytes | None, words: str, tmp_path: Path) -> None:
    """Missing, empty, of another kind, of other groups, of a newer release."""
    file = tmp_path / "offsets"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(EoListenerError, match=words):
        named(file=file).read(NOBODY, (), {})


def test_a_file_without_times(tmp_path: Path) -> None:
    """CSV has none, so it cannot be imported by time."""
    file = tmp_path / "offsets"
    file.write_text("t,0,5\n")
    with pytest.raises(SettingsError, match=r"no time for t-0.*--times"):
        named(file=file, by_time=True).read(NOBODY, (), {})


def test_the_part_of_the_group_is_taken(tmp_path: Path) -> None:
    """Of a file of several groups, and of the topics that are named."""
    file = tmp_path / "offsets"
    file.write_text("h,t,0,5\ng,t,0,6\ng,u,0,7\n")
    origin, author = named(file=file, topics=frozenset({"t"})).read(NOBODY, (), {})
    assert dict(origin.offsets) == {TopicPartition("t", 0): 6}
    assert (author.command, author.query_id, author.batch_id) == ("group seed", "", -1)
    assert len(author.run_id) == 8


def test_a_ledger(tmp_path: Path) -> None:
    """Where its heads are, with the ids of the topics; query and batch are those of the newest."""
    store = Store(tmp_path / "delays.db")
    tp = TopicPartition("flights", 0)
    store.write(entry_of({}, {tp: OffsetRange(0, 5)}, batch_id=7))
    store.write(entry_of({}, {tp: OffsetRange(0, 3)}, query="other"))
    with pytest.raises(SettingsError, match="2 ledgers"):
        named(ledger=ledger(store.address)).read(NOBODY, (), {})
    origin, author = named(ledger=ledger(store.address, query=QUERY)).read(NOBODY, (), {})
    assert dict(origin.offsets) == {tp: 5}
    assert set(origin.topic_ids) == {tp}
    assert (author.name, author.query_id, author.batch_id) == (QUERY, "query-1", 7)
    assert author.command == "group seed"


def test_names_of_a_ledger_without_one() -> None:
    """Mean nothing; an address of no known form is refused."""
    with pytest.raises(SettingsError, match="for --from-ledger"):
        ledger(None, query="q")
    assert ledger(None) is None
    with pytest.raises(SettingsError, match="none of the forms"):
        ledger("delays.db")


def test_a_fix_names_the_options_of_the_command() -> None:
    """Not the arguments of the function that both share."""
    fix = 'give out_of_range="earliest"; name the topics in topics=; or recreated="earliest"'
    assert _as_options(fix) == (
        "give --out-of-range earliest; name the topics in --topic; or --recreated earliest"
    )
    assert _as_options(None) is None


@pytest.mark.parametrize(
    "given", [("x", "fail", "fail"), ("fail", "leave", "fail"), ("fail", "fail", "latest")]
)
def test_rules_that_are_none(given: tuple[str, str, str]) -> None:
    """Are refused by the option's name."""
    with pytest.raises(SettingsError, match="must be one of"):
        Rules.of(*given)
