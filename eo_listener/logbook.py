"""Events as log lines: every trouble once, and once more when it is over."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from eo_listener.events import (
    CommitAbandoned,
    CommitFailed,
    CommitRefused,
    Committed,
    Event,
    Malfunction,
    SourceIgnored,
)
from eo_listener.offsets import TopicPartition

_REMEMBERED = 1000  # kinds of malfunction; a program with more has said enough

logger = logging.getLogger("eo_listener")


@dataclass(slots=True)
class _Trouble:
    """What a group's commits are suffering from, and since when."""

    since: float
    causes: set[str] = field(default_factory=set)
    partitions: set[TopicPartition] = field(default_factory=set)
    failures: int = 0


class Logbook:
    """An observer that writes to the logger `eo_listener`.

    A trouble that lasts is said when it begins, again when its kind changes, and when it ends;
    the single failures between are on level DEBUG. Memory is bounded by the number of groups.
    """

    def __init__(self) -> None:
        self._troubles: dict[tuple[str, str], _Trouble] = {}
        self._rewinds: set[tuple[str, str]] = set()
        self._committing: set[tuple[str, str]] = set()
        self._malfunctions: set[Malfunction] = set()

    def __call__(self, event: Event) -> None:
        match event:
            case Committed():
                self._committed(event)
            case CommitFailed():
                self._failed(event)
            case CommitRefused():
                self._refused(event)
            case CommitAbandoned():
                logger.error(
                    "group %s at %s: closed before these offsets were confirmed, the group stays "
                    "behind until the query commits again: %s",
                    event.group,
                    event.cluster,
                    event.offsets,
                )
            case SourceIgnored():
                self._ignored(event)
            case Malfunction():
                self._malfunctioned(event)

    def _committed(self, event: Committed) -> None:
        key = (event.cluster, event.group)
        trouble = self._troubles.get(key)
        if trouble is not None:
            trouble.partitions -= event.offsets.keys()
            if not trouble.partitions:
                del self._troubles[key]
                logger.info(
                    "group %s at %s: committed again, after %d failures in %.1f s",
                    event.group,
                    event.cluster,
                    trouble.failures,
                    time.monotonic() - trouble.since,
                )
        if key not in self._committing:
            self._committing.add(key)
            logger.info("group %s at %s: commits have begun", event.group, event.cluster)
        logger.debug("group %s at %s: committed %s", event.group, event.cluster, event.offsets)

    def _failed(self, event: CommitFailed) -> None:
        key = (event.cluster, event.group)
        trouble = self._troubles.setdefault(key, _Trouble(since=time.monotonic()))
        trouble.failures += 1
        trouble.partitions |= event.errors.keys()
        level = logging.DEBUG if event.cause in trouble.causes else logging.WARNING
        trouble.causes.add(event.cause)
        logger.log(
            level,
            "group %s at %s: not committed (%s on %d partitions%s): %s%s. To do: %s. The query "
            "runs on; the newest offsets are kept and tried again",
            event.group,
            event.cluster,
            event.code,
            len(event.errors),
            ", outcome unknown" if event.unknown else "",
            event.cause,
            f" ({event.detail})" if event.detail else "",
            event.fix,
        )

    def _refused(self, event: CommitRefused) -> None:
        key = (event.cluster, event.group)
        level = logging.DEBUG if key in self._rewinds else logging.WARNING
        self._rewinds.add(key)
        logger.log(
            level,
            "group %s at %s: offsets below what was committed are not sent (offered %s, held %s): "
            "a query was restarted from an older checkpoint, or two queries share the group. "
            "To do: give each query a group of its own",
            event.group,
            event.cluster,
            event.offered,
            event.held,
        )

    def _malfunctioned(self, event: Malfunction) -> None:
        if event not in self._malfunctions and len(self._malfunctions) < _REMEMBERED:
            self._malfunctions.add(event)
            logger.error("%s: %s", event.where, event.problem)

    def _ignored(self, event: SourceIgnored) -> None:
        where = "" if event.source is None else f", source {event.source}"
        logger.log(
            logging.WARNING if event.wrong else logging.INFO,
            "query %s%s: %s (%s). To do: %s",
            event.query,
            where,
            event.problem,
            event.cause,
            event.fix,
        )
