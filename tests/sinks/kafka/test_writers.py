"""How a batch's rows go to Kafka, by the driver or by executors, and what their tasks report."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Generator, Iterable, Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from eo_listener.errors import (
    JvmError,
    KafkaError,
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.kafka.java_transactions import JavaTransactions, TaskReport
from eo_listener.kafka.logs import Topic
from eo_listener.kafka.producers import BatchProducer
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.arrow_rows import TooManyBytesError
from eo_listener.sinks.dead_letters import SHARE, DeadLetterLimit, Refusals
from eo_listener.sinks.kafka import driver_writer, executor_writer, method_choice, task_rows
from eo_listener.sinks.kafka.arguments import WriteMethod
from eo_listener.sinks.kafka.catalog import Targets
from eo_listener.sinks.kafka.connection import ConnectionSettings
from eo_listener.sinks.kafka.driver_writer import DriverWriter
from eo_listener.sinks.kafka.executor_writer import (
    BY_EXECUTORS,
    UNFENCED,
    ExecutorWriter,
    Request,
    joining,
    missing_members,
    task_reports,
)
from eo_listener.sinks.kafka.method_choice import MethodChoice
from eo_listener.sinks.kafka.task_rows import (
    PRESENT,
    TWICE,
    RowsTarget,
    TaskRows,
    end_timeout,
    unfenced_properties,
)
from eo_listener.sinks.kafka.transaction import BegunTransaction, DeadLetters, ProducerEpoch
from eo_listener.spark.jvm.calls import JvmShimClient
from eo_listener.testing.made_up_entries import entry_of, plan_of
from tests.sinks.kafka.frames import without_spark
from tests.sinks.kafka.made_up_tasks import report

ENTRY = entry_of({}, {})
OUT = TopicPartition("out", 0)
PARTITIONER = {"kafka.partitioner.class": "com.example.P"}
LACKING = "NoSuchFieldException: transactionManager"


def begun() -> BegunTransaction:
    """A transaction whose producer takes all."""
    refusals = Refusals(label="sink", limit=DeadLetterLimit(SHARE))
    return BegunTransaction(
        transactional_id="tx",
        epoch=ProducerEpoch(-1, -1),
        producer=cast(BatchProducer, SimpleNamespace(send_each=lambda *_: {})),
        targets=Targets(topics={"delays": Topic(id=None, partitions=frozenset({0}))}),
        dead_letters=DeadLetters(label="sink", topic=None, entry=ENTRY, refusals=refusals),
    )


class Rows:
    """What Spark gives, part by part; knows how much was taken, and whether it was closed."""

    def __init__(self, *parts: pa.Table | Exception) -> None:
        self.parts = parts
        self.schema = next(one.schema for one in parts if isinstance(one, pa.Table))
        self.taken = 0
        self.closed = False

    def stream(self, *_: Any, **__: Any) -> Generator[pa.RecordBatch, None, None]:
        try:
            for part in self.parts:
                if isinstance(part, Exception):
                    raise part
                self.taken += 1
                yield from part.to_batches()
        finally:
            self.closed = True


@pytest.fixture
def writer_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(rows: Rows) -> DriverWriter:
        monkeypatch.setattr(driver_writer, "schema_of", lambda frame: frame.schema)
        monkeypatch.setattr(driver_writer, "stream", rows.stream)
        writer = DriverWriter(rows, plan_of(ENTRY), one_topic=True)
        assert writer.prepare() == 1
        return writer

    return make


def part(*values: str, **columns: Any) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.string()), **columns})


def test_what_is_not_needed_is_not_computed(writer_of: Any) -> None:
    """Only the first part is fetched before the transaction; to close it stops Spark's job."""
    rows = Rows(part("a"), part("b"))
    writer_of(rows).close()
    assert rows.closed
    assert rows.taken == 1


def test_a_task_that_is_too_large(writer_of: Any) -> None:
    """A task with too many bytes is refused with the setting to change, not split out of order."""
    with pytest.raises(SinkError, match="minPartitions"):
        writer_of(Rows(part("a"), TooManyBytesError("too many"))).write(begun())


class Shim:
    """A shim that answers by the names of calls, and counts them; with no answers it has gone."""

    def __init__(self, **answers: str | None) -> None:
        self.answers = {name.replace("_", "."): answer for name, answer in answers.items()}
        self.asked: list[str] = []

    def call(self, what: str, argument: str) -> str:
        del argument
        self.asked.append(what)
        if what not in self.answers:
            raise JvmError("no shim", fix="Give Spark the jar")
        return json.dumps(
            {"v": 1, what.split(".")[1].replace("partitioner", "failed"): self.answers[what]}
        )


def choice(
    monkeypatch: pytest.MonkeyPatch,
    shim: Shim,
    more: Mapping[str, str] = MappingProxyType({}),
    *,
    method: WriteMethod = "executors",
) -> MethodChoice:
    without_spark(monkeypatch)
    monkeypatch.setattr(executor_writer, "schema_of", lambda frame: frame.schema)
    monkeypatch.setattr(method_choice, "joining", lambda _, java, __: JavaTransactions(shim, java))
    options = {"kafka.bootstrap.servers": "h:9092", **more}
    access = ConnectionSettings.from_options(options, timeout=5, transaction_timeout=60)
    return MethodChoice(method, access, label="Kafka topic t at h:9092", one_topic=True)


def frame_of(**columns: pa.DataType) -> Any:
    session = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    return SimpleNamespace(
        schema=pa.schema({"value": pa.string(), **columns}),
        sparkSession=session,
        to_batches=lambda max_chunksize: iter(()),
    )


def writer(chosen: MethodChoice) -> Any:
    return chosen.writer(frame_of(), plan_of(ENTRY))


def test_executors_write_if_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether kafka-clients can join a transaction is asked once, not with each batch."""
    shim = Shim(transactions_missing=None)
    chosen = choice(monkeypatch, shim)
    assert isinstance(writer(chosen), ExecutorWriter)
    assert isinstance(writer(chosen), ExecutorWriter)
    assert shim.asked == ["transactions.missing"]
    assert isinstance(writer(pickle.loads(pickle.dumps(chosen))), ExecutorWriter)  # noqa: S301  # ours


def test_executors_write_without_transactions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever kafka-clients lacks to join one; the shim is needed all the same."""
    shim = Shim(transactions_missing=LACKING)
    chosen = choice(monkeypatch, shim)
    for _ in range(2):
        rows = chosen.task_rows(frame_of(n=pa.int64()), plan_of(ENTRY), ("n",))
        assert isinstance(rows, TaskRows)
    assert shim.asked == ["transactions.missing"]
    with pytest.raises(SettingsError, match=r"transactions=False .* no shim"):
        choice(monkeypatch, Shim()).task_rows(frame_of(n=pa.int64()), plan_of(ENTRY), ("n",))


def test_if_internals_are_missing_rows_go_through_the_driver(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The sink logs once what is missing, and writes through the driver."""
    chosen = choice(monkeypatch, Shim(transactions_missing=LACKING))
    with caplog.at_level(logging.WARNING, "eo_listener"):
        assert isinstance(writer(chosen), DriverWriter)
        assert isinstance(writer(chosen), DriverWriter)
    (line,) = caplog.messages
    assert line.startswith("Kafka topic t at h:9092: ")
    assert LACKING in line


def test_a_partitioner(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused if Java cannot load it, and wherever rows go through the driver."""
    loaded = Shim(transactions_missing=None, rows_partitioner=None)
    assert isinstance(writer(choice(monkeypatch, loaded, PARTITIONER)), ExecutorWriter)
    broken = Shim(transactions_missing=None, rows_partitioner="ClassNotFoundException")
    with pytest.raises(SettingsError, match=r"ClassNotFoundException[^$]*spark\.jars"):
        writer(choice(monkeypatch, broken, PARTITIONER))
    with pytest.raises(SettingsError, match='write_method="executors"'):
        choice(monkeypatch, Shim(), PARTITIONER, method="driver")
    with pytest.raises(SettingsError, match=r"kafka\.partitioner\.class"):
        writer(choice(monkeypatch, Shim(transactions_missing=LACKING), PARTITIONER))


def session_of(settings: Mapping[str, str]) -> Any:
    context = SimpleNamespace(getConf=lambda: settings)
    return SimpleNamespace(_jdf=object(), sparkSession=SimpleNamespace(sparkContext=context))


@pytest.mark.parametrize("request_", [BY_EXECUTORS, UNFENCED], ids=["executors", "unfenced"])
@pytest.mark.parametrize(
    ("frame", "obstacle"),
    [
        (SimpleNamespace(), "Spark Connect"),  # its JVM cannot be called
        # A second copy of a task would be taken for the first.
        (session_of({"spark.speculation": "True"}), "spark.speculation=true"),
        (session_of({}), "no shim"),
    ],
)
def test_a_session_whose_executors_cannot_write(
    frame: Any, obstacle: str, request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before the batch is begun: the argument, the obstacle, and the way out."""
    monkeypatch.setattr(JvmShimClient, "call", Shim().call)
    with pytest.raises(SettingsError) as caught:
        missing_members(joining(frame, {}, request_), request_)
    assert caught.value.problem.startswith(request_.argument)
    assert obstacle in caught.value.problem
    assert request_.instead in (caught.value.fix or "")


@pytest.mark.parametrize(
    ("planned", "reports", "tasks"),
    [
        (2, [report(0, 5), report(1)], [(0, {OUT: 5}), (1, {})]),
        (1, [report(0)], [(0, {}), (1, {})]),  # Spark leaves out a shuffle of nothing
        (1, [report(0, 5)], None),
        (1, [], None),
        (4, [report(0), report(1)], None),
        (0, [], None),
    ],
)
def test_each_task_has_reported(planned: int, reports: list[TaskReport], tasks: Any) -> None:
    """Any other layout than the one that was asked for is refused."""
    if tasks is None:
        with pytest.raises(SinkError, match=f"planned {planned} tasks"):
            task_reports(reports, planned=planned, tasks=2)
    else:
        found = task_reports(reports, planned=planned, tasks=2)
        assert [(one.partition_id, one.records) for one in found] == tasks


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (None, "_JVM"),
        ('{"v":2}', "_JVM"),
        ('{"v":1,"error":{"code":"MESSAGE_TOO_LARGE","cause":"c"}}', "MSG_SIZE_TOO_LARGE"),
        ('{"v":1,"error":{"code":"PRODUCER_FENCED","cause":"c"}}', "PRODUCER_FENCED"),
    ],
)
def test_what_the_shim_does_not_do_is_an_error_of_kafka(answer: str | None, code: str) -> None:
    """With librdkafka's names, by which the sink tells errors apart."""

    def call(what: str, argument: str) -> str:
        if answer is None:
            raise JvmError("gone")
        return answer

    with pytest.raises(KafkaError) as caught:
        JavaTransactions(cast(Any, SimpleNamespace(call=call)), {}).describe("id", 1)
    assert caught.value.code == code


TARGET = RowsTarget(
    Targets(topics={"out": Topic(id="id", partitions=frozenset({0, 1}))}), "writer", 1
)
TASKS = 2


class Tasks:
    """Answers what it was told to, and for so many questions that tasks run."""

    def __init__(self, *reports: TaskReport, running: int = 0) -> None:
        self.found = reports
        self.running = running
        self.opened: list[str] = []

    def open_batch(self, batch: str, **how: Any) -> None:
        self.opened.append(batch)

    def leave_out(self, batch: str, identities: Iterable[str]) -> None:
        assert batch in self.opened

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
