"""Reads the positions of groups, once or repeatedly, for `eo-listener status`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eo_listener.cli.options import picked
from eo_listener.errors import KafkaError
from eo_listener.kafka.logs import ClusterReader
from eo_listener.kafka.many_groups import HeldByGroup, ManyGroups
from eo_listener.kafka.range_reader import oldest_records
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.lag import PartitionLag, compare, oldest, total
from eo_listener.model.lag_window import LagTrend, LagVerdict, LagWindow, gravest
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.offsets import Position, TopicPartition

_AGES: Final = 2.0  # seconds for reading the times of the oldest unread records of all groups

Rows = tuple[PartitionLag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """The status of one group.

    A value that needs several readings is None until there are enough readings.
    """

    group: str
    rows: Rows
    now_ms: int
    #: Kafka's name for the error if the group could not be read.
    error: str | None = None
    #: The verdicts of the group's partitions.
    verdicts: Mapping[TopicPartition, LagVerdict | None]
    #: Seconds until the group's lag is zero.
    drained_in: float | None = None
    #: Seconds since the group's last commit.
    quiet: float | None = None

    @property
    def verdict(self) -> LagVerdict | None:
        """Burrow's verdict on the group, or None if there is no verdict yet."""
        return gravest(list(self.verdicts.values()))

    @property
    def age(self) -> float | None:
        """The age of the oldest unread record, in seconds."""
        return oldest(self.rows, self.now_ms)

    @property
    def lag(self) -> int | None:
        """The sum of all lags, or None if a lag is unknown or the group holds no offsets."""
        return total(self.rows) if self.rows else None

    @property
    def held_up(self) -> bool:
        """True if an open transaction in a partition holds back read_committed consumers."""
        return any(row.stable_end not in (None, row.log_end) for row in self.rows)

    @property
    def withheld(self) -> tuple[TopicPartition, ...]:
        """The partitions whose newer offsets the listener's guard withholds."""
        return tuple(row.partition for row in self.rows if row.writer and row.writer.withheld)

    @property
    def newest(self) -> CommitMetadata | None:
        """The metadata of the newest batch's commit, or None if no commit has such metadata."""
        named = [row.writer for row in self.rows if row.writer is not None]
        return max(named, key=lambda writer: writer.batch_id, default=None)

    @property
    def stable_lag(self) -> int | None:
        """The sum of all lags of read_committed consumers, or None if a lag is unknown."""
        return total(self.rows, stable=True) if self.rows else None

    def document(self) -> dict[str, Any]:
        """Return the status as a JSON document."""
        verdict = self.verdict
        return {
            **picked(self, "group", "lag", "stable_lag", "age", "drained_in"),
            "verdict": None if verdict is None else verdict.value,
            "since_commit": self.quiet,
            **({} if self.error is None else {"error": self.error}),
            "partitions": [self._row(row) for row in self.rows],
        }

    def _row(self, row: PartitionLag) -> dict[str, Any]:
        verdict = self.verdicts.get(row.partition)
        return {
            **row.partition._asdict(),
            **picked(row, "committed", "log_end", "lag", "stable_lag"),
            "log_stable": row.stable_end,
            "age": row.age(self.now_ms),
            "verdict": None if verdict is None else verdict.value,
            "query": row.writer and row.writer.author,
            "run": row.writer and row.writer.run_id,
            "batch": row.writer and row.writer.batch,
        }


class StatusReader:
    """Reads the groups that `names` or its patterns (`*`, `?`) select, or all groups.

    `repeated` is True for more than one reading. Only one thread may use the reader. Every reading
    may raise KafkaError.
    """

    def __init__(
        self, properties: Mapping[str, str], names: Sequence[str], *, every: bool, repeated: bool
    ) -> None:
        self._properties = dict(properties)
        self._patterns = ("*",) if every else tuple(dict.fromkeys(names))
        self._cluster = ClusterReader(properties)
        self._many = ManyGroups(properties, apart=repeated)
        self._repeated = repeated
        self._windows: dict[tuple[str, TopicPartition], LagWindow] = {}
        self._trends: dict[str, LagTrend] = {}
        self._matched: set[str] = set()

    @property
    def cluster(self) -> ClusterCommands:
        """The builder of commands for the groups' cluster."""
        return ClusterCommands.from_properties(self._properties)

    @property
    def single(self) -> bool:
        """True if the reader reads exactly one group, which is named, not matched by a pattern."""
        return len(self._patterns) == 1 and not is_pattern(self._patterns[0])

    @property
    def named(self) -> frozenset[str]:
        """The groups that are named, not matched by a pattern; they must hold offsets."""
        return frozenset(pattern for pattern in self._patterns if not is_pattern(pattern))

    def read(self) -> tuple[GroupStatus, ...]:
        """Read all groups.

        The fix of a KafkaError names the options of the command that may be wrong.
        """
        try:
            return self._statuses()
        except KafkaError as error:
            fix = error.fix or "Check the permissions of this client"
            error.fix = f"{fix} (-b/--bootstrap-server, -X)"
            raise

    def _statuses(self) -> tuple[GroupStatus, ...]:
        by_group = self._held()
        at, now_ms = time.monotonic(), round(time.time() * 1000)
        topics = {tp.topic for group in by_group.values() for tp in group.positions}
        partitions = self._cluster.partitions(topics)
        ends = self._cluster.log_ends(partitions)
        stable = self._cluster.stable_ends(ends)
        ages = self._ages(by_group, ends)
        statuses = []
        for name, group in by_group.items():
            read = {tp.topic for tp in group.positions}
            rows = compare(
                group.positions,
                {tp: end for tp, end in ends.items() if tp.topic in read},
                stable,
                ages.get(name, {}),
            )
            statuses.append(self._status(name, group, rows, at, now_ms))
        self._forget(statuses)
        return tuple(statuses)

    def _forget(self, statuses: Sequence[GroupStatus]) -> None:
        """Forget earlier readings of groups and partitions that `statuses` no longer contain."""
        unread = {status.group for status in statuses if status.error is not None}
        present = {(status.group, row.partition) for status in statuses for row in status.rows}
        for key in [key for key in self._windows if key not in present and key[0] not in unread]:
            del self._windows[key]
        for name in self._trends.keys() - {status.group for status in statuses}:
            del self._trends[name]

    def interrupt(self) -> None:
        """Interrupt a reading of many groups, if there is one. Any thread may call this."""
        self._many.close()

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()
        self._many.close()

    def _held(self) -> dict[str, HeldByGroup]:
        """Read the groups' offsets.

        For a single named group, the method uses the requests that a driver uses, because they
        survive a broker's restart.
        """
        if self.single:
            name = self._patterns[0]
            return {name: HeldByGroup(positions=self._cluster.group(name))}
        self._cluster.partitions(())  # if Kafka cannot be reached, this error is the clearest
        patterns = [_matcher(pattern) for pattern in self._patterns if is_pattern(pattern)]
        if not patterns:
            return self._many.read(self._patterns)
        names = self._many.names()
        listed = {name for name in names if any(match.fullmatch(name) for match in patterns)}
        by_group = self._many.read(sorted(self.named | listed | self._matched))
        # A broker that has just started does not list groups that it has not loaded yet. So the
        # groups of the last reading are requested by name.
        matching = {
            name: group
            for name, group in by_group.items()
            if group.positions or group.error or name in self.named | listed
        }
        self._matched = matching.keys() - self.named
        return matching

    def _ages(
        self, by_group: Mapping[str, HeldByGroup], ends: Mapping[TopicPartition, int]
    ) -> dict[str, dict[TopicPartition, int]]:
        """Return the times of each group's oldest unread records, as many as can be read in 2 s.

        A consumer reads a partition from only one offset at a time, so the method reads for groups
        with different offsets in turn.
        """
        deadline = time.monotonic() + _AGES
        ages: dict[str, dict[TopicPartition, int]] = {}
        remaining = {
            (name, tp): position.offset
            for name, group in by_group.items()
            for tp, position in group.positions.items()
            if position.offset < ends.get(tp, 0)
        }
        while remaining and (seconds := deadline - time.monotonic()) > 0:
            offsets: dict[TopicPartition, int] = {}
            for (_, tp), offset in remaining.items():
                offsets.setdefault(tp, offset)
            times = oldest_records(self._properties, offsets, seconds=seconds)
            for key in [key for key, offset in remaining.items() if offsets[key[1]] == offset]:
                del remaining[key]
                if key[1] in times:
                    ages.setdefault(key[0], {})[key[1]] = times[key[1]]
        return ages

    def _status(
        self, name: str, group: HeldByGroup, rows: Rows, at: float, now_ms: int
    ) -> GroupStatus:
        verdicts: dict[TopicPartition, LagVerdict | None] = {}
        quiet: list[float | None] = []
        for row in rows:
            if not self._repeated or row.committed is None or row.lag is None:
                continue
            position: Position = group.positions[row.partition]
            window = self._windows.setdefault((name, row.partition), LagWindow())
            window.add(at, row.committed, position.metadata, row.lag)
            verdicts[row.partition] = window.verdict
            quiet.append(window.quiet)
        trend = self._trends.setdefault(name, LagTrend())
        behind = total(rows) if rows else None
        if behind is not None:
            trend.add(at, behind)
        return GroupStatus(
            group=name,
            rows=rows,
            now_ms=now_ms,
            error=group.error,
            verdicts=verdicts,
            drained_in=trend.drained_in if behind else None,
            quiet=min((seconds for seconds in quiet if seconds is not None), default=None),
        )


def is_pattern(name: str) -> bool:
    """Return True if `name` is a pattern for the names of groups."""
    return "*" in name or "?" in name


def _matcher(pattern: str) -> re.Pattern[str]:
    """Compile a pattern, in which only `*` and `?` are special, since names may have brackets."""
    parts = {"*": ".*", "?": "."}
    return re.compile(
        "".join(parts.get(character) or re.escape(character) for character in pattern), re.DOTALL
    )
