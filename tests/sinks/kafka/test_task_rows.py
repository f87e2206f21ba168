"""What is made of the reports of tasks without transactions. No Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import pytest

from eo_listener.errors import KafkaError, PoisonRowError, RetriableSinkError, SinkError
from eo_listener.kafka.java_transactions import TaskReport
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka import task_rows
from eo_listener.sinks.kafka.catalog import Target, Targets
from eo_listener.sinks.kafka.task_rows import (
    PRESENT,
    TWICE,
    RowsTarget,
    TaskRows,
    end_timeout,
    unfenced_properties,
)
from eo_listener.testing.made_up_entries import entry_of, plan_of
from tests.sinks.kafka.frames import without_spark
from tests.sinks.kafka.made_up_tasks import report

OUT = TopicPartition("out", 0)
TARGET = RowsTarget(Targets(topics={"out": Target(id="id", partitions=2)}), "writer", 1)
TASKS = 2


class Tasks:
    """Answers what it was told to, and for so many questions that tasks run."""

    def __init__(self, *reports: TaskReport, running: int = 0) -> None:
        self.found = reports
        self.running = running
        self.opened: list[str] = []
        self.left_out: list[str] = []

    def open_batch(self, batch: str, **how: Any) -> None:
        self.opened.append(batch)

    def leave_out(self, batch: str, identities: Iterable[str]) -> None:
        assert batch in self.opened
        self.left_out += identities

    def reports(self, batch: str) -> tuple[int, Sequence[TaskReport]]:
        return TASKS, self.found

    def is_running(self, batch: str) -> bool:
        assert batch in self.opened
        self.running -= 1
        return self.running >= 0

    def close_batch(self, batch: str) -> None:
        self.opened.remove(batch)


def rows(monkeypatch: pytest.MonkeyPatch, tasks: Tasks) -> TaskRows:
    without_spark(monkeypatch)
    monkeypatch.setattr(TaskRows, "_run", lambda *what: None)
    monkeypatch.setattr(task_rows, "_PAUSE", 0)
    return TaskRows(
        pa.table({"number": [1, 2, 3], "value": ["1", "2", "3"]}),
        plan_of(entry_of({}, {})),
        cast(Any, tasks),
        label="out",
        one_topic=True,
        identity=("number",),
        tasks=TASKS,
        timeout=5,
    )


def places(*numbers: int) -> dict[str, tuple[TopicPartition, int]]:
    return {f"[{number}]": (OUT, number) for number in numbers}


def test_each_row_is_sent_or_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was left out is known without computing the rows again."""
    tasks, there = Tasks(report(0, 1), report(1, 1, refused={PRESENT: 1})), places(2)
    made = rows(monkeypatch, tasks)
    monkeypatch.setattr(TaskRows, "absent", None)
    assert made.write(TARGET, there) == 2
    assert (there, tasks.left_out, tasks.opened) == ({}, ["[2]"], [])


def test_what_no_row_has_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is computed which, if fewer rows were left out than are there."""
    made = rows(monkeypatch, Tasks(report(0, 2), report(1, refused={PRESENT: 1})))
    there = places(2, 7)
    assert made.write(TARGET, there) == 2
    assert there == places(7)
    assert made.absent(places(1, 9)) == places(9)


def test_rows_that_change_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two computings disagree: which rows are there twice cannot be said."""
    made = rows(monkeypatch, Tasks(report(0, 3), report(1)))
    with pytest.raises(SinkError, match=r"1 existing rows.* 0 .* 0 "):
        made.write(TARGET, places(2))


@pytest.mark.parametrize(
    ("reports", "says"),
    [
        ([report(0, 2), report(1, attempt=1)], "task 1 ended at attempt 1"),
        ([report(0, 2)], "1 of 2 tasks"),
        ([report(0, 2), report(1, 1), report(1, 1)], "3 of 2 tasks"),
    ],
)
def test_anything_but_first_attempts_ends_the_try(
    monkeypatch: pytest.MonkeyPatch, reports: list[TaskReport], says: str
) -> None:
    """The batch is written again; before that the tasks of this try are waited for."""
    tasks = Tasks(*reports, running=3)
    with pytest.raises(RetriableSinkError, match=says):
        rows(monkeypatch, tasks).write(TARGET, {})
    assert (tasks.running, tasks.opened) == (-1, [])


def test_tasks_that_do_not_end_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are waited for so long, and no longer."""
    tasks = Tasks(report(0), report(1, attempt=1), running=10**6)
    made = rows(monkeypatch, tasks)
    made._timeout = 0.01
    with (
        caplog.at_level(logging.WARNING, "eo_listener"),
        pytest.raises(RetriableSinkError, match="written again"),
    ):
        made.write(TARGET, {})
    assert "running after 0.01 s" in caplog.text


def test_what_kafka_answers_a_task_is_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes before rows that were refused, and before other attempts."""
    error = {"code": "NOT_ENOUGH_REPLICAS", "cause": "c"}
    tasks = Tasks(report(0, refused={-4: 1}), report(1, attempt=1, error=error))
    with pytest.raises(KafkaError) as caught:
        rows(monkeypatch, tasks).write(TARGET, {})
    assert caught.value.code == "NOT_ENOUGH_REPLICAS"


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        ({-4: 2}, r"header.*\(2 rows\)"),
        ({TWICE: 1}, r"two rows with one identity.*number are equal in both"),
        ({TWICE: 1, -5: 1, PRESENT: 4}, "marked it with eo_poison"),
    ],
)
def test_rows_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, refused: Mapping[int, int], says: str
) -> None:
    """The batch fails; what was written stays."""
    made = rows(monkeypatch, Tasks(report(0, refused=refused), report(1)))
    with pytest.raises(PoisonRowError, match=says) as caught:
        made.write(TARGET, {})
    assert "written" in str(caught.value.cause)


def test_requests_go_one_at_a_time() -> None:
    """Whatever the user says: else a record may be there before the one in front of it."""
    given = {
        "bootstrap.servers": "h:9092",
        "transaction.timeout.ms": "60000",
        "max.in.flight.requests.per.connection": "5",
        "batch.size": "7",
    }
    assert unfenced_properties(given) == {
        "bootstrap.servers": "h:9092",
        "max.in.flight.requests.per.connection": "1",
        "batch.size": "7",
    }
    assert int(unfenced_properties({})["batch.size"]) > 16384


@pytest.mark.parametrize(
    ("block", "delivery", "waits"),
    [
        ("9223372036854775807", "30000", "30000"),
        ("9223372036854775807", None, "120000"),
        ("5000", "30000", "5000"),
        ("long", "30000", "long"),  # Kafka's client says what is wrong with it
        (None, "30000", None),
    ],
)
def test_a_producer_waits_for_brokers_no_longer_than_for_a_record(
    block: str | None, delivery: str | None, waits: str | None
) -> None:
    """Else a batch whose brokers are away before its first record would wait for ever."""
    given = {"max.block.ms": block, "delivery.timeout.ms": delivery}
    properties = {name: text for name, text in given.items() if text is not None}
    assert unfenced_properties(properties).get("max.block.ms") == waits


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 180),
        ({"delivery.timeout.ms": "600000"}, 660),
        ({"delivery.timeout.ms": "600000", "max.block.ms": "9223372036854775807"}, 1200),
        ({"delivery.timeout.ms": "1000", "max.block.ms": "1000"}, 30),
        ({"delivery.timeout.ms": "2147483647"}, 3600),
        ({"delivery.timeout.ms": "long"}, 60),  # Kafka's client opens no producer then
    ],
)
def test_tasks_are_waited_for_as_long_as_they_may_send(
    given: dict[str, str], seconds: float
) -> None:
    """What they send after that would be there twice."""
    assert end_timeout(given, 30.0) == seconds
