"""`eo-listener ledger`: what a sink has applied, and repairs of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from typing import Annotated, Final
from uuid import uuid4

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eo_listener.cli import completion
from eo_listener.cli.options import (
    Execute,
    Json,
    KafkaProperties,
    as_properties,
    console,
    named,
    parse_partition,
    print_json,
    print_line,
    seconds,
)
from eo_listener.cli.spark_options import SparkConf, spark_for, spark_settings
from eo_listener.model.errors import SettingsError
from eo_listener.model.ledger import AppliedBatch, Head, LedgerKey, StoredLedger
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.protocols import LedgerReader
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.sinks.ledger_repair import (
    choose_key,
    plan_acceptance,
    plan_rename,
    refuse_moved,
    refuse_other_table,
    refuse_users,
)

app = typer.Typer(
    help="What the ledger of a sink says, and repairs of it. A dry run until --execute.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_GAP: Final = re.compile(r"(?P<start>[0-9]{1,19})\.\.(?P<until>[0-9]{1,19})")
_WATCH: Final = 5.0

Address = Annotated[
    str,
    typer.Argument(
        metavar="LEDGER",
        autocompletion=completion.ledger,
        help="sqlite:FILE, postgresql://user@host/database, kafka:TOPIC (with -b), "
        "kafka://host:port/TOPIC, iceberg:CATALOG.NAMESPACE.TABLE, delta:TABLE or delta:/PATH.",
    ),
]
Schema = Annotated[
    str | None, typer.Option(help="PostgreSQL: the ledger's schema. Default: by the search_path.")
]
Servers = Annotated[
    str | None, typer.Option("-b", "--bootstrap-server", help="Kafka's address, for kafka:TOPIC.")
]
Sink = Annotated[
    str | None, typer.Option(help="The sink's key, as `ledger show` prints it: its table or topic.")
]
Query = Annotated[
    str | None, typer.Option(help="The name of the query: name= of exactly_once, or queryName.")
]
Watch = Annotated[
    float,
    typer.Option(help="With --execute: seconds for which the ledger must hold still before."),
]


@app.command(epilog="Example: eo-listener ledger show sqlite:delays.db --query delays --history 20")
def show(
    address: Address,
    schema: Schema = None,
    servers: Servers = None,
    properties: KafkaProperties = None,
    spark_conf: SparkConf = None,
    sink: Sink = None,
    query: Query = None,
    history: Annotated[
        int, typer.Option(min=0, help="So many of the newest ranges applied to each partition.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Show how far each partition was applied, by which batch, and what was given up.

    Exit status 1 where there is no ledger of that name.
    """
    spark = spark_settings(spark_conf or ())
    with _reader(address, schema, servers, properties, spark, query) as reader:
        found = {
            key: (ledger, _newest(reader, key, history))
            for key, ledger in sorted(reader.ledgers().items())
            if sink in (None, key.sink) and query in (None, key.query)
        }
        label = reader.label
    if as_json:
        print_json(_document(label, found))
    else:
        _print(label, found)
    if not found:
        raise typer.Exit(1)


@app.command(
    epilog="Example: eo-listener ledger rename postgresql://me@host/db --query old --to-query new"
)
def rename(
    address: Address,
    to_query: Annotated[str | None, typer.Option(help="The new name of the query.")] = None,
    to_sink: Annotated[
        str | None, typer.Option(help="The new key of the sink: the table, after ALTER TABLE.")
    ] = None,
    schema: Schema = None,
    sink: Sink = None,
    query: Query = None,
    watch: Watch = _WATCH,
    execute: Execute = False,
    as_json: Json = False,
) -> None:
    """Carry a ledger over to the new name of its query or of its table.

    Heads and history, in one transaction that compares each head with what was read before.
    """
    watch = seconds("watch", watch, least=0.0)
    with closing(LedgerAddress.parse(address).open_repair(schema=schema)) as repair:
        reader = repair.reader
        ledgers = _heads(reader)
        old = choose_key(ledgers, reader.label, sink, query)
        table = None if to_sink is None else repair.key_of(to_sink)
        plan = plan_rename(ledgers, old, sink=table, query=to_query)
        refuse_other_table(plan, repair)
        refuse_users(reader.label, (*repair.users(plan.old), *repair.users(plan.new)))
        if execute:
            time.sleep(watch)
            repair.rename(plan)
    count = len(plan.heads)
    if as_json:
        print_json(
            {
                "from": plan.old._asdict(),
                "to": plan.new._asdict(),
                "heads": count,
                "executed": execute,
            }
        )
        return
    out = console()
    print_line(out, f"from  query {plan.old.query!r} of {plan.old.sink}")
    print_line(out, f"to    query {plan.new.query!r} of {plan.new.sink}")
    _conclude(out, f"{count} heads and their history", "renamed", execute=execute)


@app.command(
    epilog="Example: eo-listener ledger accept sqlite:delays.db --partition flights-0 --gap 10..15"
)
def accept(
    address: Address,
    partition: Annotated[
        str, typer.Option(help="The partition, as the error of the query names it: flights-0.")
    ],
    gap: Annotated[
        str, typer.Option(help="The offsets that are given up, as the error names them: 10..15.")
    ],
    schema: Schema = None,
    sink: Sink = None,
    query: Query = None,
    watch: Watch = _WATCH,
    execute: Execute = False,
    as_json: Json = False,
) -> None:
    """Accept one gap: the offsets from the first number up to the second are not in the sink.

    The next batch may then begin at the second. The history keeps the gap forever. Every other gap
    is refused as before, which `on_gap="accept"` does not do.
    """
    watch = seconds("watch", watch, least=0.0)
    tp, offsets = parse_partition(partition), parse_gap(gap)
    with closing(LedgerAddress.parse(address).open_repair(schema=schema)) as repair:
        reader = repair.reader
        ledgers = _heads(reader)
        key = choose_key(ledgers, reader.label, sink, query)
        entry = plan_acceptance(ledgers[key], key, tp, offsets, run_id=str(uuid4()))
        refuse_users(reader.label, repair.users(key))
        if execute:
            time.sleep(watch)
            refuse_moved(reader.label, ledgers[key], _heads(reader).get(key, {}))
            repair.accept(key.sink, entry)
    if as_json:
        print_json(
            {
                **key._asdict(),
                "topic": tp.topic,
                "partition": tp.partition,
                "gap": list(offsets),
                "executed": execute,
            }
        )
        return
    out = console()
    out.print(named(f"query {key.query!r} of {key.sink}: {tp} is at {offsets.start}"))
    _conclude(out, f"the gap {offsets} of {tp}", "accepted", execute=execute)


def parse_gap(text: str) -> OffsetRange:
    """Read `10..15`. Raises SettingsError."""
    found = _GAP.fullmatch(text)
    if found is None:
        raise SettingsError(
            f"--gap must be two offsets, got {text!r}",
            fix="Write 10..15 for the offsets 10 to 14: the second is the next one to read",
        )
    return OffsetRange(int(found["start"]), int(found["until"]))


@contextmanager
def _reader(
    address: str,
    schema: str | None,
    servers: str | None,
    properties: list[str] | None,
    settings: Mapping[str, str],
    query: str | None,
) -> Iterator[LedgerReader]:
    given = None if servers is None else as_properties(servers, properties)
    named = LedgerAddress.parse(address)
    with (
        closing(spark_for([named], settings)) as spark,
        closing(named.open(given, schema=schema, spark=spark, query=query)) as reader,
    ):
        yield reader


def _heads(reader: LedgerReader) -> dict[LedgerKey, Mapping[TopicPartition, Head]]:
    return {key: ledger.heads for key, ledger in reader.ledgers().items()}


def _newest(reader: LedgerReader, key: LedgerKey, count: int) -> list[AppliedBatch]:
    """The newest entries of the history of each partition; and all gaps, whatever their age."""
    found = []
    if count:
        for _, of_one in groupby(reader.history(key), lambda one: one.partition):
            entries = list(of_one)
            old = [one for one in entries[:-count] if one.gap is not None]
            found += [*old, *entries[-count:]]
    return found


_Found = Mapping[LedgerKey, tuple[StoredLedger, Sequence[AppliedBatch]]]


def _print(label: str, found: _Found) -> None:
    out = console()
    print_line(out, label)
    if not found:
        out.print(Text("no ledger of that name"))
    for key, (ledger, history) in found.items():
        out.print()
        print_line(out, f"sink {key.sink}, query {key.query!r}")
        if ledger.begun is not None:
            out.print(named(f"batch {ledger.begun} was begun and is not finished"))
        if ledger.taken_back is not None:
            back = ledger.taken_back
            print_line(out, f"{back.cause}. Fix: {back.fix}" if back.fix else back.cause)
        out.print(_table_of_heads(ledger))
        if history:
            out.print(_table_of_history(history))


def _table_of_heads(ledger: StoredLedger) -> Table:
    table = Table()
    table.add_column("topic")
    for name in ("partition", "next offset", "batch"):
        table.add_column(name, justify="right")
    for name in ("last range", "query id", "run id", "moved at"):
        table.add_column(name)
    for tp, head in sorted(ledger.heads.items()):
        cells = (
            *(tp.topic, str(tp.partition), str(head.range.until), str(head.batch_id)),
            *(str(head.range), head.query_id[:8], head.run_id[:8], ledger.moved_at.get(tp, "-")),
        )
        table.add_row(*map(named, cells))
    return table


def _table_of_history(history: Sequence[AppliedBatch]) -> Table:
    table = Table(title="history", title_justify="left")
    table.add_column("topic")
    for name in ("partition", "batch", "rows of the batch"):
        table.add_column(name, justify="right")
    for name in ("range", "verdict", "gap", "applied at"):
        table.add_column(name)
    for one in history:
        cells = (
            *(one.partition.topic, str(one.partition.partition)),
            *(str(one.head.batch_id), "-" if one.rows is None else str(one.rows)),
            *(str(one.head.range), one.verdict),
            *("-" if one.gap is None else str(one.gap), one.applied_at),
        )
        table.add_row(*map(named, cells))
    return table


def _document(label: str, found: _Found) -> Mapping[str, object]:
    return {
        "store": label,
        "ledgers": [
            {
                **key._asdict(),
                "begun": ledger.begun,
                "taken_back": ledger.taken_back and ledger.taken_back._asdict(),
                "heads": [
                    {
                        "topic": tp.topic,
                        "partition": tp.partition,
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
                        "topic": one.partition.topic,
                        "partition": one.partition.partition,
                        "start_offset": one.head.range.start,
                        "next_offset": one.head.range.until,
                        "batch_id": one.head.batch_id,
                        "rows": one.rows,
                        "verdict": one.verdict,
                        "gap": None if one.gap is None else list(one.gap),
                        "applied_at": one.applied_at,
                    }
                    for one in history
                ],
            }
            for key, (ledger, history) in found.items()
        ],
    }


def _conclude(out: Console, what: str, done: str, *, execute: bool) -> None:
    out.print(
        named(
            f"{done}: {what}"
            if execute
            else f"dry run, nothing was changed. To have {what} {done}: --execute"
        )
    )
