"""`eo-listener txn`: open transactions on topics, and the end of one that holds readers up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from eo_listener.cli.java_client import Clients, java_transactions
from eo_listener.cli.options import (
    BootstrapServers,
    Execute,
    Json,
    KafkaProperties,
    as_properties,
    console,
    print_json,
    require_names,
)
from eo_listener.cli.txn_screen import (
    Commands,
    abort_document,
    document,
    print_abort,
    print_reading,
)
from eo_listener.errors import ExitCode, InUseError, SettingsError, UnavailableError, few
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

app = typer.Typer(
    help="List open transactions on topics, and end a transaction that blocks readers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class _Opened(NamedTuple):
    reader: TransactionReader
    repair: TransactionRepair
    commands: Commands


@app.command(name="list", epilog="Example: eo-listener txn list -b localhost:9092 --topic delays")
def list_(
    servers: BootstrapServers,
    properties: KafkaProperties = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("-t", "--topic", help="A topic; repeatable. Default: all but Kafka's own."),
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
    """Show the transactions that hold consumers under read_committed up: whose, since when.

    And how each ends, with the command for it. Exit status 1 if a transaction hangs or is over its
    time, 3 if that is not known of one.
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
            cause="they expired, nobody has committed any, or the name is wrong",
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
    epilog="Example: eo-listener txn abort -b localhost:9092 "
    "--transactional-id eo-listener/delays/flights --execute"
)
def abort(
    servers: BootstrapServers,
    transactional_id: Annotated[
        str, typer.Option(help="End this id's open transaction by fencing its producer.")
    ],
    properties: KafkaProperties = None,
    live: Annotated[
        bool, typer.Option("--live", help="End it even if its producer is seen to be working.")
    ] = False,
    watch: Annotated[
        float,
        typer.Option(
            help="With --execute: seconds during which its producer must be silent before the "
            "command ends the transaction."
        ),
    ] = 10.0,
    clients: Clients = None,
    execute: Execute = False,
    as_json: Json = False,
) -> None:
    """End one transaction by its id, as `txn list` names it, and look whether it has ended.

    Whoever produces with the id is fenced. Refused while the producer is at work. Exit status 3 if
    it has not ended everywhere, or that is not known.
    """
    watch = require_seconds("--watch", watch, least=0.0)
    require_names("transactional id", [transactional_id])
    with _opened(servers, properties, clients) as (reader, repair, _):
        transaction = _open_of(reader, transactional_id)
        remaining: Mapping[str, str] | None = None
        if transaction is not None and execute:
            time.sleep(watch)
            unchanged = _unchanged(
                transaction, _open_of(reader, transactional_id), watch, live=live
            )
            remaining = None if unchanged is None else repair.fence(transactional_id, unchanged)
    if as_json:
        print_json(abort_document(transactional_id, transaction, remaining, executed=execute))
    else:
        print_abort(
            console(), transactional_id, transaction, remaining, _now_ms(), executed=execute
        )
    if remaining:
        raise typer.Exit(ExitCode.UNREACHABLE)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _open_of(reader: TransactionReader, transactional_id: str) -> OpenTransaction | None:
    """The transaction that an id has open. Raises SettingsError and UnavailableError."""
    reader.partitions(set())  # says best why, if Kafka cannot be reached
    described = reader.describe(transactional_id)
    if described.ending:
        raise UnavailableError(
            f"the transaction of {transactional_id!r} is {described.state}: its coordinator is "
            "ending it, and no other program can",
            cause="its markers are not written yet: a partition has no leader, or a broker is slow",
            fix="Look again in a moment; if it remains, check the brokers",
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
            "only its program knows if it has promised to commit it",
            fix="Start that program again, which ends it. If the program is gone for good, "
            "use Kafka's own kafka-transactions.sh forceTerminateTransaction",
        )
    return reader.open_of(transactional_id, described)


def _unchanged(
    earlier: OpenTransaction, later: OpenTransaction | None, watch: float, *, live: bool
) -> OpenTransaction | None:
    """The second reading of the transaction; None if it has ended by itself meanwhile.

    Raises InUseError and UnavailableError unless the producer held still, or `live`.
    """
    if later is None or earlier.since != later.since:
        return None
    if (earlier.producers, earlier.described) != (later.producers, later.described) and not live:
        raise InUseError(
            f"the producer of the transaction is working: it has written within {watch:g} s",
            cause="its program is alive and ends the transaction itself",
            fix="Stop the program first; or add --live to end the transaction nevertheless",
        )
    if later.why is not None and not live:
        raise UnavailableError(
            "cannot tell if the producer of the transaction is working",
            cause=later.why,
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
def _opened(servers: str, arguments: list[str] | None, clients: Path | None) -> Iterator[_Opened]:
    properties = as_properties(servers, arguments)
    with (
        java_transactions(properties, clients) as transactions,
        closing(TransactionReader(properties, transactions)) as reader,
    ):
        repair = TransactionRepair(properties, transactions, reader.stable)
        more = () if clients is None else ("--kafka-clients", str(clients))
        yield _Opened(reader, repair, Commands(ClusterCommands.of(properties), more))
