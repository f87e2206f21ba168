"""What an error of Spark, of Delta or of the storage says of a commit: without Spark."""

from __future__ import annotations

import pytest

from eo_listener.model.errors import OutcomeUnknownError, RetriableSinkError, SettingsError
from eo_listener.sinks.delta.errors import explained


class Java:
    """A Java exception as py4j shows it: its class and the superclasses, its text and its cause."""

    def __init__(self, *names: str, text: str = "", cause: Java | None = None) -> None:
        self.names = (*names, "java.lang.Throwable")
        self.text = text
        self.cause = cause

    def getClass(self) -> Java:  # noqa: N802  # Java's name
        """It is its own class."""
        return self

    def getName(self) -> str:  # noqa: N802
        """The first of its names."""
        return self.names[0]

    def getSuperclass(self) -> Java:  # noqa: N802
        """One with the others."""
        return Java(*self.names[1:-1])

    def getMessage(self) -> str:  # noqa: N802
        """The text."""
        return self.text

    def getCause(self) -> Java | None:  # noqa: N802
        """The cause."""
        return self.cause


class RaisedError(Exception):
    """As py4j raises it."""

    def __init__(self, java: Java) -> None:
        super().__init__(java.text)
        self.java_exception = java


IO = ("java.io.IOException", "java.lang.Exception")
SPARK = ("org.apache.spark.SparkException", "java.lang.Exception")


@pytest.mark.parametrize(
    "java",
    [
        Java(*IO),
        Java("org.apache.hadoop.fs.s3a.AWSClientIOException", *IO),
        Java("java.io.UncheckedIOException", "java.lang.RuntimeException", cause=Java(*IO)),
        Java(*SPARK, text="Exception thrown in awaitResult: ", cause=Java("a.Timeout", *IO)),
    ],
)
def test_what_the_storage_has_not_answered_is_unknown(java: Java) -> None:
    """By its class, by a superclass, or as the cause of what was raised."""
    error = explained(RaisedError(java), "Delta table t")
    assert isinstance(error, OutcomeUnknownError)
    assert "has not confirmed" in str(error)


FULL = Java(*IO, text="No space left on device")
FAILED = Java(
    *SPARK, text="[TASK_WRITE_FAILED] Task failed while writing rows to file:/t", cause=FULL
)


@pytest.mark.parametrize(
    "java",
    [
        FAILED,
        Java(*SPARK, text="Job aborted due to stage failure: Task 0", cause=FULL),
        Java(*SPARK, text="Job aborted.", cause=FAILED),
    ],
)
def test_a_task_whose_file_the_storage_refuses_is_repeated(java: Java) -> None:
    """Nothing was committed, and it may have room again; the error says what the storage said."""
    error = explained(RaisedError(java), "Delta table t")
    assert isinstance(error, RetriableSinkError)
    assert "IOException: No space left on device" in str(error)


def test_what_the_storage_said_of_a_commit_is_shown() -> None:
    """Also where it is the cause of an error that is none of input or output."""
    java = Java("org.apache.hadoop.fs.FSError", "java.lang.Error", cause=FULL)
    error = explained(RaisedError(java), "Delta table t")
    assert isinstance(error, OutcomeUnknownError)
    assert "IOException: No space left on device" in str(error)


@pytest.mark.parametrize(
    ("java", "kind"),
    [
        (
            Java(
                "io.delta.exceptions.ConcurrentAppendException",
                "java.util.ConcurrentModificationException",
                cause=Java(*IO),
            ),
            RetriableSinkError,
        ),
        (Java("org.apache.spark.sql.AnalysisException", text="no", cause=Java(*IO)), SettingsError),
        (Java(*SPARK, text="Job aborted due to stage failure: Task 0"), RaisedError),
        (
            Java(
                *SPARK,
                text="Job aborted due to stage failure: Task 0",
                cause=Java("java.io.EOFException", *IO),
            ),
            RaisedError,
        ),
        (Java(*SPARK, text="[FAILED_READ_FILE.NO_HINT] x", cause=Java(*IO)), RaisedError),
        (
            Java(
                *SPARK,
                text="[TASK_WRITE_FAILED] Task failed",
                cause=Java(*SPARK, text="[FAILED_READ_FILE.NO_HINT] x", cause=Java(*IO)),
            ),
            RaisedError,
        ),
        (Java("java.lang.ArithmeticException"), RaisedError),
    ],
)
def test_a_refusal_is_certain(java: Java, kind: type[Exception]) -> None:
    """Of Delta, of Spark, or of a task of the batch: whatever its own cause is."""
    assert type(explained(RaisedError(java), "Delta table t")) is kind


def test_a_java_exception_that_is_its_own_cause() -> None:
    """It is not followed for ever."""
    java = Java("java.lang.Error")
    java.cause = java
    assert type(explained(RaisedError(java), "Delta table t")) is RaisedError


def test_a_refusal_shows_no_secret() -> None:
    """It quotes what the table does not take, and may quote where it is."""
    text = "Cannot write to s3a://me:hid@7q@bucket/delays with fs.s3a.secret.key=hid@7q"
    refused = RaisedError(Java("org.apache.spark.sql.AnalysisException", text=text))
    said = str(explained(refused, "the table"))
    assert "Cannot write to s3a://***@bucket/delays" in said
    assert "7q" not in said
