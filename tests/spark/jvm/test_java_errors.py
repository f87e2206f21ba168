"""Java's exceptions: what they say, which values are hidden, and of a JVM that has ended."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from eo_listener.errors import JvmError
from eo_listener.spark.jvm.calls import asking, thrown
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors
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


class OwnJvm:
    """A JVM without Spark."""

    def __init__(self) -> None:
        jars = Path(pyspark.__file__).parent / "jars"
        port, self._process = launch_gateway(
            jarpath=str(next(jars.glob("py4j*.jar"))), die_on_exit=True, return_proc=True
        )
        self.java: Any = JavaGateway(gateway_parameters=GatewayParameters(port=port)).jvm.java

    def fail(self) -> None:
        """Have an exception thrown that says nothing."""
        self.java.util.ArrayDeque().removeFirst()

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def jvm() -> Iterator[OwnJvm]:
    """One of the test's own."""
    found = OwnJvm()
    yield found
    found.end()


@pytest.mark.spark
def test_an_exception_that_says_nothing_is_named_by_its_class(jvm: OwnJvm) -> None:
    """As where it is read by Delta's sink, so by Iceberg's."""
    with pytest.raises(Py4JJavaError) as failed:
        jvm.fail()
    (one,) = thrown(failed.value)
    assert one.text == "java.util.NoSuchElementException"
    with pytest.raises(ThrownError) as raised, java_errors():
        jvm.fail()
    assert raised.value.text == one.text


@pytest.mark.spark
def test_all_that_an_exception_says_is_kept(jvm: OwnJvm) -> None:
    """What is looked for may be in any line, and in that of a cause."""
    inner = jvm.java.lang.IllegalStateException("of storage\nat last")
    outer = jvm.java.lang.RuntimeException("first\nsecond", inner)
    future = jvm.java.util.concurrent.CompletableFuture.failedFuture(outer)
    with pytest.raises(ThrownError) as raised, java_errors():
        future.join()
    assert raised.value.is_any("IllegalStateException")
    assert not raised.value.is_any("Throwable")  # of which every one is
    assert raised.value.says("second")
    assert raised.value.says("at last")


@pytest.mark.spark
def test_a_jvm_that_ends_before_it_is_asked_has_said_nothing(jvm: OwnJvm) -> None:
    """There is no exception of Java's to judge by, and the error is that of any other call."""
    with pytest.raises(Py4JJavaError) as failed:
        jvm.fail()
    jvm.end()
    assert thrown(failed.value) == ()
    with pytest.raises(JvmError) as raised, java_errors():
        raise failed.value
    assert raised.value.cause is not None
