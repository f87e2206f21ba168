"""What Java has thrown, of a JVM of the test's own that may end meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from eo_listener.errors import JvmError
from eo_listener.spark.jvm.calls import thrown
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors

pytestmark = pytest.mark.spark  # needs a JVM


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


def test_an_exception_that_says_nothing_is_named_by_its_class(jvm: OwnJvm) -> None:
    """As where it is read by Delta's sink, so by Iceberg's."""
    with pytest.raises(Py4JJavaError) as failed:
        jvm.fail()
    (one,) = thrown(failed.value)
    assert one.text == "java.util.NoSuchElementException"
    with pytest.raises(ThrownError) as raised, java_errors():
        jvm.fail()
    assert raised.value.text == one.text


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


def test_a_jvm_that_ends_before_it_is_asked_has_said_nothing(jvm: OwnJvm) -> None:
    """There is no exception of Java's to judge by, and the error is that of any other call."""
    with pytest.raises(Py4JJavaError) as failed:
        jvm.fail()
    jvm.end()
    assert thrown(failed.value) == ()
    with pytest.raises(JvmError) as raised, java_errors():
        raise failed.value
    assert raised.value.cause is not None
