"""What the errors of Iceberg mean for a batch: without Spark."""

from __future__ import annotations

from eo_listener.sinks.iceberg.errors import is_refusal
from eo_listener.spark.jvm.iceberg_table import ThrownError


def test_a_commit_is_refused_only_where_nothing_of_it_can_have_been_made() -> None:
    """By the class of an exception or of a cause; one whose state is unknown is no refusal."""
    refused = "org.apache.iceberg.exceptions.CommitFailedException"
    unknown = "org.apache.iceberg.exceptions.CommitStateUnknownException"
    assert is_refusal(ThrownError((refused,), ""))
    assert is_refusal(ThrownError(("java.lang.RuntimeException", refused), ""))
    assert not is_refusal(ThrownError((unknown, refused), ""))
    assert not is_refusal(ThrownError(("java.io.IOException",), ""))
