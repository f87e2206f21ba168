"""What the sink's user must be allowed to do, on a broker that allows nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter
from eo_listener.model.errors import SinkError
from eo_listener.model.ledger import LedgerKey
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.ledger_repair import KafkaLedgerRepair
from eo_listener.sinks.ledger_repair import plan_acceptance
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of
from tests.conftest import StartBroker
from tests.preflight.checking import check_sink
from tests.secured import log_lines
from tests.sinks.kafka.conftest import TP, Place, place_at, table, write
from tests.sinks.kafka.frames import without_spark
from tests.sinks.kafka.locked import OPTIONS, PASSWORD, PROPERTIES, Locked, start_locked
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class Asked:
    """A sink with a group, and topics of its own on a locked broker."""

    def __init__(self, locked: Locked, **more: Any) -> None:
        topics = Topics(locked.inside)
        self.locked = locked
        self.source = topics.create("source", 1)
        self.group = unique("group")
        self.place = Place(
            servers=locked.servers,
            topics=topics,
            target=topics.create("target"),
            ledger=unique("ledger"),
        )
        self.more = {"group": self.group, "options": OPTIONS, **more}

    def sink(self) -> KafkaSink:
        """A sink with new connections."""
        return self.place.sink(**self.more)

    def lacking(self, frame: Any) -> str | None:
        """What is said when a batch is refused; None where it is written.

        What passes is repeated by what `exactly_once` does it by: the first use of a group makes
        Kafka create the topic of their offsets, for which librdkafka may wait in vain, and a slow
        broker may leave a commit without an answer.
        """
        sink = self.sink()
        entry = entry_of({}, {TopicPartition(self.source, 0): OffsetRange(0, 3)}, topic_id=None)
        writer = SinkWriter(RetryLimits(timeout=120.0), time.sleep, time.monotonic)
        try:
            writer.read(sink, QUERY)
            writer.write(sink, frame, entry, plan_of(entry))
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
        return {
            ("--topic", self.place.ledger),
            ("--topic", self.place.target),
            ("--topic", self.source),
            ("--group", self.group),
            ("--transactional-id", f"eo-listener/{self.place.target}/{QUERY}"),
        }


def test_each_missing_right_is_named(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who types what each error says can write in the end, and has no right that is not needed."""
    without_spark(monkeypatch)
    asked = Asked(start_locked(start_broker))
    with asked.place.opened, log_lines() as lines:
        assert asked.granted(lambda: asked.lacking(table("a"))) == asked.needed
    assert PASSWORD not in "".join(lines)


@pytest.mark.spark
def test_the_executors_need_the_same_rights(start_broker: StartBroker, spark: SparkSession) -> None:
    """Their producers and the driver's questions are covered by what the errors say."""
    asked = Asked(start_locked(start_broker), write_method="executors")
    frame = spark.sql("SELECT string(id) AS value FROM range(3)")
    with asked.place.opened:
        assert asked.granted(lambda: asked.lacking(frame)) == asked.needed
        assert replace(asked.place, servers=asked.locked.inside).values() == [*"012"]


def test_the_preflight_names_them_before_a_batch_does(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who types what it says can write the first batch; what it could not try, it says."""
    without_spark(monkeypatch)
    locked = start_locked(start_broker)
    asked = Asked(locked)

    def says() -> str | None:
        found = check_sink(
            locked.servers,
            asked.place.target,
            ledger_topic=asked.place.ledger,
            group=asked.group,
            query=QUERY,
            reads=(asked.source,),
            properties=PROPERTIES,
        )
        problems = [one.advice for one in found if one.level.value == "problem"]
        return (
            None
            if not problems
            else "administrator: " + "; ".join(advice.partition(": ")[2] for advice in problems)
        )

    with asked.place.opened:
        before = asked.granted(says)
        untried = ("--transactional-id", f"eo-listener/{asked.place.target}/{QUERY}")
        assert before == asked.needed - {untried}
        # The right to the id is tried where it is known how long a transaction may be.
        locked.grant("kafka-acls --allow-principal User:al --operation DescribeConfigs --cluster")
        assert asked.granted(says) == {untried}
        assert asked.lacking(table("a")) is None


def test_a_repair_names_the_right_that_it_lacks(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those to the topic, more than to read it, and to the sink's transactional id; without them
    nothing is changed. No secret is shown.
    """
    without_spark(monkeypatch)
    locked = start_locked(start_broker)
    place = place_at(locked.inside)
    properties = {"bootstrap.servers": locked.servers, **PROPERTIES}
    with place.opened:
        write(place.sink())
        right = f"--operation Read --topic {place.ledger}"
        locked.grant(f"kafka-acls --allow-principal User:al {right}")
        repair = place.opened.enter_context(closing(KafkaLedgerRepair(properties, place.ledger)))
        key = LedgerKey(place.target, QUERY)
        heads = repair.reader.ledgers()[key].heads
        entry = plan_acceptance(heads, key, TP, OffsetRange(3, 8), run_id="repair")
        for named in (
            ("--topic", place.ledger),
            ("--transactional-id", f"eo-listener/{place.target}/{QUERY}"),
        ):
            with pytest.raises(SinkError, match="nothing was changed") as raised:
                repair.accept(key.sink, entry)
            assert PASSWORD not in str(raised.value)
            command = str(raised.value.fix).partition("cluster: ")[2]
            assert locked.grant(command) == named
            assert repair.reader.ledgers()[key].heads == heads
        repair.accept(key.sink, entry)
        assert repair.reader.ledgers()[key].heads[TP].range == OffsetRange(8, 8)
