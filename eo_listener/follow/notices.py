"""What a follower has to say of a checkpoint, as frozen values."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum

from eo_listener.model.events import Event

logger = logging.getLogger("eo_listener")


class NoticeKind(Enum):
    """What happened to a checkpoint; the value says how much it matters."""

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
        """The level of its log line."""
        return self.value[1]

    @property
    def finding(self) -> bool:
        """Whether it says that something should be looked at."""
        return self.level >= logging.WARNING

    @property
    def unavailable(self) -> bool:
        """Whether it says that the checkpoint could not be had."""
        return self in {
            NoticeKind.ABSENT,
            NoticeKind.GONE,
            NoticeKind.UNREACHABLE,
            NoticeKind.SILENT,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """One thing to know of a checkpoint, said once while it lasts.

    `cause` and `fix` are empty where there is nothing to mend.
    """

    checkpoint: str
    kind: NoticeKind
    what: str
    cause: str = ""
    fix: str = ""

    def __str__(self) -> str:
        cause = f" ({self.cause})" if self.cause else ""
        fix = f". Fix: {self.fix}" if self.fix else ""
        return f"checkpoint {self.checkpoint}: {self.what}{cause}{fix}"


class NoticeLog:
    """An observer that writes notices to the logger `eo_listener`."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, Notice):
            logger.log(event.kind.level, "%s", event)
