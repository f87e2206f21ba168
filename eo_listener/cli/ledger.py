"""`eo-listener ledger`: what a sink has applied, and repairs of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import groupby
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from eo_listener.cli import ledger_repair
from eo_listener.cli.ledger_repair import Address, LedgerOptions, client_properties
from eo_listener.cli.options import (
    Json,
    console,
    named,
    print_json,
    print_line,
    table_of,
    with_options,
)
from eo_listener.cli.spark_options import spark_for, spark_settings
from eo_listener.errors import ExitCode
from eo_listener.model.ledger import AppliedBatch, LedgerKey, StoredLedger
from eo_listener.model.protocols import LedgerReader
from eo_listener.sinks.ledger_address import LedgerAddress

app = typer.Typer(
    help="Show the ledger of a sink, or repair it. A dry run without --execute.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog="Example: eo-listener ledger show sqlite:delays.db --query delays --history 20")
@with_options
def show(
    *,
    address: Address,
    options: LedgerOptions,
    history: Annotated[
        int, typer.Option(min=0, help="Show the N newest applied ranges of each partition.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Show how far each partition was applied, by which batch, and what was given up.

    Exit status: 1 if no ledger has that name, 3 if it may not be read.
    """
    settings, parsed = spark_settings(options.spark_conf or ()), LedgerAddress.parse(address)
    client = client_properties(parsed, options.servers, options.properties)
    with (
        closing(spark_for([parsed], settings)) as spark,
        closing(
            parsed.open(client, schema=options.schema, spark=spark, query=options.query)
        ) as reader,
    ):
        ledgers = {
            key: (ledger, _newest(reader, key, history))
            for key, ledger in sorted(reader.ledgers().items())
            if options.sink in (None, key.sink) and options.query in (None, key.query)
        }
        label = reader.label
    if as_json:
        print_json(_document(label, ledgers))
    else:
        _print(label, ledgers)
    if not ledgers:
        raise typer.Exit(ExitCode.FOUND)


app.command(epilog=ledger_repair.RENAME)(ledger_repair.rename)
app.command(epilog=ledger_repair.ACCEPT)(ledger_repair.accept)


def _newest(reader: LedgerReader, key: LedgerKey, count: int) -> list[AppliedBatch]:
    """The newest entries of the history of each partition; and all gaps, whatever their age."""
    newest: list[AppliedBatch] = []
    if count:
        for _, group in groupby(reader.history(key), lambda entry: entry.partition):
            entries = list(group)
            newest += [entry for entry in entries[:-count] if entry.gap is not None]
            newest += entries[-count:]
    return newest


_Found = Mapping[LedgerKey, tuple[StoredLedger, Sequence[AppliedBatch]]]


def _print(label: str, ledgers: _Found) -> None:
    out = console()
    print_line(out, label)
    if not ledgers:
        out.print(Text("no ledger has that name"))
    for key, (ledger, history) in ledgers.items():
        out.print()
        print_line(out, f"sink {key.sink}, query {key.query!r}")
        if ledger.begun is not None:
            out.print(named(f"batch {ledger.begun} was begun and is not finished"))
        if ledger.taken_back is not None:
            back = ledger.taken_back
            print_line(out, f"{back.cause}. Fix: {back.fix}" if back.fix else back.cause)
        if ledger.heads:
            out.print(_table_of_heads(ledger))
        if history:
            out.print(_table_of_history(history))


def _table_of_heads(ledger: StoredLedger) -> Table:
    """As wide as 80 columns if names are short: ids and times may stand in two lines."""
    rows = [
        {
            "partition": tp,
            "next offset": head.range.until,
            "batch": head.batch_id,
            "last range": head.range,
            "query and run": f"{head.query_id[:8]} {head.run_id[:8]}",
            "moved at": _time(ledger.moved_at.get(tp, "-")),
        }
        for tp, head in sorted(ledger.heads.items())
    ]
    return table_of(rows, ("next offset", "batch"))


def _table_of_history(history: Sequence[AppliedBatch]) -> Table:
    rows = [
        {
            "partition": entry.partition,
            "batch": entry.head.batch_id,
            "rows": entry.rows,
            "range": entry.head.range,
            "verdict": entry.verdict,
            "gap": entry.gap,
            "applied at": _time(entry.applied_at),
        }
        for entry in history
    ]
    return table_of(rows, ("batch", "rows"), title="history")


def _time(text: str) -> str:
    """A moment to the second, in UTC; what is no moment stays as it is."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    if moment.tzinfo is None:
        return text
    return moment.astimezone(dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def _document(label: str, ledgers: _Found) -> Mapping[str, object]:
    return {
        "store": label,
        "ledgers": [
            {
                **key._asdict(),
                "begun": ledger.begun,
                "taken_back": ledger.taken_back and ledger.taken_back._asdict(),
                "heads": [
                    {
                        **tp._asdict(),
                        "start_offset": head.range.start,
                        "next_offset": head.range.until,
                        "topic_id": head.topic_id,
                        "query_id": head.query_id,
                        "run_id": head.run_id,
                        "batch_id": head.batch_id,
                        "moved_at": ledger.moved_at.get(tp),
                    }
                    for tp, head in sorted(ledger.heads.items())
                ],
                "history": [
                    {
                        **entry.partition._asdict(),
                        "start_offset": entry.head.range.start,
                        "next_offset": entry.head.range.until,
                        "batch_id": entry.head.batch_id,
                        "rows": entry.rows,
                        "verdict": entry.verdict,
                        "gap": None if entry.gap is None else list(entry.gap),
                        "applied_at": entry.applied_at,
                    }
                    for entry in history
                ],
            }
            for key, (ledger, history) in ledgers.items()
        ],
    }
