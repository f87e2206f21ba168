"""The output of `eo-listener txn`: open transactions, the readers that they block, and how each
ends.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from eo_listener.cli.options import named, print_line, utc
from eo_listener.cli.status_screen import length
from eo_listener.kafka.open_transactions import (
    OFFSETS_TOPIC,
    OpenTransaction,
    TransactionReading,
    TransactionVerdict,
)
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.offsets import OffsetRange, TopicPartition

_SHOWN: Final = 10  # partitions of a transaction, its commands, and partitions that are held up
_STATES: Final = {
    TransactionVerdict.OPEN: "open",
    TransactionVerdict.ENDING: "ending: its coordinator is writing the markers of its end",
    TransactionVerdict.HANGING: "HANGING: no coordinator has it, so it never ends by itself",
    TransactionVerdict.UNKNOWN: "not known: a coordinator may have it",
}


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands that end transactions; `more` are options to repeat as they are."""

    cluster: ClusterCommands
    more: Sequence[str] = ()

    def end(self, transaction: OpenTransaction) -> list[str]:
        """Return the commands that end a transaction: ours, or Kafka's own if it hangs."""
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
    """Print a reading."""
    if not reading.held and not reading.errors:
        print_line(out, "no open transaction blocks readers here")
        return
    _print_some(out, [_held(tp, offsets) for tp, offsets in sorted(reading.held.items())])
    for transaction in reading.transactions:
        out.print()
        _print_facts(out, [*_facts(transaction, now_ms), _next(transaction, now_ms)])
        _print_some(out, [f"  {command}" for command in commands.end(transaction)])
    for tp, error in sorted(reading.errors.items()):
        out.print()
        print_line(out, f"cannot tell if transactions are open in {tp}, or whose they are: {error}")


def document(reading: TransactionReading, commands: Commands, now_ms: int) -> dict[str, Any]:
    """The same in JSON; times in milliseconds since 1970, a time-out in seconds."""
    return {
        "partitions": [
            {
                **tp._asdict(),
                "log_stable": (blocked := reading.held.get(tp)) and blocked.start,
                "log_end": blocked and blocked.until,
                **({"error": str(reading.errors[tp])} if tp in reading.errors else {}),
            }
            for tp in sorted({*reading.held, *reading.errors})
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


def print_abort(
    out: Console,
    transactional_id: str,
    transaction: OpenTransaction | None,
    remaining: Mapping[str, str] | None,
    now_ms: int,
    *,
    executed: bool,
) -> None:
    """Print what an abort did, or would do; `left` is None if it did nothing."""
    if transaction is None:
        print_line(out, f"nothing to end: {transactional_id!r} has no open transaction")
        return
    then = [] if executed else [("then", consequence(transaction))]
    _print_facts(out, [*_facts(transaction, now_ms), *then])
    if not executed:
        print_line(out, "dry run, nothing was changed. To end it, add --execute")
    elif remaining is None:
        print_line(out, "it has since ended by itself: nothing was changed")
    elif remaining:
        for place, reason in remaining.items():
            print_line(out, f"{place}: {reason}")
        print_line(out, "to see if the rest ends: eo-listener txn list")
    else:
        print_line(out, "ended: leaders and coordinator no longer have it")


def abort_document(
    transactional_id: str,
    transaction: OpenTransaction | None,
    remaining: Mapping[str, str] | None,
    *,
    executed: bool,
) -> dict[str, Any]:
    """Return the same as JSON; `not_ended` lists the places in which it has not ended, with the
    reasons.
    """
    return {
        "transactional_id": transactional_id,
        "transaction": transaction and _document(transaction),
        "consequence": transaction and consequence(transaction),
        "executed": executed,
        "ended": remaining is not None and not remaining,
        "not_ended": remaining,
    }


def consequence(transaction: OpenTransaction) -> str:
    """Explain the effect of ending a transaction by its id."""
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
    """Whose a transaction is."""
    owner = transaction.owner
    if owner is None:
        return "not known" if transaction.transactional_id is None else "not ours"
    if owner.group is not None:
        return f"ours: commits to group {owner.group}, by a listener with mode='transactional'"
    return f"ours: KafkaSink {owner.sink}, query {owner.query!r}"


def _next(transaction: OpenTransaction, now_ms: int) -> tuple[str, str]:
    """Return the action for a transaction, printed before its commands."""
    if transaction.verdict is TransactionVerdict.UNKNOWN:
        return "why", transaction.why or "-"
    if transaction.verdict is TransactionVerdict.ENDING:
        text = "wait a moment; if it remains, check the brokers: one is slow or down"
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
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "verdict": transaction.verdict.value,
        "why_not_known": transaction.why,
        "ours": transaction.owner and transaction.owner._asdict(),
        "since": transaction.since,
        "timeout": transaction.described and transaction.described.timeout,
        "ends_by": transaction.ends_by,
        "two_phase": transaction.two_phase,
        "partitions": [
            {
                **tp._asdict(),
                "start_offset": producer.start,
                "epoch": producer.epoch,
                "last_record": producer.last_written,
                "holds": tp in transaction.holds,
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
    """Print names and texts side by side, wrapped; commands to copy are printed alone."""
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
