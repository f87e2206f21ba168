"""`eo-listener status`: shows the positions of groups, and the query that committed each offset."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from eo_listener.cli.group_status import GroupStatus, StatusReader
from eo_listener.cli.options import (
    BootstrapServers,
    EveryGroup,
    GroupNames,
    KafkaProperties,
    as_properties,
    console,
    print_json,
    require_groups,
    require_names,
)
from eo_listener.cli.status_screen import screen
from eo_listener.errors import ExitCode, KafkaError
from eo_listener.model.argument_checks import require_seconds

EXAMPLE = "Example: eo-listener status flights-to-pg -b localhost:9092 --watch 5"


def status(
    servers: BootstrapServers,
    groups: GroupNames = None,
    every: EveryGroup = False,
    properties: KafkaProperties = None,
    max_lag: Annotated[
        int | None, typer.Option(min=0, help="Exit with 1 if a group's lag is greater than this.")
    ] = None,
    watch: Annotated[
        float | None, typer.Option(help="Read again every N seconds, until Ctrl-C.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document for each reading.")
    ] = False,
) -> None:
    """Show committed offsets, log ends and lag of groups.

    One group is shown by partition, several groups with one line each. A lag of `-` is unknown: the
    topic is gone, or no offset is committed yet. `stable` is the start of the first open
    transaction, at which read_committed consumers wait. `age` is the age of the oldest unread
    record. With --watch, the command also shows Burrow's verdicts (OK, WARN, STALL, STOP, REWIND),
    the time until the lag is 0, and the time since the last commit.
    """
    names = groups or []
    require_groups(names, every=every)
    require_names("group", names)
    if watch is not None:
        watch = require_seconds("--watch", watch, least=0.2)
    client = as_properties(servers, properties)
    with closing(StatusReader(client, names, every=every, repeated=watch is not None)) as reader:
        statuses = reader.read()
        if watch is None:
            _print(reader, statuses, as_json)
        else:
            _watch(reader, names, statuses, watch, as_json)
    if any(group.error is not None for group in statuses):
        raise typer.Exit(ExitCode.UNREACHABLE)
    lacking = any(group.group in reader.named and not group.rows for group in statuses)
    if not statuses or lacking or any(_over(group, max_lag) for group in statuses if group.rows):
        raise typer.Exit(ExitCode.FOUND)


def _over(group: GroupStatus, max_lag: int | None) -> bool:
    return max_lag is not None and (group.lag is None or group.lag > max_lag)


def _watch(
    reader: StatusReader,
    names: Sequence[str],
    statuses: tuple[GroupStatus, ...],
    every: float,
    as_json: bool,
) -> None:
    """Read and print the groups repeatedly; if Kafka is unreachable, report it and try again."""
    out = console()
    try:
        if as_json or not out.is_terminal:
            _print(reader, statuses, as_json)
            while True:
                time.sleep(every)
                try:
                    _print(reader, reader.read(), as_json)
                except KafkaError as error:
                    _print_error(reader, names, error, as_json)
        with Live(_screen(reader, statuses), console=out, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                try:
                    statuses = reader.read()
                    live.update(_screen(reader, statuses), refresh=True)
                except KafkaError as error:
                    problem = Text(f"as of the last answer; now: {error}", style="red")
                    live.update(Group(_screen(reader, statuses), problem), refresh=True)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.FINE) from None


def _screen(reader: StatusReader, statuses: Sequence[GroupStatus]) -> RenderableType:
    return screen(statuses, single=reader.single, cluster=reader.cluster)


def _print_error(
    reader: StatusReader, names: Sequence[str], error: KafkaError, as_json: bool
) -> None:
    if as_json:
        subject: dict[str, Any] = {"group": names[0]} if reader.single else {}
        print_json({**subject, "error": str(error)})
    else:
        print(f"eo-listener: {error}", file=sys.stderr, flush=True)


def _print(reader: StatusReader, statuses: Sequence[GroupStatus], as_json: bool) -> None:
    """Print a table, or, with `as_json`, the JSON of the single named group or of all groups."""
    if not as_json:
        console().print(_screen(reader, statuses))
    elif reader.single:
        print_json(statuses[0].document())
    else:
        print_json({"groups": [group.document() for group in statuses]})
