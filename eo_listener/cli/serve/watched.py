"""Keeps the page's state: readings of groups and of an audit, their history, and last errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from eo_listener.cli.group_status import GroupStatus
from eo_listener.cli.options import escaped
from eo_listener.cli.serve.audit_reading import AuditReading
from eo_listener.cli.serve.lag_history import LagHistory, Point
from eo_listener.cli.serve.readings import ErrorLog, LoggedError, Moment, Newest, Reading, Unknown
from eo_listener.errors import EoListenerError
from eo_listener.model.typed_command import ClusterCommands

_KEEPS: Final = 30.0  # seconds that a reading may take, in addition to two intervals

logger = logging.getLogger("eo_listener")

Groups = tuple[GroupStatus, ...]


class GroupReader(Protocol):
    """Reads groups, like `StatusReader`."""

    def read(self) -> Groups: ...


class AuditReader(Protocol):
    """Runs an audit, like `AuditProcess`."""

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
