"""Every commit of a group, aborted and open ones too, out of the segments of its log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import TopicPartition
from tests.attack.messages import Fields, Messages, Source
from tests.attack.record_batches import Record, records
from tests.broker import Broker

_OFFSET_KEYS = (0, 1)  # versions of a key; 2 is the group's own record, above it are KIP-848's


class Fate(Enum):
    PLAIN = "outside of any transaction"
    COMMITTED = "its transaction was committed"
    ABORTED = "its transaction was aborted"
    PENDING = "its transaction is open"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommit:
    """One commit of one partition; `offset` is None where the group lost it (a tombstone).

    `log` and `at` are its partition and offset in `__consumer_offsets`; `effective` is where the
    group began to hold it: there, or at the end of its transaction, or never (None).
    """

    group: str
    partition: TopicPartition
    offset: int | None
    metadata: str
    timestamp: int
    log: int
    at: int
    fate: Fate
    effective: int | None

    @property
    def rewound_from(self) -> int | None:
        """What the group held before, where the commit declares itself a rewind."""
        written = CommitMetadata.parse(self.metadata)
        return written.rewound_from if written else None


class OffsetsTopic:
    """The offsets topic of one node of a running or stopped broker."""

    def __init__(self, broker: Broker, *, node: int = 1) -> None:
        self._folder = broker.records(node)
        self._messages = Messages(broker.release.version)

    def commits(self, group: str | None = None) -> tuple[GroupCommit, ...]:
        """All commits in the order of the log, of one group or of all."""
        found: list[GroupCommit] = []
        for folder in sorted(self._folder.glob("__consumer_offsets-*")):
            found.extend(self._log(folder, int(folder.name.rpartition("-")[2])))
        return tuple(one for one in found if group is None or one.group == group)

    def effects(self, group: str) -> tuple[GroupCommit, ...]:
        return effects(self.commits(group))

    def held(self, group: str) -> dict[TopicPartition, int]:
        held: dict[TopicPartition, int] = {}
        for commit in self.effects(group):
            if commit.offset is None:
                held.pop(commit.partition, None)
            else:
                held[commit.partition] = commit.offset
        return held

    def _log(self, folder: Path, log: int) -> list[GroupCommit]:
        commits: list[GroupCommit] = []
        open_ones: dict[int, list[int]] = {}  # producer id -> places in `commits`
        for segment in sorted(folder.glob("*.log")):
            for record in records(segment.read_bytes()):
                if record.commits is not None:
                    for place in open_ones.pop(record.producer_id, ()):
                        commits[place] = _ended(commits[place], record)
                    continue
                commit = self._commit(record, log)
                if commit is not None:
                    if record.transactional:
                        open_ones.setdefault(record.producer_id, []).append(len(commits))
                    commits.append(commit)
        return commits

    def _commit(self, record: Record, log: int) -> GroupCommit | None:
        source = Source(record.key or b"")
        if not record.key or source.number("int16") not in _OFFSET_KEYS:
            return None
        key = self._messages["OffsetCommitKey"].decode(0, source)  # the fields of 1 are the same
        value = self._value(record.value)
        return GroupCommit(
            group=key["group"],
            partition=TopicPartition(key["topic"], key["partition"]),
            offset=value["offset"] if value else None,
            metadata=value["metadata"].rstrip("\0") if value else "",
            timestamp=value["commitTimestamp"] if value else record.timestamp,
            log=log,
            at=record.offset,
            fate=Fate.PENDING if record.transactional else Fate.PLAIN,
            effective=None if record.transactional else record.offset,
        )

    def _value(self, data: bytes | None) -> Fields | None:
        if data is None:
            return None
        source = Source(data)
        version = source.number("int16")
        return self._messages["OffsetCommitValue"].decode(version, source)


def _ended(commit: GroupCommit, marker: Record) -> GroupCommit:
    if marker.commits:
        return replace(commit, fate=Fate.COMMITTED, effective=marker.offset)
    return replace(commit, fate=Fate.ABORTED)


def effects(commits: Iterable[GroupCommit]) -> tuple[GroupCommit, ...]:
    """Those that a group came to hold, in order: the later in the log, whichever ends later."""
    landed = sorted(
        (one for one in commits if one.effective is not None),
        key=lambda one: (one.log, one.effective or 0, one.at),
    )
    newest: dict[tuple[str, TopicPartition], int] = {}
    held = []
    for one in landed:
        key = (one.group, one.partition)
        if one.at >= newest.get(key, -1):
            newest[key] = one.at
            held.append(one)
    return tuple(held)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A commit that breaks invariant I5, and what it should have respected."""

    problem: str
    commit: GroupCommit
    limit: int

    def __str__(self) -> str:
        one = self.commit
        return (
            f"{one.group} {one.partition}: {one.offset} {self.problem} {self.limit}"
            f" (at {one.at}, {one.fate.value}, metadata {one.metadata!r})"
        )


Bound = Callable[[GroupCommit], "int | None"]


def audit(commits: Iterable[GroupCommit], bound: Bound = lambda _: None) -> tuple[Violation, ...]:
    """Check I5: never beyond `bound`, never back but by a rewind that names what was held."""
    held: dict[tuple[str, TopicPartition], int] = {}
    found = []
    for one in effects(commits):
        key = (one.group, one.partition)
        if one.offset is None:
            held.pop(key, None)
            continue
        limit = bound(one)
        if limit is not None and one.offset > limit:
            found.append(Violation(problem="is ahead of", commit=one, limit=limit))
        before = held.get(key)
        if before is not None and one.offset < before and one.rewound_from != before:
            found.append(Violation(problem="goes back from", commit=one, limit=before))
        held[key] = one.offset
    return tuple(found)
