"""Threads, many checkpoints, bad storages and the end of it, with groups kept in memory."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.errors import SettingsError
from eo_listener.events import CommitFailed, CommitRefused, Event, PartitionsShared
from eo_listener.follow import FollowedCheckpoint, Follower, Notice, NoticeKind
from eo_listener.follow.checkpoint_tracker import CheckpointTracker, Reading, Step
from eo_listener.offsets import Offsets, TopicPartition
from eo_listener.spark.checkpoint.log_files import BatchOffsets, SourceOffsets
from eo_listener.testing import MemoryGroups
from tests.attack import surgery
from tests.commit.positions import by, metadata_of
from tests.spark.checkpoint.recorded import unpack
from tests.threads import none_left
from tests.waiting import until

CLUSTER = Cluster.from_properties({"bootstrap.servers": "h:1"})


class Watched:
    def __init__(self) -> None:
        self.groups = MemoryGroups()
        self.events: list[Event] = []
        self._open: list[Follower] = []

    def follower(self, *targets: FollowedCheckpoint, **settings: Any) -> Follower:
        made = Follower(
            targets,
            lambda cluster: self.groups,
            observers=[self.events.append],
            **{"interval": 0.1, **settings},
        )
        self._open.append(made)
        return made

    def start(self, *targets: FollowedCheckpoint, **settings: Any) -> Follower:
        made = self.follower(*targets, **settings)
        made.start()
        return made

    def held(self, group: str) -> dict[str, int]:
        held = self.groups.groups.get(group, {})
        return {str(tp): position.offset for tp, position in sorted(held.items())}

    def holds(self, group: str, offsets: dict[str, int]) -> Callable[[], bool]:
        return lambda: self.held(group) == offsets

    def kinds(self, checkpoint: str = "") -> list[NoticeKind]:
        return [
            event.kind
            for event in self.events
            if isinstance(event, Notice) and event.checkpoint.endswith(checkpoint)
        ]

    def end(self) -> None:
        for one in self._open:
            one.close(2.0)


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    with none_left():
        yield watched
        watched.end()


def target(folder: Path | str, group: str = "g") -> FollowedCheckpoint:
    return FollowedCheckpoint(location=str(folder), cluster=CLUSTER, groups={"*": group})


def three(batch: int) -> dict[str, int]:
    """Where the recorded query `plain` of 4.0.0 stands after a batch."""
    rounds = batch + 1
    return {
        "plain-4.0.0-0": 8 * rounds,
        "plain-4.0.0-1": 7 * rounds,
        "plain-4.0.0-2": 5 * rounds,
    }


def test_a_checkpoint_is_followed_as_it_grows(watched: Watched, tmp_path: Path) -> None:
    """From before it exists, over its first and each later batch, to its end."""
    whole = unpack("4.0.0", "plain", tmp_path / "whole")
    here = tmp_path / "here"
    watched.start(target(here))
    until(lambda: NoticeKind.ABSENT in watched.kinds())
    assert watched.held("g") == {}
    surgery.rewind_to(surgery.copy(whole, tmp_path / "young"), 0)
    (tmp_path / "young").rename(here)
    until(lambda: watched.held("g") == three(0))
    for batch in (1, 2):
        grow(here, whole, batch)
        until(watched.holds("g", three(batch)))
    offsets = [max(one.offset for one in held.values()) for _, held in watched.groups.history]
    assert offsets == sorted(offsets)


def grow(folder: Path, whole: Path, batch: int) -> None:
    """Let a checkpoint go on to a batch of the whole one, as Spark does: offsets, then commit."""
    for kind in ("offsets", "commits"):
        for name in (f".{batch}.crc", f"{batch}"):
            (folder / kind / name).write_bytes((whole / kind / name).read_bytes())


def test_two_queries_on_one_group(watched: Watched, tmp_path: Path) -> None:
    """The lowest of their offsets counts, told once; when one is gone the other's counts alone."""
    whole, ahead, behind = (
        unpack("4.0.0", "plain", tmp_path / name) for name in ("whole", "ahead", "behind")
    )
    surgery.rewind_to(ahead, 0)
    surgery.rewind_to(behind, 0)
    watched.start(target(ahead), target(behind))
    until(lambda: watched.kinds().count(NoticeKind.FOLLOWING) == 2)
    grow(ahead, whole, 1)
    grow(ahead, whole, 2)
    time.sleep(1.0)
    grow(behind, whole, 1)
    until(watched.holds("g", three(1)))
    shared = [event for event in watched.events if isinstance(event, PartitionsShared)]
    assert len(shared) == 1
    assert sorted(shared[0].readers) == sorted([str(ahead), str(behind)])
    assert watched.held("g") == three(1)
    shutil.rmtree(behind)
    until(watched.holds("g", three(2)))


class SlowFiles(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A remote storage that does not answer until it is released."""

    protocol = ("slow",)
    store: dict[str, Any] = {}  # noqa: RUF012  # the parent's own form
    pseudo_dirs = [""]  # noqa: RUF012
    answer = threading.Event()
    failures: list[Exception] = []  # noqa: RUF012

    def ls(self, *given: Any, **named: Any) -> Any:
        if self.failures:
            raise self.failures.pop()
        self.answer.wait(60)
        return super().ls(*given, **named)


@pytest.fixture
def slow() -> Iterator[type[SlowFiles]]:
    fsspec.register_implementation("slow", SlowFiles, clobber=True)
    SlowFiles.answer.clear()
    yield SlowFiles
    SlowFiles.answer.set()
    SlowFiles.failures.clear()


def test_a_slow_storage_holds_up_nobody_else(
    watched: Watched, slow: type[SlowFiles], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one does not answer the others are followed, it is told, and the end comes in time."""
    monkeypatch.setattr("eo_listener.follow.follower._SILENT", 0.5)
    folder = unpack("4.0.0", "plain", tmp_path / "c")
    follower = watched.start(target(f"slow://{uuid.uuid4()}", "s"), target(folder))
    until(lambda: watched.held("g") == three(2))
    time.sleep(0.6)
    follower.poll()
    follower.poll()
    assert watched.kinds().count(NoticeKind.SILENT) == 1
    began = time.monotonic()
    follower.close(3.0)
    assert time.monotonic() - began < 10.0
    slow.answer.set()


def test_a_storage_that_fails_is_asked_again(watched: Watched, slow: type[SlowFiles]) -> None:
    """Any error of a driver is told once and outlived; then its checkpoint is followed."""
    slow.answer.set()
    slow.failures += [RuntimeError("hunter2@"), ConnectionError("no route")]
    url = f"slow://{uuid.uuid4()}"
    watched.start(target(url))
    until(lambda: NoticeKind.ABSENT in watched.kinds())
    kinds = watched.kinds()
    assert NoticeKind.UNREACHABLE in kinds
    assert NoticeKind.RECOVERED in kinds


def test_once_reports_each_checkpoint(watched: Watched, tmp_path: Path) -> None:
    """What is durable is confirmed; each kind of trouble has its exit code."""
    made = {name: unpack("4.0.0", "plain", tmp_path / name) for name in ("good", "torn")}
    surgery.empty(made["torn"] / "commits" / "2")
    rate = unpack("4.0.0", "rate", tmp_path / "rate")
    (tmp_path / "young").mkdir()
    (tmp_path / "young" / "metadata").write_bytes((made["good"] / "metadata").read_bytes())
    folders = [made["good"], made["torn"], rate, tmp_path / "nosuch", tmp_path / "young"]
    follower = watched.follower(*(target(folder, folder.name) for folder in folders))
    reports = follower.once(30.0)
    assert [report.exit_code for report in reports] == [0, 1, 1, 3, 0]
    assert [report.batch for report in reports] == [2, 1, None, None, None]
    assert watched.held("good") == three(2)
    assert watched.held("torn") == three(1)
    assert reports[0].groups["good"][TopicPartition("plain-4.0.0", 0)] == 24


def test_one_checkpoint_under_two_names_is_refused(watched: Watched, tmp_path: Path) -> None:
    """Never two threads on one checkpoint, however it is spelt."""
    folder = unpack("4.0.0", "plain", tmp_path / "c")
    (tmp_path / "link").symlink_to(folder)
    for other in (f"file:{folder}", f"{folder}/", tmp_path / "link"):
        with pytest.raises(SettingsError, match="named twice"):
            watched.follower(target(folder), target(other, "h"))


@pytest.mark.parametrize("replaced", [True, False])
def test_the_waiting_offset_of_a_checkpoint_ends_with_it(
    watched: Watched, *, replaced: bool
) -> None:
    """Kafka refuses; the checkpoint goes, or is another query's; then Kafka takes commits again."""
    watched.groups.faults.append(lambda group, at: dict.fromkeys(at, "UNKNOWN_MEMBER_ID"))
    follower = watched.follower(target("/c"))
    tracker = CheckpointTracker(target("/c"), "/c")
    tp = TopicPartition("t", 0)

    def see(query: str, end: int | None, now: float) -> None:
        offsets = SourceOffsets(id="0", text="", offsets=Offsets({tp: end or 0}))
        batch = BatchOffsets(batch=0, version=1, metadata="{}", sources=(offsets,))
        durable = None if end is None else batch
        follower._act(
            "/c", tracker.on_reading(Reading(query_id=query or None, durable=durable), now)
        )

    see("q1", 100, 0.0)
    until(lambda: any(isinstance(event, CommitFailed) for event in watched.events))
    if replaced:
        see("q2", None, 1.0)
    else:
        see("", None, 1.0)
        see("", None, 2.0)
    assert follower._committer.flush(5.0)
    assert watched.held("g") == ({} if replaced else {"t-0": 100})
    see("q2" if replaced else "q1", 10 if replaced else 100, 3.0)
    assert follower._committer.flush(5.0)
    assert watched.held("g") == {"t-0": 10 if replaced else 100}
    assert not any(isinstance(event, CommitRefused) for event in watched.events)


def test_the_mark_of_what_is_withheld_is_renewed(watched: Watched, tmp_path: Path) -> None:
    """At each recommit, where the group stands."""

    def landed(number: int) -> Callable[[], bool]:
        return lambda: len(watched.groups.history) == number

    follower = watched.follower(target(tmp_path))
    tp = TopicPartition("t", 0)
    stands, withheld = (
        GroupOffsets(cluster=CLUSTER, group="g", positions={tp: by(offset, run="follow")})
        for offset in (5, 9)
    )
    steps = (
        Step(commits=(stands,), pause=1.0),
        Step(withheld=(withheld,), pause=1.0),
        Step(withheld=(withheld,), recommit=True, pause=1.0),
    )
    for number, step in enumerate(steps, start=1):
        follower._act("here", step)
        until(landed(number))
    assert [positions[tp].offset for _, positions in watched.groups.history] == [5, 5, 5]
    assert metadata_of(watched.groups.history[-1][1][tp]).withheld
