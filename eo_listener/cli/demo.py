"""`eo-listener demo`: from nothing to lag 0, with real flights."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from eo_listener.broker import DEFAULT
from eo_listener.cli.output import console, print_json
from eo_listener.demo.settings import GROUP, DemoSettings, Key, require_extras

if TYPE_CHECKING:
    from eo_listener.demo.verdict import Outcome

EXAMPLE = "Example: eo-listener demo --rows 50000 --rate 5000 --keep"

_RATE = 11_000  # rows a second: with it the whole takes about a minute on two cores


def demo(
    rows: Annotated[
        int | None, typer.Option(min=1, help="How many flights. Default: all 336,776.")
    ] = None,
    rate: Annotated[
        int, typer.Option(min=0, help="Flights a second; 0 for as fast as possible.")
    ] = _RATE,
    partitions: Annotated[int, typer.Option(min=1, max=100, help="Partitions of the topic.")] = 4,
    key: Annotated[Key, typer.Option(help="What decides a flight's partition.")] = Key.CARRIER,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the broker running, to look around.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document at the end.")
    ] = False,
    kafka_version: Annotated[str, typer.Option(help="The release of Kafka.")] = DEFAULT,
) -> None:
    """Stream real flights through a real Kafka and a real Spark query, to lag 0.

    Exit status: 0 when group end = log end, lag 0 and all rows counted; 1 when one is not so.
    """
    require_extras()
    from eo_listener.demo.run import run  # noqa: PLC0415  # needs pyspark, which is an extra

    settings = DemoSettings(
        rows=rows, rate=rate, partitions=partitions, key=key, kafka_version=kafka_version, keep=keep
    )
    try:
        outcome = run(settings, sys.stderr if as_json else sys.stdout)
    except KeyboardInterrupt:
        print("eo-listener: stopped; everything that the demo started has ended", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        print_json(outcome.document())
    else:
        _print(console(), outcome)
    if not outcome.verdict.passed:
        raise typer.Exit(1)


def _print(out: Console, outcome: Outcome) -> None:
    out.print()
    out.print(Text("What Kafka's own tool says:", style="bold"))
    out.print(Text(f"$ {outcome.command}", style="dim"), soft_wrap=True)
    out.print(Text(outcome.table), soft_wrap=True)
    for check in outcome.verdict.checks:
        mark = (
            Text("  ok  ", style="bold green") if check.passed else Text("  NO  ", style="bold red")
        )
        out.print(Text.assemble(mark, f"{check.name:<28} ", check.found), soft_wrap=True)
    seconds = f"{outcome.last.elapsed:.0f} s"
    if outcome.verdict.passed:
        text = f"PASSED in {seconds}: the group stands exactly where the query stands"
        out.print(Text(text, style="bold green"), soft_wrap=True)
    else:
        late = "" if outcome.drained else ", lag 0 was not reached in time"
        out.print(Text(f"FAILED after {seconds}{late}", style="bold red"), soft_wrap=True)
        out.print(Text(f"Spark's log: {outcome.log}"), soft_wrap=True)
    if outcome.kept is not None:
        out.print("\nThe broker was kept:")
    for what, words in _next_commands(outcome):
        out.print(Text(f"  {what:<7}{shlex.join(words)}"), soft_wrap=True)


def _next_commands(outcome: Outcome) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What the user can type now, and what it is for."""
    if outcome.kept is not None:
        program = _program()
        servers, data = outcome.kept.bootstrap_servers, outcome.kept.data
        yield "look", (*program, "status", GROUP, "-b", servers)
        yield "stop", (*program, "broker", "stop", "--data", data)
    if outcome.folder is not None:
        yield "remove", ("rm", "-r", str(outcome.folder))


def _program() -> tuple[str, ...]:
    """This program as a shell finds it: by its name only where that leads to the same file."""
    started = Path(sys.argv[0]).absolute()
    if not os.access(started, os.X_OK) or started.suffix == ".py":  # python -m eo_listener
        return (sys.executable, "-m", "eo_listener")
    found = shutil.which(started.name)
    same = found is not None and Path(found).absolute() == started
    return (started.name if same else str(started),)
