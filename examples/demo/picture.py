"""The picture of a running demo: from a snapshot to something rich can draw, and nothing else."""

from __future__ import annotations

from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.demo.demo_settings import GROUP, DemoStore
from examples.demo.results import Delay
from examples.demo.snapshot import Snapshot

AIRPORTS: Final = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}

_INTRODUCTION: Final = f"""\
Real flights of 2013 are sent to a real Kafka, and a Spark query reads them.
Spark keeps to itself how far it has read, so Kafka's tools see nothing of it.
eo-listener commits each batch to the consumer group {GROUP}: now they see it.
At the end kafka-consumer-groups, which is Kafka's own, has the last word."""
_SPINNER: Final = "|/-\\"
_FIXED_LINES: Final = 15  # of a full picture, beside the partitions and the results
_FEWEST, _MOST = 3, 10  # rows of results that are worth a table, and that are enough


def draw(snapshot: Snapshot, height: int) -> RenderableType:
    """Draw everything, with as many results as `height` lines have room for."""
    parts: list[RenderableType] = [_title(snapshot), Text(), _bars(snapshot), Text()]
    if snapshot.partitions:
        parts.append(_halves(_ours(snapshot), _theirs(snapshot)))
    else:
        parts.append(Text(_INTRODUCTION))
    room = min(_MOST, height - _FIXED_LINES - len(snapshot.partitions))
    if snapshot.batches and room >= _FEWEST:
        parts += [Text(), _halves(_delays(snapshot, room), _batches(snapshot, room))]
    return Group(*parts)


def line(snapshot: Snapshot) -> str:
    """Say the same in one line of plain text."""
    text = f"{snapshot.elapsed:5.0f} s  {snapshot.step}"
    if not snapshot.produced:
        return text
    counted = "counted by the query" if snapshot.store is None else _rows_in(snapshot.store)
    text += (
        f": {snapshot.produced:,} of {snapshot.wanted:,} produced"
        f", {snapshot.counted:,} {counted}, {snapshot.committed:,} committed"
    )
    if snapshot.lag is not None:
        text += f", lag {snapshot.lag:,}"
    if snapshot.tool_lag is not None:
        text += (
            f" (kafka-consumer-groups, {snapshot.tool_ago or 0:.0f} s ago: {snapshot.tool_lag:,})"
        )
    return text


def _title(snapshot: Snapshot) -> RenderableType:
    head = Table.grid(padding=(0, 1, 0, 0), expand=True)
    head.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    head.add_column(justify="right", no_wrap=True)
    head.add_row(
        Text(
            "eo-listener commits to Kafka how far Spark has read"
            if snapshot.store is None
            else f"eo-listener writes each flight exactly once into {snapshot.store.place}",
            style="bold",
        ),
        Text(f"{snapshot.elapsed:.0f} s", style="bold"),
    )
    sign = _SPINNER[int(snapshot.elapsed * 4) % len(_SPINNER)]
    head.add_row(
        Text(f"{sign} {snapshot.step}", style="cyan"), Text("Ctrl-C ends all of it", style="dim")
    )
    return head


def _bars(snapshot: Snapshot) -> RenderableType:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    counted = "counted by Spark" if snapshot.store is None else _rows_in(snapshot.store)
    rows = (
        ("produced", snapshot.produced, "blue", f"of {snapshot.wanted:,} flights sent"),
        ("processed", snapshot.counted, "magenta", counted),
        ("committed", snapshot.committed, "green", f"by group {GROUP}"),
    )
    for name, done, colour, meaning in rows:
        bar = ProgressBar(
            total=max(1, snapshot.wanted),
            completed=done,
            complete_style=colour,
            finished_style=colour,
        )
        table.add_row(Text(name, style=f"bold {colour}"), bar, f"{done:,}", meaning)
    return table


def _ours(snapshot: Snapshot) -> RenderableType:
    rows = [
        (row.partition.partition, row.committed, row.log_end, row.lag)
        for row in snapshot.partitions
    ]
    what = f"eo-listener, now ({snapshot.commits:,} commits)"
    return _offsets(what, ("committed", "log end", "lag"), rows)


def _theirs(snapshot: Snapshot) -> RenderableType:
    by_partition = {row.partition: row for row in snapshot.tool_rows}
    rows = []
    for own in snapshot.partitions:
        number = own.partition.partition
        row = by_partition.get(number)
        rows.append(
            (number, row.current_offset, row.log_end_offset, row.lag)
            if row
            else (number, None, None, None)
        )
    ago = snapshot.tool_ago
    when = "not asked yet" if ago is None else f"{ago:.0f} s ago"
    what = f"kafka-consumer-groups, {when}"
    return _offsets(what, ("CURRENT", "LOG-END", "LAG"), rows)


def _offsets(
    title: str,
    names: tuple[str, str, str],
    rows: list[tuple[int, int | None, int | None, int | None]],
) -> RenderableType:
    table = _table()
    for name in ("partition", *names):
        table.add_column(name, justify="right", no_wrap=True)
    for number, current, end, lag in rows:
        colour = "dim" if lag is None else "green" if lag == 0 else "yellow"
        table.add_row(str(number), _count(current), _count(end), Text(_count(lag), style=colour))
    return _titled(title, table)


def _delays(snapshot: Snapshot, count: int) -> RenderableType:
    table = _table()
    table.add_column("airport", no_wrap=True)
    table.add_column("hour", no_wrap=True)
    table.add_column("flights", justify="right")
    table.add_column("delay", justify="right")
    for delay in snapshot.worst(count):
        table.add_row(
            f"{delay.origin} {AIRPORTS.get(delay.origin, '')}".strip(),
            f"{delay.hour:02}:00",
            f"{delay.flights:,}",
            Text(_minutes(delay), style="red"),
        )
    return _titled("Result: longest average delays", table)


def _batches(snapshot: Snapshot, count: int) -> RenderableType:
    table = _table()
    for name in ("batch", "rows", "seconds"):
        table.add_column(name, justify="right")
    for batch in reversed(snapshot.batches[-count:]):
        table.add_row(f"{batch.number}", f"{batch.rows:,}", f"{batch.seconds:.1f}")
    return _titled(f"Spark, {snapshot.batch_count:,} batches", table)


def _table() -> Table:
    return Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )


def _titled(title: str, table: Table) -> RenderableType:
    return Group(Text(title, style="bold"), table)


def _halves(left: RenderableType, right: RenderableType) -> RenderableType:
    grid = Table.grid(padding=(0, 3), expand=True)
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(left, right)
    return grid


def _rows_in(store: DemoStore) -> str:
    return f"rows in the {store.holder}"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _minutes(delay: Delay) -> str:
    return "-" if delay.minutes is None else f"{delay.minutes:.0f} min"
