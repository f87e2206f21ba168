"""What an error of Spark, of Delta or of the storage says of a commit: without Spark."""

from __future__ import annotations

import pytest

from eo_listener.errors import OutcomeUnknownError, RetriableSinkError, SettingsError
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
    """As py4j raises it."""

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


@pytest.mark.parametrize(
    "java",
    [
        LOST,
        Java("org.apache.hadoop.fs.s3a.AWSClientIOException", *IO),
        Java("java.io.UncheckedIOException", "java.lang.RuntimeException", cause=LOST),
        of_spark("Exception thrown in awaitResult: ", Java("a.Timeout", *IO)),
    ],
)
def test_what_the_storage_has_not_answered_is_unknown(java: Java) -> None:
    """By its class, by a superclass, or as the cause of what was raised."""
    assert isinstance(explained(RaisedError(java), "t"), OutcomeUnknownError)


@pytest.mark.parametrize(
    ("java", "kind"),
    [
        (FAILED, RetriableSinkError),
        (of_spark(ABORTED, FULL), RetriableSinkError),
        (of_spark("Job aborted.", FAILED), RetriableSinkError),
        (Java("a.FSError", "java.lang.Error", cause=FULL), OutcomeUnknownError),
    ],
)
def test_what_the_storage_said_is_shown(java: Java, kind: type[Exception]) -> None:
    """If it refuses the file of a task, nothing was committed and the batch is repeated."""
    error = explained(RaisedError(java), "t")
    assert isinstance(error, kind)
    assert "IOException: No space left on device" in str(error)


@pytest.mark.parametrize(
    ("java", "kind"),
    [
        (
            Java(
                "io.delta.exceptions.ConcurrentAppendException",
                "java.util.ConcurrentModificationException",
                cause=LOST,
            ),
            RetriableSinkError,
        ),
        (Java("org.apache.spark.sql.AnalysisException", text="no", cause=LOST), SettingsError),
        (of_spark(ABORTED), RaisedError),
        (of_spark(ABORTED, Java("java.io.EOFException", *IO)), RaisedError),
        (UNREAD, RaisedError),
        (of_spark("[TASK_WRITE_FAILED] Task failed", UNREAD), RaisedError),
        (Java("java.lang.ArithmeticException"), RaisedError),
    ],
)
def test_a_refusal_is_certain(java: Java, kind: type[Exception]) -> None:
    """Of Delta, of Spark, or of a task of the batch: whatever its own cause is."""
    assert type(explained(RaisedError(java), "t")) is kind


def test_a_java_exception_that_is_its_own_cause() -> None:
    """It is not followed for ever."""
    java = Java("java.lang.Error")
    java.cause = java
    assert type(explained(RaisedError(java), "t")) is RaisedError


def test_a_refusal_shows_no_secret() -> None:
    """It quotes what the table does not take, and may quote where it is."""
    text = "Cannot write to s3a://me:hid@7q@bucket/delays with fs.s3a.secret.key=hid@7q"
    refused = RaisedError(Java("org.apache.spark.sql.AnalysisException", text=text))
    said = str(explained(refused, "the table"))
    assert "Cannot write to s3a://***@bucket/delays" in said
    assert "7q" not in said
