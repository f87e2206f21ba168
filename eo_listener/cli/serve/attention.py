"""Problems that need action, with the commands to run: the first thing on the page. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from eo_listener.cli.group_status import GroupStatus
from eo_listener.cli.status_screen import transactions_command
from eo_listener.errors import few
from eo_listener.model.lag_window import LagVerdict
from eo_listener.model.typed_command import ClusterCommands

UNKNOWN_CHECKPOINT: Final = "CHECKPOINT"
"""Stands in a command for a checkpointLocation that the page does not know."""
MEANINGS: Final = {
    LagVerdict.OK: "there is no lag, or it decreases",
    LagVerdict.WARN: "it commits, but its lag does not decrease: it is slow",
    LagVerdict.STALL: "it commits the same offset again and again, while there is lag",
    LagVerdict.STOP: "it no longer commits, while there is lag",
    LagVerdict.REWIND: "an offset moved back",
}
_CAUSES: Final = {
    LagVerdict.STALL: "the query hangs in a batch, or its commits are refused; see its log",
    LagVerdict.STOP: "the query's driver has ended, the query hangs in a batch, or its commits "
    "fail; see its log",
    LagVerdict.REWIND: "the query was started from an older or a new checkpoint, somebody moved "
    "the group back, or a second driver commits to it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAlarm:
    """Why somebody has to look at a group: `kind` in a word or two, and `commands` to type."""

    kind: str
    what: str
    cause: str
    commands: tuple[str, ...]


def alarm(
    group: GroupStatus, cluster: ClusterCommands, checkpoint: str | None
) -> GroupAlarm | None:
    """Return the problem of a group; None if no action is needed."""
    preflight = cluster.check_group(group.group)
    if group.error is not None:
        return GroupAlarm(
            kind="not read",
            what=f"Kafka refused it: {group.error}",
            cause="this client lacks a permission, or the group's coordinator is unavailable",
            commands=(preflight,),
        )
    if not group.rows:
        return GroupAlarm(
            kind="holds no offsets",
            what="nothing was ever committed to it, its offsets expired, or it was deleted",
            cause="the name or cluster is wrong, or its query has not run for a week",
            commands=(preflight,),
        )
    withheld = group.withheld
    if withheld:
        return GroupAlarm(
            kind="withheld",
            what=f"the listener's guard withholds newer offsets of {few(withheld, 3)}",
            cause="a batch did not continue the one before it: GuardViolation in the query's log. "
            'To accept it, start the query with guard="warn"',
            commands=tuple(_commands(group, cluster, checkpoint)),
        )
    if group.verdict in _CAUSES:
        return GroupAlarm(
            kind=group.verdict.value,
            what=MEANINGS[group.verdict],
            cause=_CAUSES[group.verdict],
            commands=tuple(_commands(group, cluster, checkpoint)),
        )
    return None


def _commands(
    group: GroupStatus, cluster: ClusterCommands, checkpoint: str | None
) -> Iterator[str]:
    where = ["--checkpoint", checkpoint or UNKNOWN_CHECKPOINT]
    yield cluster.typed(["audit", *where], ["-g", group.group], reads_checkpoint=True)
    if group.held_up:
        yield transactions_command(cluster, [group.group])
