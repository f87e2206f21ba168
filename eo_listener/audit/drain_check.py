"""Judges if a consumer group is drained, so that another consumer can take it over. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from eo_listener.audit.advice import Advice
from eo_listener.audit.position_finding import PositionFinding, PositionFindingKind
from eo_listener.audit.positions import GroupPositions, Positions
from eo_listener.errors import counted, few
from eo_listener.offsets import TopicPartition


def check_drained(
    positions: Positions,
    group: GroupPositions,
    unread: Collection[TopicPartition],
    findings: Sequence[PositionFinding],
    advice: Advice,
    *,
    moving: bool,
) -> PositionFinding:
    """Return GROUP_DRAINED with the next consumer's start, or GROUP_NOT_DRAINED with each obstacle.

    `unread` are partitions with records between the group's offset and the last stable offset, and
    `findings` those of the audit. `moving` is True unless the reading before this one was equal.
    """
    about = f"group {group.name}"
    obstacles = list(_obstacles(positions, group, unread))
    obstacles += [f"{each.about}: {each.kind.value}" for each in findings if each.matters]
    if moving:
        obstacles.append("the last two readings differ: something still moves")
    if obstacles:
        text = "not drained: " + "; ".join(obstacles)
        return PositionFindingKind.GROUP_NOT_DRAINED.finding(
            about, text, fix="stop the producers, wait for lag 0, then stop the consumers"
        )
    offsets = {tp: position.offset for tp, position in group.after.items()}
    topics = "|".join(sorted({re.escape(tp.topic) for tp in offsets}))
    return PositionFindingKind.GROUP_DRAINED.finding(
        about,
        f"drained: {counted(len(offsets), 'partition')} without lag, no open transaction, no "
        "members; read twice",
        fix=advice.begin_after(group.name, offsets, topics),
    )


def _obstacles(
    positions: Positions, group: GroupPositions, unread: Collection[TopicPartition]
) -> Iterator[str]:
    logs = {} if positions.source is None else positions.source.logs
    logs = {tp: log for tp, log in logs.items() if tp.topic in group.topics}
    if not group.after:
        yield "the group holds no offsets"
    if unread:
        lag = sum(logs[tp].stable - group.after[tp].offset for tp in unread)
        yield f"{counted(lag, 'offset')} to read in {few(map(str, sorted(unread)))}"
    never = sorted(tp for tp in logs if tp not in group.after)
    if never:
        yield f"nothing is committed for {few(map(str, never))}"
    still_open = sorted(tp for tp, log in logs.items() if log.stable < log.end)
    if still_open:
        yield f"a transaction is open in {few(map(str, still_open))}"
    if group.unstable:
        yield "a transaction that commits to the group is open"
    checkpoint = positions.checkpoint
    if checkpoint is not None and checkpoint.planned != checkpoint.committed:
        yield f"batch {checkpoint.planned} of the checkpoint is planned and not committed"
    elif checkpoint is not None and checkpoint.committed is None:
        yield "no batch of the checkpoint is committed"
    if group.members:
        yield f"the group has members: {few(group.members)}"
