"""Keeps the page's state: readings of groups and of an audit, their history, and last errors."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from eo_listener.cli.group_status import GroupStatus
from eo_listener.cli.options import escaped
from eo_listener.cli.serve.audit_reading import AuditReading
from eo_listener.errors import EoListenerError
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.offsets import TopicPartition

_KEEPS: Final = 30.0  # seconds that a reading may take, in addition to two intervals

logger = logging.getLogger("eo_listener")

Groups = tuple[GroupStatus, ...]


_T = TypeVar("_T")
_ERRORS: Final = 30
_LENGTH: Final = 2_000  # characters of an error


class Moment(NamedTuple):
    """A moment on both clocks: `wall`, in seconds since 1970, is for display only."""

    wall: float
    monotonic: float

    @classmethod
    def now(cls) -> Moment:
        """Return the current moment."""
        return cls(time.time(), time.monotonic())


class Reading(Generic[_T]):
    """The `value` of a reading that began at the time `at`; no part of the value is older."""

    def __init__(self, value: _T, at: Moment) -> None:
        self.value = value
        self.at = at
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[_T], bytes]) -> bytes:
        """Return `make(value)`, but call `make` only once for each `name`, for all threads."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make(self.value)
            rendered: bytes = self._made[name]
            return rendered


@dataclass(frozen=True, slots=True)
class Unknown:
    """Replaces a missing reading; `error` is the reason, `since` the time of the last reading."""

    since: Moment | None
    error: str


class Newest(Generic[_T]):
    """The newest reading: one thread reads, and any number of threads ask for the reading.

    A reading is no longer current if a later reading has failed, or after `keeps` seconds.
    """

    def __init__(self, keeps: float) -> None:
        self._keeps = keeps
        self._lock = threading.Lock()
        self._reading: Reading[_T] | None = None
        self._since: Moment | None = None
        self._error = "it has not been read yet"

    def took(self, value: _T, at: Moment) -> None:
        """Keep the value of a successful reading that began at the time `at`."""
        with self._lock:
            self._reading, self._since = Reading(value, at), at

    def failed(self, error: str) -> None:
        """Record that a reading has failed."""
        with self._lock:
            self._reading, self._error = None, error

    def at(self, now: Moment) -> Reading[_T] | Unknown:
        """Return the newest reading, or Unknown if there is none or it is too old."""
        with self._lock:
            reading, since, error = self._reading, self._since, self._error
        if reading is None:
            return Unknown(since, error)
        age = now.monotonic - reading.at.monotonic
        if age > self._keeps:
            return Unknown(since, f"no answer for {age:.0f} s")
        return reading


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedError:
    """One error, as the page's JSON lists it. `first` and `last` are in seconds since 1970."""

    about: str
    error: str
    first: float
    last: float
    times: int = 1


class ErrorLog:
    """The last 30 errors, the newest last. Counts equal errors about the same subject."""

    def __init__(self) -> None:
        self._errors: deque[LoggedError] = deque(maxlen=_ERRORS)

    def add(self, about: str, error: str, at: float) -> None:
        """Add an error; `at` is in seconds since 1970."""
        added = LoggedError(about=about[:_LENGTH], error=error[:_LENGTH], first=at, last=at)
        for logged in self._errors:
            if (logged.about, logged.error) == (added.about, added.error):
                self._errors.remove(logged)
                added = replace(logged, last=at, times=logged.times + 1)
                break
        self._errors.append(added)

    def newest(self) -> tuple[LoggedError, ...]:
        """Return all errors, the newest first."""
        return tuple(reversed(self._errors))


POINTS: Final = 360
"""The maximum number of points of a group: an hour with a reading every 10 s."""
_TOTAL: Final = 200_000
_GROUPS: Final = 2_000
_KEPT: Final = 3600.0  # seconds that a group is remembered after it last held offsets

_Offsets = Mapping[TopicPartition, int]


class Point(NamedTuple):
    """One reading of a group. A value that is None is unknown.

    `at` is in monotonic seconds, `rate` in records a second.
    """

    at: float
    lag: int | None
    rate: float | None


class LagHistory:
    """The last points of each group, in limited memory.

    If there are many groups, each group keeps fewer points. If there are more than `groups` groups,
    only the first `groups` of them have points.
    """

    def __init__(self, *, points: int = POINTS, total: int = _TOTAL, groups: int = _GROUPS) -> None:
        self._points, self._total, self._groups = points, total, groups
        self._rings: dict[str, deque[Point]] = {}
        self._held: dict[str, tuple[float, _Offsets]] = {}
        self._seen: dict[str, float] = {}

    def add(self, at: float, statuses: Sequence[GroupStatus]) -> None:
        """Add a reading; `at` is in monotonic seconds."""
        present = {group.group: group for group in statuses if group.rows}
        self._forget(at, present.keys() | {group.group for group in statuses if group.error})
        for name, group in present.items():
            if name in self._rings or len(self._rings) < self._groups:
                self._rings.setdefault(name, deque()).append(self._point(at, group))
                self._seen[name] = at
        for name in self._rings.keys() - present.keys():
            self._interrupt(at, name)
        self._shorten()

    def gap(self, at: float) -> None:
        """Add a gap to every group, because a reading has failed."""
        for name in self._rings:
            self._interrupt(at, name)
        self._shorten()

    def points(self, group: str) -> tuple[Point, ...]:
        """Return the points of a group, the oldest first."""
        return tuple(self._rings.get(group, ()))

    def gone(self, statuses: Sequence[GroupStatus]) -> dict[str, float]:
        """Return the groups that no longer hold offsets, with the time when they last had some."""
        present = {group.group for group in statuses if group.rows or group.error}
        return {name: at for name, at in sorted(self._seen.items()) if name not in present}

    def _point(self, at: float, group: GroupStatus) -> Point:
        offsets = {row.partition: row.committed for row in group.rows if row.committed is not None}
        before = self._held.get(group.group)
        self._held[group.group] = (at, offsets)
        return Point(at, group.lag, None if before is None else _rate(*before, at, offsets))

    def _interrupt(self, at: float, name: str) -> None:
        """Add one point without numbers for all consecutive readings without the group `name`."""
        self._held.pop(name, None)
        ring = self._rings[name]
        if ring and ring[-1] != Point(ring[-1].at, None, None):
            ring.append(Point(at, None, None))

    def _forget(self, at: float, present: set[str]) -> None:
        """Drop groups that disappeared more than an hour ago.

        If there are too many groups, also drop those that disappeared first.
        """
        gone = sorted(self._seen.keys() - present, key=self._seen.__getitem__)
        needed = len(self._seen.keys() | present) - self._groups
        for count, name in enumerate(gone):
            if count < needed or at - self._seen[name] > _KEPT:
                for memory in (self._rings, self._held, self._seen):
                    memory.pop(name, None)

    def _shorten(self) -> None:
        share = max(2, min(self._points, self._total // max(1, len(self._rings))))
        for ring in self._rings.values():
            while len(ring) > share:
                ring.popleft()


def _rate(before: float, held_before: _Offsets, at: float, offsets: _Offsets) -> float | None:
    """Return the rate between two readings, for the partitions in both, or None after a rewind."""
    steps = [offsets[tp] - offset for tp, offset in held_before.items() if tp in offsets]
    if at <= before or not steps or min(steps) < 0:
        return None
    return sum(steps) / (at - before)


class GroupReader(Protocol):
    """The protocol of `StatusReader`: reads groups."""

    def read(self) -> Groups: ...


class AuditReader(Protocol):
    """The protocol of `AuditProcess`: runs an audit."""

    def read(self) -> AuditReading: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The whole state of the page at one moment."""

    now: Moment
    cluster: ClusterCommands
    every: float
    groups: Reading[Groups] | Unknown
    #: The audit's reading, or None if no audit was requested.
    audit: Reading[AuditReading] | Unknown | None
    errors: tuple[LoggedError, ...]
    points: dict[str, tuple[Point, ...]] = field(default_factory=dict)
    #: Groups that no longer hold offsets, with the time when they last did, in monotonic seconds.
    gone: dict[str, float] = field(default_factory=dict)
    #: The known checkpointLocations, by group.
    checkpoints: Mapping[str, str] = field(default_factory=dict)

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return self.cluster.address

    def wall(self, monotonic: float) -> float:
        """Convert a monotonic time to the wall clock, in seconds since 1970."""
        return self.now.wall - (self.now.monotonic - monotonic)


class Watched:
    """The state behind the page: one thread reads the groups, and another runs the audit.

    Any thread may call `view`.
    """

    def __init__(
        self,
        cluster: ClusterCommands,
        *,
        every: float,
        audit_every: float | None,
        checkpoints: Mapping[str, str] | None = None,
        now: Callable[[], Moment] = Moment.now,
    ) -> None:
        self.cluster, self.every, self._now = cluster, every, now
        self._groups: Newest[Groups] = Newest(2 * every + _KEEPS)
        self._audit: Newest[AuditReading] | None = None
        if audit_every is not None:
            self._audit = Newest(2 * audit_every + _KEEPS)
        self._lock = threading.Lock()
        self._history = LagHistory()
        self._errors = ErrorLog()
        self._failing: dict[str, str] = {}
        self._closed = False
        self._checkpoints = dict(checkpoints or {})

    def read_groups(self, reader: GroupReader) -> None:
        """Read the groups once, and keep the result. Raises EoListenerError."""
        at = self._now()
        statuses = reader.read()
        with self._lock:
            self._history.add(at.monotonic, statuses)
            for group in statuses:
                if group.error is not None:
                    self._errors.add(f"group {group.group}", group.error, at.wall)
        self._groups.took(statuses, at)
        self._passed("groups")

    def try_groups(self, reader: GroupReader) -> None:
        """Read the groups once; record an error instead of raising it."""
        try:
            self.read_groups(reader)
        except EoListenerError as error:
            self.groups_failed(str(error))

    def groups_failed(self, error: str) -> None:
        """Record that the groups could not be read."""
        self._groups.failed(error)
        with self._lock:
            self._history.gap(self._now().monotonic)
        self._log("groups", error)

    def read_audit(self, reader: AuditReader) -> None:
        """Run the audit once; record an error instead of raising it."""
        assert self._audit is not None  # noqa: S101  # called only if an audit was requested
        at = self._now()
        try:
            audit = reader.read()
        except EoListenerError as error:
            self.audit_failed(str(error))
            return
        self._audit.took(audit, at)
        self._passed("audit")

    def audit_failed(self, error: str) -> None:
        """Record that the audit could not be read."""
        if self._audit is not None:
            self._audit.failed(error)
        self._log("audit", error)

    def close(self) -> None:
        """Log no errors from now on, since the command interrupts readings in progress."""
        self._closed = True

    def view(self) -> View:
        """Return the page's current view: the groups, the audit and the newest errors."""
        now = self._now()
        groups = self._groups.at(now)
        statuses = () if isinstance(groups, Unknown) else groups.value
        with self._lock:
            errors = self._errors.newest()
            points = {group.group: self._history.points(group.group) for group in statuses}
            gone = {} if isinstance(groups, Unknown) else self._history.gone(statuses)
        return View(
            now=now,
            cluster=self.cluster,
            every=self.every,
            groups=groups,
            audit=None if self._audit is None else self._audit.at(now),
            errors=errors,
            points=points,
            gone=gone,
            checkpoints=self._checkpoints,
        )

    def _log(self, about: str, error: str) -> None:
        """Keep an error for the page, and log it only once while it lasts."""
        if self._closed:
            return
        with self._lock:
            self._errors.add(about, error, self._now().wall)
            is_new = self._failing.get(about) != error
            self._failing[about] = error
        if is_new:
            logger.warning("cannot read the %s: %s", about, escaped(error))

    def _passed(self, about: str) -> None:
        with self._lock:
            passed = self._failing.pop(about, None)
        if passed is not None:
            logger.info("the %s can be read again", about)
