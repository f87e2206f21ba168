"""What a sink refuses at once, and what errors say of a commit: without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.errors import OutcomeUnknownError, RetriableSinkError, SettingsError
from eo_listener.sinks.delta import DeltaSink
from eo_listener.sinks.delta.catalog import check_storage
from eo_listener.sinks.delta.errors import explained


class Java:
    """A Java exception as py4j shows it: its class and the superclasses, its text and its cause."""

    def __init__(self, *names: str, text: str = "", cause: Java | None = None) -> None:
        self.names = (*names, "java.lang.Throwable")
        self.text = text
        self.cause = cause

    def getClass(self) -> Java:  # noqa: N802  # Java's name
        return self

    def getName(self) -> str:  # noqa: N802  # Java's name
        return self.names[0]

    def getSuperclass(self) -> Java:  # noqa: N802  # Java's name
        return Java(*self.names[1:-1])

    def getMessage(self) -> str:  # noqa: N802  # Java's name
        return self.text

    def getCause(self) -> Java | None:  # noqa: N802  # Java's name
        return self.cause


class RaisedError(Exception):
    def __init__(self, java: Java) -> None:
        super().__init__(java.text)
        self.java_exception = java


IO = ("java.io.IOException", "java.lang.Exception")
LOST = Java(*IO)
FULL = Java(*IO, text="No space left on device")
STAGE = "stage failure: Task 0"


def of_spark(text: str, cause: Java | None = None) -> Java:
    return Java("org.apache.spark.SparkException", "java.lang.Exception", text=text, cause=cause)


ABORTED = f"Job aborted due to {STAGE}"
FAILED = of_spark("[TASK_WRITE_FAILED] Task failed while writing rows to file:/t", FULL)
UNREAD = of_spark("[FAILED_READ_FILE.NO_HINT] x", LOST)
OWN_CAUSE = Java("java.lang.Error")
OWN_CAUSE.cause = OWN_CAUSE  # it is not followed for ever
UNCHECKED = ("java.io.UncheckedIOException", "java.lang.RuntimeException")
CONFLICT = "io.delta.exceptions.ConcurrentAppendException"
MODIFIED = "java.util.ConcurrentModificationException"


@pytest.mark.parametrize(
    ("java", "kind"),
    [
        # What the storage has not answered, by its class, a superclass, or as a cause.
        (LOST, OutcomeUnknownError),
        (Java("org.apache.hadoop.fs.s3a.AWSClientIOException", *IO), OutcomeUnknownError),
        (Java(*UNCHECKED, cause=LOST), OutcomeUnknownError),
        (
            of_spark("Exception thrown in awaitResult: ", Java("a.Timeout", *IO)),
            OutcomeUnknownError,
        ),
        (Java("a.FSError", "java.lang.Error", cause=FULL), OutcomeUnknownError),
        # If it refuses the file of a task, nothing was committed and the batch is repeated.
        (FAILED, RetriableSinkError),
        (of_spark(ABORTED, FULL), RetriableSinkError),
        (of_spark("Job aborted.", FAILED), RetriableSinkError),
        # A refusal of Delta, of Spark, or of a task of the batch, whatever its own cause is.
        (Java(CONFLICT, MODIFIED, cause=LOST), RetriableSinkError),
        (Java("org.apache.spark.sql.AnalysisException", text="no", cause=LOST), SettingsError),
        (of_spark(ABORTED), RaisedError),
        (of_spark(ABORTED, Java("java.io.EOFException", *IO)), RaisedError),
        (UNREAD, RaisedError),
        (of_spark("[TASK_WRITE_FAILED] Task failed", UNREAD), RaisedError),
        (Java("java.lang.ArithmeticException"), RaisedError),
        (OWN_CAUSE, RaisedError),
    ],
)
def test_what_an_error_means(java: Java, kind: type[Exception]) -> None:
    """And what the storage has said is shown."""
    error = explained(RaisedError(java), "t")
    assert type(error) is kind
    if FULL in (java.cause, java.cause and java.cause.cause):
        assert "IOException: No space left on device" in str(error)


def test_a_refusal_shows_no_secret() -> None:
    """It quotes what the table does not take, and may quote where it is."""
    text = "Cannot write to s3a://me:hid@7q@bucket/delays with fs.s3a.secret.key=hid@7q"
    refused = RaisedError(Java("org.apache.spark.sql.AnalysisException", text=text))
    said = str(explained(refused, "the table"))
    assert "Cannot write to s3a://***@bucket/delays" in said
    assert "7q" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "exactly one of"),
        ({"table": "a", "path": "/b"}, "exactly one of"),
        ({"path": ""}, "exactly one of"),
        ({"table": "/lake/delays"}, "/lake/delays.*path="),
        ({"table": "a.b.c.d"}, "a.b.c.d"),
        ({"table": "a b"}, "a b"),
        ({"table": "a", "mode": "merge-it"}, "mode must be one of 'append', 'upsert'"),
        ({"table": "a", "mode": "upsert"}, "keys="),
        ({"table": "a", "keys": "id"}, "keys= has no meaning"),
        ({"table": "a", "version_column": "at"}, "version_column= has no meaning"),
        ({"table": "a", "delete_when": "gone"}, "delete_when= has no meaning"),
        ({"table": "a", "mode": "upsert", "keys": "at", "version_column": "at"}, "one of keys="),
        ({"table": "a", "partition_by": ("day", "")}, "partition_by= names columns"),
        ({"table": "a", "dead_letters": "bad"}, "dead_letters="),
    ],
)
def test_arguments_that_cannot_be(arguments: dict[str, Any], said: str) -> None:
    """Each is refused at once, with what to write instead."""
    with pytest.raises(SettingsError, match=said) as refused:
        DeltaSink(**arguments)
    assert refused.value.fix


def test_on_s3_a_log_store_must_be_chosen() -> None:
    """Delta's own choice is for one JVM; what is named, of either spelling, was chosen."""
    for place in ("s3a://bucket/delays", "S3://bucket/delays", "s3n://bucket/delays"):
        with pytest.raises(SettingsError, match=r"logStore\.s3.?\.impl") as refused:
            check_storage("Delta table t", place, {"spark.delta.logStore.gs.impl"})
        assert "S3DynamoDBLogStore" in str(refused.value.fix)
    for chosen in ("spark.delta.logStore.s3a.impl", "delta.logStore.class"):
        check_storage("Delta table t", "s3a://bucket/delays", {chosen})
    for place in ("file:/tmp/s3", "hdfs://s3/delays", "/s3:a", "abfss://c@s3a.net/x"):
        check_storage("Delta table t", place, ())
