"""What `eo-listener txn` prints: open transactions, what they hold up, and what to type."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from eo_listener.cli.options import named, print_line, utc
from eo_listener.cli.status_screen import length
from eo_listener.kafka.open_transactions import OpenTransaction, TransactionVerdict
from eo_listener.kafka.transaction_reader import OFFSETS_TOPIC, TransactionReading
from eo_listener.kafka.transaction_repair import EndedTransaction, Outcome
from eo_listener.model.errors import few
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.typed_command import ClusterCommands

_SHOWN: Final = 10  # partitions of a transaction, and partitions that are held up
_KNOWN: Final = {
    TransactionVerdict.OPEN: "open",
    TransactionVerdict.ENDING: "ending: its coordinator is writing the markers of its end",
    TransactionVerdict.HANGING: "HANGING: no coordinator has it, so it never ends by itself",
    TransactionVerdict.UNKNOWN: "not known whether a coordinator has it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedCommand:
    """How the command was called: what the next one needs too.

    `more` are options to repeat as they are.
    """

    cluster: ClusterCommands
    more: Sequence[str] = ()

    def abort(self, found: OpenTransaction) -> str:
        """The command that ends a transaction; a dry run until --execute."""
        words = [*self.more]
        if found.transactional_id is not None and not _hangs(found):
            words += ["--transactional-id", found.transactional_id]
        else:
            words += [word for tp in sorted(found.producers) for word in ("--partition", str(tp))]
            words += ["--producer-id", str(found.producer_id)]
        return self.cluster.typed(["txn", "abort"], words)


def print_reading(
    out: Console, reading: TransactionReading, typed: TypedCommand, now_ms: int
) -> None:
    """Print what was found for people."""
    if not reading.held and not reading.errors:
        print_line(out, "no open transaction holds anybody up here")
        return
    _print_some(out, [_held(tp, one) for tp, one in sorted(reading.held.items())])
    for found in reading.transactions:
        out.print()
        _print_facts(out, [*_facts(found, now_ms), *_next(found, now_ms)])
        command = _advice(found, typed)
        if command is not None:
            print_line(out, f"  {command}")
    for tp, error in sorted(reading.errors.items()):
        out.print()
        print_line(out, f"not known whether, or whose, transactions are open in {tp}: {error}")
    gone = reading.held.keys() - _seen(reading)
    if gone:
        out.print()
        print_line(out, f"the transactions in {few(sorted(gone))} have ended meanwhile")


def document(reading: TransactionReading, typed: TypedCommand, now_ms: int) -> dict[str, Any]:
    """The same in JSON; times in milliseconds since 1970, a time-out and an age in seconds."""
    return {
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "log_stable": None if (one := reading.held.get(tp)) is None else one.start,
                "log_end": None if one is None else one.until,
                **({"error": str(reading.errors[tp])} if tp in reading.errors else {}),
            }
            for tp in sorted({*reading.held, *reading.errors})
        ],
        "transactions": [
            {**_document(one, now_ms), "abort": _advice(one, typed)} for one in reading.transactions
        ],
    }


def print_abort(
    out: Console,
    name: str,
    found: OpenTransaction | None,
    held: Mapping[TopicPartition, OffsetRange] | None,
    *,
    executed: bool,
    ended: EndedTransaction | None,
) -> None:
    """Print what was done, or would be; `ended` is None where nothing was."""
    if found is None:
        print_line(out, f"nothing to end: {name} has no open transaction")
        return
    now_ms = time.time_ns() // 1_000_000
    _print_facts(out, _facts(found, now_ms))
    if not executed:
        _print_facts(out, [("then", consequence(found))])
        print_line(out, "dry run, nothing was changed. To end it: --execute")
    elif ended is None:
        print_line(out, "it has ended by itself meanwhile: nothing was changed")
    else:
        _print_ended(out, ended, held)


def abort_document(
    name: str,
    found: OpenTransaction | None,
    held: Mapping[TopicPartition, OffsetRange] | None,
    *,
    executed: bool,
    ended: EndedTransaction | None,
) -> dict[str, Any]:
    """The same in JSON; `still_held` is null where that was not read, or could not be."""
    now_ms = time.time_ns() // 1_000_000
    return {
        "named": name,
        "transaction": None if found is None else _document(found, now_ms),
        "consequence": None if found is None else consequence(found),
        "executed": executed,
        "ended": ended is not None and ended.whole,
        "outcome": None if ended is None else _outcome_document(ended),
        "still_held": None
        if held is None
        else [
            {"topic": tp.topic, "partition": tp.partition, "log_stable": one.start}
            for tp, one in sorted(held.items())
        ],
    }


def _print_ended(
    out: Console, ended: EndedTransaction, held: Mapping[TopicPartition, OffsetRange] | None
) -> None:
    if not ended.whole:
        for outcome, places in _by_outcome(ended).items():
            why = "" if outcome.why is None else f": {outcome.why}"
            print_line(out, f"{', '.join(places)}: {outcome.end.value}{why}")
        print_line(out, "whether the rest ends yet: eo-listener txn list")
        return
    print_line(out, "ended: it is not open any more, as leaders and coordinators say")
    if held is None:
        print_line(out, "whether another one is open there is not known: Kafka does not answer")
    for tp, one in sorted((held or {}).items()):
        print_line(out, f"another one is open: {_held(tp, one)}")


def _by_outcome(ended: EndedTransaction) -> dict[Outcome, list[str]]:
    places: dict[Outcome, list[str]] = {}
    for tp, outcome in sorted(ended.partitions.items()):
        places.setdefault(outcome, []).append(str(tp))
    if ended.coordinator is not None:
        places.setdefault(ended.coordinator, []).append("its coordinator")
    return places


def _outcome_document(ended: EndedTransaction) -> dict[str, Any]:
    at = ended.coordinator
    return {
        "partitions": [
            {"topic": tp.topic, "partition": tp.partition, "end": one.end.value, "why": one.why}
            for tp, one in sorted(ended.partitions.items())
        ],
        "coordinator": None if at is None else {"end": at.end.value, "why": at.why},
    }


def consequence(found: OpenTransaction) -> str:
    """What it means to end it."""
    owner = found.owner
    if _hangs(found):
        return (
            "its records are never shown to consumers under read_committed, and those behind them "
            "are at once; its producer, if it is alive, does not hear of it"
        )
    if owner is None:
        return (
            "its producer, if it is alive, is fenced: its program gets ProducerFencedException and "
            "must open a new one; what it has written in this transaction is never shown to "
            "consumers under read_committed"
        )
    if owner.group is not None:
        return (
            f"the listener that commits to group {owner.group}, if it is alive, is fenced: it "
            "commits nothing more until its program is started again; its query goes on, and "
            "nothing is lost"
        )
    return (
        f"a driver of query {owner.query!r} that is alive is fenced: its batch fails with "
        "ForeignWriterError, and the query stops; started again, it writes the batch once more, "
        "and nothing is lost or doubled"
    )


def whose(found: OpenTransaction) -> str:
    """Whose a transaction is."""
    owner = found.owner
    if owner is not None and owner.group is not None:
        return f"ours: commits to group {owner.group}, by a listener with mode='transactional'"
    if owner is not None:
        return f"ours: KafkaSink {owner.sink}, query {owner.query!r}"
    if found.transactional_id is not None:
        return "not ours"
    return "not known: no transactional id is known of its producer"


def _next(found: OpenTransaction, now_ms: int) -> Iterator[tuple[str, str]]:
    """What to do about it, before the command for it."""
    if found.verdict is TransactionVerdict.UNKNOWN:
        yield "why", found.why or "-"
    elif found.verdict is TransactionVerdict.ENDING:
        late = "look at the brokers: a partition has no leader, or a broker is slow"
        yield "to do", late if found.stuck else "nothing: its markers come within a moment"
    elif _hangs(found):
        yield "to end it", "nothing does but:"
    elif found.is_overdue(now_ms):
        yield "to do", "look at the brokers: its coordinator is late"
        yield "to end it", f"where {_program(found)} is gone{_again(found)}"
    else:
        yield "to do", f"nothing while {_program(found)} runs, which ends it by itself"
        yield "to end it", f"where it is gone{_again(found)}"


def _program(found: OpenTransaction) -> str:
    owner = found.owner
    if owner is None:
        return "its program"
    if owner.query is not None:
        return f"query {owner.query!r}"
    return f"the program that commits to {owner.group}"


def _again(found: OpenTransaction) -> str:
    """How its program ends it that runs no more; before the command, where there is one."""
    if found.two_phase:
        return ", start it again: it may have to be committed (KIP-939)"
    return ":" if found.owner is None else f", start {_program(found)} again; or:"


def _facts(found: OpenTransaction, now_ms: int) -> Iterator[tuple[str, str]]:
    yield "transaction", found.transactional_id or f"of producer {found.producer_id}"
    yield "state", _KNOWN[found.verdict] + _end(found, now_ms)
    yield "whose", whose(found)
    since = found.since
    if since is None:
        yield "since", "not known: no coordinator has it, and its first record cannot be read"
    else:
        by = "" if _by_coordinator(found) else ", by the time of its first record"
        yield "since", f"{utc(since)}, {length(max(0.0, (now_ms - since) / 1000))} ago{by}"
    yield "producer", _producer(found)
    for number, (tp, one) in enumerate(sorted(found.producers.items())):
        if number == _SHOWN:
            yield "", f"and {len(found.producers) - _SHOWN} more partitions (--json has all)"
            break
        first = "the first" if tp in found.holds else "behind another one"
        yield "open in", f"{_partition(tp)} from offset {one.start}, {first} there"


def _producer(found: OpenTransaction) -> str:
    text = f"{found.producer_id}"
    if found.producers:
        newest = max(found.producers.values(), key=lambda one: one.last_written)
        text += f", epoch {newest.epoch}, last record of {utc(newest.last_written)}"
    return text


def _end(found: OpenTransaction, now_ms: int) -> str:
    if found.two_phase:
        return ", in a two-phase commit (KIP-939): no time-out ends it"
    if found.stuck:
        return ", and has not written them for some seconds"
    if found.ends_by is None:
        return ""
    if found.is_overdue(now_ms):
        return f": its coordinator should have ended it by {utc(found.ends_by)}, and has not"
    return f"; its coordinator ends it by {utc(found.ends_by)}"


def _advice(found: OpenTransaction, typed: TypedCommand) -> str | None:
    """The command that ends it; None where there is none to type."""
    if found.two_phase:
        return None
    if found.verdict in (TransactionVerdict.ENDING, TransactionVerdict.UNKNOWN):
        return None
    return typed.abort(found)


def _document(found: OpenTransaction, now_ms: int) -> dict[str, Any]:
    owner, described = found.owner, found.described
    return {
        "transactional_id": found.transactional_id,
        "producer_id": found.producer_id,
        "verdict": found.verdict.value,
        "why_not_known": found.why,
        "ours": None if owner is None else owner._asdict(),
        "since": found.since,
        "by_coordinator": _by_coordinator(found),
        "age": None if found.since is None else max(0.0, (now_ms - found.since) / 1000),
        "timeout": None if described is None else described.timeout,
        "ends_by": found.ends_by,
        "overdue": found.is_overdue(now_ms),
        "stuck": found.stuck,
        "two_phase": found.two_phase,
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "start_offset": one.start,
                "epoch": one.epoch,
                "last_record": one.last_written,
                "holds": tp in found.holds,
            }
            for tp, one in sorted(found.producers.items())
        ],
    }


def _by_coordinator(found: OpenTransaction) -> bool:
    return found.first_written is None and found.since is not None


def _hangs(found: OpenTransaction) -> bool:
    return found.verdict is TransactionVerdict.HANGING


def _seen(reading: TransactionReading) -> set[TopicPartition]:
    """The partitions of which something was found, or is not known."""
    found: Iterable[TopicPartition] = (tp for one in reading.transactions for tp in one.producers)
    return {*found, *reading.errors}


def _held(tp: TopicPartition, one: OffsetRange) -> str:
    if tp.topic == OFFSETS_TOPIC:
        return f"{_partition(tp)}: what transactions commit is pending from {one.start} on"
    return f"{tp}: consumers under read_committed stand at {one.start}; the log ends at {one.until}"


def _partition(tp: TopicPartition) -> str:
    return f"{tp} (offsets of groups)" if tp.topic == OFFSETS_TOPIC else str(tp)


def _print_facts(out: Console, facts: Iterable[tuple[str, str]]) -> None:
    """Names and texts, wrapped beside the names: what is to be copied is printed by itself."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, min_width=len("transaction"))
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(name, named(text))
    out.print(table)


def _print_some(out: Console, lines: Sequence[str]) -> None:
    for line in lines[:_SHOWN]:
        print_line(out, line)
    if len(lines) > _SHOWN:
        print_line(out, f"and {len(lines) - _SHOWN} more partitions (--json has all)")
