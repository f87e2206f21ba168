"""`eo-listener txn`: lists open transactions, and ends a transaction that blocks readers."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from eo_listener.cli.java_client import Clients, java_transactions
from eo_listener.cli.options import (
    BootstrapServers,
    Execute,
    Json,
    KafkaProperties,
    as_properties,
    console,
    named,
    picked,
    print_json,
    print_line,
    require_names,
    subcommands,
    utc,
)
from eo_listener.errors import ExitCode, InUseError, SettingsError, UnavailableError, few, length
from eo_listener.kafka.open_transactions import (
    OFFSETS_TOPIC,
    OpenTransaction,
    TransactionReader,
    TransactionReading,
    TransactionRepair,
    TransactionVerdict,
)
from eo_listener.model.argument_checks import require_seconds
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.offsets import OffsetRange, TopicPartition

app = subcommands("List open transactions, and end one that blocks readers.")


@app.command(name="list", epilog="Example: eo-listener txn list -b localhost:9092 --topic delays")
def list_(
    servers: BootstrapServers,
    properties: KafkaProperties = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("-t", "--topic", help="A topic; repeatable. Default: all except Kafka's own."),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            "-g",
            "--group",
            help="The topics of a consumer group, and the partition of its offsets; repeatable.",
        ),
    ] = None,
    clients: Clients = None,
    as_json: Json = False,
) -> None:
    """Show the open transactions that hold back consumers.

    These are consumers with isolation.level=read_committed. For each transaction, shows its owner
    and times, how it ends, and the command that ends it. Exit status 1 if a transaction hangs or
    has exceeded its timeout, 3 if that is unknown for a transaction.
    """
    require_names("topic", topics or ())
    require_names("group", groups or ())
    with _opened(servers, properties, clients) as (reader, _, commands):
        partitions = {tp for group in groups or () for tp in reader.of_group(group)}
        if topics or not groups:
            partitions |= set(reader.partitions(topics))
        reading = reader.read(sorted(partitions))
    anything = reading.transactions or reading.errors
    if not topics and not anything and {tp.topic for tp in partitions} == {OFFSETS_TOPIC}:
        raise SettingsError(
            f"group {few(groups or ())} holds no offsets, so its topics are unknown",
            cause="the offsets expired, no offset was ever committed, or the name is wrong",
            fix="Check the name, or name the topics: --topic",
        )
    now_ms = _now_ms()
    if as_json:
        print_json(document(reading, commands, now_ms))
    else:
        print_reading(console(), reading, commands, now_ms)
    status = _exit_status(reading, now_ms)
    if status:
        raise typer.Exit(status)


@app.command(
    name="abort",
    epilog="Example: eo-listener txn abort -b localhost:9092 "
    "--transactional-id eo-listener/delays/flights --execute",
)
def abort_(
    servers: BootstrapServers,
    transactional_id: Annotated[
        str, typer.Option(help="End this id's open transaction by fencing its producer.")
    ],
    properties: KafkaProperties = None,
    live: Annotated[
        bool, typer.Option("--live", help="End it even if its producer is, or may be, working.")
    ] = False,
    watch: Annotated[
        float,
        typer.Option(
            help="With --execute: seconds for which its producer must be silent before the "
            "command ends the transaction."
        ),
    ] = 10.0,
    clients: Clients = None,
    execute: Execute = False,
    as_json: Json = False,
) -> None:
    """End one open transaction, and check that it has ended.

    `txn list` shows its transactional id. The command fences the producer of the id. It refuses to
    do so while that producer is working. Exit status 3 if the transaction has not ended everywhere,
    or if that is unknown.
    """
    watch = require_seconds("--watch", watch, least=0.0)
    require_names("transactional id", [transactional_id])
    with _opened(servers, properties, clients) as (reader, repair, _):
        transaction = _open_of(reader, transactional_id)
        not_ended: Mapping[str, str] | None = None
        if transaction is not None and execute:
            time.sleep(watch)
            later = _open_of(reader, transactional_id)
            unchanged = _unchanged(transaction, later, watch, live=live)
            not_ended = None if unchanged is None else repair.fence(transactional_id, unchanged)
    abort = Abort(
        transactional_id=transactional_id,
        transaction=transaction,
        executed=execute,
        not_ended=not_ended,
    )
    if as_json:
        print_json(abort.document())
    else:
        abort.print(console(), _now_ms())
    if not_ended:
        raise typer.Exit(ExitCode.UNREACHABLE)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _open_of(reader: TransactionReader, transactional_id: str) -> OpenTransaction | None:
    """Return an id's open transaction, if any. Raises SettingsError and UnavailableError."""
    reader.partitions(set())  # if Kafka is unreachable, this error is the clearest
    described = reader.describe(transactional_id)
    if described.ending:
        raise UnavailableError(
            f"the transaction of {transactional_id!r} is {described.state}: its coordinator is "
            "ending it, and no other program can",
            cause="its markers are not written yet: a partition has no leader, or a broker is slow",
            fix="Look again in a moment; if it is still open, check the brokers",
        )
    if not described.state_known:
        raise UnavailableError(
            f"cannot tell if {transactional_id!r} has an open transaction: its state is "
            f"{described.state}",
            cause="the brokers are newer than Kafka's Java client here",
            fix="Use a newer client: --kafka-clients",
        )
    if not described.ongoing:
        return None
    if described.two_phase:
        raise SettingsError(
            f"the transaction of {transactional_id!r} belongs to a two-phase commit (KIP-939): "
            "only its program knows whether it has promised to commit this transaction",
            fix="Start that program again, which ends it. If the program will never run again, "
            "use Kafka's own kafka-transactions.sh forceTerminateTransaction",
        )
    return reader.open_under(transactional_id, described)


def _unchanged(
    earlier: OpenTransaction, later: OpenTransaction | None, watch: float, *, live: bool
) -> OpenTransaction | None:
    """Return `later`, the second reading, or None if the transaction has ended since `earlier`.

    Unless `live` is True, raises InUseError if the producer is working, and UnavailableError if
    that is unknown.
    """
    if later is None or earlier.since != later.since:
        return None
    if (earlier.producers, earlier.described) != (later.producers, later.described) and not live:
        raise InUseError(
            f"the producer of the transaction is working: it has written within {watch:g} s",
            cause="its program is alive and ends the transaction itself",
            fix="Stop the program first; or add --live to end the transaction nevertheless",
        )
    if later.reason is not None and not live:
        raise UnavailableError(
            "cannot tell if the producer of the transaction is working",
            cause=later.reason,
            fix="Grant that permission; or add --live to end the transaction nevertheless",
        )
    return later


def _exit_status(reading: TransactionReading, now_ms: int) -> int:
    verdicts = {transaction.verdict for transaction in reading.transactions}
    if reading.errors or TransactionVerdict.UNKNOWN in verdicts:
        return ExitCode.UNREACHABLE
    late = any(transaction.is_overdue(now_ms) for transaction in reading.transactions)
    return ExitCode.FOUND if late or TransactionVerdict.HANGING in verdicts else ExitCode.FINE


@contextmanager
def _opened(
    servers: str, arguments: list[str] | None, clients: Path | None
) -> Iterator[tuple[TransactionReader, TransactionRepair, Commands]]:
    properties = as_properties(servers, arguments)
    with (
        java_transactions(properties, clients) as transactions,
        closing(TransactionReader(properties, transactions)) as reader,
    ):
        repair = TransactionRepair(properties, transactions, reader.stable)
        more = () if clients is None else ("--kafka-clients", str(clients))
        yield reader, repair, Commands(ClusterCommands.from_properties(properties), more)


_SHOWN: Final = 10  # partitions of a transaction, its commands, and blocked partitions
_STATES: Final = {
    TransactionVerdict.OPEN: "open",
    TransactionVerdict.ENDING: "ending: its coordinator is writing the markers of its end",
    TransactionVerdict.HANGING: "HANGING: no coordinator has it, so it never ends on its own",
    TransactionVerdict.UNKNOWN: "not known: a coordinator may have it",
}


@dataclass(frozen=True, slots=True)
class Commands:
    """Builds the commands that end transactions; each command contains the options `more`."""

    cluster: ClusterCommands
    more: Sequence[str] = ()

    def end(self, transaction: OpenTransaction) -> list[str]:
        """Return the commands that end a transaction: `txn abort`, or Kafka's tool if it hangs."""
        if transaction.verdict is TransactionVerdict.HANGING:
            return [
                self._mark(tp, producer.start)
                for tp, producer in sorted(transaction.producers.items())
            ]
        if transaction.verdict is TransactionVerdict.OPEN and not transaction.two_phase:
            name = str(transaction.transactional_id)
            words = [*self.more, "--transactional-id", name]
            return [self.cluster.typed(["txn", "abort"], words)]
        return []

    def _mark(self, tp: TopicPartition, start: int) -> str:
        words = ["kafka-transactions.sh", "--bootstrap-server", self.cluster.address]
        words += ["--command-config", "CLIENT.properties"] if self.cluster.client else []
        words += ["abort", "--topic", tp.topic, "--partition", str(tp.partition)]
        return shlex.join([*words, "--start-offset", str(start)])


def print_reading(
    out: Console, reading: TransactionReading, commands: Commands, now_ms: int
) -> None:
    """Print a reading of the open transactions, with the commands that end them."""
    if not reading.unstable and not reading.errors:
        print_line(out, "no open transaction blocks readers here")
        return
    _print_some(out, [_held(tp, offsets) for tp, offsets in sorted(reading.unstable.items())])
    for transaction in reading.transactions:
        out.print()
        _print_facts(out, [*_facts(transaction, now_ms), _next(transaction, now_ms)])
        _print_some(out, [f"  {command}" for command in commands.end(transaction)])
    for tp, error in sorted(reading.errors.items()):
        out.print()
        print_line(out, f"cannot tell if transactions are open in {tp}, or who owns them: {error}")


def document(reading: TransactionReading, commands: Commands, now_ms: int) -> dict[str, Any]:
    """Return a reading as JSON, with times in milliseconds since 1970, and timeouts in seconds."""
    return {
        "partitions": [
            {
                **tp._asdict(),
                "log_stable": (blocked := reading.unstable.get(tp)) and blocked.start,
                "log_end": blocked and blocked.until,
                **({"error": str(reading.errors[tp])} if tp in reading.errors else {}),
            }
            for tp in sorted({*reading.unstable, *reading.errors})
        ],
        "transactions": [
            {
                **_document(transaction),
                "overdue": transaction.is_overdue(now_ms),
                "commands": commands.end(transaction),
            }
            for transaction in reading.transactions
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """The abort of an id's open transaction. `transaction` is None if no transaction is open."""

    transactional_id: str
    transaction: OpenTransaction | None
    executed: bool
    #: The places in which the transaction has not ended, with the reasons; None if nothing was
    #: done.
    not_ended: Mapping[str, str] | None

    def print(self, out: Console, now_ms: int) -> None:
        """Print the result of the abort, or, in a dry run, its effect."""
        transaction = self.transaction
        if transaction is None:
            print_line(out, f"nothing to end: {self.transactional_id!r} has no open transaction")
            return
        then = [] if self.executed else [("then", consequence(transaction))]
        _print_facts(out, [*_facts(transaction, now_ms), *then])
        if not self.executed:
            print_line(out, "dry run, nothing was changed. To end it, add --execute")
        elif self.not_ended is None:
            print_line(out, "the transaction has ended on its own: nothing was changed")
        elif self.not_ended:
            for place, reason in self.not_ended.items():
                print_line(out, f"{place}: {reason}")
            print_line(out, "to see if the rest ends: eo-listener txn list")
        else:
            print_line(out, "ended: leaders and coordinator no longer have the transaction")

    def document(self) -> dict[str, Any]:
        """Return the abort as a JSON document."""
        return {
            "transactional_id": self.transactional_id,
            "transaction": self.transaction and _document(self.transaction),
            "consequence": self.transaction and consequence(self.transaction),
            "executed": self.executed,
            "ended": self.not_ended is not None and not self.not_ended,
            "not_ended": self.not_ended,
        }


def consequence(transaction: OpenTransaction) -> str:
    """Return a text about the effect of ending a transaction by its id."""
    owner = transaction.owner
    if owner is None:
        return (
            "its program, if it is alive, gets ProducerFencedException and must open a new "
            "producer; read_committed consumers never see the records of this transaction"
        )
    if owner.group is not None:
        return (
            f"the listener that commits to group {owner.group}, if it is alive, stops committing "
            "until its program is restarted; its query continues, and nothing is lost"
        )
    return (
        f"a live driver of query {owner.query!r} stops with ForeignWriterError; when restarted, "
        "it writes the batch again, and nothing is lost or doubled"
    )


def whose(transaction: OpenTransaction) -> str:
    """Return a text that names the owner of a transaction."""
    owner = transaction.owner
    if owner is None:
        return "not known" if transaction.transactional_id is None else "not ours"
    if owner.group is not None:
        return f"ours: commits to group {owner.group}, by a listener with mode='transactional'"
    return f"ours: KafkaSink {owner.sink}, query {owner.query!r}"


def _next(transaction: OpenTransaction, now_ms: int) -> tuple[str, str]:
    """Return a heading and a text about a transaction, to print before its commands."""
    if transaction.verdict is TransactionVerdict.UNKNOWN:
        return "why", transaction.reason or "-"
    if transaction.verdict is TransactionVerdict.ENDING:
        text = "wait a moment; if it is still open, check the brokers: one is slow or down"
    elif transaction.verdict is TransactionVerdict.HANGING:
        text = "Kafka's own command, unless an ACL hides its id from this client:"
    elif transaction.two_phase:
        text = "if its program has ended, start it again: it may have to commit the transaction"
    elif transaction.is_overdue(now_ms):
        text = "check the brokers, since its coordinator is late; or:"
    else:
        text = "nothing while its program runs; if the program has ended, start it again; or:"
    return "to do", text


def _facts(transaction: OpenTransaction, now_ms: int) -> Iterator[tuple[str, str]]:
    yield "transaction", transaction.transactional_id or f"of producer {transaction.producer_id}"
    yield "state", _STATES[transaction.verdict] + _end(transaction, now_ms)
    yield "whose", whose(transaction)
    if transaction.since is not None:
        age = length(max(0.0, (now_ms - transaction.since) / 1000))
        yield "since", f"{utc(transaction.since)}, {age} ago"
    elif transaction.last_written is not None:
        yield "last record", utc(transaction.last_written)
    places = [
        f"{tp} from offset {producer.start}"
        for tp, producer in sorted(transaction.producers.items())
    ]
    yield from (("open in", place) for place in _some(places))


def _end(transaction: OpenTransaction, now_ms: int) -> str:
    if transaction.two_phase:
        return ", in a two-phase commit (KIP-939): no timeout ends it"
    if transaction.ends_by is None:
        return ""
    late = ", which has passed" if transaction.is_overdue(now_ms) else ""
    return f"; its coordinator ends it by {utc(transaction.ends_by)}{late}"


def _document(transaction: OpenTransaction) -> dict[str, Any]:
    return {
        **picked(transaction, "transactional_id", "producer_id", "since", "ends_by", "two_phase"),
        "verdict": transaction.verdict.value,
        "why_not_known": transaction.reason,
        "ours": transaction.owner and transaction.owner._asdict(),
        "timeout": transaction.described and transaction.described.timeout,
        "partitions": [
            {
                **tp._asdict(),
                "start_offset": producer.start,
                "epoch": producer.epoch,
                "last_record": producer.last_written,
                "holds": tp in transaction.blocked,
            }
            for tp, producer in sorted(transaction.producers.items())
        ],
    }


def _held(tp: TopicPartition, offsets: OffsetRange) -> str:
    if tp.topic == OFFSETS_TOPIC:
        return (
            f"{tp}: offsets that transactions commit to groups are pending from {offsets.start} on"
        )
    return (
        f"{tp}: read_committed consumers wait at {offsets.start}; the log ends at {offsets.until}"
    )


def _print_facts(out: Console, facts: Iterable[tuple[str, str]]) -> None:
    """Print names and texts side by side, with wrapped texts."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, min_width=len("transaction"))
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(name, named(text))
    out.print(table)


def _print_some(out: Console, lines: Sequence[str]) -> None:
    for line in _some(lines):
        print_line(out, line)


def _some(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_SHOWN]
    if len(lines) > _SHOWN:
        yield f"and {len(lines) - _SHOWN} more (--json has all)"
