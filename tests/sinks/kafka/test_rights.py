"""A right that lacks is named with the command that gives it: by each way to write, by who reads
the ledger, by who repairs it, and by the preflight.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter
from eo_listener.model.errors import EoListenerError, KafkaError, RetriableSinkError, SinkError
from eo_listener.model.ledger import LedgerKey
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.ledger_reader import KafkaLedgerReader
from eo_listener.sinks.kafka.ledger_repair import KafkaLedgerRepair
from eo_listener.sinks.ledger_repair import plan_acceptance, plan_rename
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of
from tests.broker import Broker
from tests.conftest import kafka_version
from tests.preflight.checking import check_sink
from tests.secured import log_lines
from tests.sinks.kafka.conftest import TP, Place, place_at, put, table, write
from tests.sinks.kafka.frames import without_spark
from tests.sinks.kafka.locked import OPTIONS, PASSWORD, PROPERTIES, Locked, start_locked
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Right = tuple[str, str, str]
"""An option of kafka-acls, a name, and an operation."""
_SETTLES = 10.0  # seconds until all of a broker knows of a change of its ACLs


@pytest.fixture(scope="module")
def locked() -> Iterator[Locked]:
    """A broker for all tests here: each has names of its own."""
    with ExitStack() as ends:
        yield start_locked(lambda **how: ends.enter_context(Broker(version=kafka_version(), **how)))


@dataclass
class Writing:
    """A sink on a locked broker, the rights that its user has, and the next batch."""

    locked: Locked
    place: Place
    source: str
    more: Mapping[str, Any]
    rights: list[Right]
    rows: Callable[[], Any]
    batch: int = 0

    def allow_all(self) -> None:
        """Give every right."""
        for kind, name, operation in self.rights:
            self.locked.allow(kind, name, operation)

    def sink(self) -> KafkaSink:
        """One with new connections."""
        place = self.place
        return KafkaSink(
            {"kafka.bootstrap.servers": self.locked.servers, **OPTIONS},
            place.target,
            **{"ledger_topic": place.ledger, **self.more},
        )

    def write(self, sink: KafkaSink) -> None:
        """The next batch. What passes is repeated, as `exactly_once` does."""
        try:
            self.write_once(sink)
        except RetriableSinkError:
            self.write_once(sink)

    def write_once(self, sink: KafkaSink) -> None:
        """The next batch."""
        heads = sink.applied(QUERY)
        tp = TopicPartition(self.source, 0)
        start = heads[tp].range.until if tp in heads else 0
        moved = {tp: OffsetRange(start, start + 3)}
        put(sink, entry_of(heads, moved, batch_id=self.batch, topic_id=None), self.rows())
        self.batch += 1

    def refused(self, sink: KafkaSink) -> SinkError | None:
        """Why a batch is refused; None while it is written."""
        try:
            self.write(sink)
        except SinkError as error:
            return error
        return None

    def lacking(self, right: Right) -> SinkError:
        """What is said without a right, by a new sink."""
        until = time.monotonic() + _SETTLES
        while True:
            with closing(self.sink()) as sink:
                error = self.refused(sink)
            if error is not None or time.monotonic() > until:
                assert error is not None, f"nobody asks for {right}"
                return error
            time.sleep(0.2)

    def between(self, sink: KafkaSink) -> SinkError | None:
        """What is said by a sink that has written before; None where the right is not used."""
        until = time.monotonic() + 2
        while time.monotonic() < until:
            error = self.refused(sink)
            if error is not None:
                return error
        return None


def commands_in(error: EoListenerError) -> Iterator[str]:
    """Those of kafka-acls that are to be typed."""
    for one in str(error.fix).partition("cluster: ")[2].split("; "):
        if one.startswith("kafka-acls "):
            yield one


def gives(command: str, right: Right) -> bool:
    """Whether a command gives a right."""
    kind, name, operation = right
    words = shlex.split(command)
    operations = [words[at + 1] for at, word in enumerate(words) if word == "--operation"]
    return [kind, name] == words[-2:] and operation in operations


def check_each(writing: Writing) -> None:
    """Take each right away alone: what is said gives it, and then the batch is written."""
    locked = writing.locked
    writing.allow_all()
    with closing(writing.sink()) as kept:
        writing.write(kept)
        for right in writing.rights:
            locked.revoke(*right)
            for error in (writing.lacking(right), writing.between(kept)):
                if error is None:
                    continue
                found = [one for one in commands_in(error) if gives(one, right)]
                assert len(found) == 1, (right, str(error))
                assert "a right is missing" in str(error), right
                assert PASSWORD not in str(error)
            locked.allow(*right)
            _await(lambda: writing.refused(kept) is None)


def _await(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + _SETTLES
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.2)


def with_transactions(locked: Locked, rows: Callable[[], Any], **more: Any) -> Writing:
    """A sink with a group, and the rights that it needs."""
    topics = Topics(locked.inside)
    source, target, ledger, group = (
        topics.create("source", 1), topics.create("target"), unique("ledger"), unique("group"),
    )  # fmt: skip
    rights = [
        ("--topic", target, "Write"),
        *(("--topic", ledger, one) for one in ("Create", "Read", "Write", "DescribeConfigs")),
        ("--transactional-id", f"eo-listener/{target}/{QUERY}", "Write"),
        ("--group", group, "Read"),
        ("--topic", source, "Read"),
    ]
    place = Place(servers=locked.servers, topics=topics, target=target, ledger=ledger)
    return Writing(locked, place, source, {"group": group, **more}, rights, rows)


def without_transactions(locked: Locked, rows: Callable[[], Any], **more: Any) -> Writing:
    """A sink that needs none, and the rights that it needs in a batch that goes well."""
    topics = Topics(locked.inside)
    source, target, ledger = topics.create("source", 1), topics.create("target"), unique("ledger")
    rights = [
        *(("--topic", target, one) for one in ("Write", "DescribeConfigs")),
        *(("--topic", ledger, one) for one in ("Create", "Read", "Write", "DescribeConfigs")),
    ]
    place = Place(servers=locked.servers, topics=topics, target=target, ledger=ledger)
    given = {"transactions": False, "id": "value", **more}
    return Writing(locked, place, source, given, rights, rows)


def drop_create(writing: Writing) -> None:
    """The first batch without the right to make the ledger; nobody asks for it again."""
    create = ("--topic", writing.place.ledger, "Create")
    writing.rights.remove(create)
    writing.allow_all()
    error = writing.lacking(create)
    assert [one for one in commands_in(error) if gives(one, create)], str(error)
    writing.locked.allow(*create)
    for kind, name, operation in writing.rights:
        writing.locked.revoke(kind, name, operation)


def test_each_right_by_the_driver(locked: Locked, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a transaction: on target, dead letters, ledger, transactional id, group and source."""
    without_spark(monkeypatch)
    letters = Topics(locked.inside).create("letters", 1)
    numbers = iter(range(10_000))

    def rows() -> Any:
        return table("a", str(next(numbers)), eo_poison=table(None, "bad")["value"])

    writing = with_transactions(locked, rows, dead_letters=letters, max_dead_letters=9)
    writing.rights.append(("--topic", letters, "Write"))
    drop_create(writing)
    check_each(writing)


@pytest.mark.spark
@pytest.mark.parametrize("sink", [with_transactions, without_transactions])
def test_each_right_by_the_executors(
    sink: Callable[..., Writing], locked: Locked, spark: SparkSession
) -> None:
    """What a task is answered by a broker is said as if the driver had been."""
    numbers = iter(range(10_000))

    def rows() -> Any:
        return spark.sql(f"SELECT string({next(numbers)}) AS value")

    writing = sink(locked, rows, write_method="executors")
    drop_create(writing)
    check_each(writing)


@dataclass
class Read:
    """A ledger with heads of a query, on a locked broker."""

    locked: Locked
    place: Place

    @property
    def properties(self) -> dict[str, str]:
        return {"bootstrap.servers": self.locked.servers, **PROPERTIES}

    @property
    def key(self) -> LedgerKey:
        return LedgerKey(self.place.target, QUERY)


@pytest.fixture
def written(locked: Locked, monkeypatch: pytest.MonkeyPatch) -> Iterator[Read]:
    """A batch was written by who may do all."""
    without_spark(monkeypatch)
    place = place_at(locked.inside)
    with place.opened:
        write(place.sink())
        yield Read(locked, place)


def test_to_read_a_ledger_the_right_to_read_is_enough(written: Read) -> None:
    """Without it the error has the command that gives it, which is all that is needed."""
    with closing(KafkaLedgerReader(written.properties, written.place.ledger)) as reader:
        with pytest.raises(KafkaError, match="a right is missing") as raised:
            reader.ledgers()
        (command,) = commands_in(raised.value)
        assert written.locked.grant(command) == ("--topic", written.place.ledger)
        assert "DescribeConfigs" not in command
        assert PASSWORD not in str(raised.value)
    with closing(KafkaLedgerReader(written.properties, written.place.ledger)) as reader:
        assert reader.ledgers()[written.key].heads


def test_each_right_of_a_repair(written: Read) -> None:
    """On the ledger's topic, on the transactional id, and to see a topic that gets its name."""
    locked, place, key = written.locked, written.place, written.key
    wider = ",".join(sorted((place.target, place.topics.create("more", 1))))
    ledger = ("--topic", place.ledger)

    def accept(repair: KafkaLedgerRepair) -> None:
        heads = repair.reader.ledgers()[key].heads
        gap = OffsetRange(3, 4)
        repair.accept(key.sink, plan_acceptance(heads, key, TP, gap, run_id="repair"))

    def rename(repair: KafkaLedgerRepair) -> None:
        heads = {one: found.heads for one, found in repair.reader.ledgers().items()}
        plan = plan_rename(heads, key, sink=repair.key_of(wider), query=None)
        repair.check_rename(plan)
        repair.rename(plan)

    def attempt(step: Callable[[KafkaLedgerRepair], None]) -> EoListenerError | None:
        try:
            with closing(KafkaLedgerRepair(written.properties, place.ledger)) as repair:
                step(repair)
        except EoListenerError as error:
            return error
        return None

    def written_heads() -> Any:
        with closing(KafkaLedgerReader({"bootstrap.servers": locked.inside}, place.ledger)) as read:
            return {one: found.heads for one, found in read.ledgers().items()}

    given: list[str] = []
    for step in (accept, rename):
        before = written_heads()
        while (error := attempt(step)) is not None:
            commands = list(commands_in(error))
            assert commands, str(error)
            assert PASSWORD not in str(error)
            assert not set(commands) & set(given)
            assert written_heads() == before
            given += commands
            for command in commands:
                locked.grant(command)
            time.sleep(0.5)
    about = {tuple(shlex.split(command)[-2:]) for command in given}
    assert about >= {ledger, ("--transactional-id", f"eo-listener/{key.sink}/{key.query}")}
    with closing(KafkaLedgerReader(written.properties, place.ledger)) as reader:
        assert reader.ledgers()[LedgerKey(wider, QUERY)].heads[TP].range.until == 4


class Asked:
    """A sink with a group whose user has no right yet; what it says is done."""

    def __init__(self, locked: Locked) -> None:
        self.writing = with_transactions(locked, lambda: table("a"))
        self.locked, self.place = locked, self.writing.place
        self.group = self.writing.more["group"]

    def lacking(self) -> str | None:
        """What is said when a batch is refused; None where it is written.

        What passes is repeated by what `exactly_once` does it by: the first use of a group makes
        Kafka create the topic of their offsets, for which librdkafka may wait in vain, and a slow
        broker may leave a commit without an answer.
        """
        source = TopicPartition(self.writing.source, 0)
        entry = entry_of({}, {source: OffsetRange(0, 3)}, topic_id=None)
        writer = SinkWriter(RetryLimits(timeout=120.0), time.sleep, time.monotonic)
        with closing(self.writing.sink()) as sink:
            try:
                writer.read(sink, QUERY)
                writer.write(sink, table("a"), entry, plan_of(entry))
            except SinkError as error:
                return f"{error}"
        return None

    def granted(self, says: Callable[[], str | None]) -> set[tuple[str, str]]:
        """Do what is said until nothing is; return what the rights are about."""
        given: list[tuple[str, str]] = []
        while (text := says()) is not None:
            commands = text.partition("administrator")[2].partition(": ")[2]
            assert commands, text
            given += [self.locked.grant(command) for command in commands.split("; ")]
            assert PASSWORD not in text
            assert len(given) < 20, given
        return set(given)

    @property
    def needed(self) -> set[tuple[str, str]]:
        """What rights are needed for, and no other."""
        return {(kind, name) for kind, name, _ in self.writing.rights}


def test_who_types_what_each_error_says_has_no_right_that_is_not_needed(
    locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And can write in the end; no secret is shown."""
    without_spark(monkeypatch)
    asked = Asked(locked)
    with log_lines() as lines:
        assert asked.granted(asked.lacking) == asked.needed
    assert PASSWORD not in "".join(lines)


def test_the_preflight_names_them_before_a_batch_does(
    locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who types what it says can write the first batch; what it could not try, it says."""
    without_spark(monkeypatch)
    asked = Asked(locked)

    def says() -> str | None:
        found = check_sink(
            locked.servers,
            asked.place.target,
            ledger_topic=asked.place.ledger,
            group=asked.group,
            query=QUERY,
            reads=(asked.writing.source,),
            properties=PROPERTIES,
        )
        problems = [one.advice for one in found if one.level.value == "problem"]
        return (
            None
            if not problems
            else "administrator: " + "; ".join(advice.partition(": ")[2] for advice in problems)
        )

    before = asked.granted(says)
    untried = ("--transactional-id", f"eo-listener/{asked.place.target}/{QUERY}")
    assert before == asked.needed - {untried}
    # The right to the id is tried where it is known how long a transaction may be.
    locked.grant("kafka-acls --allow-principal User:al --operation DescribeConfigs --cluster")
    assert asked.granted(says) == {untried}
    assert asked.lacking() is None
