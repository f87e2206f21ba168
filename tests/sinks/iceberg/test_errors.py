"""What the errors of Iceberg mean for a batch: without Spark."""

from __future__ import annotations

from typing import NoReturn

import pytest

from eo_listener.model.errors import SinkError
from eo_listener.sinks.iceberg.errors import is_refusal
from eo_listener.sinks.iceberg.user_sql import Branch
from eo_listener.spark.jvm.iceberg_table import ThrownError


def test_a_commit_is_refused_only_where_nothing_of_it_can_have_been_made() -> None:
    """By the class of an exception or of a cause; one whose state is unknown is no refusal."""
    refused = "org.apache.iceberg.exceptions.CommitFailedException"
    unknown = "org.apache.iceberg.exceptions.CommitStateUnknownException"
    assert is_refusal(ThrownError((refused,), ""))
    assert is_refusal(ThrownError(("java.lang.RuntimeException", refused), ""))
    assert not is_refusal(ThrownError((unknown, refused), ""))
    assert not is_refusal(ThrownError(("java.io.IOException",), ""))


def test_a_statement_that_failed_shows_no_secret() -> None:
    """Of what Java says one line is shown, as where the batch itself is written."""

    class Session:
        def sql(self, text: str) -> NoReturn:
            raise ThrownError(("java.lang.RuntimeException",), f"{text}: password=abc x\nmore")

    batch = Branch(Session(), "lake.db.t", lambda: None)
    with pytest.raises(SinkError) as failed:
        batch.sql("DELETE FROM {table}")
    assert "DELETE FROM lake.db.t: password=*** x" in str(failed.value)
    assert "more" not in str(failed.value)
