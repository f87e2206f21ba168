"""What commands print of groups, export, and keep between two readings; without a broker."""

from __future__ import annotations

import io
import resource
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from rich.console import Console

from eo_listener.cli import group_status
from eo_listener.cli.group import _document, _print, _refuse_absent, _write
from eo_listener.cli.group_status import StatusReader
from eo_listener.cli.status_screen import screen
from eo_listener.commit.groups.group_change import GroupChange, GroupOutcome
from eo_listener.errors import KafkaError, SettingsError, StorageError
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.kafka.many_groups import HeldByGroup
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
AUTHOR = CommitMetadata(name="", query_id="", run_id="12345678", batch_id=-1, command="group seed")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [({T0: 5}, "already there"), ({T0: 7}, "would go back"), ({T0: 5, T1: 7}, "would go back")],
)
def test_a_rewind_of_nothing_says_why(
    wanted: dict[TopicPartition, int], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group that is behind is not where it was to go."""
    held = {T0: Position(offset=5)}
    change = GroupChange.plan("g", held, wanted, AUTHOR, rewinds=True)
    _print(Origin(label="x", offsets=wanted), change, executed=True)
    assert f"{words}\n" in capsys.readouterr().out


def test_a_commit_in_part_names_what_has_moved(capsys: pytest.CaptureFixture[str]) -> None:
    """By partition, in the table and in the document; then the error ends the command."""
    change = GroupChange.plan("g", {T1: Position(offset=3)}, {T0: 5, T1: 7}, AUTHOR, rewinds=False)
    held = {T0: change.positions()[T0], T1: Position(offset=3)}
    outcome = GroupOutcome(change=change, group_positions=held, errors={"X": "X for t-1"})
    origin = Origin(label="x", offsets={T0: 5, T1: 7})
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
    with pytest.raises(KafkaError, match=r"Moved: t-0\. Not moved: t-1\."):
        outcome.require_all()
    whole = GroupOutcome(change=change, group_positions=change.positions(), errors={})
    _print(origin, change, executed=True, outcome=whole)
    assert "committed: 2 partitions, and read back\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("groups", "wanted", "words"),
    [
        (("g", "none"), (), r"group none holds no offsets\."),
        (("g", "none"), ("t",), r"group none holds no offsets of t\."),
        (("g",), ("t", "v"), r"group g holds no offsets of v\."),
    ],
)
def test_nothing_is_left_out_of_an_export(
    groups: tuple[str, ...], wanted: tuple[str, ...], words: str
) -> None:
    """A group or a topic that is named and has nothing is more likely misspelled."""
    held = {group: {T0: Position(offset=5)} if group == "g" else {} for group in groups}
    with pytest.raises(SettingsError, match=words):
        _refuse_absent(held, frozenset(wanted))
    _refuse_absent({"g": held["g"]}, frozenset({"t"}))


def test_a_full_disk_leaves_the_file_before(tmp_path: Path) -> None:
    """An export that is cut off would be read as offsets of fewer digits."""
    file = tmp_path / "offsets.csv"
    _write(file, "t,0,5\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, limits[1]))
    try:
        with pytest.raises(StorageError, match="File too large"):
            _write(file, "t,0,123456\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_text() == "t,0,5\n"
    assert [one.name for one in tmp_path.iterdir()] == ["offsets.csv"]


def test_an_export_goes_where_it_is_sent(tmp_path: Path) -> None:
    """Through a link to its file, with the rights it has; and to a device."""
    file, link = tmp_path / "offsets.csv", tmp_path / "link"
    file.touch()
    file.chmod(0o640)
    link.symlink_to(file)
    _write(link, "t,0,6\n")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("t,0,6\n", 0o640)
    assert link.is_symlink()
    _write(Path("/dev/null"), "x")
    assert Path("/dev/null").is_char_device()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for nowhere in (tmp_path / "loop", tmp_path / "nosuch" / "x"):
        with pytest.raises(StorageError):
            _write(nowhere, "x")


UNLISTED: set[str] = set()  # by the broker, for a moment
SERVERS = {"bootstrap.servers": "k:9092"}
TPS = [TopicPartition("flights", number) for number in range(3)]


def held(*numbers: int, error: str | None = None) -> HeldByGroup:
    """A group that holds an offset of these partitions."""
    positions = {TPS[number]: Position(offset=1, metadata="") for number in numbers}
    return HeldByGroup(positions=positions, error=error)


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> dict[str, HeldByGroup]:
    """What the groups of a made-up cluster hold."""
    found: dict[str, HeldByGroup] = {}

    def ends(partitions: tuple[TopicPartition, ...]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 1)

    cluster = SimpleNamespace(
        partitions=lambda topics: tuple(TPS) if topics else (),
        log_ends=ends,
        stable_ends=ends,
    )

    def read(names: Iterable[str]) -> dict[str, HeldByGroup]:
        return {name: found.get(name, held()) for name in names}

    many = SimpleNamespace(names=lambda: tuple(set(found) - UNLISTED), read=read)
    monkeypatch.setattr(group_status, "ClusterReader", lambda _: cluster)
    monkeypatch.setattr(group_status, "ManyGroups", lambda *_, **__: many)
    return found


def test_an_error_names_the_options_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address or the login may be wrong."""
    refusal = KafkaError("cannot read g", code="SASL_AUTHENTICATION_FAILED")
    cluster = SimpleNamespace(group=Mock(side_effect=refusal))
    monkeypatch.setattr(group_status, "ClusterReader", lambda _: cluster)
    reader = StatusReader(SERVERS, ("g",), every=False, repeated=False)
    with pytest.raises(KafkaError, match="-b/--bootstrap-server, -X"):
        reader.read()


def test_nothing_is_kept_of_groups_that_are_gone(groups: dict[str, HeldByGroup]) -> None:
    """A reader that runs for months sees short-lived groups come and go."""
    reader = StatusReader(SERVERS, (), every=True, repeated=True)
    for number in range(100):
        groups.clear()
        groups[f"console-consumer-{number}"] = held(0, 1, 2)
        (one,) = reader.read()
        assert len(one.verdicts) == 3
    assert len(reader._windows) == 3
    assert len(reader._trends) == 1


def test_a_group_that_could_not_be_read_keeps_what_was_seen_of_it(
    groups: dict[str, HeldByGroup],
) -> None:
    """Its verdict does not begin from nothing after a moment without its coordinator."""
    reader = StatusReader(SERVERS, (), every=True, repeated=True)
    groups["g"] = held(0, 1)
    reader.read()
    groups["g"] = held(error="NOT_COORDINATOR")
    (refused,) = reader.read()
    assert refused.error == "NOT_COORDINATOR"
    assert len(reader._windows) == 2
    groups["g"] = held()
    reader.read()
    assert not reader._windows


def test_a_group_that_is_not_listed_for_a_moment_is_still_there(
    groups: dict[str, HeldByGroup],
) -> None:
    """A broker that has just started lists none that it is still to load; one that is gone is."""
    reader = StatusReader(SERVERS, ("g*", "named"), every=False, repeated=True)
    groups.update({"g1": held(0), "g2": held(1), "other": held(2)})
    assert [one.group for one in reader.read()] == ["g1", "g2", "named"]
    UNLISTED.update({"g1", "g2"})
    try:
        groups["g2"] = held(error="NOT_COORDINATOR")
        assert [one.group for one in reader.read()] == ["g1", "g2", "named"]
        del groups["g1"]
        assert [one.group for one in reader.read()] == ["g2", "named"]
    finally:
        UNLISTED.clear()
    assert [one.group for one in reader.read()] == ["g2", "named"]


@pytest.mark.parametrize("single", [True, False])
def test_a_commit_of_no_batch_has_no_number(
    groups: dict[str, HeldByGroup], *, single: bool
) -> None:
    """Offsets that a command was given are of no batch."""
    position = Position(offset=1, metadata=AUTHOR.text())
    groups["g"] = HeldByGroup(positions={TPS[0]: position})
    reader = StatusReader(SERVERS, (), every=True, repeated=False)
    shown = io.StringIO()
    made = screen(reader.read(), single=single, cluster=reader.cluster)
    Console(width=120, file=shown).print(made)
    assert "eo-listener group seed" in shown.getvalue()
    assert "-1" not in shown.getvalue()
