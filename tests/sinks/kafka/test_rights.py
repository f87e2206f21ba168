"""A right that lacks is named with the command that gives it, by each who reads or writes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.errors import EoListenerError, SinkError
from eo_listener.foreach_batch.sink_writer import RetryLimits
from eo_listener.model.ledger import LedgerKey
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.preflight.child_process import run
from eo_listener.preflight.facts import Request
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.ledger_reader import KafkaLedgerReader
from eo_listener.sinks.kafka.ledger_repair import KafkaLedgerRepair
from eo_listener.sinks.ledger_repair import plan_acceptance, plan_rename
from eo_listener.testing.made_up_entries import QUERY
from tests import waiting
from tests.attack.kafka_sink.batches import Batches
from tests.broker import Broker
from tests.conftest import kafka_version
from tests.secured import log_lines
from tests.sinks.kafka.conftest import TP, Place, place_at, table, write
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
    """A sink on a locked broker, and the rights that its user has."""

    locked: Locked
    place: Place
    source: str
    more: Mapping[str, Any]
    rights: list[Right]
    rows: Callable[[], Any]

    def allow_all(self) -> None:
        for kind, name, operation in self.rights:
            self.locked.allow(kind, name, operation)

    def sink(self) -> KafkaSink:
        return self.place.sink(options=OPTIONS, **self.more)

    def refused(self, sink: KafkaSink, patience: float = 2.0) -> SinkError | None:
        """Why the next batch is refused; None if it is written. What passes is repeated, as by
        `exactly_once`, for so many seconds.
        """
        limits, source = RetryLimits(timeout=patience), TopicPartition(self.source, 0)
        batches = Batches(sink=sink, source=source, size=3, retry=limits)
        try:
            batches.write(lambda number, count: self.rows())
        except SinkError as error:
            return error
        return None

    def refused_within(self, seconds: float, kept: KafkaSink | None = None) -> SinkError | None:
        """Why a batch is refused, of new sinks or one kept, when all of a broker know of it."""
        until, error = time.monotonic() + seconds, None
        while error is None and time.monotonic() < until:
            with nullcontext(kept) if kept else closing(self.sink()) as sink:
                error = self.refused(sink)
        return error


def commands_in(error: EoListenerError) -> Iterator[str]:
    """Those of kafka-acls that are to be typed."""
    for one in str(error.fix).partition("cluster: ")[2].split("; "):
        if one.startswith("kafka-acls "):
            yield one


def gives(command: str, right: Right) -> bool:
    kind, name, operation = right
    words = shlex.split(command)
    operations = [words[at + 1] for at, word in enumerate(words) if word == "--operation"]
    return [kind, name] == words[-2:] and operation in operations


def check_each(writing: Writing) -> None:
    """Take each right away alone: what is said gives it, and then the batch is written."""
    locked = writing.locked
    writing.allow_all()
    with closing(writing.sink()) as kept:
        assert writing.refused(kept) is None
        for right in writing.rights:
            locked.revoke(*right)
            lacking = writing.refused_within(_SETTLES)
            assert lacking is not None, f"nobody asks for {right}"
            for error in filter(None, (lacking, writing.refused_within(2, kept))):
                found = [one for one in commands_in(error) if gives(one, right)]
                assert len(found) == 1, (right, str(error))
                assert "a permission is missing" in str(error), right
                assert PASSWORD not in str(error)
            locked.allow(*right)
            waiting.until(lambda: writing.refused(kept) is None, _SETTLES)


def with_transactions(locked: Locked, rows: Callable[[], Any], **more: Any) -> Writing:
    """A sink with a group, and the rights that it needs."""
    writing = _writing(locked, rows, {"group": unique("group"), **more})
    writing.rights += [
        ("--topic", writing.place.target, "Write"),
        ("--transactional-id", f"eo-listener/{writing.place.target}/{QUERY}", "Write"),
        ("--group", writing.more["group"], "Read"),
        ("--topic", writing.source, "Read"),
    ]
    return writing


def without_transactions(locked: Locked, rows: Callable[[], Any], **more: Any) -> Writing:
    """A sink that needs none, and the rights that it needs in a batch that goes well."""
    writing = _writing(locked, rows, {"transactions": False, "id": "value", **more})
    writing.rights += [
        ("--topic", writing.place.target, name) for name in ("Write", "DescribeConfigs")
    ]
    return writing


def _writing(locked: Locked, rows: Callable[[], Any], more: Mapping[str, Any]) -> Writing:
    """With the rights on the ledger."""
    topics = Topics(locked.inside)
    source, target, ledger = topics.create("source", 1), topics.create("target"), unique("ledger")
    rights = [("--topic", ledger, name) for name in ("Create", "Read", "Write", "DescribeConfigs")]
    place = Place(servers=locked.servers, topics=topics, target=target, ledger=ledger)
    return Writing(locked, place, source, more, rights, rows)


def drop_create(writing: Writing) -> None:
    """The first batch without the right to make the ledger; nobody asks for it again."""
    create = ("--topic", writing.place.ledger, "Create")
    writing.rights.remove(create)
    writing.allow_all()
    error = writing.refused_within(_SETTLES)
    assert error is not None
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


@pytest.fixture
def written(locked: Locked, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A batch was written by who may do all."""
    without_spark(monkeypatch)
    place = place_at(locked.inside)
    with place.opened:
        write(place.sink())
        yield place


def properties_of(locked: Locked) -> dict[str, str]:
    return {"bootstrap.servers": locked.servers, **PROPERTIES}


def ledgers(properties: Mapping[str, str], place: Place) -> Mapping[LedgerKey, Any]:
    with closing(KafkaLedgerReader(properties, place.ledger)) as reader:
        return {key: found.heads for key, found in reader.ledgers().items()}


def test_each_right_of_a_repair(locked: Locked, written: Place) -> None:
    """On the ledger's topic, on the transactional id, and to see a topic that gets its name."""
    place, key = written, LedgerKey(written.target, QUERY)
    wider = ",".join(sorted((place.target, place.topics.create("more", 1))))
    inside = {"bootstrap.servers": locked.inside}

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
            with closing(KafkaLedgerRepair(properties_of(locked), place.ledger)) as repair:
                step(repair)
        except EoListenerError as error:
            return error
        return None

    given: list[str] = []
    for step in (accept, rename):
        before = ledgers(inside, place)
        while (error := attempt(step)) is not None:
            commands = list(commands_in(error))
            assert commands, str(error)
            assert PASSWORD not in str(error)
            assert not set(commands) & set(given)
            assert ledgers(inside, place) == before
            given += commands
            for command in commands:
                locked.grant(command)
            time.sleep(0.5)
    about = {tuple(shlex.split(command)[-2:]) for command in given}
    ids = ("--transactional-id", f"eo-listener/{key.sink}/{key.query}")
    assert about >= {("--topic", place.ledger), ids}
    assert ledgers(inside, place)[LedgerKey(wider, QUERY)][TP].range.until == 4


def granted(locked: Locked, says: Callable[[], str | None]) -> set[tuple[str, str]]:
    """Do what is said until nothing is; return what the rights are about."""
    given: list[tuple[str, str]] = []
    while (text := says()) is not None:
        commands = text.partition("administrator")[2].partition(": ")[2]
        assert commands, text
        given += [locked.grant(command) for command in commands.split("; ")]
        assert PASSWORD not in text
        assert len(given) < 20, given
    return set(given)


def test_the_preflight_names_them_before_a_batch_does(
    locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who types what it says can write the first batch; what it could not try, it says."""
    without_spark(monkeypatch)
    writing = with_transactions(locked, lambda: table("a"))

    def says() -> str | None:
        with closing(writing.sink()) as sink:
            found = sink.check(QUERY)
        properties = {"bootstrap.servers": locked.servers, **PROPERTIES}
        request = Request(properties=properties, topics=(writing.source,))
        found += run(request).findings
        commands = [one.advice.partition(": ")[2] for one in found if one.level.value == "problem"]
        return "administrator: " + "; ".join(commands) if commands else None

    needed = {(kind, name) for kind, name, _ in writing.rights}
    untried = ("--transactional-id", f"eo-listener/{writing.place.target}/{QUERY}")
    with log_lines() as lines:
        assert granted(locked, says) == needed - {untried}
        # The right to the id is tried if it is known how long a transaction may be.
        locked.grant("kafka-acls --allow-principal User:al --operation DescribeConfigs --cluster")
        assert granted(locked, says) == {untried}
        # With the first use of a group Kafka creates a topic; librdkafka may wait for it in vain.
        with closing(writing.sink()) as sink:
            assert writing.refused(sink, 120.0) is None
    assert PASSWORD not in "".join(lines)
