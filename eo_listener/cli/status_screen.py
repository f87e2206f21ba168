"""Renders the output of `eo-listener status`: one group by partition, or one line per group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from eo_listener.cli.group_status import GroupStatus
from eo_listener.cli.options import cell, named, new_table, table_of
from eo_listener.errors import length
from eo_listener.model.lag import PartitionLag
from eo_listener.model.lag_window import LagVerdict
from eo_listener.model.typed_command import ClusterCommands

_COLOURS = {
    LagVerdict.OK: "green",
    LagVerdict.WARN: "yellow",
    LagVerdict.STALL: "red",
    LagVerdict.STOP: "red",
    LagVerdict.REWIND: "red",
}
_NUMBERS = frozenset(
    {"partition", "committed", "stable", "log end", "lag", "age", "batch", "partitions", "lag 0 in"}
)


def screen(
    statuses: Sequence[GroupStatus], *, single: bool, cluster: ClusterCommands
) -> RenderableType:
    """Return the output for one reading of the groups."""
    if not statuses:
        return Text("no group matches: check the names and the cluster")
    shown = _partitions(statuses[0]) if single else _groups(statuses)
    held_up = [group.group for group in statuses if group.held_up]
    if not held_up:
        return shown
    return Group(
        shown,
        Text("open transactions, their owners and the commands to run:"),
        named(f"  {transactions_command(cluster, held_up)}"),
    )


def transactions_command(cluster: ClusterCommands, held_up: Sequence[str]) -> str:
    """Return the command that lists the transactions that block these groups."""
    return cluster.show_transactions(*(["--group", held_up[0]] if len(held_up) == 1 else []))


def _partitions(group: GroupStatus) -> RenderableType:
    if not group.rows:
        return named(f"group {group.group} holds no offsets: check the name and the cluster")
    behind = any(row.age(group.now_ms) is not None for row in group.rows)
    watched = any(group.verdicts.values())
    rows = [
        {
            "topic": row.partition.topic,
            "partition": row.partition.partition,
            "committed": row.committed,
            **({"stable": row.stable_end} if group.held_up else {}),
            "log end": row.log_end,
            "lag": row.lag,
            **({"age": length(row.age(group.now_ms))} if behind else {}),
            **({"verdict": _verdict(group.verdicts.get(row.partition))} if watched else {}),
            "query": query_of(row),
            "batch": row.writer and row.writer.batch,
        }
        for row in group.rows
    ]
    table = table_of(rows, _NUMBERS, title=f"group {group.group}")
    return Group(table, *(Text(line) for line in _summary(group)))


def _summary(group: GroupStatus) -> list[str]:
    total = group.lag
    line = f"lag in total: {'unknown' if total is None else total}"
    if group.stable_lag is not None and group.stable_lag != total:
        line += f", of which {group.stable_lag} before open transactions"
    lines = [line]
    if group.age is not None:
        lines.append(f"oldest unread record: {length(group.age)} old")
    if group.drained_in:
        lines.append(f"lag 0 in {length(group.drained_in)} at the current rate")
    if group.quiet is not None:
        lines.append(f"last commit {length(group.quiet)} ago")
    return lines


def _groups(statuses: Sequence[GroupStatus]) -> RenderableType:
    watched = any(group.verdict for group in statuses)
    verdict = ("verdict", "lag 0 in") if watched else ()
    columns = ("group", "partitions", "lag", "age", *verdict, "query", "batch")
    return new_table(columns, _NUMBERS, (_line(group, watched=watched) for group in statuses))


def _line(group: GroupStatus, *, watched: bool) -> Iterator[object]:
    yield group.group
    if group.error is not None:
        yield Text(group.error, style="red")
        return
    yield from (len(group.rows), _total(group), length(group.age))
    if watched:
        yield from (_verdict(group.verdict), length(group.drained_in))
    newest = group.newest
    yield from (newest and newest.author, newest and newest.batch)


def _total(group: GroupStatus) -> str:
    """Format a group's total lag, followed by the read_committed lag if the two differ."""
    if group.stable_lag is None or group.stable_lag == group.lag:
        return cell(group.lag)
    return f"{cell(group.lag)} ({group.stable_lag} stable)"


def query_of(row: PartitionLag) -> str:
    """Return the query that committed the offset of `row`, or `-` if no query did."""
    return row.writer.author if row.writer else "-"


def _verdict(verdict: LagVerdict | None) -> Text:
    if verdict is None:
        return Text("-")
    return Text(verdict.value, style=_COLOURS[verdict])
