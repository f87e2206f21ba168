"""`eo-listener txn`: open transactions on topics, and the end of one that holds readers up."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from eo_listener.cli.java_client import Clients, java_transactions
from eo_listener.cli.options import (
    BootstrapServers,
    Execute,
    Json,
    KafkaProperties,
    as_properties,
    console,
    parse_partition,
    print_json,
    require_names,
    seconds,
)
from eo_listener.cli.txn_screen import (
    TypedCommand,
    abort_document,
    document,
    print_abort,
    print_reading,
)
from eo_listener.kafka.open_transactions import (
    OpenTransaction,
    TransactionVerdict,
    has_moved,
    with_stuck,
)
from eo_listener.kafka.transaction_reader import (
    OFFSETS_TOPIC,
    TransactionReader,
    TransactionReading,
)
from eo_listener.kafka.transaction_repair import EndedTransaction, TransactionRepair
from eo_listener.model import exit_codes
from eo_listener.model.errors import (
    InUseError,
    KafkaError,
    SettingsError,
    UnavailableError,
    few,
)
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.typed_command import ClusterCommands

app = typer.Typer(
    help="Open transactions on topics, and the end of one that holds readers up.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_WATCH: Final = 10.0
_ENDING: Final = 5.0  # seconds: markers are written within some milliseconds


class _Opened(NamedTuple):
    reader: TransactionReader
    repair: TransactionRepair
    typed: TypedCommand


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
            help="The topics of a consumer group, and where it keeps its offsets; repeatable.",
        ),
    ] = None,
    clients: Clients = None,
    as_json: Json = False,
) -> None:
    """Show what holds consumers under read_committed up: since when, whose it is, what to type.

    Exit status 1 where a transaction hangs, is over its time, or its ending is stuck, 3 where that
    is not known of one.
    """
    require_names("topic", topics or ())
    require_names("group", groups or ())
    with _opened(servers, properties, clients) as (reader, _, typed):
        wanted = {tp for group in groups or () for tp in reader.of_group(group)}
        if topics or not groups:
            wanted |= set(reader.partitions(topics))
        reading = _read(reader, sorted(wanted))
    found = reading.transactions or reading.errors
    if not topics and not found and {tp.topic for tp in wanted} == {OFFSETS_TOPIC}:
        raise SettingsError(
            f"group {few(groups or ())} holds no offsets, so its topics are not known",
            cause="they expired, nobody has committed, or the name is another one",
            fix="Check the name, or name the topics: --topic",
        )
    now_ms = time.time_ns() // 1_000_000
    if as_json:
        print_json(document(reading, typed, now_ms))
    else:
        print_reading(console(), reading, typed, now_ms)
    status = _exit_status(reading, now_ms)
    if status:
        raise typer.Exit(status)


@app.command(
    epilog="Example: eo-listener txn abort -b localhost:9092 "
    "--transactional-id eo-listener/delays/flights --execute"
)
def abort(
    servers: BootstrapServers,
    properties: KafkaProperties = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(help="End what this id has open, by fencing its producer."),
    ] = None,
    partitions: Annotated[
        list[str] | None,
        typer.Option("--partition", help="One that hangs: where, such as delays-0; repeatable."),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(min=0, help="One that hangs: its producer, as `list` shows it.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Also where its producer is seen to be at work.")
    ] = False,
    watch: Annotated[
        float,
        typer.Option(help="With --execute: seconds for which its producer must hold still before."),
    ] = _WATCH,
    clients: Clients = None,
    execute: Execute = False,
    as_json: Json = False,
) -> None:
    """End one transaction, as `txn list` names it, and look whether it has ended.

    By its id: whoever produces with it is fenced. One that hangs, which no coordinator has, by the
    marker of an abort; any other is refused that. Refused while the producer is at work. Exit
    status 3 where it has not ended everywhere, or that is not known.
    """
    watch = seconds("watch", watch, least=0.0)
    wanted = _Wanted.of(transactional_id, partitions, producer_id)
    with _opened(servers, properties, clients) as opened:
        found = wanted.read(opened.reader)
        ended = None
        if found is not None and execute:
            ended = _end(opened, wanted, found, watch=watch, live=live)
        held = None if ended is None or not ended.whole else _still_held(opened.reader, ended)
    if as_json:
        print_json(abort_document(wanted.named, found, held, executed=execute, ended=ended))
    else:
        print_abort(console(), wanted.named, found, held, executed=execute, ended=ended)
    if ended is not None and not ended.whole:
        raise typer.Exit(exit_codes.UNREACHABLE)


class _Wanted(NamedTuple):
    """Which transaction is to end: by its id, or what hangs of a producer in some partitions."""

    transactional_id: str | None
    partitions: tuple[TopicPartition, ...]
    producer_id: int | None

    @classmethod
    def of(
        cls, transactional_id: str | None, partitions: list[str] | None, producer_id: int | None
    ) -> _Wanted:
        """Read the options. Raises SettingsError."""
        hanging = bool(partitions), producer_id is not None
        if (transactional_id is not None) == any(hanging) or any(hanging) != all(hanging):
            raise SettingsError(
                "one transaction must be named, in one way",
                fix="Give --transactional-id; or for one that hangs --partition and --producer-id, "
                "as eo-listener txn list shows them",
            )
        if transactional_id is not None:
            require_names("transactional id", [transactional_id])
        return cls(transactional_id, tuple(map(parse_partition, partitions or ())), producer_id)

    @property
    def named(self) -> str:
        """What it is called in texts."""
        if self.transactional_id is not None:
            return f"transactional id {self.transactional_id!r}"
        where = ", ".join(map(str, self.partitions))
        return f"producer {self.producer_id} in {where}"

    def read(self, reader: TransactionReader) -> OpenTransaction | None:
        """The transaction as it is now; None where none of that name is open.

        Raises SettingsError for one that must be ended in the other way, and KafkaError where it is
        not known which.
        """
        if self.transactional_id is not None:
            return _of_id(reader, self.transactional_id)
        existing = reader.partitions({tp.topic for tp in self.partitions})
        for tp in self.partitions:
            if tp not in existing:
                raise SettingsError(f"partition {tp} does not exist", fix="Check its number")
        reading = reader.read(self.partitions)
        for error in reading.errors.values():
            raise error
        named = [one for one in reading.transactions if one.producer_id == self.producer_id]
        for one in named:
            _require_hanging(one)
        return named[0] if named else None


def _of_id(reader: TransactionReader, transactional_id: str) -> OpenTransaction | None:
    reader.partitions(set())  # says best why, where Kafka cannot be reached
    described = reader.describe(transactional_id)
    if described.ending:
        raise UnavailableError(
            f"the transaction of {transactional_id!r} is {described.state}: its coordinator is "
            "ending it, and nobody else can",
            cause="its markers are not written yet: a partition has no leader, or a broker is slow",
            fix="Look again in a moment; then at the brokers",
        )
    if not described.state_known:
        raise UnavailableError(
            f"it is not known whether {transactional_id!r} has a transaction open: its state is "
            f"{described.state}",
            cause="the brokers are newer than Kafka's Java client here",
            fix="Use a newer one: --kafka-clients",
        )
    if not described.ongoing:
        return None
    if described.two_phase:
        raise SettingsError(
            f"the transaction of {transactional_id!r} is one of a two-phase commit (KIP-939): it "
            "may have been promised to be committed, which nobody but its program knows",
            fix="Start that program again, which ends it. Where it is given up for good: Kafka's "
            "own kafka-transactions.sh forceTerminateTransaction",
        )
    return reader.open_of(transactional_id, described)


def _require_hanging(found: OpenTransaction) -> None:
    if found.verdict is TransactionVerdict.HANGING:
        return
    if found.verdict is TransactionVerdict.UNKNOWN:
        raise UnavailableError(
            f"it is not known whether the transaction of producer {found.producer_id} hangs",
            cause=found.why,
            fix="Only one that no coordinator has is ended by a marker: any other could still be "
            "committed in other partitions. Find out first: eo-listener txn list",
        )
    raise SettingsError(
        f"the transaction of producer {found.producer_id} does not hang: its coordinator has it, "
        f"as {found.transactional_id!r}",
        fix=f"Give --transactional-id {shlex.quote(str(found.transactional_id))} instead",
    )


def _end(
    opened: _Opened, wanted: _Wanted, found: OpenTransaction, *, watch: float, live: bool
) -> EndedTransaction | None:
    """End it; None where it has ended by itself meanwhile."""
    time.sleep(watch)
    again = wanted.read(opened.reader)
    if again is None or not found.is_same(again):
        return None
    if has_moved(found, again) and not live:
        raise InUseError(
            f"the producer of the transaction is at work: it has written within {watch:g} s",
            cause="its program is alive, and ends the transaction itself",
            fix="Stop the program first; or add --live, to end the transaction all the same",
        )
    if again.why is not None and not live:
        raise UnavailableError(
            "it is not known whether the producer of the transaction is at work",
            cause=again.why,
            fix="Give that right; or add --live, to end the transaction all the same",
        )
    if wanted.transactional_id is not None and again.described is not None:
        return opened.repair.fence(wanted.transactional_id, again.described, again.producers)
    return opened.repair.mark_aborted(again, live=live)


def _still_held(
    reader: TransactionReader, ended: EndedTransaction
) -> dict[TopicPartition, OffsetRange] | None:
    """What other transactions hold up there; None where that cannot be read everywhere."""
    try:
        stable = reader.stable(ended.partitions)
    except KafkaError:
        return None
    return None if stable.errors else dict(stable.held)


def _read(reader: TransactionReader, wanted: list[TopicPartition]) -> TransactionReading:
    """Read; once more, some seconds later, where one is being ended."""
    first = reader.read(wanted)
    if all(one.verdict is not TransactionVerdict.ENDING for one in first.transactions):
        return first
    time.sleep(_ENDING)
    again = reader.read(wanted)
    return replace(again, transactions=with_stuck(first.transactions, again.transactions))


def _exit_status(reading: TransactionReading, now_ms: int) -> int:
    verdicts = {one.verdict for one in reading.transactions}
    if reading.errors or TransactionVerdict.UNKNOWN in verdicts:
        return exit_codes.UNREACHABLE
    late = any(one.stuck or one.is_overdue(now_ms) for one in reading.transactions)
    found = late or TransactionVerdict.HANGING in verdicts
    return exit_codes.FOUND if found else exit_codes.FINE


@contextmanager
def _opened(servers: str, given: list[str] | None, clients: Path | None) -> Iterator[_Opened]:
    properties = as_properties(servers, given)
    with (
        java_transactions(properties, clients) as transactions,
        closing(TransactionReader(properties, transactions)) as reader,
    ):
        repair = TransactionRepair(properties, transactions, reader.stable)
        more = [] if clients is None else ["--kafka-clients", str(clients)]
        typed = TypedCommand(cluster=ClusterCommands.of(properties), more=tuple(more))
        yield _Opened(reader, repair, typed)
