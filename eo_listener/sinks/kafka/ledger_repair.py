"""Repairs the ledger in a topic, in one transaction with the transactional id of the ledger's sink.

Taking over the id fences the sink, so nobody else can move that ledger until the commit. A rename
does not fence a sink of the new name. Instead, that sink and the repair each count the records that
were appended since they read the ledger, as soon as their own records are acknowledged. So one of
them finds the records of the other.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from typing import Final, NamedTuple
from uuid import uuid4

from eo_listener.client_config.admin_commands import (
    AS_ADMINISTRATOR,
    NO_TOPIC_RIGHT,
    grant_command_for,
    topic_options,
    with_right,
)
from eo_listener.client_config.identities import sink_transactional_id
from eo_listener.errors import (
    EoListenerError,
    InUseError,
    JvmError,
    KafkaError,
    SettingsError,
    SinkError,
    few,
)
from eo_listener.kafka.java_transactions import JavaTransactions
from eo_listener.kafka.logs import Logs
from eo_listener.kafka.open_transactions import NOT_FOUND
from eo_listener.kafka.producers import BatchProducer, Stage
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import GAP_ACCEPTED, Entry, Head, LedgerKey
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka.errors import is_fenced
from eo_listener.sinks.kafka.ledger import (
    PER_RECORD,
    AnyKey,
    BatchKey,
    LedgerRecords,
    RepairKey,
    RepairRecord,
    concerns,
    records_of_heads,
    refuse_policy,
)
from eo_listener.sinks.kafka.ledger_reader import KafkaLedgerReader
from eo_listener.sinks.ledger_repair import (
    Rename,
    refuse_changed,
    refuse_moved,
    running,
    unknown_repair,
)

_TIMEOUT: Final = 30.0  # seconds for each request
_OPEN: Final = 60.0  # seconds after which the coordinator ends the transaction of a repair
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_RIGHTS: Final = {
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (("Write", "Describe"), "--transactional-id"),
    NO_TOPIC_RIGHT: (("Read", "Write", "Describe_Configs"), "--topic"),
}


class RecordChange(NamedTuple):
    """A record of `owner` for a partition of the ledger's topic; a value of None deletes it."""

    owner: LedgerKey
    partition: int
    key: bytes
    value: bytes | None


class Repair(NamedTuple):
    """The unique id and the time of a repair; `partitions` is how many partitions the topic has."""

    id: str
    at: str
    partitions: int


def rename_records(
    records: LedgerRecords, rename: Rename, repair: Repair
) -> Iterator[RecordChange]:
    """Yield all records of a ledger under its new name, and the deletion of the old records.

    Rows that were written without transactions carry an id of their writer, which depends on the
    sink's name. Under the new name, a sink could not find these rows, so the new records leave out
    the number of rows after the ends of a batch.
    """
    old, new = rename.old, rename.new
    old_partition = records.partition(*old, repair.partitions)
    new_partition = records.partition(*new, repair.partitions)
    values: dict[AnyKey, bytes] = {
        **{key: heads.record.encode() for key, heads in records.records.items()},
        **{
            key: replace(batch.record, rows=None).encode() for key, batch in records.batches.items()
        },
        **{key: earlier.record.encode() for key, earlier in records.repairs.items()},
    }
    for key, value in values.items():
        if key[:2] == old:
            renamed_key = key._replace(sink=new.sink, query=new.query)
            yield RecordChange(old, old_partition, key.encode(), None)
            yield RecordChange(new, new_partition, renamed_key.encode(), value)
    parts: defaultdict[tuple[str, int], dict[TopicPartition, Head]] = defaultdict(dict)
    for tp, head in rename.heads.items():
        parts[tp.topic, tp.partition // PER_RECORD][tp] = head
    for number, ((topic, _), part) in enumerate(sorted(parts.items())):
        record = RepairRecord(
            topic=topic,
            heads=part,
            run_id=repair.id,
            verdict=rename.verdict,
            gap=None,
            at=repair.at,
        )
        name = RepairKey(*new, f"{repair.id}/{number}")
        yield RecordChange(new, new_partition, name.encode(), record.encode())


def acceptance_records(
    records: LedgerRecords, sink: str, entry: Entry, repair: Repair
) -> Iterator[RecordChange]:
    """Yield the records that move the only head of `entry` over its gap."""
    owner = LedgerKey(sink, entry.query)
    partition = records.partition(*owner, repair.partitions)
    batch = records.batch(*owner)
    ((tp, move),) = entry.moves.items()
    heads = {tp: entry.head(tp)}
    written = records.written_heads(*owner)
    for record in records_of_heads(*owner, heads, written, records.targets(*owner)):
        yield RecordChange(owner, partition, record.key, record.value)
    if batch is not None and tp in batch.moves:  # its moves override the record of heads
        moves = dict(batch.moves)
        del moves[tp]
        key = BatchKey(*owner, batch.run_id)
        yield RecordChange(owner, partition, key.encode(), replace(batch, moves=moves).encode())
    accepted = RepairRecord(
        topic=tp.topic,
        heads={} if move.expected is None else {tp: move.expected},
        run_id=entry.run_id,
        verdict=GAP_ACCEPTED,
        gap=move.gap,
        at=repair.at,
    )
    key_bytes = RepairKey(*owner, repair.id).encode()
    yield RecordChange(owner, partition, key_bytes, accepted.encode())


_Plan = Callable[[LedgerRecords, Repair], Iterable[RecordChange]]


class KafkaLedgerRepair:
    """The `LedgerRepair` of a topic; `properties`, for librdkafka, may hold secrets.

    `java` asks coordinators about transactions; it is None if Java cannot be used, and `no_java` is
    then the reason.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        topic: str,
        *,
        java: JavaTransactions | None = None,
        no_java: str | None = None,
    ) -> None:
        self._properties = dict(properties)
        self._topic = topic
        self._java = java
        self._no_java = no_java
        self.reader = KafkaLedgerReader(properties, topic, timeout=_TIMEOUT)
        self._logs = Logs(properties)
        self._producers: dict[str, tuple[int, int] | None] = {}
        self._fenced: str | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """The warnings to show before the repair.

        They name the transactional id that the repair takes over. If the repair cannot tell whether
        a transaction with that id is open, they give the reason.
        """
        warnings = []
        if self._fenced is not None:
            warnings.append(
                f"the repair takes over the transactional id {self._fenced!r}: a driver that is "
                "writing a batch with it is fenced, and nothing of that batch is written"
            )
        if self._no_java is not None:
            warnings.append(
                "cannot tell if a transaction with that id is open, so only a moving ledger shows "
                f"that the query is running ({self._no_java})"
            )
        return tuple(warnings)

    def key_of(self, table: str) -> str:
        """Return the key of a sink: its name=, or its topics in sorted order."""
        named = {name.strip() for name in table.split(",")}
        if table in named:  # one name needs no sorting, so Kafka is not asked for topics
            return table
        return ",".join(sorted(named)) if self._topics(named) == named else table

    def users(self, key: LedgerKey) -> tuple[str, ...]:
        """Return signs of a running sink: its open transaction, or a new producer with its id."""
        name = sink_transactional_id(*key)
        signs = [f"its ledger has an open transaction, {name!r}"] if key in self.reader.open else []
        if self._fenced is None:
            self._fenced = name
        if self._java is None:
            return tuple(signs)
        try:
            described = self._java.describe(name, _TIMEOUT)
        except JvmError as error:
            self._java, self._no_java = None, str(error)
            return tuple(signs)
        except KafkaError as error:
            if error.code != NOT_FOUND:
                raise self._explained(error, name) from error
            producer = None
        else:
            producer = (described.producer_id, described.epoch)
            if described.ongoing or described.ending:
                signs.append(f"the transaction of {name!r} is {described.state}")
        if self._producers.setdefault(name, producer) != producer:
            signs.append(f"another producer has since taken over {name!r}")
        return tuple(signs)

    def check_rename(self, rename: Rename) -> None:
        """Raise SettingsError if the new name is a list of topics, and lacks a topic with rows."""
        if rename.new.sink == rename.old.sink:
            return
        records = self._read(rename.old, rename.new)
        batch = records.batch(*rename.old)
        rows = {*records.targets(*rename.old), *(() if batch is None else batch.since)}
        named = set(rename.new.sink.split(","))
        lacking = sorted(rows - named)
        if lacking and self._topics(named):
            raise SettingsError(
                f"the rows of {rename.old.sink} are in topic {few(lacking)}, but a sink named "
                f"{rename.new.sink} writes to the topic of that name",
                cause="a ledger describes its own topics, and Kafka cannot rename a topic",
                fix="Only the name= of a KafkaSink can be changed, or its topics if they "
                "still include these. A new topic begins with a ledger of its own",
            )

    def rename(self, rename: Rename) -> None:
        """Move all records of a ledger to its new name."""

        def plan(records: LedgerRecords, repair: Repair) -> Iterable[RecordChange]:
            old, new = (records.heads(*key) for key in (rename.old, rename.new))
            refuse_changed(self.reader.label, rename, old=old, new=new)
            self._refuse_begun(records, rename.old, rename.new)
            return rename_records(records, rename, repair)

        def is_done(records: LedgerRecords) -> bool:
            return records.heads(*rename.new) == dict(rename.heads)

        self._transact((rename.old, rename.new), plan, is_done)

    def accept(self, sink: str, entry: Entry) -> None:
        """Move the head in `entry` past an accepted gap."""
        key = LedgerKey(sink, entry.query)
        ((tp, move),) = entry.moves.items()

        def plan(records: LedgerRecords, repair: Repair) -> Iterable[RecordChange]:
            heads = (move.expected, records.heads(*key).get(tp))
            before, after = ({} if head is None else {tp: head} for head in heads)
            refuse_moved(self.reader.label, before, after)
            self._refuse_begun(records, key)
            return acceptance_records(records, sink, entry, repair)

        def is_done(records: LedgerRecords) -> bool:
            return records.heads(*key).get(tp) == entry.head(tp)

        self._transact((key,), plan, is_done)

    def close(self) -> None:
        """Close the connections."""
        self.reader.close()
        self._logs.close()

    def _transact(
        self, keys: tuple[LedgerKey, ...], plan: _Plan, is_done: Callable[[LedgerRecords], bool]
    ) -> None:
        """Write the records that `plan` returns, under the transactional id of the first key."""
        name = sink_transactional_id(*keys[0])
        try:
            policy = self.reader.require_topic()
        except KafkaError as error:  # `error` names only the rights to read
            raise self._explained(error, name) from error
        refuse_policy(self._topic, policy, self._properties["bootstrap.servers"])
        producer = self._producer(name)
        failed: BaseException | None = None
        try:
            producer.take_over(_TIMEOUT, topic=self._topic)
            fault_point("sink.fenced")
            records = self._read(*keys)
            at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
            repair = Repair(str(uuid4()), at, self.reader.partitions)
            changes = list(plan(records, repair))
            producer.begin()
            for change in changes:
                producer.send(self._topic, change.value, key=change.key, partition=change.partition)
            producer.flush(_TIMEOUT)
            self._refuse_foreign_records(changes)
            fault_point("sink.ledger-moved")
            producer.commit(_TIMEOUT)
            fault_point("sink.committed")
        except KafkaError as error:
            failed = error
            if producer.stage is not Stage.COMMITTING:
                if not is_fenced(error):
                    raise self._explained(error, name) from error
                raise self._not_written(name) from error
            if not self._is_written(name, keys, is_done, error):
                raise self._not_written(name) from error
        except BaseException as error:
            failed = error
            raise
        finally:
            given_up = producer.stage is Stage.OPEN
            producer.leave()
            if given_up and not is_fenced(failed):
                with suppress(KafkaError):  # then its time-out ends the transaction
                    self._take_over(name)

    def _read(self, *keys: LedgerKey) -> LedgerRecords:
        """Read the committed records. Raises InUseError if one of `keys` has a transaction open."""
        records = self.reader.read(lambda owner: owner in keys)
        if self.reader.open:
            queries = few(f"query {key.query!r} of {key.sink}" for key in self.reader.open)
            raise InUseError(
                f"a transaction of {queries} is open in {self.reader.label}",
                cause="the query is running, or its driver was killed in a batch",
                fix="Stop the query first; see eo-listener txn list",
            )
        return records

    def _refuse_begun(self, records: LedgerRecords, *keys: LedgerKey) -> None:
        for key in keys:
            batch = records.batch(*key)
            if batch is not None and not batch.is_finished:
                error = running(f"batch {batch.batch_id} of query {key.query!r} has since begun")
                raise error.as_kind(InUseError, fix="Stop the query when that batch is applied")

    def _refuse_foreign_records(self, changes: list[RecordChange]) -> None:
        """Raise InUseError if the ledgers have new records other than `changes`."""
        for (owner, partition), count in Counter(
            (change.owner, change.partition) for change in changes
        ).items():
            appended = self.reader.topic.count_after(concerns(*owner), partition)
            if appended != count:
                raise InUseError(
                    f"query {owner.query!r} of {owner.sink} has since written to "
                    f"{self.reader.label}, and the repair was not written",
                    cause="the query is running, or the leader of the ledger's partition has "
                    "changed",
                    fix="Stop the query first, then run the command again",
                )

    def _is_written(
        self,
        name: str,
        keys: tuple[LedgerKey, ...],
        is_done: Callable[[LedgerRecords], bool],
        error: KafkaError,
    ) -> bool:
        """Return True if the transaction was committed.

        The method fences the repair's producer before it reads, so that no late request can change
        the result.
        """
        try:
            if not is_fenced(error):
                self._take_over(name)
            return is_done(self._read(*keys))
        except (EoListenerError, KafkaError) as unread:
            reason = f"the commit of the repair was not confirmed ({error.code})"
            raise unknown_repair(self.reader.label, reason, error.cause) from unread

    def _not_written(self, name: str) -> InUseError:
        return InUseError(
            f"{self.reader.label}: the transaction of the repair was not committed, and nothing "
            "was changed",
            cause=f"another producer took over {name!r}, or Kafka was unavailable",
            fix="Stop the query first, then run the command again",
        )

    def _topics(self, names: Collection[str]) -> set[str]:
        """Return the names in `names` that are existing topics."""
        possible = sorted(name for name in names if _TOPIC.fullmatch(name))
        try:
            return set(self._logs.topics(possible, time.monotonic() + _TIMEOUT))
        except KafkaError as error:
            raise with_right(
                error, self._properties, ("Describe",), topic_options(possible)
            ) from error

    def _take_over(self, name: str) -> None:
        producer = self._producer(name)
        try:
            producer.take_over(_TIMEOUT, topic=self._topic)
        finally:
            producer.leave()

    def _producer(self, name: str) -> BatchProducer:
        return BatchProducer(self._properties, name, transaction_timeout=_OPEN)

    def _explained(self, error: KafkaError, name: str) -> EoListenerError:
        """Return the error to raise, with the command that grants a missing permission."""
        if error.code not in _RIGHTS:
            return error.as_kind(SinkError, label=self.reader.label)
        rights, kind = _RIGHTS[error.code]
        resource = [kind, name if kind == "--transactional-id" else self._topic]
        return SinkError(
            f"{self.reader.label}: {error.problem}; nothing was changed",
            cause="a permission is missing",
            fix=AS_ADMINISTRATOR + grant_command_for(self._properties, rights, resource),
        )
