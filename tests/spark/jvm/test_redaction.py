"""Java's exceptions as they are shown: which values are hidden in them."""

from __future__ import annotations

import traceback
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from eo_listener.errors import JvmError
from eo_listener.spark.jvm.calls import asking
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.spark.jvm.redaction import Secrets, without_secrets
from eo_listener.spark.jvm.sessions import working_in


def test_values_are_hidden_also_as_a_url_has_them() -> None:
    """The longest first; what stands behind an id too; nothing that is a word of every text."""
    secrets = Secrets.from_values(["me:p/w 7q", "p/w 7q and more", "true", "abc"])
    assert secrets.hidden("is p/w 7q and more") == "is ***"
    assert secrets.hidden("p%2Fw%207q p/w 7q true abc") == "*** *** true abc"
    assert "7q" not in repr(secrets)


def test_what_an_error_means_is_not_lost_with_a_secret() -> None:
    """A password may be a word of what Iceberg says."""
    secrets = Secrets.from_values(["branch"])
    error = ThrownError(("a.B",), "no branch", causes=("its branch",), secrets=secrets)
    assert (str(error), error.text, error.causes) == ("no ***", "no ***", ("its ***",))
    assert error.says("no branch")
    assert error.says("its branch")


def test_a_session_that_has_ended_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings are asked for while an error is on its way, and that one counts."""
    ended = SimpleNamespace(_jvm=None, _jsc=None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", ended)
    error = BrokenError("of Java")
    shown = without_secrets(error)
    assert (str(shown), getattr(shown, "java_exception", None)) == ("BrokenError", error)


class BrokenError(Exception):
    """What py4j raises, whose text can no longer be asked for."""

    @property
    def java_exception(self) -> Exception:
        return self

    def __str__(self) -> str:
        raise AttributeError("_jvm")


@pytest.mark.spark
def test_secrets_of_session_application_and_hadoop(spark: SparkSession) -> None:
    """Whatever Java's exception quotes, in its text or in that of a cause."""
    assert not Secrets.configured().values
    session = spark.newSession()
    settings = {"jdbc.password": "catalog", "s3.access-key-id": "storage", "warehouse": "nobody"}
    for name, value in settings.items():
        session.conf.set(f"spark.sql.catalog.lake.{name}", f"of-{value}")
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.azure.account.key.mine.dfs.core.windows.net", "of-azure")
    said = "of-catalog of-storage of-azure of-nobody"
    jvm: Any = spark._jvm
    java = jvm.java.lang.RuntimeException
    thrown = java(f"outer {said}", java(f"inner {said}"))
    future = jvm.java.util.concurrent.CompletableFuture.failedFuture(thrown)
    try:
        with working_in(session), pytest.raises(JvmError) as failed, asking("do it"):
            future.join()
    finally:
        hadoop.unset("fs.azure.account.key.mine.dfs.core.windows.net")
    whole = "".join(traceback.format_exception(failed.value))
    assert "outer *** *** *** of-nobody" in whole
    assert "inner *** *** *** of-nobody" in whole
    for one in ("of-catalog", "of-storage", "of-azure"):
        assert one not in whole
