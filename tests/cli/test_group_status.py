"""What a reader of groups keeps between two readings."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from types import SimpleNamespace

import pytest
from rich.console import Console

from eo_listener.cli import group_status
from eo_listener.cli.group_status import StatusReader
from eo_listener.cli.status_screen import screen
from eo_listener.kafka.many_groups import HeldByGroup
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.offsets import Position, TopicPartition

UNLISTED: set[str] = set()
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


def test_nothing_is_kept_of_groups_that_are_gone(groups: dict[str, HeldByGroup]) -> None:
    """A reader that runs for months sees short-lived groups come and go."""
    reader = StatusReader({"bootstrap.servers": "k:9092"}, (), every=True, again=True)
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
    reader = StatusReader({"bootstrap.servers": "k:9092"}, (), every=True, again=True)
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
    groups: dict[str, HeldByGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has just started lists none that it is still to load; one that is gone is."""
    reader = StatusReader({"bootstrap.servers": "k:9092"}, ("g*", "named"), every=False, again=True)
    groups.update({"g1": held(0), "g2": held(1), "other": held(2)})
    assert [one.group for one in reader.read()] == ["g1", "g2", "named"]
    monkeypatch.setattr("tests.cli.test_group_status.UNLISTED", {"g1", "g2"})
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
    writer = CommitMetadata(
        name="", query_id="", run_id="00000020", batch_id=-1, command="group seed"
    )
    position = Position(offset=1, metadata=writer.text())
    groups["g"] = HeldByGroup(positions={TPS[0]: position})
    reader = StatusReader({"bootstrap.servers": "k:9092"}, (), every=True, again=False)
    out = Console(width=120, file=io.StringIO())
    out.print(screen(reader.read(), single=single, cluster=reader.cluster))
    shown = out.file.getvalue()  # type: ignore[attr-defined]  # of StringIO
    assert "eo-listener group seed" in shown
    assert "-1" not in shown
