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

    def end(self, found: OpenTransaction) -> list[str]:
        """Return the commands that end a transaction: ours, or Kafka's own if it hangs."""
        if found.verdict is TransactionVerdict.HANGING:
            return [self._mark(tp, one.start) for tp, one in sorted(found.producers.items())]
        if found.verdict is TransactionVerdict.OPEN and not found.two_phase:
            name = str(found.transactional_id)
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
        print_line(out, "no open transactions")
        return
    _print_some(out, [_held(tp, one) for tp, one in sorted(reading.held.items())])
    for found in reading.transactions:
        out.print()
        _print_facts(out, [*_facts(found, now_ms), _next(found, now_ms)])
        _print_some(out, [f"  {one}" for one in commands.end(found)])
    for tp, error in sorted(reading.errors.items()):
        out.print()
        print_line(out, f"cannot tell which transactions are open in {tp}: {error}")


def document(reading: TransactionReading, commands: Commands, now_ms: int) -> dict[str, Any]:
    """The same in JSON; times in milliseconds since 1970, a time-out in seconds."""
    return {
        "partitions": [
            {
                **tp._asdict(),
                "log_stable": (one := reading.held.get(tp)) and one.start,
                "log_end": one and one.until,
                **({"error": str(reading.errors[tp])} if tp in reading.errors else {}),
            }
            for tp in sorted({*reading.held, *reading.errors})
        ],
        "transactions": [
            {**_document(one), "overdue": one.is_overdue(now_ms), "commands": commands.end(one)}
            for one in reading.transactions
        ],
    }


def print_abort(
    out: Console,
    transactional_id: str,
    found: OpenTransaction | None,
    left: Mapping[str, str] | None,
    now_ms: int,
    *,
    executed: bool,
) -> None:
    """Print what an abort did, or would do; `left` is None if it did nothing."""
    if found is None:
        print_line(out, f"nothing to end: {transactional_id!r} has no open transaction")
        return
    then = [] if executed else [("then", consequence(found))]
    _print_facts(out, [*_facts(found, now_ms), *then])
    if not executed:
        print_line(out, "dry run, nothing was changed. To end it, add --execute")
    elif left is None:
        print_line(out, "it has since ended by itself: nothing was changed")
    elif left:
        for place, why in left.items():
            print_line(out, f"{place}: {why}")
        print_line(out, "to see if the rest ends: eo-listener txn list")
    else:
        print_line(out, "ended: leaders and coordinator no longer have it")


def abort_document(
    transactional_id: str,
    found: OpenTransaction | None,
    left: Mapping[str, str] | None,
    *,
    executed: bool,
) -> dict[str, Any]:
    """Return the same as JSON; `not_ended` lists the places in which it has not ended, with the
    reasons.
    """
    return {
        "transactional_id": transactional_id,
        "transaction": found and _document(found),
        "consequence": found and consequence(found),
        "executed": executed,
        "ended": left is not None and not left,
        "not_ended": left,
    }


def consequence(found: OpenTransaction) -> str:
    """Explain the effect of ending a transaction by its id."""
    owner = found.owner
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


def whose(found: OpenTransaction) -> str:
    """Whose a transaction is."""
    owner = found.owner
    if owner is None:
        return "not known" if found.transactional_id is None else "not ours"
    if owner.group is not None:
        return f"ours: commits to group {owner.group}, by a listener with mode='transactional'"
    return f"ours: KafkaSink {owner.sink}, query {owner.query!r}"


def _next(found: OpenTransaction, now_ms: int) -> tuple[str, str]:
    """Return the action for a transaction, printed before its commands."""
    if found.verdict is TransactionVerdict.UNKNOWN:
        return "why", found.why or "-"
    if found.verdict is TransactionVerdict.ENDING:
        text = "wait a moment; if it remains, check the brokers: one is slow or down"
    elif found.verdict is TransactionVerdict.HANGING:
        text = "Kafka's own command, unless an ACL hides its id from this client:"
    elif found.two_phase:
        text = "if its program has ended, start it again: it may have to commit the transaction"
    elif found.is_overdue(now_ms):
        text = "check the brokers, since its coordinator is late; or:"
    else:
        text = "nothing while its program runs; if the program has ended, start it again; or:"
    return "to do", text


def _facts(found: OpenTransaction, now_ms: int) -> Iterator[tuple[str, str]]:
    yield "transaction", found.transactional_id or f"of producer {found.producer_id}"
    yield "state", _STATES[found.verdict] + _end(found, now_ms)
    yield "whose", whose(found)
    if found.since is not None:
        age = length(max(0.0, (now_ms - found.since) / 1000))
        yield "since", f"{utc(found.since)}, {age} ago"
    elif found.last_written is not None:
        yield "last record", utc(found.last_written)
    places = [f"{tp} from offset {one.start}" for tp, one in sorted(found.producers.items())]
    yield from (("open in", place) for place in _some(places))


def _end(found: OpenTransaction, now_ms: int) -> str:
    if found.two_phase:
        return ", in a two-phase commit (KIP-939): no timeout ends it"
    if found.ends_by is None:
        return ""
    late = ", which has passed" if found.is_overdue(now_ms) else ""
    return f"; its coordinator ends it by {utc(found.ends_by)}{late}"


def _document(found: OpenTransaction) -> dict[str, Any]:
    return {
        "transactional_id": found.transactional_id,
        "producer_id": found.producer_id,
        "verdict": found.verdict.value,
        "why_not_known": found.why,
        "ours": found.owner and found.owner._asdict(),
        "since": found.since,
        "timeout": found.described and found.described.timeout,
        "ends_by": found.ends_by,
        "two_phase": found.two_phase,
        "partitions": [
            {
                **tp._asdict(),
                "start_offset": one.start,
                "epoch": one.epoch,
                "last_record": one.last_written,
                "holds": tp in found.holds,
            }
            for tp, one in sorted(found.producers.items())
        ],
    }


def _held(tp: TopicPartition, one: OffsetRange) -> str:
    if tp.topic == OFFSETS_TOPIC:
        return f"{tp}: offsets that transactions commit to groups are pending from {one.start} on"
    return f"{tp}: read_committed consumers wait at {one.start}; the log ends at {one.until}"


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
