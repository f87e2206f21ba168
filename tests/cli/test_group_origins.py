"""Where `eo-listener group` takes offsets from: arguments and files, without a broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eo_listener.cli.group import ChangeOptions, _as_options
from eo_listener.cli.group_origins import NamedOrigin, OriginOptions, parse_offsets, parse_time
from eo_listener.errors import (
    EoListenerError,
    FormatError,
    PartitionVanishedError,
    SettingsError,
    StorageError,
)
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.model.ledger import LedgerKey, StoredLedger
from eo_listener.model.offsets_file import ExportedGroup, ExportedPartition, write_json
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from eo_listener.testing.made_up_entries import QUERY, entry_of
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.sqlite_ledger import BACK, Store

T0 = TopicPartition("t", 0)
NOBODY: Any = None  # in the place of a cluster that is not asked


def named(*, by_time: bool = False, **given: Any) -> NamedOrigin:
    options = OriginOptions(**given)
    return NamedOrigin(group="g", command="group seed", by_time=by_time, options=options)


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
    "text",
    [
        # A year, a date, seconds or microseconds would take a group to the wrong end of the log.
        *("2013", "20130101", "1357016400", "1357016400000000"),
        # One without a zone may mean several moments.
        *("", "-1", "2013-01-01T05:00:00", "yesterday", "1969-01-01T00:00:00Z", "9" * 40),
    ],
)
def test_no_time(text: str) -> None:
    """What may mean another moment is refused."""
    with pytest.raises(SettingsError):
        parse_time(text)


def test_offsets_as_spark_writes_them() -> None:
    """Are taken from the command line."""
    assert parse_offsets('{"t":{"0":5,"1":0}}') == {T0: 5, TopicPartition("t", 1): 0}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "null", "5", "[]", '{"t":{"0":-2}}', '{"t":5}', '{"t":', '{"t":{"0":1e999}}'),
        *('{"t":{"0":5.9}}', '{"t":{"0":true}}', '{"t":{"0":"7"}}', '{"t":{"0":5,"0":3}}'),
        *('{"t":{"0":5,"00":3}}', '{"t":{"0":5},"t":{"1":5}}', '{"t u":{"0":5}}'),
        *('{"t":{"0":9223372036854775808}}', '{"t":{"2147483648":0}}', "[" * 100_000),
    ],
)
def test_no_offsets(text: str) -> None:
    """Wishes such as the earliest (-2), nothing, what stands twice, and what Kafka cannot have."""
    with pytest.raises(SettingsError):
        parse_offsets(text)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"checkpoint": "/c", "time": "0"},
        {"checkpoint": "/c", "ledger": "sqlite:x"},
        {"other_group": "g"},
        {"other_group": " "},
        {"time": "0", "query": "q"},  # names of a ledger without one
        {"ledger": "delays.db"},  # no known form
    ],
)
def test_one_origin(given: dict[str, Any]) -> None:
    """Is named, and is not the group itself."""
    with pytest.raises(SettingsError):
        named(**given)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, StorageError),
        (b"", FormatError),
        (b"\xff\xfe\x00", FormatError),
        (b"a,t,0,5\nb,t,0,5\n", SettingsError),
        (b'{"v":7}', FormatError),
    ],
)
def test_a_file_that_does_not_do(
    content: bytes | None, error: type[EoListenerError], file: Path
) -> None:
    """Missing, empty, of another kind, of other groups, of a newer release."""
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(error):
        named(file=file).read(NOBODY, (), {})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "offsets"


def test_the_part_of_the_group_is_taken(file: Path) -> None:
    """Of a file of several groups, and of the topics that are named."""
    file.write_text("h,t,0,5\ng,t,0,6\ng,u,0,7\n")
    origin, author = named(file=file, topics=["t"]).read(NOBODY, (), {})
    assert dict(origin.offsets) == {T0: 6}
    assert (author.command, author.query_id, author.batch_id) == ("group seed", "", -1)
    assert len(author.run_id) == 8


def test_a_topic_that_is_not_there(file: Path) -> None:
    """One of several that are named: it is more likely misspelled than to be left out."""
    file.write_text("t,0,6\nu,0,7\n")
    with pytest.raises(SettingsError, match=r"topics v.*--topic"):
        named(file=file, topics=["t", "v"]).read(NOBODY, (), {})


def test_the_file_of_another_group_is_named(file: Path) -> None:
    """It may be meant; it is not hidden."""
    file.write_text("h,t,0,5")
    origin, _ = named(file=file).read(NOBODY, (), {})
    assert origin.label == f"the file {file} (group 'h')"


class Copy:
    """A cluster with partition 0 of topic t alone."""

    def times_origin(self, what: str, times: Mapping[TopicPartition, int]) -> Origin:
        return Origin(label=what, offsets={tp: at for tp, at in times.items() if tp == T0})


@pytest.mark.parametrize(
    ("times", "topics", "error"),
    [
        ({"t": 7, "empty": None}, None, r"no times for empty-0.*--topic"),
        ({"t": 7, "empty": None}, ["t"], None),  # as the error advises
        ({"t": 7, "u": 7}, None, r"lacks partitions .* u-0"),  # the group would hold nothing of it
        (None, None, r"no times for t-0.*--times"),  # CSV has none
    ],
)
def test_a_file_is_imported_by_time(
    times: dict[str, int | None] | None, topics: list[str] | None, error: str | None, file: Path
) -> None:
    """Each partition that is named has a time in the file, and is on the cluster."""
    file.write_text("t,0,5\n" if times is None else exported(times))
    cluster: Any = Copy()
    asked = named(file=file, by_time=True, topics=topics)
    if error is None:
        assert asked.read(cluster, (), {})[0].offsets == {T0: 7}
    else:
        with pytest.raises((SettingsError, PartitionVanishedError), match=error):
            asked.read(cluster, (), {})


def exported(times: Mapping[str, int | None]) -> str:
    rows = tuple(
        ExportedPartition(partition=TopicPartition(topic, 0), offset=5, timestamp=at)
        for topic, at in times.items()
    )
    return write_json([ExportedGroup(group="g", partitions=rows)], servers="a:1", exported_at=5)


def test_a_checkpoint_without_kafka(tmp_path: Path) -> None:
    """Has nothing for a group, whatever the topics are."""
    files = CheckpointFiles(tmp_path / "c", {}, {})
    with pytest.raises(SettingsError, match="has no Kafka offsets"):
        named(checkpoint=str(files.folder)).read(NOBODY, (), {})


def test_a_ledger(tmp_path: Path) -> None:
    """Where its heads are, with the ids of the topics; query and batch are those of the newest."""
    store = Store(tmp_path / "delays.db")
    tp = TopicPartition("flights", 0)
    store.write(entry_of({}, {tp: OffsetRange(0, 5)}, batch_id=7))
    store.write(entry_of({}, {tp: OffsetRange(0, 3)}, query="other"))
    with pytest.raises(SettingsError, match="2 ledgers"):
        named(ledger=store.address).read(NOBODY, (), {})
    origin, author = named(ledger=store.address, query=QUERY).read(NOBODY, (), {})
    assert dict(origin.offsets) == {tp: 5}
    assert set(origin.topic_ids) == {tp}
    assert (author.name, author.query_id, author.batch_id) == (QUERY, "query-1", 7)


@pytest.mark.parametrize("heads", [True, False])
@pytest.mark.parametrize("fix", [BACK.fix, ""])
def test_a_ledger_that_was_taken_back(
    heads: bool, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is said with the offsets; where it has none left, it is what there is to say."""
    store = Store(tmp_path / "delays.db")
    store.write(entry_of({}, {TopicPartition("flights", 0): OffsetRange(0, 5)}))
    back, read = BACK._replace(fix=fix), SqliteLedgerReader.ledgers

    def ledgers(reader: SqliteLedgerReader) -> dict[LedgerKey, StoredLedger]:
        return {
            key: replace(one, rollback=back, heads=one.heads if heads else {})
            for key, one in read(reader).items()
        }

    monkeypatch.setattr(SqliteLedgerReader, "ledgers", ledgers)
    asked = named(ledger=store.address)
    if heads:
        origin, _ = asked.read(NOBODY, (), {})
        assert f"({BACK.cause}" in origin.label
        assert fix in origin.label
    else:
        said = f"{BACK.cause}.*{fix or '--from-time'}"
        with pytest.raises(SettingsError, match=said):
            asked.read(NOBODY, (), {})


def test_a_fix_names_the_options_of_the_command() -> None:
    """Not the arguments of the function that both share."""
    fix = 'give out_of_range="earliest"; topics=; or recreated="earliest"'
    assert _as_options(fix) == "give --out-of-range earliest; --topic; or --recreated earliest"
    assert _as_options(None) is None


@pytest.mark.parametrize(
    "given", [("x", "fail", "fail"), ("fail", "leave", "fail"), ("fail", "fail", "latest")]
)
def test_rules_that_are_none(given: tuple[str, str, str]) -> None:
    """Are refused by the option's name."""
    missing, out_of_range, recreated = given
    options = ChangeOptions(out_of_range=out_of_range, recreated=recreated)
    with pytest.raises(SettingsError):
        options.chooser(missing)
