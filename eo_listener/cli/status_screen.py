"""How `eo-listener status` shows groups: one by its partitions, several by a line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from eo_listener.cli.group_status import GroupStatus
from eo_listener.cli.options import cell, named, new_table
from eo_listener.model.commit_metadata import CommitMetadata
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
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def screen(
    statuses: Sequence[GroupStatus], *, single: bool, cluster: ClusterCommands
) -> RenderableType:
    """Return the display of one reading."""
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
    """Return the command that lists the transactions blocking these groups."""
    return cluster.show_transactions(*(["--group", held_up[0]] if len(held_up) == 1 else []))


def length(seconds: float | None) -> str:
    """Format a time in a fitting unit; `-` if it is unknown."""
    if seconds is None:
        return "-"
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _partitions(group: GroupStatus) -> RenderableType:
    if not group.rows:
        return named(f"group {group.group} holds no offsets: check the name and the cluster")
    opened = group.held_up
    behind = any(row.age(group.now_ms) is not None for row in group.rows)
    watched = any(group.verdicts.values())
    numbers = ["partition", "committed", *(["stable"] if opened else []), "log end", "lag"]
    numbers += ["age"] if behind else []
    texts = [*(["verdict"] if watched else []), "query"]
    names = ["topic", *numbers, *texts, "batch"]
    table = new_table(names, [*numbers, "batch"], title=f"group {group.group}")
    for row in group.rows:
        verdict = group.verdicts.get(row.partition)
        table.add_row(
            named(row.partition.topic),
            str(row.partition.partition),
            cell(row.committed),
            *([cell(row.stable_end)] if opened else []),
            cell(row.log_end),
            cell(row.lag),
            *([length(row.age(group.now_ms))] if behind else []),
            *([_verdict(verdict)] if watched else []),
            named(query_of(row)),
            _batch(row.writer),
        )
    return Group(table, *(Text(line) for line in _summary(group)))


def _batch(writer: CommitMetadata | None) -> str:
    return cell(writer and writer.batch)


def _summary(group: GroupStatus) -> list[str]:
    total = group.lag
    line = f"lag in total: {'unknown' if total is None else total}"
    if group.stable_lag is not None and group.stable_lag != total:
        line += f", of which {group.stable_lag} before open transactions"
    lines = [line]
    if group.age is not None:
        lines.append(f"oldest record still to be read: {length(group.age)} old")
    if group.drained_in:
        lines.append(f"lag 0 in {length(group.drained_in)} at the present rate")
    if group.quiet is not None:
        lines.append(f"last commit {length(group.quiet)} ago")
    return lines


def _groups(statuses: Sequence[GroupStatus]) -> RenderableType:
    watched = any(group.verdict for group in statuses)
    numbers = ("partitions", "lag", "age", "lag 0 in", "batch")
    verdict = ("verdict", "lag 0 in") if watched else ()
    table = new_table(("group", "partitions", "lag", "age", *verdict, "query", "batch"), numbers)
    for group in statuses:
        if group.error is not None:
            table.add_row(named(group.group), Text(group.error, style="red"))
            continue
        newest = group.newest
        cells = [named(group.group), Text(str(len(group.rows))), Text(_total(group)), _age(group)]
        if watched:
            cells += [_verdict(group.verdict), Text(length(group.drained_in))]
        table.add_row(*cells, named(newest.author if newest else "-"), _batch(newest))
    return table


def _total(group: GroupStatus) -> str:
    """Format the lag, followed by the read_committed lag if that differs."""
    if group.stable_lag is None or group.stable_lag == group.lag:
        return cell(group.lag)
    return f"{cell(group.lag)} ({group.stable_lag} stable)"


def _age(group: GroupStatus) -> Text:
    return Text(length(group.age))


def query_of(row: PartitionLag) -> str:
    """The query that has committed last; `-` for another program."""
    return row.writer.author if row.writer else "-"


def _verdict(verdict: LagVerdict | None) -> Text:
    if verdict is None:
        return Text("-")
    return Text(verdict.value, style=_COLOURS[verdict])
