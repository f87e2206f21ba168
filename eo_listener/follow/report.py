"""The result of committing once, for each checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.follow.notices import Notice
from eo_listener.model import exit_codes
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.events import CommitFailed, CommitRefused, Committed, CommitterFenced, Event
from eo_listener.model.offsets import Offsets, TopicPartition

_Place = tuple[str, str, TopicPartition]  # a partition in a group of a cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found in one checkpoint, and whether its groups hold it now.

    `batch` is None when none is durable. `groups` is what was to be committed; `refused` and
    `failed` give the reason for each partition that was not.
    """

    checkpoint: str
    batch: int | None
    groups: Mapping[str, Offsets]
    refused: Mapping[TopicPartition, str]
    failed: Mapping[TopicPartition, str]
    notices: tuple[Notice, ...]

    @property
    def exit_code(self) -> int:
        """3 when a checkpoint or Kafka was not reached, 1 with a finding, 0 when all is well."""
        if self.failed or any(notice.kind.unavailable for notice in self.notices):
            return exit_codes.UNREACHABLE
        found = any(notice.kind.finding for notice in self.notices)
        return exit_codes.FOUND if self.refused or found else exit_codes.FINE


class Outcomes:
    """An observer that remembers what was said of each checkpoint, and how each commit ended."""

    def __init__(self) -> None:
        self._notices: dict[str, list[Notice]] = {}
        self._offered: dict[str, tuple[GroupOffsets, ...]] = {}
        self._refused: dict[_Place, str] = {}
        self._failed: dict[_Place, str] = {}
        self._confirmed: set[_Place] = set()
        self._lock = threading.Lock()

    def offered(self, checkpoint: str, commits: tuple[GroupOffsets, ...]) -> None:
        """Take in what is to be committed for a checkpoint."""
        with self._lock:
            self._offered[checkpoint] = commits

    def __call__(self, event: Event) -> None:
        with self._lock:
            match event:
                case Notice():
                    self._notices.setdefault(event.checkpoint, []).append(event)
                case Committed():
                    places = _places(event, event.offsets)
                    self._confirmed.update(places)
                    for place in places:
                        self._failed.pop(place, None)
                case CommitFailed():
                    for place, code in zip(
                        _places(event, event.errors), event.errors.values(), strict=True
                    ):
                        self._failed[place] = code
                case CommitRefused():
                    why = event.refusal.value
                    self._refused.update(dict.fromkeys(_places(event, event.offered), why))
                case CommitterFenced():
                    self._failed.update(dict.fromkeys(_places(event, event.offsets), event.code))

    def report(self, checkpoint: str, *, flushed: bool) -> Report:
        """Return the result of one checkpoint; `flushed` when no commit waits any more."""
        refused: dict[TopicPartition, str] = {}
        failed: dict[TopicPartition, str] = {}
        batches: set[int] = set()
        with self._lock:
            commits = self._offered.get(checkpoint, ())
            for commit in commits:
                for tp, position in commit.positions.items():
                    place = (str(commit.cluster), commit.group, tp)
                    metadata = CommitMetadata.parse(position.metadata)
                    batches |= {metadata.batch_id} if metadata else set()
                    if place in self._refused:
                        refused[tp] = self._refused[place]
                    elif place in self._failed:
                        failed[tp] = self._failed[place]
                    elif not flushed and place not in self._confirmed:
                        failed[tp] = "no answer in time"
            notices = tuple(self._notices.get(checkpoint, ()))
        return Report(
            checkpoint=checkpoint,
            batch=max(batches, default=None),
            groups={
                commit.group: Offsets({tp: one.offset for tp, one in commit.positions.items()})
                for commit in commits
            },
            refused=refused,
            failed=failed,
            notices=notices,
        )


def _places(
    event: Committed | CommitFailed | CommitRefused | CommitterFenced,
    partitions: Iterable[TopicPartition],
) -> list[_Place]:
    return [(event.cluster, event.group, tp) for tp in partitions]
