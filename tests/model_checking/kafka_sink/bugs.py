"""Bugs planted in the order of the steps and in what they compare, to see whether it is noticed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eo_listener.errors import ForeignWriterError, RetriableSinkError
from eo_listener.foreach_batch.sink_writer import SinkWriter
from eo_listener.kafka.java_transactions import DescribedTransaction
from eo_listener.model.ledger import Applied, Entry, Head
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka import transaction as order
from eo_listener.sinks.kafka.transaction import ProducerEpoch
from tests.model_checking.batches.tape import Answer, Call
from tests.model_checking.bugs import Bug
from tests.model_checking.kafka_sink import tasks
from tests.model_checking.kafka_sink.cluster import FENCED
from tests.model_checking.kafka_sink.tape import LEDGER, TARGETS, KafkaCall, TapeClient, TapeSink
from tests.model_checking.kafka_sink.tasks import Job, task_of
from tests.model_checking.kafka_sink.world import World

_write, _client, _is_readable = order.write_batch, TapeSink.client, World.is_readable
_expire, _init = World._do_expire, TapeClient.init


def _nothing(*what: Any, **how: Any) -> None:
    """Is not compared."""


def _any(*what: Any) -> bool:
    return True


def _first_stage(attempt: int, stage_attempt: int) -> bool:
    """Attempts of the stage are not looked at."""
    return attempt == 0


class _Changed:
    """A client but for what is changed."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


class _ReadFirst(_Changed):
    """A client that reads the ledger, and then takes its epoch."""

    found: Mapping[TopicPartition, Head]

    def init(self) -> Any:
        self.found = self.client.read_ledger("q")
        return self.client.init()

    def read_ledger(self, query: str) -> Mapping[TopicPartition, Head]:
        return self.found


def _ledger_before_fence(client: Any, entry: Entry, **how: Any) -> Applied:
    return _write(_ReadFirst(client), entry, **how)


class _OwnTransaction(_Changed):
    """A client that commits the rows before it sends the ledger's record."""

    def write_ledger(self, entry: Entry) -> Collection[TopicPartition]:
        self.client.commit()
        self.client.init()
        there: Collection[TopicPartition] = self.client.write_ledger(entry)
        return there

    def describe(self) -> None:
        return None


def _ledger_alone(client: Any, entry: Entry, **how: Any) -> Applied:
    return _write(_OwnTransaction(client), entry, **how)


def _to_stable(self: World, call: Call) -> bool:
    """With an epoch, the ledger is read to its last stable offset."""
    return call.name == "ledger" or _is_readable(self, call)


def _pending_is_nothing(self: World, call: Call) -> bool:
    """What was committed and lacks its markers counts as not committed."""
    return call.name == "read" or _is_readable(self, call)


def _waits(self: World, call: Call) -> bool:
    """What a dead driver has left open is waited for."""
    return self.kafka.logs[LEDGER].is_stable


def _kept(self: TapeClient) -> ProducerEpoch:
    """The second try of a batch goes on in the epoch of the first."""
    kept: ProducerEpoch | None = getattr(self.sink, "kept", None)
    self.producer = kept or _init(self)
    self.sink.kept = self.producer  # type: ignore[attr-defined]  # that is the bug
    return self.producer


def _state_alone(
    found: DescribedTransaction | None,
    producer: ProducerEpoch,
    written: Collection[TopicPartition],
) -> None:
    """Which partitions it has is not compared."""
    if found is None:
        return
    if ProducerEpoch(found.producer_id, found.epoch) != producer or not found.ongoing:
        raise RetriableSinkError("another transaction")


def _expires_too(self: World) -> None:
    """The ledger goes when the group's offsets go."""
    _expire(self)
    self.kafka.logs[LEDGER].items = ()


def _success(self: SinkWriter, sink: Any, entry: Entry, unknown: Any) -> Entry:
    return replace(entry, moves={})


def _failure(self: SinkWriter, sink: Any, entry: Entry, unknown: Any) -> Entry:
    return entry


def _abort(self: TapeClient, failed: BaseException | None) -> None:
    """What has failed is aborted in its own epoch."""
    if self.open and self.sink.tape.pending is None:
        self._ask("abort")


def _by_source(self: Job) -> None:
    """Tasks as Spark has read them: several write to one partition."""
    for number in range(len(self.layout)):
        own = tuple(row for row in self.rows if row.partition == number)
        self.tasks.append(task_of(self.name, number, TARGETS, own, self.producer))


def _not_outlived(self: World, errors: Sequence[str]) -> Answer:
    """Whoever is fenced is told that another has taken over, a time-out or not."""
    return Answer(error=ForeignWriterError if FENCED in errors else RetriableSinkError)


def _no_outcome(self: World, driver: Any, call: KafkaCall, how: str) -> Answer:
    """What the coordinator answers to EndTxn is a good answer, whatever it is."""
    given = _give_commit(self, driver, call, how)
    return Answer() if how == "well" else given


_give_commit = World._give_commit

_ANY_ATTEMPT = ((tasks, "admits", _any), (order, "refuse_repeated", _nothing))

BUGS = (
    Bug("aborted, not described", "polite", ((order, "refuse_changed", _nothing),)),
    Bug("partitions not compared", "polite", ((order, "refuse_changed", _state_alone),)),
    Bug("attempt 1 allowed", "executor", _ANY_ATTEMPT),
    Bug("speculation allowed", "speculation", _ANY_ATTEMPT),
    Bug(
        "stage attempt 1 allowed",
        "stage",
        ((tasks, "admits", _first_stage), (order, "refuse_repeated", _nothing)),
    ),
    Bug(
        "two tasks, one partition",
        "calm",
        ((Job, "start", _by_source), (order, "refuse_repeated", _nothing)),
    ),
    Bug("ledger read before the fence", "overlap", ((order, "write_batch", _ledger_before_fence),)),
    Bug("ledger in its own transaction", "crash", ((order, "write_batch", _ledger_alone),)),
    Bug("ledger read to its stable end", "foreign overlap", ((World, "is_readable", _to_stable),)),
    Bug("pending is not committed", "calm", ((World, "is_readable", _pending_is_nothing),)),
    Bug("a dead driver is waited for", "crash", ((World, "is_readable", _waits),)),
    Bug("ledger not compared", "overlap", ((order, "refuse_moved", _nothing),)),
    Bug("epoch kept", "executor", ((TapeClient, "init", _kept), (TapeClient, "close", _nothing))),
    Bug("group offsets as ledger", "expire", ((World, "_do_expire", _expires_too),)),
    Bug("no answer taken for success", "answers", ((SinkWriter, "_found_out", _success),)),
    Bug(
        "no answer taken for failure",
        "answers",
        ((SinkWriter, "_found_out", _failure), (order, "refuse_moved", _nothing)),
    ),
    Bug("any answer taken for success", "timeout", ((World, "_give_commit", _no_outcome),)),
    Bug("aborted in its own epoch", "unverified driver", ((TapeClient, "close", _abort),)),
    Bug("aborted beside its tasks", "unverified", ((TapeClient, "close", _abort),)),
    Bug("time-out taken for a fence", "timeout", ((World, "_failed", _not_outlived),)),
)
