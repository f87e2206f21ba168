"""`eo-listener broker`: a real Kafka on this machine, for development and tests."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eo_listener.cli.options import console, print_json
from eo_listener.devtools.broker import DEFAULT, detached
from eo_listener.devtools.broker.node_properties import parse_pair
from eo_listener.devtools.broker.record import Record
from eo_listener.model import exit_codes

app = typer.Typer(
    help="A real Kafka broker on this machine, for development and tests.",
    no_args_is_help=True,
    rich_markup_mode=None,
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
    version: Annotated[
        str | None, typer.Option(help=f"The release of Kafka. Default: {DEFAULT}.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Where to listen. Default: a free port, kept by --data.")
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="How many processes. Default: 1.")] = None,
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
    head = "is running already" if started.already else "is running"
    lines = [
        f"  bootstrap servers  {record.bootstrap_servers}",
        f"  process            {', '.join(str(node.pid) for node in record.nodes)}",
        f"  data               {record.data}",
        *(f"  log                {node.log}" for node in record.nodes),
        f"  stop it with       {detached.stop_command(folder)}",
    ]
    _print(f"Kafka {record.version} {head}", style="bold")
    _print("\n".join(lines))


@app.command(epilog="Example: eo-listener broker stop")
def stop(data: Data = None, as_json: Json = False) -> None:
    """End the broker that was started; its data stay."""
    folder = (data or detached.default_data()).absolute()
    ended = detached.stop(folder)
    if as_json:
        print_json({"stopped": [node.pid for node in ended], "data": str(folder)})
    elif ended:
        pids = ", ".join(str(node.pid) for node in ended)
        _print(f"Stopped (process {pids}). Its data stay in {folder}")
    else:
        _print(f"No broker was running on {folder}")


@app.command(epilog="Example: eo-listener broker status --json")
def status(data: Data = None, as_json: Json = False) -> None:
    """Say whether the broker runs: exit status 0 when all of its nodes do, else 1."""
    folder = (data or detached.default_data()).absolute()
    record = Record.read(folder)
    document = _document(folder, record)
    if as_json:
        print_json(document)
    elif record is None or not record.running():
        _print(f"No broker is running on {folder}")
    else:
        table = Table(title=Text(f"Kafka {record.version} on {record.bootstrap_servers}"))
        for column in ("node", "process", "port", "state", "log"):
            table.add_column(column, overflow="fold")
        for node in document["nodes"]:
            state = Text("running") if node["running"] else Text("gone", style="red")
            numbers = (str(node[name]) for name in ("node", "pid", "port"))
            table.add_row(*numbers, state, Text(node["log"]))
        console().print(table)
    if not document["running"]:
        raise typer.Exit(exit_codes.FOUND)


def _print(text: str, style: str = "") -> None:
    """Print lines as they are: the name of a folder may look like markup or an emoji to rich."""
    console().print(Text(text, style=style), soft_wrap=True)


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
        "stop": detached.stop_command(folder),
    }


@contextlib.contextmanager
def _news() -> Iterator[Callable[[str], None]]:
    """Yield a function that reports progress: a moving line on a terminal, else some lines."""
    if sys.stderr.isatty():
        with Console(stderr=True).status("starting") as line:
            yield lambda text: line.update(Text(text))
        return
    last = ("", 0.0)

    def say(text: str) -> None:
        nonlocal last
        kind, now = text.split(maxsplit=1)[0], time.monotonic()
        if kind != last[0] or now - last[1] > _PAUSE:
            last = (kind, now)
            print(text, file=sys.stderr, flush=True)

    yield say
