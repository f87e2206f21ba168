"""`eo-listener broker`: a real Kafka on this machine, for development and tests."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from eo_listener.broker import DEFAULT, detached
from eo_listener.broker.properties import parse_pair
from eo_listener.broker.record import Record
from eo_listener.cli.output import console, print_json

app = typer.Typer(
    help="A real Kafka broker on this machine, for development and tests.", no_args_is_help=True
)

Data = Annotated[
    Path | None,
    typer.Option("--data", help="Its data folder, kept. Default: in the user's data folder."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

_PAUSE = 2.0  # seconds between two plain lines of one kind


@app.command(
    epilog="Example: eo-listener broker start --port 9092 --property log.retention.ms=60000"
)
def start(
    version: Annotated[str, typer.Option(help="The release of Kafka.")] = DEFAULT,
    port: Annotated[
        int | None, typer.Option(help="Where to listen. Default: a free port, kept by --data.")
    ] = None,
    nodes: Annotated[int, typer.Option(help="How many processes.")] = 1,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", help="A broker property, key=value; repeatable."),
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Start a broker and leave it running."""
    folder = (data or detached.default_data()).absolute()
    with _news() as say:
        started = detached.start(
            folder,
            version=version,
            nodes=nodes,
            port=port,
            properties=dict(map(parse_pair, properties or ())),
            on_progress=say,
        )
    if as_json:
        print_json({"already": started.already, **_document(folder, started.record)})
        return
    record = started.record
    out = console()
    head = "is running already" if started.already else "is running"
    out.print(f"Kafka {record.version} {head}", style="bold")
    out.print(f"  bootstrap servers  {record.bootstrap_servers}")
    out.print(f"  process            {', '.join(str(node.pid) for node in record.nodes)}")
    out.print(f"  data               {record.data}", soft_wrap=True)
    for node in record.nodes:
        out.print(f"  log                {node.log}", soft_wrap=True)
    out.print(f"  stop it with       {_stop_command(folder)}", soft_wrap=True)


@app.command(epilog="Example: eo-listener broker stop")
def stop(data: Data = None, as_json: Json = False) -> None:
    """End the broker that was started; its data stay."""
    folder = (data or detached.default_data()).absolute()
    ended = detached.stop(folder)
    if as_json:
        print_json({"stopped": [node.pid for node in ended], "data": str(folder)})
    elif ended:
        pids = ", ".join(str(node.pid) for node in ended)
        console().print(f"Stopped (process {pids}). Its data stay in {folder}", soft_wrap=True)
    else:
        console().print(f"No broker was running on {folder}", soft_wrap=True)


@app.command(epilog="Example: eo-listener broker status --json")
def status(data: Data = None, as_json: Json = False) -> None:
    """Say whether the broker runs: exit status 0 when all of its nodes do, else 1."""
    folder = (data or detached.default_data()).absolute()
    record = Record.read(folder)
    document = _document(folder, record)
    if as_json:
        print_json(document)
    elif record is None or not record.running():
        console().print(f"No broker is running on {folder}", soft_wrap=True)
    else:
        table = Table(title=f"Kafka {record.version} on {record.bootstrap_servers}")
        for column in ("node", "process", "port", "state", "log"):
            table.add_column(column, overflow="fold")
        for node in document["nodes"]:
            state = "running" if node["running"] else "[red]gone[/red]"
            table.add_row(
                str(node["node"]), str(node["pid"]), str(node["port"]), state, node["log"]
            )
        console().print(table)
    if not document["running"]:
        raise typer.Exit(1)


def _document(folder: Path, record: Record | None) -> dict[str, Any]:
    if record is None:
        return {"running": False, "data": str(folder), "nodes": []}
    alive = {node.node for node in record.running()}
    return {
        "running": len(alive) == len(record.nodes),
        "version": record.version,
        "bootstrap_servers": record.bootstrap_servers,
        "data": record.data,
        "nodes": [
            {
                "node": node.node,
                "pid": node.pid,
                "port": node.port,
                "log": node.log,
                "running": node.node in alive,
            }
            for node in record.nodes
        ],
        "stop": _stop_command(folder),
    }


def _stop_command(folder: Path) -> str:
    own = folder == detached.default_data().absolute()
    return "eo-listener broker stop" + ("" if own else f" --data {shlex.quote(str(folder))}")


@contextlib.contextmanager
def _news() -> Iterator[Callable[[str], None]]:
    """Yield where to tell what is going on: a moving line on a terminal, else some lines."""
    if sys.stderr.isatty():
        with Console(stderr=True).status("starting") as line:
            yield line.update
        return
    last = ("", 0.0)

    def say(text: str) -> None:
        nonlocal last
        kind, now = text.split(maxsplit=1)[0], time.monotonic()
        if kind != last[0] or now - last[1] > _PAUSE:
            last = (kind, now)
            print(text, file=sys.stderr, flush=True)

    yield say
