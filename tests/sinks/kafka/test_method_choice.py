"""Which way the rows of a batch go, and what is refused before any of them moves."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.kafka.java_transactions import JavaTransactions
from eo_listener.model.errors import JvmError, SettingsError
from eo_listener.sinks.kafka import executor_writer, method_choice
from eo_listener.sinks.kafka.arguments import WriteMethod
from eo_listener.sinks.kafka.connection import ConnectionSettings
from eo_listener.sinks.kafka.driver_writer import DriverWriter
from eo_listener.sinks.kafka.executor_writer import ExecutorWriter
from eo_listener.sinks.kafka.method_choice import MethodChoice
from eo_listener.sinks.kafka.task_rows import TaskRows
from eo_listener.testing.made_up_entries import entry_of, plan_of
from tests.sinks.kafka.frames import without_spark

PARTITIONER = {"kafka.partitioner.class": "com.example.P"}


class Shim:
    """A shim that answers by the names of calls, and counts them; with no answers it has gone."""

    def __init__(self, **answers: str | None) -> None:
        self.answers = {name.replace("_", "."): answer for name, answer in answers.items()}
        self.asked: list[str] = []

    def call(self, what: str, argument: str) -> str:
        del argument
        self.asked.append(what)
        if what not in self.answers:
            raise JvmError("Spark's JVM has no shim, or an older one", fix="Give Spark the jar")
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
    access = ConnectionSettings.of(options, timeout=5, transaction_timeout=60)
    return MethodChoice(method, access, label="Kafka topic t at h:9092", one_topic=True)


def frame_of(schema: pa.Schema) -> Any:
    context = SimpleNamespace(defaultParallelism=2)
    return SimpleNamespace(
        schema=schema,
        sparkSession=SimpleNamespace(sparkContext=context),
        to_batches=lambda max_chunksize: iter(()),
    )


def writer(chosen: MethodChoice) -> Any:
    frame = frame_of(pa.schema({"value": pa.string()}))
    return chosen.writer(frame, plan_of(entry_of({}, {})))


def test_executors_write_where_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """The executors write where kafka-clients can join; it is asked once, not with each batch."""
    shim = Shim(transactions_missing=None)
    chosen = choice(monkeypatch, shim)
    assert isinstance(writer(chosen), ExecutorWriter)
    assert isinstance(writer(chosen), ExecutorWriter)
    assert shim.asked == ["transactions.missing"]
    assert isinstance(writer(pickle.loads(pickle.dumps(chosen))), ExecutorWriter)  # noqa: S301  # ours


def test_executors_write_without_transactions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever kafka-clients lacks to join one; without the jar the error says what to give."""
    shim = Shim(transactions_missing="NoSuchFieldException: transactionManager")
    chosen = choice(monkeypatch, shim)
    plan = plan_of(entry_of({}, {}))
    frame = frame_of(pa.schema({"value": pa.string(), "n": pa.int64()}))
    for _ in range(2):
        assert isinstance(chosen.task_rows(frame, plan, ("n",)), TaskRows)
    assert shim.asked == ["transactions.missing"]
    with pytest.raises(SettingsError, match=r"transactions=False .* no shim"):
        choice(monkeypatch, Shim()).task_rows(frame, plan, ("n",))


def test_where_internals_are_missing_rows_go_through_the_driver(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The sink logs once what is missing, and writes through the driver."""
    shim = Shim(transactions_missing="NoSuchFieldException: transactionManager")
    chosen = choice(monkeypatch, shim)
    with caplog.at_level(logging.WARNING, "eo_listener"):
        assert isinstance(writer(chosen), DriverWriter)
        assert isinstance(writer(chosen), DriverWriter)
    (line,) = caplog.messages
    assert line.startswith("Kafka topic t at h:9092: ")
    assert "NoSuchFieldException: transactionManager" in line


def test_a_partitioner_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has Java's reason, and comes before the transaction is begun."""
    shim = Shim(transactions_missing=None, rows_partitioner="ClassNotFoundException")
    with pytest.raises(SettingsError, match="ClassNotFoundException") as caught:
        writer(choice(monkeypatch, shim, PARTITIONER))
    assert "spark.jars" in str(caught.value)
    shim = Shim(transactions_missing=None, rows_partitioner=None)
    assert isinstance(writer(choice(monkeypatch, shim, PARTITIONER)), ExecutorWriter)


def test_the_driver_can_use_no_partitioner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partitioner is refused with "driver", and where rows would fall back to the driver."""
    with pytest.raises(SettingsError, match=r"kafka\.partitioner\.class") as caught:
        choice(monkeypatch, Shim(), PARTITIONER, method="driver")
    assert 'write_method="executors"' in str(caught.value)
    shim = Shim(transactions_missing="NoSuchFieldException: currentState")
    with pytest.raises(SettingsError, match=r"kafka\.partitioner\.class"):
        writer(choice(monkeypatch, shim, PARTITIONER))
