"""What is made of the reports of Spark's tasks, and where tasks cannot write."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from eo_listener.kafka.java_transactions import JavaTransactions, WrittenRows
from eo_listener.model.errors import JvmError, KafkaError, SettingsError, SinkError
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.executor_writer import (
    BY_EXECUTORS,
    UNFENCED,
    Request,
    joining,
    missing_members,
    task_reports,
)
from eo_listener.spark.jvm.shim_client import JvmShimClient

TP = TopicPartition("t", 0)


def frame_of(settings: Mapping[str, str]) -> Any:
    """A DataFrame of a session with these settings."""
    context = SimpleNamespace(getConf=lambda: settings)
    return SimpleNamespace(_jdf=object(), sparkSession=SimpleNamespace(sparkContext=context))


def report(number: int, records: int = 0) -> WrittenRows:
    """A first attempt."""
    return WrittenRows(
        partition_id=number,
        attempt=0,
        stage_attempt=0,
        records={TP: records} if records else {},
        refused={},
        error=None,
    )


def test_each_task_has_reported() -> None:
    """As many reports as tasks were asked for are returned unchanged."""
    found = task_reports([report(0, 5), report(1)], planned=2, tasks=2)
    assert [(one.partition_id, one.records) for one in found] == [(0, {TP: 5}), (1, {})]


def test_without_rows_one_task_stands_for_all() -> None:
    """Spark leaves out a shuffle of nothing."""
    assert [one.partition_id for one in task_reports([report(0)], planned=1, tasks=3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("planned", "reports"), [(1, [report(0, 5)]), (1, []), (4, [report(0), report(1)]), (0, [])]
)
def test_other_plans_are_refused(planned: int, reports: list[WrittenRows]) -> None:
    """Rows in one task where three were asked for: then the layout is not what was asked for."""
    with pytest.raises(SinkError, match=f"planned {planned} tasks"):
        task_reports(reports, planned=planned, tasks=3)


@pytest.mark.parametrize("request_", [BY_EXECUTORS, UNFENCED], ids=["executors", "unfenced"])
@pytest.mark.parametrize(
    ("frame", "obstacle"),
    [
        (SimpleNamespace(), "Spark Connect"),  # its JVM cannot be called
        # A second copy of a task would be taken for the first.
        (frame_of({"spark.speculation": "True"}), "spark.speculation=true"),
        (frame_of({}), "no shim"),
    ],
)
def test_a_session_whose_executors_cannot_write(
    frame: Any, obstacle: str, request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before the batch is begun: the argument, the obstacle, and the way out."""

    def call(self: JvmShimClient, what: str, argument: str) -> str:
        raise JvmError("no shim", cause="no jar", fix="Give Spark the jar")

    monkeypatch.setattr(JvmShimClient, "call", call)
    with pytest.raises(SettingsError) as caught:
        missing_members(joining(frame, {}, request_), request_)
    assert caught.value.problem.startswith(f"{request_.argument} is not possible")
    assert obstacle in caught.value.problem
    assert request_.instead in (caught.value.fix or "")


def test_java_is_given_all_options_and_shows_none() -> None:
    """Passwords are in no text of the sink."""
    options = {
        "kafka.bootstrap.servers": "h:9092",
        "kafka.linger.ms": "7",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        'required username="u" password="hunter2";',
    }
    sink = KafkaSink(options, "t", write_method="executors", transaction_timeout=60)
    java = sink._access.java
    assert java["linger.ms"] == "7"
    assert java["transaction.timeout.ms"] == "60000"
    assert "hunter2" in java["sasl.jaas.config"]
    assert "hunter2" not in f"{sink!r} {sink._access!r}"


class Answers:
    """A shim that gives one answer, or none."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer

    def call(self, what: str, argument: str) -> str:
        """Answer, or raise as for a JVM that has gone."""
        if self.answer is None:
            raise JvmError("Spark's JVM could not be reached")
        return self.answer


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
    with pytest.raises(KafkaError) as caught:
        JavaTransactions(Answers(answer), {}).describe("id", 1)
    assert caught.value.code == code
