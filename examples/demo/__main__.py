"""The command line of the demo: `python -m examples.demo`."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eo_listener.cli.options import console
from eo_listener.errors import EoListenerError
from examples.demo.check import Proof
from examples.demo.flights import TOTAL
from examples.demo.run import Outcome, Settings, run
from examples.demo.screen import number_of
from examples.demo.store import GROUP, Store
from tests.broker import DEFAULT

_KILLS = 4  # with --chaos
_RATE = 11_000  # flights a second: with it the whole takes about a minute on two cores

Rows = Annotated[int, typer.Option(min=1, help="How many flights.")]
Rate = Annotated[int, typer.Option(min=0, help="Flights a second; 0 for as fast as possible.")]
Sink = Annotated[
    Store | None,
    typer.Option(help="Write each flight exactly once there: into a table, or a topic."),
]
Chaos = Annotated[
    bool, typer.Option("--chaos", help="Kill the driver (SIGKILL) in mid-batch, again and again.")
]
Kills = Annotated[int, typer.Option(min=1, max=50, help="How often with --chaos.")]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the broker running, until Ctrl-C.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document at the end.")]
KafkaVersion = Annotated[str, typer.Option(help="The release of Kafka.")]
MetricsPort = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Serve the driver's numbers for Prometheus on 127.0.0.1."),
]

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(epilog="Example: python -m examples.demo --sink sqlite --chaos")
def demo(
    rows: Rows = TOTAL,
    rate: Rate = _RATE,
    sink: Sink = None,
    chaos: Chaos = False,
    kills: Kills = _KILLS,
    keep: Keep = False,
    as_json: AsJson = False,
    kafka_version: KafkaVersion = DEFAULT,
    metrics_port: MetricsPort = None,
) -> None:
    """Stream real flights through Kafka and Spark, to lag 0.

    With --sink each flight is written exactly once, and at the end that is proved, by counting.
    Exit status: 0 when group end = log end, lag 0 and all rows are there; 1 when one is not so.
    """
    if chaos and sink is None:
        raise typer.BadParameter(
            "it is about what a sink holds: add --sink sqlite", param_hint="--chaos"
        )
    settings = Settings(
        rows=rows,
        rate=rate,
        kafka_version=kafka_version,
        store=sink,
        kills=kills if chaos else 0,
        metrics_port=metrics_port,
    )
    outcome: Outcome | None = None
    try:
        with run(settings, sys.stderr if as_json else sys.stdout) as outcome:
            if as_json:
                print(json.dumps(_document(outcome)), flush=True)
            else:
                _print(console(), outcome)
            if keep:
                look = f"eo-listener status {GROUP} -b {outcome.servers}"
                print(f"The broker runs until Ctrl-C: {look}", file=sys.stderr, flush=True)
                signal.pause()
    except KeyboardInterrupt:
        if outcome is None:
            print("demo: stopped; everything that it started has ended", file=sys.stderr)
            raise typer.Exit(130) from None
    if not outcome.passed:
        raise typer.Exit(1)


def _document(outcome: Outcome) -> dict[str, object]:
    """Return all of it as JSON values."""
    return {
        "passed": outcome.passed,
        "checks": [asdict(check) for check in outcome.checks],
        "drained": outcome.drained,
        "seconds": round(outcome.progress.elapsed, 1),
        "produced": outcome.progress.produced,
        "counted": outcome.progress.counted,
        "commits": outcome.progress.commits,
        "kafka_consumer_groups": outcome.table,
        "proof": outcome.proof and outcome.proof.document(),
        "folder": str(outcome.folder),
    }


def _print(out: Console, outcome: Outcome) -> None:
    command = f"kafka-consumer-groups.sh --bootstrap-server {outcome.servers}"
    out.print()
    out.print(Text("Kafka's own tool reports:", style="bold"))
    out.print(Text(f"$ {command} --describe --group {GROUP}", style="dim"), soft_wrap=True)
    out.print(Text(outcome.table), soft_wrap=True)
    moral = "the group stands exactly where the query stands"
    if outcome.proof is not None:
        moral = "each flight is in the sink exactly once"
        out.print(Text("The sink contains:", style="bold"))
        out.print(_table(outcome.proof))
        out.print()
    for check in outcome.checks:
        mark = Text("  ok  ", "bold green") if check.passed else Text("  NO  ", "bold red")
        out.print(Text.assemble(mark, f"{check.name:<28} ", check.found), soft_wrap=True)
    seconds = f"{outcome.progress.elapsed:.0f} s"
    if outcome.passed:
        out.print(Text(f"PASSED in {seconds}: {moral}", style="bold green"), soft_wrap=True)
    else:
        late = "" if outcome.drained else ", lag 0 was not reached in time"
        out.print(Text(f"FAILED after {seconds}{late}", style="bold red"), soft_wrap=True)
        out.print(Text(f"Spark's log: {outcome.log}"), soft_wrap=True)


def _table(proof: Proof) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("partition", "log end", "group", "ledger", "checkpoint", "rows", "records"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in proof.partitions:
        numbers = (row.log_end, row.group, row.ledger, row.checkpoint, row.rows, row.records)
        table.add_row(str(row.partition), *map(number_of, numbers))
    return table


def main() -> None:
    """Run the command line; a failure is one line on stderr."""
    try:
        app()
    except EoListenerError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
