"""`eo-listener ledger`: shows the offsets that a sink has applied, and repairs its ledger."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import uuid4

import typer
from rich.table import Table
from rich.text import Text

from eo_listener.audit.intervals import size
from eo_listener.cli import completion
from eo_listener.cli.java_client import Clients, java_transactions
from eo_listener.cli.options import (
    Execute,
    Json,
    KafkaProperties,
    as_properties,
    console,
    named,
    parse_partition,
    picked,
    print_json,
    print_line,
    require_cluster,
    subcommands,
    table_of,
    with_options,
)
from eo_listener.cli.spark_options import SparkConf, spark_for, spark_settings
from eo_listener.errors import EoListenerError, ExitCode, KafkaError, SettingsError, counted
from eo_listener.kafka.java_transactions import JavaTransactions
from eo_listener.kafka.logs import NO_OFFSETS, Logs
from eo_listener.model.argument_checks import require_seconds
from eo_listener.model.ledger import AppliedBatch, Head, LedgerKey, StoredLedger
from eo_listener.model.ledger_place import LedgerStore
from eo_listener.model.protocols import LedgerReader
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_address import FORMS, LedgerAddress
from eo_listener.sinks.ledger_repair import (
    LedgerRepair,
    Ledgers,
    choose_key,
    plan_acceptance,
    plan_rename,
    refuse_moved,
    refuse_unsettled,
    refuse_users,
)

RENAME: Final = (
    "Example: eo-listener ledger rename postgresql://me@host/db --query old --to-query new"
)
ACCEPT: Final = (
    "Example: eo-listener ledger accept sqlite:delays.db --partition flights-0 --gap 10..15"
)
_TIMEOUT: Final = 10.0  # seconds, for reading the log of a gap
_GAP: Final = re.compile(r"(?P<start>[0-9]{1,19})\.\.(?P<until>[0-9]{1,19})")


Address = Annotated[
    str,
    typer.Argument(
        metavar="LEDGER", autocompletion=completion.ledger, help=f"{FORMS}. kafka:TOPIC needs -b."
    ),
]


def client_properties(
    address: LedgerAddress, servers: str | None, properties: list[str] | None
) -> dict[str, str] | None:
    """Return the properties of a Kafka client, or None if the user names no servers.

    The servers are those of -b, or else those in the address of a topic. Raises SettingsError, also
    for properties without servers.
    """
    servers = servers or address.servers
    require_cluster(servers, properties)
    return None if servers is None else as_properties(servers, properties)


@dataclass(frozen=True, kw_only=True, repr=False)
class LedgerOptions:
    """The options that name a ledger in its store."""

    schema: Annotated[
        str | None,
        typer.Option(help="PostgreSQL: the ledger's schema. Default: from the search_path."),
    ] = None
    servers: Annotated[
        str | None,
        typer.Option("-b", "--bootstrap-server", help="Kafka's address, for kafka:TOPIC."),
    ] = None
    properties: KafkaProperties = None
    spark_conf: SparkConf = None
    sink: Annotated[
        str | None,
        typer.Option(help="The sink's key, as `ledger show` prints it: its table or topic."),
    ] = None
    query: Annotated[
        str | None, typer.Option(help="The name of the query: name= of exactly_once, or queryName.")
    ] = None


@dataclass(frozen=True, kw_only=True, repr=False)
class RepairOptions(LedgerOptions):
    """The options that all repairs of a ledger share."""

    clients: Clients = None
    watch: Annotated[
        float,
        typer.Option(
            help="With --execute: watch the ledger for this many seconds first, and change it "
            "only if nobody else has changed it."
        ),
    ] = 5.0
    execute: Execute = False
    as_json: Json = False


@dataclass(frozen=True, kw_only=True, repr=False)
class GapOptions(RepairOptions):
    """The options of `ledger accept`; `servers` may name the source's cluster, not the ledger's."""

    servers: Annotated[
        str | None,
        typer.Option(
            "-b",
            "--bootstrap-server",
            help="The source's Kafka, whose log the command compares with the gap; also for "
            "kafka:TOPIC.",
        ),
    ] = None


@with_options
def rename(
    *,
    address: Address,
    to_query: Annotated[str | None, typer.Option(help="The new name of the query.")] = None,
    to_sink: Annotated[
        str | None,
        typer.Option(
            help="The new key of the sink: its table, after ALTER TABLE; for Kafka, its name= or "
            "topics. Not for Iceberg and Delta, whose tables contain their ledger."
        ),
    ] = None,
    options: RepairOptions,
) -> None:
    """Move a ledger to the new name of its query or of its table.

    Heads and history move in one transaction, or in one commit of an Iceberg or Delta table. The
    command moves nothing if a head has changed since it was read.
    """
    watch = require_seconds("--watch", options.watch, least=0.0)
    with _opened(address, options) as repair:
        ledgers, heads, old = _chosen(repair, options)
        table = None if to_sink is None else repair.key_of(to_sink)
        plan = plan_rename(heads, old, sink=table, query=to_query)
        repair.check_rename(plan)
        steps = _Steps(repair, ledgers, (plan.old, plan.new), as_json=options.as_json)
        steps.say(
            f"from  query {plan.old.query!r} of {plan.old.sink}",
            f"to    query {plan.new.query!r} of {plan.new.sink}",
        )
        if options.execute:
            steps.execute(watch, lambda: repair.rename(plan))
    steps.conclude(
        f"{counted(len(plan.heads), 'head')} and their history",
        "renamed",
        {"from": plan.old._asdict(), "to": plan.new._asdict(), "heads": len(plan.heads)},
    )


@with_options
def accept(
    *,
    address: Address,
    partition: Annotated[
        str, typer.Option(help="The partition, as the query's error shows it: flights-0.")
    ],
    gap: Annotated[
        str, typer.Option(help="The offsets to give up, as the error shows them: 10..15.")
    ],
    options: GapOptions,
) -> None:
    """Accept one gap: offsets that the sink will never have.

    The gap runs from the first offset of --gap up to but not including the second. The next batch
    may then begin at the second. The history keeps the gap forever. The sink still refuses every
    other gap, unlike with `on_gap="accept"`. With -b, the command compares the gap with the log: it
    refuses a gap beyond the log's end, and shows which of the offsets Kafka still has.
    """
    watch = require_seconds("--watch", options.watch, least=0.0)
    tp, offsets = parse_partition(partition), parse_gap(gap)
    with _opened(address, options) as repair:
        ledgers, heads, key = _chosen(repair, options)
        entry = plan_acceptance(heads[key], key, tp, offsets, run_id=str(uuid4()))
        cluster = client_properties(
            LedgerAddress.parse(address), options.servers, options.properties
        )
        given_up = compare_gap(cluster, tp, offsets, heads[key][tp])
        steps = _Steps(repair, ledgers, (key,), as_json=options.as_json)
        at = f"query {key.query!r} of {key.sink}: {tp} is at {offsets.start}"
        steps.say(at, *given_up.lines)
        if options.execute:
            steps.execute(watch, lambda: repair.accept(key.sink, entry))
    steps.conclude(
        f"the gap {offsets} of {tp}",
        "accepted",
        {**key._asdict(), **tp._asdict(), "gap": list(offsets), **given_up.document()},
    )


def parse_gap(text: str) -> OffsetRange:
    """Parse a gap such as `10..15`. Raises SettingsError."""
    match = _GAP.fullmatch(text)
    if match is None:
        raise SettingsError(
            f"--gap must be two offsets, got {text!r}",
            fix="Write 10..15 for the offsets 10 to 14: 15 is the next offset to read",
        )
    return OffsetRange(int(match["start"]), int(match["until"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class GapInLog:
    """A gap and its partition's log. If `log` is None, `unknown` is the reason."""

    gap: OffsetRange
    log: OffsetRange | None = None
    unknown: str = ""

    @property
    def in_log(self) -> OffsetRange | None:
        """The part of the gap (maybe empty) that the log still has, or None if `log` is None."""
        if self.log is None:
            return None
        start = max(self.gap.start, min(self.log.start, self.gap.until))
        return OffsetRange(start, self.gap.until)

    @property
    def lines(self) -> list[str]:
        """The lines that tell the user which offsets the repair gives up."""
        count = size([self.gap])
        lines = [f"never in the sink: {counted(count, 'offset')}, up to {counted(count, 'record')}"]
        if self.log is None or self.in_log is None:
            return [*lines, f"not compared with the source's log: {self.unknown}"]
        remaining = size([self.in_log])
        if remaining:
            still = f"{remaining:,} of these offsets, {self.in_log}"
            return [*lines, f"Kafka still has {still}: no batch will read them"]
        lines.append("Kafka has deleted all of these records")
        later = OffsetRange(self.gap.until, self.log.start)
        if later.start < later.until:
            lines.append(f"the log begins at {later.until}, so {later} will be another gap")
        return lines

    def document(self) -> dict[str, Any]:
        """Return the gap as a JSON document.

        If the gap was not compared, `in_log` is None, and `not_compared` has the reason.
        """
        return {
            "offsets": size([self.gap]),
            "in_log": None if self.in_log is None else size([self.in_log]),
            "not_compared": self.unknown or None,
        }


def compare_gap(
    properties: Mapping[str, str] | None, tp: TopicPartition, gap: OffsetRange, head: Head
) -> GapInLog:
    """Compare a gap with its partition's log, unless `properties` is None.

    Raises SettingsError if the gap reaches beyond the end of the log, or if the ledger was written
    for another topic.
    """
    if properties is None:
        return GapInLog(gap=gap, unknown="add -b HOST:PORT")
    servers = properties.get("bootstrap.servers", "")
    try:
        with closing(Logs(properties)) as logs:
            snapshot = logs.snapshot(NO_OFFSETS, [tp], time.monotonic() + _TIMEOUT)
        snapshot = snapshot.whole()
    except KafkaError as error:
        return GapInLog(gap=gap, unknown=str(error))
    if tp not in snapshot.ends:
        return GapInLog(gap=gap, unknown=f"{servers} does not have {tp}")
    topic_id = snapshot.topic_ids.get(tp.topic)
    if None not in (topic_id, head.topic_id) and topic_id != head.topic_id:
        raise SettingsError(
            f"topic {tp.topic} at {servers} is not the topic in the ledger: its id was "
            f"{head.topic_id} and is now {topic_id}",
            cause="it was deleted and recreated, so every offset has another record; or this "
            "is another cluster",
            fix="Check that -b names the source's cluster; use kafka://HOST:PORT/TOPIC for a "
            "ledger on another cluster. For a recreated topic, run eo-listener audit",
        )
    log = OffsetRange(snapshot.starts[tp], snapshot.ends[tp])
    if gap.until > log.until:
        raise SettingsError(
            f"the gap {gap} reaches beyond the end of the log: {tp} at {servers} ends at "
            f"{log.until}",
            cause="the number is wrong; records written later in the gap would never be read",
            fix="Give the gap as the query's error or the audit names it; it can end at "
            f"{log.until} at most",
        )
    return GapInLog(gap=gap, log=log)


class _Steps:
    """Checks, executes and prints the repair of the ledgers with the keys `keys`.

    The ledger of the first key must have heads.
    """

    def __init__(
        self,
        repair: LedgerRepair,
        ledgers: Mapping[LedgerKey, StoredLedger],
        keys: tuple[LedgerKey, ...],
        *,
        as_json: bool,
    ) -> None:
        self._repair = repair
        self._ledgers = ledgers
        self._keys = keys
        self._as_json = as_json
        self._executed = False
        label = repair.reader.label
        for key in keys:
            if key in ledgers:
                refuse_unsettled(label, ledgers[key])
        self._refuse_users()
        self._remarks = repair.remarks

    def say(self, *lines: str) -> None:
        """Print `lines`, which describe the planned repair, and remarks on its side effects."""
        if not self._as_json:
            for line in (*lines, *self._remarks):
                print_line(console(), line)

    def execute(self, watch: float, do: Callable[[], None]) -> None:
        """Call `do`, the repair, after `watch` seconds in which no head of the keys has moved."""
        time.sleep(watch)
        now, _ = _read(self._repair)
        for key in self._keys:
            before, after = (
                state[key].heads if key in state else {} for state in (self._ledgers, now)
            )
            refuse_moved(self._repair.reader.label, before, after)
        self._refuse_users()
        do()
        self._executed = True

    def conclude(self, subject: str, done: str, document: Mapping[str, Any]) -> None:
        """Print the result of the repair, or of the dry run."""
        if self._as_json:
            more = {"remarks": list(self._remarks), "executed": self._executed}
            print_json({**document, **more})
        elif self._executed:
            print_line(console(), f"{done}: {subject}")
        else:
            print_line(
                console(), f"dry run, nothing was changed. To have {subject} {done}, add --execute"
            )

    def _refuse_users(self) -> None:
        users = [user for key in self._keys for user in self._repair.users(key)]
        refuse_users(self._repair.reader.label, tuple(users))


@contextmanager
def _opened(address: str, options: RepairOptions) -> Iterator[LedgerRepair]:
    settings = spark_settings(options.spark_conf or ())
    named = LedgerAddress.parse(address)
    properties = client_properties(named, options.servers, options.properties)
    with ExitStack() as stack:
        spark = stack.enter_context(closing(spark_for([named], settings)))
        java, no_java = None, None
        if named.store is LedgerStore.KAFKA:
            java, no_java = _java(stack, named.client_properties(properties), options.clients)
        repair = named.open_repair(
            properties, schema=options.schema, spark=spark, java=java, no_java=no_java
        )
        yield stack.enter_context(closing(repair))


def _java(
    stack: ExitStack, properties: Mapping[str, str], clients: Path | None
) -> tuple[JavaTransactions | None, str | None]:
    """Return the client that asks Kafka's coordinators, or the reason why there is no client.

    If the user named the folder of the client, `clients`, raises the error instead.
    """
    try:
        return stack.enter_context(java_transactions(properties, clients)), None
    except EoListenerError as error:
        if clients is not None:
            raise
        return None, str(error)


def _read(repair: LedgerRepair) -> tuple[Mapping[LedgerKey, StoredLedger], Ledgers]:
    """Return all ledgers of the store, and the heads of those that have heads."""
    ledgers = repair.reader.ledgers()
    return ledgers, {key: ledger.heads for key, ledger in ledgers.items() if ledger.heads}


def _chosen(
    repair: LedgerRepair, options: RepairOptions
) -> tuple[Mapping[LedgerKey, StoredLedger], Ledgers, LedgerKey]:
    """Return the result of `_read`, and the key of the ledger that the options name.

    Raises SettingsError unless exactly one ledger fits.
    """
    ledgers, heads = _read(repair)
    return ledgers, heads, choose_key(heads, repair.reader.label, options.sink, options.query)


app = subcommands("Show the ledger of a sink, or repair it. A dry run without --execute.")


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
    """Show how far a sink has applied its query's batches.

    For each partition: the next offset, and the batch that moved it there. With --history also the
    newest batches and every accepted gap; `rows` are those of the whole batch, or of this partition
    with atomicity="partition". Exit status: 1 if no ledger has that name, 3 if this client lacks
    the right to read the ledger.
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


app.command(epilog=RENAME)(rename)
app.command(epilog=ACCEPT)(accept)


def _newest(reader: LedgerReader, key: LedgerKey, count: int) -> list[AppliedBatch]:
    """Return each partition's `count` newest history entries, and older entries with a gap."""
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
        if ledger.unfinished_batch is not None:
            out.print(named(f"batch {ledger.unfinished_batch} was begun and is not finished"))
        if ledger.rollback is not None:
            back = ledger.rollback
            print_line(out, f"{back.cause}. Fix: {back.fix}" if back.fix else back.cause)
        if ledger.heads:
            out.print(_table_of_heads(ledger))
        if history:
            out.print(_table_of_history(history))


def _table_of_heads(ledger: StoredLedger) -> Table:
    """Return the table of heads.

    The table is 80 columns wide if names are short, since ids and times may wrap.
    """
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
    title = 'history; rows: of the whole batch, unless atomicity="partition"'
    return table_of(rows, ("batch", "rows"), title=title)


def _time(text: str) -> str:
    """Format a time with a zone to the second, in UTC; return other texts unchanged."""
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
                "begun": ledger.unfinished_batch,
                "taken_back": ledger.rollback and ledger.rollback._asdict(),
                "heads": [
                    {**_head(tp, head), "moved_at": ledger.moved_at.get(tp)}
                    for tp, head in sorted(ledger.heads.items())
                ],
                "history": [
                    {
                        **_head(entry.partition, entry.head),
                        **picked(entry, "rows", "verdict", "applied_at"),
                        "gap": None if entry.gap is None else list(entry.gap),
                    }
                    for entry in history
                ],
            }
            for key, (ledger, history) in ledgers.items()
        ],
    }


def _head(tp: TopicPartition, head: Head) -> dict[str, object]:
    return {
        **tp._asdict(),
        "start_offset": head.range.start,
        "next_offset": head.range.until,
        **picked(head, "topic_id", "query_id", "run_id", "batch_id"),
    }
