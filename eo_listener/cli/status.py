"""`eo-listener status`: the offsets of a group, and which query committed them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from eo_listener.cli.options import (
    BootstrapServers,
    KafkaProperties,
    as_properties,
    console,
    print_json,
    seconds,
)
from eo_listener.kafka.cluster_reader import ClusterReader
from eo_listener.model import lag
from eo_listener.model.errors import KafkaError, SettingsError

EXAMPLE = "Example: eo-listener status flights-to-pg -b localhost:9092 --watch 5"

Rows = tuple[lag.PartitionLag, ...]


def status(
    group: Annotated[str, typer.Argument(help="The consumer group.")],
    servers: BootstrapServers,
    properties: KafkaProperties = None,
    max_lag: Annotated[
        int | None,
        typer.Option(min=0, help="Exit with 1 when the group is further behind than this."),
    ] = None,
    watch: Annotated[
        float | None, typer.Option(help="Read again every so many seconds, until Ctrl-C.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document for each read.")
    ] = False,
) -> None:
    """Show committed offset, log end and lag of each partition.

    A lag of `-` is unknown: the topic is gone, or nothing is committed there yet.
    """
    if not group.strip():
        raise SettingsError("the group is empty", fix="Name the consumer group to show")
    if watch is not None:
        watch = seconds("watch", watch, least=0.2)
    reader = ClusterReader(as_properties(servers, properties))
    rows = _read(reader, group)
    if watch is None:
        _print(group, rows, as_json)
    else:
        _watch(reader, group, rows, watch, as_json)
    if not rows or _over(rows, max_lag):
        raise typer.Exit(1)


def _read(reader: ClusterReader, group: str) -> Rows:
    try:
        committed = reader.group(group)
        topics = {tp.topic for tp in committed}
        return lag.compare(committed, reader.log_ends(reader.partitions(topics)))
    except KafkaError as error:
        raise KafkaError(
            error.problem,
            code=error.code,
            cause=error.cause,
            fix=f"{error.fix or 'Check the rights of this client'} (-b/--bootstrap-server, -X)",
        ) from error


def _over(rows: Rows, max_lag: int | None) -> bool:
    if max_lag is None:
        return False
    total = lag.total(rows)
    return total is None or total > max_lag


def _watch(reader: ClusterReader, group: str, rows: Rows, every: float, as_json: bool) -> None:
    """Read again and again; a Kafka that is away is reported each time, and asked again."""
    out = console()
    try:
        if as_json or not out.is_terminal:
            _print(group, rows, as_json)
            while True:
                time.sleep(every)
                try:
                    _print(group, _read(reader, group), as_json)
                except KafkaError as error:
                    _print_error(group, error, as_json)
        with Live(_table(group, rows), console=out, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                try:
                    rows = _read(reader, group)
                    live.update(_table(group, rows), refresh=True)
                except KafkaError as error:
                    problem = Text(f"as of the last answer; now: {error}", style="red")
                    live.update(Group(_table(group, rows), problem), refresh=True)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _print_error(group: str, error: KafkaError, as_json: bool) -> None:
    if as_json:
        print_json({"group": group, "error": str(error)})
    else:
        print(f"eo-listener: {error}", file=sys.stderr, flush=True)


def _print(group: str, rows: Rows, as_json: bool) -> None:
    if as_json:
        print_json(_document(group, rows))
    else:
        console().print(_table(group, rows))


def _document(group: str, rows: Rows) -> Mapping[str, object]:
    return {
        "group": group,
        "lag": lag.total(rows) if rows else None,
        "partitions": [
            {
                "topic": row.partition.topic,
                "partition": row.partition.partition,
                "committed": row.committed,
                "log_end": row.log_end,
                "lag": row.lag,
                "query": row.writer.author if row.writer else None,
                "run": row.writer.run_id if row.writer else None,
                "batch": row.writer.batch_id if row.writer else None,
            }
            for row in rows
        ],
    }


def _table(group: str, rows: Rows) -> RenderableType:
    if not rows:
        return Text(f"group {group} holds no offsets: check the name and the cluster")
    table = Table(title=Text(f"group {group}"), title_justify="left")
    table.add_column("topic")
    for numeric in ("partition", "committed", "log end", "lag"):
        table.add_column(numeric, justify="right")
    table.add_column("query")
    table.add_column("batch", justify="right")
    for row in rows:
        writer = row.writer
        cells = (
            row.partition.topic,
            str(row.partition.partition),
            *("-" if n is None else str(n) for n in (row.committed, row.log_end, row.lag)),
            writer.author if writer else "-",
            str(writer.batch_id) if writer else "-",
        )
        table.add_row(*map(Text, cells))
    total = lag.total(rows)
    return Group(table, Text(f"lag in total: {'unknown' if total is None else total}"))
