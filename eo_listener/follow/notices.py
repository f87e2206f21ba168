"""The notices that a follower reports about a checkpoint, as frozen values."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum

from eo_listener.events import Event
from eo_listener.spark.checkpoint.errors import FileFinding

logger = logging.getLogger("eo_listener")


class NoticeKind(Enum):
    """A kind of notice; its value is a unique number and the level of its log line, as a pair."""

    FOLLOWING = (1, logging.INFO)
    NOTHING_DURABLE = (2, logging.INFO)
    RECOVERED = (4, logging.INFO)
    ABSENT = (5, logging.WARNING)
    GONE = (6, logging.WARNING)
    UNREACHABLE = (7, logging.WARNING)
    SILENT = (8, logging.WARNING)
    UNREADABLE = (9, logging.WARNING)
    REPLACED = (10, logging.WARNING)
    REWOUND = (11, logging.WARNING)
    NO_KAFKA = (12, logging.WARNING)
    NO_GROUP = (13, logging.WARNING)

    @property
    def level(self) -> int:
        """The level at which a notice of this kind is logged."""
        return self.value[1]

    @property
    def finding(self) -> bool:
        """True if the notice reports something to act on."""
        return self.level >= logging.WARNING

    @property
    def unavailable(self) -> bool:
        """True if the notice means that the checkpoint could not be read."""
        return self in {
            NoticeKind.ABSENT,
            NoticeKind.GONE,
            NoticeKind.UNREACHABLE,
            NoticeKind.SILENT,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """One fact about a checkpoint; while it stays true, it is reported only once.

    `cause` and `fix` are empty if there is nothing to repair.
    """

    checkpoint: str
    kind: NoticeKind
    text: str
    cause: str = ""
    fix: str = ""

    def __str__(self) -> str:
        cause = f" ({self.cause})" if self.cause else ""
        fix = f". Fix: {self.fix}" if self.fix else ""
        return f"checkpoint {self.checkpoint}: {self.text}{cause}{fix}"


class NoticeLog:
    """An observer that writes notices to the logger `eo_listener`."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, Notice):
            logger.log(event.kind.level, "%s", event)


Notices = tuple[Notice, ...]


class ActiveNotices:
    """The notices of one checkpoint that are true now, at most one for each kind and bad file."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._notices: dict[NoticeKind, Notice] = {}
        self._findings: set[FileFinding] = set()

    def report(
        self,
        kind: NoticeKind,
        text: str,
        cause: str = "",
        fix: str = "",
        *,
        repeat_if_changed: bool = True,
    ) -> Notices:
        """Return a notice, unless it was already reported in the same words and is still true.

        Without `repeat_if_changed`, the method does not report a notice of this kind again even if
        its words change.
        """
        notice = self.notice(kind, text, cause, fix)
        active = self._notices.get(kind)
        if active is not None and (active == notice or not repeat_if_changed):
            return ()
        self._notices[kind] = notice
        return (notice,)

    def notice(self, kind: NoticeKind, text: str, cause: str = "", fix: str = "") -> Notice:
        """Return a notice about this checkpoint without remembering it."""
        return Notice(checkpoint=self._shown, kind=kind, text=text, cause=cause, fix=fix)

    def resolve(self, kind: NoticeKind, text: str) -> Notices:
        """Forget a notice of this kind; if there was one, return a RECOVERED notice with `text`."""
        if self._notices.pop(kind, None) is None:
            return ()
        return (self.notice(NoticeKind.RECOVERED, text),)

    def forget(self, *kinds: NoticeKind) -> None:
        """Forget the notices of these kinds without a report."""
        for kind in kinds:
            self._notices.pop(kind, None)

    def holds(self, finding: FileFinding) -> bool:
        """Return True if `finding` was reported, and was still true at the last reading."""
        return finding in self._findings

    def report_findings(self, findings: tuple[FileFinding, ...]) -> Notices:
        """Return a notice for each new finding; forget findings that are no longer true."""
        new = [finding for finding in findings if finding not in self._findings]
        self._findings = set(findings)
        return tuple(
            self.notice(
                NoticeKind.UNREADABLE,
                str(finding),
                finding.cause,
                "check the file; until it is readable, the newest readable batch before it counts",
            )
            for finding in new
        )
